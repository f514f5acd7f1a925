"""Log-probabilities from vLLM, by its token route or by `/v1/completions`.

Read in the source of vllm 0.33.0, and run against a vllm 0.32.0 server on a CPU:
- `/v1/completions` takes `prompt` as token ids; `prompt_logprobs: 0` brings the log-prob of each prompt token
  and of no other. `choices[0].prompt_logprobs` has one entry per token: null for the first, which nothing
  predicts, then {"<token id>": {"logprob": …}}. Such a request reads nothing from the prefix cache, because
  cached tokens have no logits: each pair costs its prompt and its reasoning.
- `/inference/v1/generate` takes `prompt_logprob_token_ids`, the ids to score per row, with
  `prompt_logprob_start = s`: row i scores token s + i + 1, so s is the last prompt token here. The answer,
  `prompt_token_id_logprobs`, is a float32 `.npy` in base64. With `skip_reading_prefix_cache: false` the
  prompt comes from the cache. The answer is null when the cache held token s too, which happens when two
  reasonings begin alike up to the end of a cache block; such a pair goes by the other route. The route needs
  a server started with `--enable-scale-out` and vLLM's second model runner; without them it is refused, and
  then all pairs go by the other route.
- Neither is divided by a temperature. A server started with `--logprobs-mode raw_logits` returns logits.
- At least one token is sampled, so a pair must be shorter than `max_model_len`.
- An impossible token's log-prob, -inf, is sent as -9999.
- Replies do not say of which weights they are. What shows is another list of models, and a lost connection
  of a server that was started anew; weights that a trainer writes into a running server go unnoticed.
"""

import base64
import binascii
import io
import logging
import secrets

import numpy as np

from collapsewatch_worker.errors import BatchNotScorable, EngineNotUsable, EngineUnavailable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.remote.http_calls import Document, EngineApi
from collapsewatch_worker.remote.replies import (
    Other,
    Pair,
    Serving,
    checked_log_probs,
    is_checkpoint,
    is_later,
)

log = logging.getLogger(__name__)

_GENERATE = "inference/v1/generate"
_COMPLETIONS = "v1/completions"
# Sent in place of -inf, which JSON cannot hold. No real log-prob of one token comes near it.
_IMPOSSIBLE = -9999.0


class VllmEngine:
    """The client of a vLLM server."""

    def __init__(self, api: EngineApi) -> None:
        self._api = api
        self._has_token_route = True
        self._has_answered = False
        # Cached blocks of this evaluation only: the engine's own rollouts would fill blocks past the prompt,
        # and blocks of older weights would be wrong.
        self._cache_salt = secrets.token_hex(16)

    def serving(self, checkpoint: str | None) -> Serving | Other:
        """A checkpoint is the name or path of a served model or LoRA adapter; None takes the base model."""
        cards = self._api.get("v1/models").get("data")
        if not isinstance(cards, list) or not all(
            isinstance(card, dict) and card.get("id") for card in cards
        ):
            raise EngineNotUsable("the engine's list of models cannot be read: is it a vLLM server?")
        if checkpoint is None:
            fitting = [card for card in cards if not card.get("parent")]
        else:
            fitting = [
                card for card in cards if any(is_checkpoint(name, checkpoint) for name in _names(card))
            ]
        if not fitting:
            moved_on = checkpoint is not None and any(
                is_later(name, checkpoint) for card in cards for name in _names(card)
            )
            return Other(tuple(str(card["id"]) for card in cards), moved_on)
        names = _names(fitting[0])
        return Serving(names[0], _max_tokens(fitting[0], cards), weight_version=None, source=names)

    def check_vocabulary(self, highest_token_id: int) -> None:
        """Nothing: a vLLM server checks every token id itself."""

    def token_log_probs(self, pair: Pair, serving: Serving) -> Floats:
        """As `replies.Engine`."""
        if not self._has_token_route:
            return self._by_completions(pair, serving)
        try:
            log_probs_T = self._by_token_route(pair, serving)
        except (BatchNotScorable, EngineNotUsable, EngineUnavailable) as refusal:
            if self._has_answered:
                raise
            log_probs_T = self._by_completions(pair, serving)
            # The pair itself was good, so it is the route that is not.
            self._has_token_route = False
            log.warning(
                "vLLM computes each prompt anew for every reasoning; --enable-scale-out may avoid it",
                extra={"reason": str(refusal)},
            )
            return log_probs_T
        self._has_answered = True
        return self._by_completions(pair, serving) if log_probs_T is None else log_probs_T

    def _by_token_route(self, pair: Pair, serving: Serving) -> Floats | None:
        """None when the cache held more than the prompt."""
        reply = self._api.post(
            _GENERATE,
            {
                "model": serving.name,
                "token_ids": pair.token_ids,
                "cache_salt": self._cache_salt,
                "sampling_params": {
                    "max_tokens": 1,
                    "temperature": 1.0,
                    "detokenize": False,
                    "prompt_logprob_token_ids": [[token_id] for token_id in pair.reasoning],
                    "prompt_logprob_start": len(pair.prompt) - 1,
                    "skip_reading_prefix_cache": False,
                },
            },
            # Servers without the route may say so by a status 500.
            is_patient=self._has_answered,
        )
        if "prompt_token_id_logprobs" not in reply:
            raise EngineNotUsable("the engine's reply has no `prompt_token_id_logprobs`")
        encoded = reply["prompt_token_id_logprobs"]
        return None if encoded is None else _log_probs(_matrix(encoded, len(pair.reasoning)).tolist())

    def _by_completions(self, pair: Pair, serving: Serving) -> Floats:
        reply = self._api.post(
            _COMPLETIONS,
            {
                "model": serving.name,
                "prompt": pair.token_ids,
                "max_tokens": 1,
                "temperature": 1.0,
                "prompt_logprobs": 0,
            },
        )
        return _log_probs(_reasoning_values(reply, pair))


