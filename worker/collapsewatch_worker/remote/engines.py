"""A scoring model that runs in an SGLang or vLLM server: token ids go out, log-probabilities come back.

Legend: R reasonings, P prompts, T reasoning tokens.
Source: docs/metrics.md section 2.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Literal

import numpy as np

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.remote.http_calls import ANSWER_SECONDS, EngineApi, engine_address
from collapsewatch_worker.remote.replies import Engine, Pair, Serving
from collapsewatch_worker.remote.sglang import SglangEngine
from collapsewatch_worker.remote.vllm import VllmEngine

log = logging.getLogger(__name__)

EngineKind = Literal["sglang", "vllm"]
Ids = tuple[int, ...]

NUM_AT_ONCE = 16
"""Requests under way at once: enough for an engine to batch, few beside the rollouts it may serve."""


def remote_model(
    kind: EngineKind,
    url: str,
    *,
    api_key: str | None,
    tokenizer: Tokenizer | None,
    checkpoint: str | None = None,
    num_at_once: int = NUM_AT_ONCE,
    answer_seconds: float = ANSWER_SECONDS,
) -> "RemoteModel":
    """The model of an engine; the engine is first called when something is scored.

    Args:
        url: the engine's address, from the operator's settings and never from a batch.
        tokenizer: for batches without token ids; an engine's own is not asked.
        checkpoint: what the engine must have loaded, compared with what it says it serves: the name or path,
            or its last folders. None scores with whatever is loaded.
        num_at_once: requests under way at once, at least 1.
        answer_seconds: how long one answer may take before it is asked for again.

    Raises:
        ValueError: an unknown kind, a bad address or number.
    """
    if kind not in ("sglang", "vllm"):
        raise ValueError(f"the engine must be sglang or vllm, got {kind!r}")
    if num_at_once < 1:
        raise ValueError(f"num_at_once must be at least 1, got {num_at_once}")
    address = engine_address(url)
    return RemoteModel(kind, address, api_key, tokenizer, checkpoint, num_at_once, answer_seconds)


@dataclass(frozen=True, repr=False)
class RemoteModel:
    """A `scorers.ScoringModel` behind an address. Without a `repr`, since it holds a key."""

    kind: EngineKind
    address: str
    api_key: str | None
    tokenizer: Tokenizer | None
    checkpoint: str | None
    num_at_once: int
    answer_seconds: float

    def cross_log_probs(
        self, prompts: Sequence[Sequence[int]], reasonings: Sequence[Sequence[int]], *, temperature: float
    ) -> Floats:
        """Log-probability of each reasoning under each prompt [R, P], nats summed over its tokens.

        An empty reasoning has the empty sum, 0. Equal prompts and equal reasonings are asked for once.

        Raises:
            BatchNotScorable: a temperature other than 1, an empty prompt, a negative token id, a pair that is
                too long, or anything else that the engine refuses about the request.
            CheckpointNotReady: the engine serves another model, or its weights changed meanwhile.
            EngineUnavailable: no answer, after several tries.
            EngineNotUsable: a refused key, or answers that are not log-probabilities of these tokens.
        """
        if temperature != 1.0:
            # Dividing logits by a temperature changes their normaliser, which takes the whole vocabulary.
            raise BatchNotScorable(
                f"{self.kind} gives log-probabilities at temperature 1, and this batch was sampled at "
                f"{temperature:g}: score it with the transformers engine"
            )
        rows_of, columns_of = _positions(reasonings), _positions(prompts)
        rows_of.pop((), None)
        _check_tokens([*rows_of, *columns_of], has_empty_prompt=() in columns_of)
        sums_RP = np.zeros((len(reasonings), len(prompts)), dtype=np.float64)
        if not rows_of or not columns_of:
            return sums_RP
        for pair, total in self._totals(list(columns_of), list(rows_of)):
            sums_RP[np.ix_(rows_of[pair.reasoning], columns_of[pair.prompt])] = total
        return sums_RP

    def _totals(self, prompts: list[Ids], reasonings: list[Ids]) -> Iterator[tuple[Pair, float]]:
        """(pair, nats of its reasoning) of every pair of distinct prompts and reasonings."""
        started = time.monotonic()
        with EngineApi(
            self.address, self.api_key, num_connections=self.num_at_once, answer_seconds=self.answer_seconds
        ) as api:
            engine: Engine = SglangEngine(api) if self.kind == "sglang" else VllmEngine(api)
            serving = engine.serving(self.checkpoint)
            _check_length(prompts, reasonings, serving)
            engine.check_vocabulary(max(map(max, (*prompts, *reasonings))))
            with ThreadPoolExecutor(self.num_at_once, thread_name_prefix="engine") as pool:
                for wave in _waves(prompts, reasonings):
                    yield from _scored_wave(pool, api, engine, serving, wave)
        seconds = time.monotonic() - started
        num_pairs = len(prompts) * len(reasonings)
        log.info("engine scored", extra={"engine": self.kind, "num_pairs": num_pairs, "seconds": seconds})


def _waves(prompts: list[Ids], reasonings: list[Ids]) -> Iterator[list[Pair]]:
    """Pairs that may be asked for at once, one prompt after another.

    A prompt's first pair goes ahead of its others, which then find the prompt in the engine's cache. It rides
    with the pairs of the prompt before, so that the engine never works on it alone but for the first one.
    """
    # Longest first: the wave's end does not wait for one long pair.
    first, *others = sorted(reasonings, key=len, reverse=True)
    yield [Pair(prompts[0], first)]
    for number, prompt in enumerate(prompts):
        following = prompts[number + 1 : number + 2]
        wave = [Pair(prompt, reasoning) for reasoning in others] + [Pair(next_, first) for next_ in following]
        if wave:
            yield wave


def _scored_wave(
    pool: ThreadPoolExecutor, api: EngineApi, engine: Engine, serving: Serving, wave: list[Pair]
) -> Iterator[tuple[Pair, float]]:
    """Ends at the first error, without starting what had not started."""
    pairs: dict[Future[Floats], Pair] = {
        pool.submit(engine.token_log_probs, pair, serving): pair for pair in wave
    }
    done, waiting = wait(pairs, return_when=FIRST_EXCEPTION)
    if waiting:
        api.stop()
        for future in waiting:
            future.cancel()
    for future in done:
        if (error := future.exception()) is not None:
            raise error
    for future in done:
        yield pairs[future], float(future.result().sum())


def _positions(sequences: Sequence[Sequence[int]]) -> dict[Ids, list[int]]:
    positions: dict[Ids, list[int]] = {}
    for position, tokens in enumerate(sequences):
        positions.setdefault(tuple(int(token) for token in tokens), []).append(position)
    return positions


def _check_tokens(sequences: list[Ids], *, has_empty_prompt: bool) -> None:
    if has_empty_prompt:
        raise BatchNotScorable("a prompt has no tokens; scoring needs at least one")
    lowest = min((token for sequence in sequences for token in sequence), default=0)
    if lowest < 0:
        raise BatchNotScorable(f"token id {lowest} is below 0")


def _check_length(prompts: list[Ids], reasonings: list[Ids], serving: Serving) -> None:
    prompt, reasoning, limit = max(map(len, prompts)), max(map(len, reasonings)), serving.max_tokens
    if limit is not None and prompt + reasoning > limit:
        raise BatchNotScorable(
            f"the longest prompt ({prompt} tokens) with the longest reasoning ({reasoning} tokens) "
            f"exceeds the {limit} tokens that the engine takes"
        )
