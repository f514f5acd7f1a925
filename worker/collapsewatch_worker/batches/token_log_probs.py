"""What is kept of the log-probs of single tokens, for whoever reads the rollouts.

Legend: T reasoning tokens.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from collapsewatch.contracts.rollouts import ReasoningTags, RolloutBatch, Turn
from collapsewatch.contracts.scoring import TokenLogProbs
from collapsewatch_worker.batches.partition import PartitionedTurn, Tokenizer
from collapsewatch_worker.batches.token_offsets import find_tokens, token_ends
from collapsewatch_worker.metrics.arrays import Floats

MAX_TOKENS = 200_000
"""Of a batch: 600 kB as sent, and half of it as stored."""
_LOWEST = -99_999
"""In hundredths of a nat: stands for tokens that are all but impossible, or quite."""


class KeptTokens(NamedTuple):
    """What is kept, and why it is not all."""

    tokens: list[TokenLogProbs]
    reason: str | None


def kept_tokens(
    rows: Iterable[tuple[PartitionedTurn, Floats]], batch: RolloutBatch, tokenizer: Tokenizer | None
) -> KeptTokens:
    """Log-probs of the rows' tokens, each turn once, until there are `MAX_TOKENS` of them.

    Args:
        rows: scored reasonings with log p of each of their tokens [T], in nats.
        tokenizer: tells the text of each token; without it only the numbers are kept.
    """
    reader = _Reader(batch.reasoning_tags, tokenizer)
    found: dict[tuple[int, int], TokenLogProbs] = {}
    num_tokens = num_left_out = 0
    for row, log_probs_T in rows:
        key = (row.rollout_index, row.turn_index)
        if key in found:
            continue
        if num_tokens + len(log_probs_T) > MAX_TOKENS:
            num_left_out += 1
            continue
        num_tokens += len(log_probs_T)
        found[key] = reader.read(row, batch.rollouts[row.rollout_index].turns[row.turn_index], log_probs_T)
    reason = None
    if num_left_out:
        reason = f"only {MAX_TOKENS:,} tokens of a batch are kept, and {num_left_out} reasonings came after"
    return KeptTokens(list(found.values()), reason)


class _Reader:
    """Finds the tokens of reasonings in what the trainer sent."""

    def __init__(self, tags: ReasoningTags, tokenizer: Tokenizer | None) -> None:
        self._tags = tags
        self._tokenizer = tokenizer
        if tokenizer is not None:
            self._decode_one = lru_cache(2**16)(lambda token: tokenizer.decode([token]))

    def read(self, row: PartitionedTurn, turn: Turn, log_probs_T: Floats) -> TokenLogProbs:
        """The row's log-probs with the places of its tokens."""
        ids = row.reasoning_token_ids or ()
        # Ids that were made of text are found among those sampled only where they are the same.
        first = -1 if turn.response_token_ids is None else find_tokens(turn.response_token_ids, ids)
        lengths, start, text = None, -1, None
        if self._tokenizer is not None:
            text, ends = token_ends(ids, self._decode)
            lengths = np.diff(ends, prepend=0).tolist()
            start = (
                -1 if turn.response is None else turn.response.find(text, self._opening_end(turn.response))
            )
        hundredths_T = np.round(np.clip(log_probs_T * 100, _LOWEST, 0))
        return TokenLogProbs(
            rollout=row.rollout_index,
            turn=row.turn_index,
            log_probs=hundredths_T.astype(np.int64).tolist(),
            lengths=lengths,
            start=start if start >= 0 else None,
            first_token=first if first >= 0 else None,
            # Where the response holds it, its place says the same in less.
            text=None if start >= 0 else text,
        )

    def _decode(self, ids: Sequence[int]) -> str:
        if self._tokenizer is None or not ids:
            return ""
        return self._decode_one(ids[0]) if len(ids) == 1 else self._tokenizer.decode(list(ids))

    def _opening_end(self, response: str) -> int:
        lead = len(response) - len(response.lstrip())
        return lead + len(self._tags.open) if response.startswith(self._tags.open, lead) else 0
