"""Rules of one's own: a metric against a threshold, or against the run's baseline, so often in a row. Pure.

A rule is judged on the points of the run's own series in step order. What it said before a step follows from
the alerts that are stored and from a few points before that step, so a new point costs the reading of a
handful, and a late one has everything after it judged again.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collapsewatch_server.alerts.transitions import Severity

OWN_PREFIX = "own/"
"""Before the id of a rule, in what its alerts carry as their rule."""
LEAST_CLEAR = 3
"""A single point on the other side of the limit is no end: a metric that wavers there would open an alert at
every other step."""
NUM_BASELINE = 10
"""First points of the series that are the baseline where no evaluation has one."""

Operator = Literal["<", "<=", ">", ">=", "drop", "rise"]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
RunIdText = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]


class RuleText(BaseModel):
    """A rule as people write it."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: Text
    """Unique; the title of its alerts."""
    metric: Text
    """Such as `retrieval_accuracy`, or whatever the trainer logs."""
    scope: Text = "first_turn"
    """`first_turn`, `turn/<t>`, `trajectory`, `batch` or `trainer`."""
    operator: Operator
    """`drop` and `rise` hold the value against the baseline, less or more the share `threshold` of it."""
    threshold: Annotated[float, Field(allow_inf_nan=False)]
    for_evaluations: Annotated[int, Field(ge=1, le=100)] = 1
    """So many points in a row have to meet it."""
    severity: Severity = "warning"
    project: Text | None = None
    """Only runs of this project; all when absent, as with the next two."""
    tag: Text | None = None
    run: RunIdText | None = None
    enabled: bool = True

    @model_validator(mode="after")
    def _shares_are_shares(self) -> Self:
        if self.operator == "drop" and not 0.0 < self.threshold <= 1.0:
            raise ValueError(f"`threshold` of a `drop` is a share in (0, 1], got {self.threshold:g}")
        if self.operator == "rise" and not self.threshold > 0.0:
            raise ValueError(f"`threshold` of a `rise` is a share above 0, got {self.threshold:g}")
        return self

    @property
    def is_relative(self) -> bool:
        """Whether it holds values against the baseline."""
        return self.operator in ("drop", "rise")

    @property
    def num_clear(self) -> int:
        """Points in a row that do not meet it until its alert is resolved."""
        return max(self.for_evaluations, LEAST_CLEAR)

    def applies_to(self, *, project: str, tags: Iterable[object], run_id: str) -> bool:
        """Whether it is about such a run."""
        return (
            self.project in (None, project)
            and self.run in (None, run_id)
            and (self.tag is None or self.tag in tags)
        )

    def limit(self, baseline: float | None) -> float | None:
        """What a value is held against; none for a relative rule without a baseline."""
        if not self.is_relative:
            return self.threshold
        if baseline is None:
            return None
        # By its size, so that a fall of a negative reward is a fall.
        share = abs(baseline) * self.threshold
        return baseline - share if self.operator == "drop" else baseline + share

    def is_met(self, value: float, limit: float) -> bool:
        """Whether the value is on the wrong side of the limit."""
        if self.operator in ("<", "drop"):
            return value < limit
        if self.operator == "<=":
            return value <= limit
        return value >= limit if self.operator == ">=" else value > limit


@dataclass(frozen=True)
class Measured:
    """One point of the series, with what it is held against."""

    step: int
    value: float
    limit: float | None
    """None while there is no baseline: the point says nothing."""
    attempt_pk: int = 0


@dataclass(frozen=True)
class Firing:
    """One alert of a rule."""

    opened_step: int
    first_step: int
    """Of the points in a row that opened it."""
    value: float
    limit: float
    attempt_pk: int = 0
    resolved_step: int | None = None


@dataclass(frozen=True)
class Told:
    """What the rule has said before the first point to be judged."""

    open: Firing | None = None
    may_open_from: int = 0
    """An alert may open at this step or later: a rule says nothing of what was there before it was saved."""


def num_before(rule: RuleText) -> int:
    """Points before the first one to be judged that `firings` has to be given."""
    return max(rule.for_evaluations, rule.num_clear) - 1


