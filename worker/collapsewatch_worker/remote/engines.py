"""A scoring model that runs in an SGLang or vLLM server: token ids go out, log-probabilities come back.

Legend: R reasonings, P prompts, T reasoning tokens.
Source: docs/metrics.md section 2.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import BatchNotScorable, CheckpointNotReady, EngineUnavailable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.remote.http_calls import (
    ANSWER_SECONDS,
    PATIENCE_SECONDS,
    EngineApi,
    EngineChanged,
    engine_address,
)
from collapsewatch_worker.remote.patience import Patience
from collapsewatch_worker.remote.replies import Engine, Pair, Serving
from collapsewatch_worker.remote.sglang import SglangEngine
from collapsewatch_worker.remote.vllm import VllmEngine
from collapsewatch_worker.scoring.own_tokens import TokenNote

log = logging.getLogger(__name__)

EngineKind = Literal["sglang", "vllm"]
Ids = tuple[int, ...]

_Keep = Callable[[Pair, Floats], None]
"""Is told log p of each token of every pair that was scored, of a later round once more."""

NUM_AT_ONCE = 16
"""Requests under way at once: enough for an engine to batch, few beside the rollouts it may serve."""
NUM_ROUNDS = 3
"""How often an evaluation is begun before weights that change meanwhile end it."""
_LOOK_SECONDS = 0.5


def remote_model(
    kind: EngineKind,
    url: str,
    *,
    api_key: str | None,
    tokenizer: Tokenizer | None,
    checkpoint: str | None = None,
    num_at_once: int = NUM_AT_ONCE,
    answer_seconds: float = ANSWER_SECONDS,
    patience: Patience | None = None,
) -> "RemoteModel":
    """The model of an engine; the engine is first called when something is scored.

    Args:
        url: the engine's address, from the operator's settings and never from a batch.
        tokenizer: for batches without token ids; an engine's own is not asked.
        checkpoint: what the engine must have loaded, compared with what it says it serves: the name or path,
            or its last folders. None scores with whatever is loaded.
        num_at_once: requests under way at once, at least 1.
        answer_seconds: how long one answer may take before it is asked for again.
        patience: how long an engine that is away, or that serves something else, is waited for. Share one
            between the models of a worker.

    Raises:
        ValueError: an unknown kind, a bad address or number.
    """
    if kind not in ("sglang", "vllm"):
        raise ValueError(f"the engine must be sglang or vllm, got {kind!r}")
    if num_at_once < 1:
        raise ValueError(f"num_at_once must be at least 1, got {num_at_once}")
    address = engine_address(url)
    patience = patience or Patience(PATIENCE_SECONDS)
    return RemoteModel(kind, address, api_key, tokenizer, checkpoint, num_at_once, answer_seconds, patience)


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
    patience: Patience = field(compare=False)

    def cross_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        reasonings: Sequence[Sequence[int]],
        *,
        temperature: float,
        note: TokenNote | None = None,
    ) -> Floats:
        """Log-probability of each reasoning under each prompt [R, P], nats summed over its tokens.

        An empty reasoning has the empty sum, 0. Equal prompts and equal reasonings are asked for once. All
        numbers are of the same weights, as far as the engine lets that be known: when they change, or the
        connection is lost and another engine may have come up, everything is asked for again.

        Raises:
            BatchNotScorable: a temperature other than 1, an empty prompt, a negative token id, a pair that is
                too long, or anything else that the engine refuses about the request.
            CheckpointNotReady: the engine serves another model for longer than patience lasts, or its weights
                changed meanwhile, again and again.
            EngineUnavailable: no answer, as long as patience lasted, or lost connections again and again.
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

        def keep(pair: Pair, log_probs_T: Floats) -> None:
            if note is not None:
                note(rows_of[pair.reasoning], columns_of[pair.prompt], log_probs_T)

        for pair, total in self._totals(list(columns_of), list(rows_of), keep).items():
            sums_RP[np.ix_(rows_of[pair.reasoning], columns_of[pair.prompt])] = total
        return sums_RP

    def _totals(self, prompts: list[Ids], reasonings: list[Ids], keep: _Keep) -> dict[Pair, float]:
        """Nats of the reasoning of every pair of distinct prompts and reasonings, all of the same weights."""
        started = time.monotonic()
        for number in range(1, NUM_ROUNDS + 1):
            try:
                totals = self._round(prompts, reasonings, keep)
            except EngineChanged as change:
                reason, is_cut = str(change), change.is_cut
                log.warning("engine changed, scoring begins anew", extra={"reason": reason, "round": number})
            else:
                facts = {"engine": self.kind, "num_pairs": len(totals)}
                log.info("engine scored", extra={**facts, "seconds": time.monotonic() - started})
                return totals
        failed = f"{reason} while the batch was scored, the last of {NUM_ROUNDS} times"
        raise EngineUnavailable(failed) if is_cut else CheckpointNotReady(failed)

    def _round(self, prompts: list[Ids], reasonings: list[Ids], keep: _Keep) -> dict[Pair, float]:
        """The same; EngineChanged when they are not of the same weights, or may not be."""
        totals: dict[Pair, float] = {}
        with EngineApi(
            self.address,
            self.api_key,
            num_connections=self.num_at_once,
            answer_seconds=self.answer_seconds,
            patience_seconds=self.patience.seconds,
        ) as api:
            engine: Engine = SglangEngine(api) if self.kind == "sglang" else VllmEngine(api)
            serving = self._awaited(engine)
            api.hold()
            _check_length(prompts, reasonings, serving)
            engine.check_vocabulary(max(map(max, (*prompts, *reasonings))))
            with ThreadPoolExecutor(self.num_at_once, thread_name_prefix="engine") as pool:
                for wave in _waves(prompts, reasonings):
                    for pair, log_probs_T in _scored_wave(pool, api, engine, serving, wave):
                        totals[pair] = float(log_probs_T.sum())
                        keep(pair, log_probs_T)
            if (now := engine.serving(self.checkpoint)) != serving:
                raise EngineChanged(f"the engine went over from {serving.source} to {now}")
        return totals

    def _awaited(self, engine: Engine) -> Serving:
        """What the engine serves, once that is the checkpoint.

        Given back at once, the job would use up all its starts while the trainer still writes its weights.
        """
        started = time.monotonic()
        while True:
            found = engine.serving(self.checkpoint)
            if isinstance(found, Serving):
                self.patience.came()
                return found
            seconds = time.monotonic() - started
            if not self.patience.may_come(seconds, has_moved_on=found.is_later):
                so_far = "" if found.is_later else f", after {seconds:.0f} s"
                raise CheckpointNotReady(
                    f"the engine serves {found}, not the checkpoint {self.checkpoint!r}{so_far}"
                )
            time.sleep(min(_LOOK_SECONDS, self.patience.seconds))


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
) -> Iterator[tuple[Pair, Floats]]:
    """Ends at the first error, without starting what had not started."""
    pairs: dict[Future[Floats], Pair] = {
        pool.submit(engine.token_log_probs, pair, serving): pair for pair in wave
    }
    done, waiting = wait(pairs, return_when=FIRST_EXCEPTION)
    if waiting:
        api.stop()
        for future in waiting:
            future.cancel()
    errors = [error for future in done if (error := future.exception()) is not None]
    # An engine that is being started anew may refuse strange things, which are no fault of the batch.
    for error in sorted(errors, key=lambda error: not isinstance(error, EngineChanged)):
        raise error
    for future in done:
        yield pairs[future], future.result()


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
