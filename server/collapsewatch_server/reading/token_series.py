"""Log-probs of single tokens beside the text that they belong to."""

import logging
from collections.abc import Sequence

from pydantic import TypeAdapter

from collapsewatch.blobs import BlobNotFound, BlobStore, unpack_document
from collapsewatch.contracts.scoring import TokenLogProbs
from collapsewatch_server.reading.rollout_texts import MAX_TOKENS, FullRollout, FullTurn
from collapsewatch_server.reading.rollout_views import TokenSeries, TurnView

log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
_STORED = TypeAdapter(list[TokenLogProbs])


class ScorerTokens:
    """What scorers said of single tokens, as it lies in the blob store."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def of_rollout(self, key: str, index: int) -> list[TokenLogProbs]:
        """Those of the rollout's turns; empty where nothing is stored."""
        try:
            document = unpack_document(self._blobs.read(key), MAX_BYTES)
            found = _STORED.validate_json(document)
        except BlobNotFound:
            return []
        except (OSError, ValueError) as error:
            log.warning("log-probs cannot be read", extra={"blob": key, "error": type(error).__name__})
            return []
        return [one for one in found if one.rollout == index]


def with_tokens(
    views: Sequence[TurnView], rollout: FullRollout, scored: Sequence[TokenLogProbs], label: str
) -> list[TurnView]:
    """The turns with the token series that are known of them.

    Args:
        scored: what the scorer said of the rollout.
        label: who the scorer is.
    """
    by_turn = {one.turn: one for one in scored}
    shown = []
    for number, view in enumerate(views):
        turn, own = rollout.turns[number], by_turn.get(number)
        found = []
        if own is not None:
            found.append(_of_scorer(turn, own, label))
        if turn.response_log_probs:
            found.append(_of_sampler(turn, own))
        update: dict[str, object] = {"tokens": found}
        if own is not None and own.text is not None and turn.response is None and view.reasoning is None:
            update["reasoning"] = own.text
        shown.append(view.model_copy(update=update))
    return shown


def _of_scorer(turn: FullTurn, own: TokenLogProbs, label: str) -> TokenSeries:
    values = [value / 100 for value in own.log_probs]
    first = own.first_token
    ids = None
    if first is not None and turn.response_token_ids is not None:
        ids = turn.response_token_ids[first : first + len(values)]
    return _series("scorer", label, values, turn, own, ids)


def _of_sampler(turn: FullTurn, own: TokenLogProbs | None) -> TokenSeries:
    """What the trainer sent: of the reasoning where the text of its tokens is known, else of all there is."""
    values, ids = turn.response_log_probs or [], turn.response_token_ids
    if own is not None and own.lengths is not None and own.first_token is not None:
        end = own.first_token + len(own.log_probs)
        if end <= len(values):
            return _series("sampler", "sent by the trainer", values[own.first_token : end], turn, own, None)
    return _series("sampler", "sent by the trainer", values, turn, None, ids)


def _series(
    source: str,
    label: str,
    values: Sequence[float],
    turn: FullTurn,
    own: TokenLogProbs | None,
    ids: Sequence[int] | None,
) -> TokenSeries:
    pieces, before, after = _pieces(turn, own)
    return TokenSeries.model_validate(
        {
            "source": source,
            "label": label,
            "log_probs": [round(value, 3) for value in values[:MAX_TOKENS]],
            "pieces": None if pieces is None else pieces[:MAX_TOKENS],
            "before": before,
            "after": after,
            "token_ids": None if pieces is not None or ids is None else list(ids[:MAX_TOKENS]),
            "num_left_out": max(0, len(values) - MAX_TOKENS),
        }
    )


def _pieces(turn: FullTurn, own: TokenLogProbs | None) -> tuple[list[str] | None, str, str]:
    """The text of each token, and the response before and after them."""
    if own is None or own.lengths is None:
        return None, "", ""
    text, start = (turn.response, own.start) if own.text is None else (own.text, 0)
    if text is None or start is None or start + sum(own.lengths) > len(text):
        return None, "", ""
    pieces, at = [], start
    for length in own.lengths:
        pieces.append(text[at : at + length])
        at += length
    return pieces, text[:start], text[at:]
