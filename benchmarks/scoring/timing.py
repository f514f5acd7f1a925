"""Times the contestants on the same work, in rounds of shuffled order."""

import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedModel

from benchmarks.scoring.bound import MatmulRate
from benchmarks.scoring.contestants import (
    ENGINE,
    NAIVE,
    REFERENCE,
    REFERENCE_16,
    REFERENCE_ONEDNN,
    Contestant,
    Floats,
    worst_difference,
    worst_sum_difference,
)
from benchmarks.scoring.work import Size, Work

TOLERANCE = 1e-4
"""Nats a token that the engine may differ from the reference scheme in float32."""


class NotExact(RuntimeError):
    """The engine's numbers are not those of the reference scheme, so its speed means nothing."""


@dataclass(slots=True)
class Timing:
    """What one contestant took for a whole batch, once for each round."""

    contestant: Contestant
    share: float
    """Which part of the batch's pairs was run; the seconds are those of the whole batch."""
    seconds: list[float] = field(default_factory=list)
    """CPU time of the process, or on a GPU the time until it had finished."""
    wall_seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds of the middle round."""
        return statistics.median(self.seconds)


@dataclass(slots=True)
class Comparison:
    """All contestants on one size."""

    timings: dict[str, Timing]
    worst_difference: float
    """Between the engine and the reference scheme, in nats a token."""


def compare(
    size: Size,
    work: Work,
    model: PreTrainedModel,
    rate: MatmulRate,
    *,
    num_rounds: int,
    most_pairs: tuple[int, int] | None,
    seed: int,
) -> Comparison:
    """Times every contestant `num_rounds` times and checks the engine's numbers.

    Args:
        size: says whether more than the reference scheme and the engine take part.
        work: the batch.
        model: in eval mode.
        rate: looked at again before each contestant.
        num_rounds: every contestant runs once in each.
        most_pairs: run (a) and (b) with so many reasonings and prompts only and scale their time up by
            tokens; each of their pairs is a computation of its own. All pairs when absent.
        seed: of the order.

    Raises:
        NotExact: a log-prob of the engine is further than `TOLERANCE` from the reference scheme's in float32.
    """
    num_rows, num_columns = most_pairs or (len(work.reasonings), len(work.prompts))
    rows, columns = sample(len(work.reasonings), num_rows), sample(len(work.prompts), num_columns)
    part = work.part(rows, columns)
    share = part.num_padded_tokens / work.num_padded_tokens
    more = [NAIVE, REFERENCE_ONEDNN] if size.with_more else []
    contestants = [REFERENCE, *([REFERENCE_16] if size.with_16_rows else []), ENGINE, *more]
    timings = {one.name: Timing(one, 1.0 if one is ENGINE else share) for one in contestants}
    order = random.Random(seed)
    answers: dict[str, Floats] = {}
    _warm_up(model, contestants)
    for _ in range(num_rounds):
        order.shuffle(contestants)
        for contestant in contestants:
            rate.measure()
            timing = timings[contestant.name]
            given = work if contestant is ENGINE else part
            answer, seconds, wall = _timed(model, contestant.score, given)
            timing.seconds.append(seconds / timing.share)
            timing.wall_seconds.append(wall / timing.share)
            answers[contestant.name] = answer
    worst = worst_difference(answers[REFERENCE.name], model, part)
    worst = max(
        worst, worst_sum_difference(answers[REFERENCE.name], answers[ENGINE.name][np.ix_(rows, columns)])
    )
    if model.dtype == torch.float32 and not worst <= TOLERANCE:
        raise NotExact(f"{size.name}: the engine is {worst:.2g} nats a token off, {TOLERANCE:g} is allowed")
    return Comparison(timings, worst)


def sample(count: int, wanted: int) -> list[int]:
    """At most `wanted` of so many positions, spread evenly."""
    wanted = min(wanted, count)
    return [position * count // wanted for position in range(wanted)]


def _warm_up(model: PreTrainedModel, contestants: Sequence[Contestant]) -> None:
    # What is compiled, loaded or chosen on a first call is no part of a batch in the middle of a training.
    tiny = Work([[1, 2, 3, 4], [1, 2, 5]], [[3, 4, 5], [6, 7]])
    for contestant in contestants:
        contestant.score(model, tiny)


def _timed(
    model: PreTrainedModel, score: Callable[[PreTrainedModel, Work], Floats], work: Work
) -> tuple[Floats, float, float]:
    """The answer, the seconds that count and the wall seconds."""
    on_gpu = model.device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(model.device)
    begun, begun_cpu = time.perf_counter(), _cpu_seconds()
    answer = score(model, work)
    if on_gpu:
        torch.cuda.synchronize(model.device)
    wall, cpu = time.perf_counter() - begun, _cpu_seconds() - begun_cpu
    return answer, wall if on_gpu else cpu, wall


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