def _names(card: Document) -> tuple[str, ...]:
    """The name by which requests call the model, then its path."""
    return (str(card["id"]), *([str(card["root"])] if card.get("root") else []))


def _log_probs(values: list[object]) -> Floats:
    log_probs_T = checked_log_probs(values)
    log_probs_T[log_probs_T <= _IMPOSSIBLE] = -np.inf
    return log_probs_T


def _max_tokens(card: Document, cards: list[Document]) -> int | None:
    """`max_model_len`, which an adapter has from its base model, less the token that is always sampled."""
    owner = next((other for other in cards if other["id"] == card.get("parent")), card)
    limit = card.get("max_model_len") or owner.get("max_model_len")
    return limit - 1 if isinstance(limit, int) else None


def _matrix(encoded: object, num_tokens: int) -> Floats:
    """The first column [T] of the float32 matrix in base64."""
    try:
        content = base64.b64decode(str(encoded), validate=True)
        matrix = np.load(io.BytesIO(content), allow_pickle=False)
    except (binascii.Error, ValueError, EOFError, OSError) as error:
        raise EngineNotUsable("the engine's `prompt_token_id_logprobs` cannot be read") from error
    if matrix.shape != (num_tokens, 1):
        raise EngineNotUsable(
            f"the engine gave log-probabilities of shape {matrix.shape} where ({num_tokens}, 1) was asked for"
        )
    return np.asarray(matrix[:, 0], dtype=np.float64)


def _reasoning_values(reply: Document, pair: Pair) -> list[object]:
    """The log-prob of each reasoning token, unchecked."""
    choices = reply.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    entries = choice.get("prompt_logprobs") if isinstance(choice, dict) else None
    if not isinstance(entries, list):
        raise EngineNotUsable("the engine's reply has no `choices[0].prompt_logprobs`: is it a vLLM server?")
    num_tokens = len(pair.prompt) + len(pair.reasoning)
    if len(entries) != num_tokens:
        raise EngineNotUsable(
            f"the engine gave {len(entries)} log-probabilities where {num_tokens} were asked for: "
            "it may cut long inputs"
        )
    values = []
    for entry, token_id in zip(entries[len(pair.prompt) :], pair.reasoning, strict=True):
        scored = entry.get(str(token_id)) if isinstance(entry, dict) else None
        if not isinstance(scored, dict):
            raise EngineNotUsable(
                f"the engine's log-probability is not about token {token_id}: {entry!r:.100}"
            )
        values.append(scored.get("logprob"))
    return values
