"""Log-probabilities from SGLang's `/generate`.

Read in the source of sglang 0.5.23, and run against such a server on a CPU:
- `return_logprob` with `logprob_start_len = s` brings `meta_info.input_token_logprobs` for token s of
  `input_ids` and all after it, each as [log-prob, token id, text or null]. The log-prob of token s itself is
  null, whatever s is. So s is the last prompt token here; the first number is the first reasoning token's.
- What lies before s may come from the prefix cache, what follows is computed. The last prompt token has to be
  computed anyway, since it predicts the first reasoning token.
- `max_new_tokens: 0` samples nothing. The numbers of input tokens are not divided by a temperature.
- The id of the vocabulary's last token, and of any beyond it, is sent back as 0.
- A token id outside the vocabulary in `input_ids` is an index error that ends the server. One in
  `token_ids_logprob` is refused with status 400, so the highest id is asked for there first.
- A server may be told to cut long inputs without an error, and a trainer may abort all requests or change
  the weights between two of them: each shows in the reply.
"""

from typing import Any

from collapsewatch_worker.errors import EngineNotUsable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.remote.http_calls import Document, EngineApi, EngineChanged
from collapsewatch_worker.remote.replies import (
    Other,
    Pair,
    Serving,
    checked_log_probs,
    is_checkpoint,
    is_later,
)

# Sent back in place of ids at the vocabulary's end.
_CLIPPED_ID = 0


class SglangEngine:
    """The client of an SGLang server."""

    def __init__(self, api: EngineApi) -> None:
        self._api = api

    def serving(self, checkpoint: str | None) -> Serving | Other:
        """The one model of the server; a checkpoint is its path, its served name or its weight version."""
        try:
            info = self._api.get("model_info")
        except EngineNotUsable:
            # Servers of 2025 know the older name only.
            info = self._api.get("get_model_info")
        version = info.get("weight_version")
        weight_version = None if version is None else str(version)
        served = [str(name) for name in (info.get("model_path"), info.get("served_model_name")) if name]
        if checkpoint is not None and not _is_loaded(checkpoint, served, weight_version):
            versions = [] if weight_version is None else [weight_version]
            return Other(
                (*dict.fromkeys(served), *(f"weight version {name}" for name in versions)),
                any(is_later(name, checkpoint) for name in [*served, *versions]),
            )
        return Serving(name=None, max_tokens=None, weight_version=weight_version, source=tuple(served))

    def check_vocabulary(self, highest_token_id: int) -> None:
        """As `replies.Engine`: a batch of another tokenizer must not end a server that trains a policy."""
        self._api.post(
            "generate",
            {
                "input_ids": [0],
                "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
                "return_logprob": True,
                "token_ids_logprob": [highest_token_id],
            },
        )

    def token_log_probs(self, pair: Pair, serving: Serving) -> Floats:
        """As `replies.Engine`; also EngineChanged when the weights are others than `serving` says."""
        reply = self._api.post(
            "generate",
            {
                "input_ids": pair.token_ids,
                "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
                "return_logprob": True,
                "logprob_start_len": len(pair.prompt) - 1,
            },
            why_again=_abort,
        )
        meta = _meta_info(reply)
        version = meta.get("weight_version")
        if version is not None and serving.weight_version not in (None, str(version)):
            raise EngineChanged(
                f"the engine's weights changed from version {serving.weight_version} to {version}"
            )
        return checked_log_probs([entry[0] for entry in _entries(meta, pair)])


def _is_loaded(checkpoint: str, served: list[str], weight_version: str | None) -> bool:
    if any(is_checkpoint(name, checkpoint) for name in served):
        return True
    # A trainer that pushes its weights names them `40` where its checkpoint is called `runs/7/40`.
    return weight_version is not None and (
        is_checkpoint(weight_version, checkpoint) or is_checkpoint(checkpoint, weight_version)
    )


def _meta_info(reply: Document) -> Document:
    meta = reply.get("meta_info")
    if not isinstance(meta, dict):
        raise EngineNotUsable("the engine's reply has no `meta_info`: is it an SGLang server?")
    return meta


def _abort(reply: Document) -> str | None:
    """Why the engine gave the request up. Trainers have it abort all requests before they write weights."""
    meta = reply.get("meta_info")
    reason = meta.get("finish_reason") if isinstance(meta, dict) else None
    if isinstance(reason, dict) and reason.get("type") == "abort":
        return f"the engine aborted the request: {str(reason.get('message'))[:300]}"
    return None


def _entries(meta: Document, pair: Pair) -> list[list[Any]]:
    """[log-prob, token id, …] of each reasoning token."""
    entries = meta.get("input_token_logprobs")
    if not isinstance(entries, list):
        raise EngineNotUsable("the engine's reply has no `input_token_logprobs`")
    expected = [pair.prompt[-1], *pair.reasoning]
    if len(entries) != len(expected):
        raise EngineNotUsable(
            f"the engine gave {len(entries)} log-probabilities where {len(expected)} were asked for: "
            "it may cut long inputs"
        )
    for position, (entry, token_id) in enumerate(zip(entries, expected, strict=True)):
        if not isinstance(entry, list) or len(entry) < 2 or entry[1] not in (token_id, _CLIPPED_ID):
            raise EngineNotUsable(
                f"the engine's log-probability {position} is not about token {token_id}: {str(entry)[:100]}"
            )
    return entries[1:]