def firings(
    rule: RuleText, points: Sequence[Measured], *, from_step: int = 0, before: Told = Told()
) -> list[Firing]:
    """Alerts that are open at or open after `from_step`, in the order in which they open.

    Args:
        points: In step order, with the last `num_before` points before `from_step`.
    """
    found: list[Firing] = []
    current = before.open
    met: list[Measured] = []
    num_unmet = 0
    for point in points:
        if point.limit is None:
            # What cannot be judged interrupts a row: what came before the gap need not be known then.
            met, num_unmet = [], 0
        elif rule.is_met(point.value, point.limit):
            met, num_unmet = [*met, point][-rule.for_evaluations :], 0
        else:
            met, num_unmet = [], num_unmet + 1
        if point.step < from_step:
            continue
        if current is None:
            if len(met) == rule.for_evaluations and point.step >= before.may_open_from:
                current = _opened(point, met)
        elif num_unmet >= rule.num_clear:
            found.append(replace(current, resolved_step=point.step))
            current = None
    return found if current is None else [*found, replace(current, resolved_step=None)]


def message_of(rule: RuleText, firing: Firing, baseline_words: str = "") -> str:
    """What its alert says: the measurement, and what it was held against."""
    sign = {"drop": "<", "rise": ">"}.get(rule.operator, rule.operator)
    limit = f"{firing.limit:.4g}"
    if rule.is_relative:
        side = 1.0 - rule.threshold if rule.operator == "drop" else 1.0 + rule.threshold
        limit += f" ({side:.4g} × its baseline{baseline_words})"
    words = f"{rule.metric} of {rule.scope} is {firing.value:.4g} {sign} {limit}"
    if rule.for_evaluations > 1:
        words += f", in {rule.for_evaluations} points in a row from step {firing.first_step} on"
    return f"{words}. It is resolved after {rule.num_clear} points in a row that are not."


def evidence_of(rule: RuleText, firing: Firing) -> dict[str, object]:
    """The values that caused it, as JSON."""
    return {
        "step": firing.opened_step,
        "metric": rule.metric,
        "operator": rule.operator,
        "threshold": rule.threshold,
        "value": firing.value,
        "limit": firing.limit,
        "for_evaluations": rule.for_evaluations,
        "first_step": firing.first_step,
    }


@dataclass(frozen=True)
class BaselineSpan:
    """Which steps are the baseline, by the evaluation of one step."""

    step: int
    first_step: int
    last_step: int
    is_complete: bool


def limits(
    rule: RuleText,
    points: Sequence[tuple[int, float, int]],
    spans: Sequence[BaselineSpan],
    series: Sequence[tuple[int, float]],
) -> list[Measured]:
    """The points with what each is held against.

    The baseline of a step is that of the last evaluation up to it, so that no arrival order shows in it:
    the mean of the metric over the steps of that evaluation's baseline. Before the first evaluation, and in
    runs that have none, it is the mean of the first points of the series.

    Args:
        points: (step, value, attempt) in step order.
        spans: In step order, from the last one before the first point on.
        series: (step, value) of every point up to the last that a baseline needs; unread by other rules.
    """
    if not rule.is_relative:
        return [Measured(step, value, rule.limit(None), attempt) for step, value, attempt in points]
    first = series[:NUM_BASELINE]
    found, position, known = [], -1, dict[tuple[int, int], float | None]()
    for step, value, attempt in points:
        while position + 1 < len(spans) and spans[position + 1].step <= step:
            position += 1
        if position >= 0:
            baseline = _mean_over(spans[position], series, known)
        else:
            is_after = len(first) == NUM_BASELINE and step > first[-1][0]
            baseline = _mean([point for _, point in first]) if is_after else None
        found.append(Measured(step, value, rule.limit(baseline), attempt))
    return found


def _opened(point: Measured, met: Sequence[Measured]) -> Firing:
    assert point.limit is not None
    return Firing(point.step, met[0].step, point.value, point.limit, point.attempt_pk)


def _mean_over(
    span: BaselineSpan, series: Sequence[tuple[int, float]], known: dict[tuple[int, int], float | None]
) -> float | None:
    if not span.is_complete:
        return None
    key = (span.first_step, span.last_step)
    if key not in known:
        known[key] = _mean([value for step, value in series if span.first_step <= step <= span.last_step])
    return known[key]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
