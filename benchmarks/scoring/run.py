"""One run of the scoring benchmark: the sizes one after another, and what came out of them."""

from dataclasses import dataclass

import torch
from transformers import PreTrainedModel

from benchmarks.scoring import work as works
from benchmarks.scoring.bound import Flops, MatmulRate, least_flops, weights
from benchmarks.scoring.breakdown import breakdown
from benchmarks.scoring.contestants import CONTESTANTS, ENGINE, REFERENCE
from benchmarks.scoring.memory import peak_bytes
from benchmarks.scoring.plot import Bar, Group
from benchmarks.scoring.report import Result, SizeFacts
from benchmarks.scoring.timing import Comparison, compare, sample
from benchmarks.scoring.work import Shape, Size, Work

_PROFILED_ROWS = 32


@dataclass(frozen=True, slots=True)
class Effort:
    """How long the run may take."""

    num_rounds: int
    most_pairs: tuple[int, int] | None
    """Reasonings and prompts that (a) and (b) get; all when absent."""
    sizes: tuple[str, ...] | None
    """Sizes that are measured when none is named; all when absent."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The part of a size's outcome that needs a stopwatch."""

    comparison: Comparison
    least: Flops
    rate: MatmulRate

    @property
    def bound_seconds(self) -> float:
        """The least work at the best rate; asked for at the end of the run, when that rate is known."""
        return self.least.total / self.rate.best


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out for one size."""

    size: Size
    work: Work
    peaks: dict[str, int]
    """Bytes above the loaded model, by contestant."""
    timed: Timed | None


class Bench:
    """Runs sizes and keeps what came out."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self.measured: list[Measured] = []
        self.breakdown: dict[str, float] = {}
        """Of the first size that ran on a CPU."""
        self._models: dict[Shape, PreTrainedModel] = {}
        self._rates: dict[str, MatmulRate] = {}

    def run(self, size: Size) -> None:
        """Times and checks the contestants, then looks at the memory of each.

        Raises:
            NotExact: the engine's numbers are wrong.
        """
        device = torch.device("cuda" if size in works.GPU_SIZES else "cpu")
        dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
        work = works.work(size)
        timed = None if size.only_memory else self._timed(size, work, device, dtype)
        contestants = [ENGINE] if timed is None else [CONTESTANTS[name] for name in timed.comparison.timings]
        peaks = {one.name: peak_bytes(size, one, device, dtype) for one in contestants}
        self.measured.append(Measured(size, work, peaks, timed))

    def _timed(self, size: Size, work: Work, device: torch.device, dtype: torch.dtype) -> Timed:
        if size.shape not in self._models:
            # One at a time, so that a large one finds the device empty.
            self._models.clear()
            self._models[size.shape] = works.model(size.shape, device, dtype)
        model = self._models[size.shape]
        rate = self._rates.setdefault(device.type, MatmulRate(device, dtype))
        comparison = compare(
            size,
            work,
            model,
            rate,
            num_rounds=self._effort.num_rounds,
            most_pairs=self._effort.most_pairs,
            seed=len(self.measured),
        )
        if not self.breakdown and device.type == "cpu":
            rows = sample(len(work.reasonings), _PROFILED_ROWS)
            self.breakdown = breakdown(model, work.part(rows, range(len(work.prompts))))
        return Timed(comparison, least_flops(weights(model), work), rate)

    def results(self) -> list[Result]:
        """One for each contestant of each size."""
        return [result for one in self.measured for result in _results(one)]

    def facts(self) -> list[SizeFacts]:
        """The least work of each size that was timed, and whether the numbers agreed."""
        return [
            SizeFacts(
                one.size.name,
                one.size.title,
                one.timed.least,
                one.timed.comparison.worst_difference,
            )
            for one in self.measured
            if one.timed is not None
        ]

    def matmul_gflops(self) -> dict[str, float]:
        """Best rate of each way to multiply matrices; of the GPU where one was used."""
        rates = list(self._rates.values())
        return {name: rate / 1e9 for name, rate in rates[-1].by_way.items()} if rates else {}

    def groups(self) -> list[Group]:
        """What is drawn of each size that was timed."""
        groups = []
        for one in self.measured:
            if one.timed is None:
                continue
            reference = one.timed.comparison.timings[REFERENCE.name].median
            bars = [
                Bar(result.contestant, result.times_reference)
                for result in _results(one)
                if result.times_reference is not None
            ]
            groups.append(Group(one.size.title, bars, reference / one.timed.bound_seconds))
        return groups


def _results(one: Measured) -> list[Result]:
    results = []
    for name in CONTESTANTS:
        if name not in one.peaks:
            continue
        timing = one.timed.comparison.timings[name] if one.timed is not None else None
        reference = one.timed.comparison.timings[REFERENCE.name].median if one.timed is not None else None
        bound = one.timed.bound_seconds if one.timed is not None else None
        results.append(
            Result(
                size=one.size.name,
                title=one.size.title,
                contestant=name,
                label=CONTESTANTS[name].label,
                seconds=timing.seconds if timing else [],
                wall_seconds=timing.wall_seconds if timing else [],
                median_seconds=timing.median if timing else None,
                share_run=timing.share if timing else 1.0,
                num_scored_tokens=one.work.num_scored_tokens,
                times_reference=reference / timing.median if timing and reference else None,
                share_of_bound=bound / timing.median if timing and bound else None,
                peak_bytes=one.peaks[name],
            )
        )
    return results
