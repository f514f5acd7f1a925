"""Plain detectors that people use, on the series of retrieval accuracy, rewards and success of a run.

Legend: T evaluations.
Sources: E. S. Page, Continuous inspection schemes, 1954 (CUSUM); the early stops of RAGEN's trainer
(github.com/mll-lab-nu/RAGEN, commit 20daedc, ragen/trainer/agent_trainer.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from collapsewatch_server.folds.evaluation import Evaluation

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Series = Mapping[str, Floats]
BEGIN = 11
"""Evaluations 2 to 11 are everybody's baseline, so the first that can be judged has this index."""
_METRICS = ("retrieval_accuracy", "success", "reward_std")


@dataclass(frozen=True)
class Peer:
    """One plain detector with one number to tune."""

    name: str
    parameter: str
    usual: float
    """As published, or as people set it."""
    candidates: tuple[float, ...]
    """From the least sensitive to the most."""
    alarms: Callable[[Series, float], Bools]
    """[T] whether an alarm goes off at each evaluation; one that lasts goes off once."""


def series_of(evaluations: Sequence[Evaluation]) -> Series:
    """The series that plain detectors read; NaN where an evaluation does not bring the metric."""

    def value(evaluation: Evaluation, metric: str) -> float:
        found = evaluation.value(metric)
        return np.nan if found is None else found

    return {
        metric: np.array([value(evaluation, metric) for evaluation in evaluations]) for metric in _METRICS
    }


def _rising(state_T: Bools) -> Bools:
    before_T = np.concatenate([[False], state_T[:-1]])
    return np.asarray(state_T & ~before_T)


def _judged(state_T: Bools) -> Bools:
    state_T = state_T.copy()
    state_T[:BEGIN] = False
    return state_T


def _in_a_row(state_T: Bools, number: int) -> Bools:
    lasting_T = np.ones_like(state_T)
    for back in range(number):
        shifted_T = np.zeros_like(state_T)
        shifted_T[back:] = state_T[: state_T.size - back]
        lasting_T &= shifted_T
    return lasting_T


def _below_limit(series: Series, limit: float) -> Bools:
    return _rising(_judged(series["retrieval_accuracy"] < limit))


def _twice_below_share(series: Series, share: float) -> Bools:
    accuracy_T = series["retrieval_accuracy"]
    low_T = _judged(accuracy_T < share * accuracy_T[1:BEGIN].mean())
    return _rising(_in_a_row(low_T, 2))


def _cusum(series: Series, limit: float) -> Bools:
    """Reference value half a standard deviation; starts anew after an alarm."""
    accuracy_T = series["retrieval_accuracy"]
    mean, std = accuracy_T[1:BEGIN].mean(), max(float(accuracy_T[1:BEGIN].std(ddof=1)), 1e-6)
    alarms_T, total = np.zeros(accuracy_T.size, dtype=np.bool_), 0.0
    for step in range(BEGIN, accuracy_T.size):
        total = max(0.0, total + (mean - accuracy_T[step]) / std - 0.5)
        if total > limit:
            alarms_T[step], total = True, 0.0
    return alarms_T


def _reward_spread_gone(series: Series, share: float) -> Bools:
    spread_T = series["reward_std"]
    low_T = spread_T < share * spread_T[:10].mean()
    low_T[:10] = False
    return _rising(_in_a_row(low_T, 10))


def _no_success(series: Series, limit: float) -> Bools:
    return _rising(_in_a_row(series["success"] < limit, 5))


def _grid(low: float, high: float) -> tuple[float, ...]:
    return tuple(np.linspace(low, high, 100).tolist())


PEERS = (
    Peer("fixed threshold on retrieval accuracy", "accuracy", 0.5, _grid(0.0, 1.0), _below_limit),
    Peer("two evaluations below a share of the baseline", "share", 0.5, _grid(0.0, 1.0), _twice_below_share),
    Peer("CUSUM with estimated baseline", "h", 5.0, tuple(np.geomspace(500.0, 0.5, 100).tolist()), _cusum),
    Peer("RAGEN: reward spread gone, 10 in a row", "share", 0.1, _grid(0.0, 1.0), _reward_spread_gone),
    Peer("RAGEN: no success, 5 in a row", "success", 0.01, _grid(0.0, 1.0), _no_success),
)


def num_alarms(peer: Peer, runs: Sequence[Series], parameter: float) -> int:
    """Alarms in all runs together."""
    return sum(int(peer.alarms(series, parameter).sum()) for series in runs)


def tuned(peer: Peer, stable: Sequence[Series], most_alarms: int) -> float:
    """The most sensitive parameter with at most so many alarms on these runs: the peer's best case.

    Seen on the very runs that it is judged by, which is kinder to the peer than any user can be.
    """
    best = peer.candidates[0]
    for candidate in peer.candidates:
        # An alarm that lasts goes off once, so a more sensitive candidate may count less: stop at the first.
        if num_alarms(peer, stable, candidate) > most_alarms:
            break
        best = candidate
    return best


def first_alarm(peer: Peer, series: Series, parameter: float, begin: int) -> int | None:
    """Evaluations from `begin` to the first alarm, 1 for the very first; none when it stays silent.

    An alarm from before that still lasts does not go off again, and so does not count.
    """
    found = np.flatnonzero(peer.alarms(series, parameter)[begin:])
    return int(found[0]) + 1 if found.size else None
