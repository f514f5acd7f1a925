"""Where a run's steps stand on an axis of time or of tokens."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch_server.repositories import curves
from collapsewatch_server.repositories.stretches import Window

Floats = npt.NDArray[np.float64]
Names = Mapping[int, Mapping[str, Sequence[str]]]

TOKENS_SO_FAR = (
    "num_tokens",
    "num_input_tokens_seen",
    "tokens_seen",
    "consumed_tokens",
    "total_tokens",
    "train/num_tokens",
    "train/num_input_tokens_seen",
    "train/tokens_seen",
)
"""Names under which trainers log how many tokens they have seen since the start."""
TOKENS_OF_A_STEP = ("perf/total_num_tokens", "total_num_tokens", "global_num_tokens", "tokens_per_step")
"""Names under which they log how many a step had."""
_MAX_TIMED = 3
NO_TOKENS = f"it logs no number of tokens; log it as `{TOKENS_SO_FAR[0]}`"
NO_TIMES = "nothing says when its steps were logged"


class Clock(NamedTuple):
    """Places of some of a run's steps; steps in between lie in between."""

    steps: Floats
    places: Floats
    """They never shrink."""

    def place_of(self, steps: Floats) -> Floats:
        """Where the steps stand; NaN for those before the first known one and after the last."""
        return np.interp(steps, self.steps, self.places, left=np.nan, right=np.nan)

    def step_of(self, place: float) -> float:
        """The step at a place, the first or the last one for a place beyond them."""
        return float(np.interp(place, self.places, self.steps))


def token_source(names: Mapping[str, Sequence[str]]) -> str | None:
    """The trainer's value that counts tokens; none when it logs no such."""
    logged = set(names.get(TRAINER_SCOPE, ()))
    return next((name for name in (*TOKENS_SO_FAR, *TOKENS_OF_A_STEP) if name in logged), None)


def time_clocks(session: Session, windows: Sequence[Window], names: Names) -> dict[int, Clock]:
    """Seconds since each run's first step was logged, by the trainer's clock."""
    knots = curves.logged_times(session, windows)
    by_metric: dict[str, list[Window]] = {}
    for window in windows:
        # Batches tell the times of most runs; a few of the trainer's values tell those of the others.
        for metric in names[window.run_pk].get(TRAINER_SCOPE, ())[:_MAX_TIMED]:
            by_metric.setdefault(metric, []).append(window)
    for metric, of_metric in by_metric.items():
        for run_pk, times in curves.scalar_times(session, of_metric, TRAINER_SCOPE, metric).items():
            knots[run_pk] = [*knots.get(run_pk, []), *times]
    return {run_pk: _since_start(times) for run_pk, times in knots.items() if times}


def token_clocks(session: Session, windows: Sequence[Window], names: Names) -> dict[int, Clock]:
    """Tokens that each run had seen by a step, as its trainer counts them."""
    by_source: dict[str, list[Window]] = {}
    for window in windows:
        source = token_source(names[window.run_pk])
        if source is not None:
            by_source.setdefault(source, []).append(window)
    clocks: dict[int, Clock] = {}
    for source, of_source in by_source.items():
        found = _counted if source in TOKENS_SO_FAR else _summed
        clocks |= found(session, of_source, source)
    return clocks


def _since_start(times: Sequence[tuple[int, float]]) -> Clock:
    # A step that is known twice is known by the later of the two.
    steps, moments = np.array(sorted(dict(sorted(times)).items()), dtype=float).T
    return Clock(steps, np.maximum.accumulate(moments - moments[0]))


def _counted(session: Session, windows: Sequence[Window], source: str) -> dict[int, Clock]:
    found: dict[int, list[tuple[int, float]]] = {}
    for point in curves.drawn(session, windows, TRAINER_SCOPE, [source]):
        found.setdefault(point.run_pk, []).append((point.step, point.value))
    clocks = {}
    for run_pk, points in found.items():
        steps, counts = np.array(points, dtype=float).T
        clocks[run_pk] = Clock(steps, np.maximum.accumulate(counts))
    return clocks


def _summed(session: Session, windows: Sequence[Window], source: str) -> dict[int, Clock]:
    """Tokens of all steps up to the end of each stretch."""
    window_of = {window.run_pk: window for window in windows}
    found: dict[int, list[tuple[int, float]]] = {}
    for part in curves.stretch_sums(session, windows, TRAINER_SCOPE, [source]):
        window = window_of[part.run_pk]
        end = min(window.from_step + (part.stretch + 1) * window.width - 1, window.until_step)
        found.setdefault(part.run_pk, []).append((end, part.value))
    clocks = {}
    for run_pk, points in found.items():
        before = (window_of[run_pk].from_step - 1, 0.0)
        steps, counts = np.array([before, *points], dtype=float).T
        clocks[run_pk] = Clock(steps, np.cumsum(np.maximum(counts, 0.0)))
    return clocks
