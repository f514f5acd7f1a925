"""The product's folds on a series of evaluations: which alerts open, when, and how rare that is."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from scipy.stats import chi2

from collapsewatch_server.folds.evaluation import Evaluation
from collapsewatch_server.folds.run_fold import FoldState, fold, initial_state


@dataclass(frozen=True)
class Opened:
    """One alert that opened."""

    index: int
    """Of the evaluation."""
    rule: str
    severity: str


def openings(
    evaluations: Iterable[Evaluation], state: FoldState | None = None, *, until: frozenset[str] = frozenset()
) -> list[Opened]:
    """The alerts in their order.

    Args:
        state: where the fold goes on; the beginning of a run when absent.
        until: stop once alerts of these rule and severity pairs, such as `reward_drop warning`, have opened.
    """
    state = initial_state() if state is None else state
    found: list[Opened] = []
    missing = set(until)
    for index, evaluation in enumerate(evaluations):
        state, output = fold(state, evaluation)
        for move in output.transitions:
            if move.kind == "open":
                found.append(Opened(index, move.rule, move.severity))
                missing.discard(f"{move.rule} {move.severity}")
        if until and not missing:
            break
    return found


@dataclass
class FalseAlarms:
    """Alerts on runs to which nothing happens."""

    num_evaluations: int = 0
    """After the baseline."""
    by_rule: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, found: Sequence[Opened], num_evaluations: int) -> None:
        self.num_evaluations += num_evaluations
        for one in found:
            key = (one.rule, one.severity)
            self.by_rule[key] = self.by_rule.get(key, 0) + 1

    def total(self, severity: str) -> int:
        return sum(count for (_, level), count in self.by_rule.items() if level == severity)


def rate_with_interval(count: int, num_evaluations: int) -> tuple[float, float, float]:
    """Alarms per 1,000 evaluations and the exact 95 % Poisson interval."""
    scale = 1000.0 / num_evaluations
    low = chi2.ppf(0.025, 2 * count) / 2.0 if count else 0.0
    high = chi2.ppf(0.975, 2 * count + 2) / 2.0
    return count * scale, float(low) * scale, float(high) * scale


@dataclass(frozen=True)
class Delays:
    """Evaluations from the change to the alarm, 1 for the very first; none for a run that was missed."""

    found: tuple[int | None, ...]

    @property
    def num_missed(self) -> int:
        return sum(delay is None for delay in self.found)

    @property
    def median(self) -> float | None:
        """Over all runs; none when half of them were missed."""
        middle = float(median(float("inf") if delay is None else delay for delay in self.found))
        return None if middle == float("inf") else middle

    @property
    def p95(self) -> float | None:
        """The smallest delay within which 95 % of the runs were found; none when more were missed."""
        ordered = sorted(delay for delay in self.found if delay is not None)
        position = -(-95 * len(self.found) // 100)
        return float(ordered[position - 1]) if position <= len(ordered) else None
