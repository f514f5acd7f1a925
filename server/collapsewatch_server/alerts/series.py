"""One metric against a limit that its own baseline sets: how evidence grows, when an alert opens and clears.

All rules but those on retrieval and on valid reasoning are of this kind; `series_rules` says which there are.
The state is small and JSON, and a fold in step order. Source: docs/metrics.md section 5.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts import budget, detectors, interval_bets
from collapsewatch_server.alerts.transitions import AlertTransition, Severity

NUM_BASELINE = 10
NUM_CLEAR = 5
MIN_PROMPTS = 8
"""Fewer give intervals that say little."""
_CLEARS_AT = 0.5
"""An alert clears on the near side of the middle between limit and baseline: a value that wavers around the
limit would open and resolve it again and again."""


@dataclass(frozen=True)
class Measured:
    """What one evaluation brings to these rules."""

    step: int
    scope: str
    values: Mapping[str, MetricValue]
    """Metrics that can be judged; one that a gate forbids to look at is left out."""
    num_prompts: int
    num_rollouts: int | None = None
    """Of one prompt, K; none when it cannot be told."""

    def value(self, metric: str) -> float | None:
        found = self.values.get(metric)
        return None if found is None else found.value


@dataclass(frozen=True)
class Baseline:
    """The metric's evaluations 2 to 11; the first is skipped."""

    seen: int = 0
    total: float = 0.0
    squares: float = 0.0
    first_step: int = 0
    last_step: int = 0

    def add(self, value: float, step: int) -> "Baseline":
        if self.ready:
            return self
        if self.seen == 0:
            return replace(self, seen=1)
        return Baseline(
            seen=self.seen + 1,
            total=self.total + value,
            squares=self.squares + value * value,
            first_step=step if self.seen == 1 else self.first_step,
            last_step=step,
        )

    @property
    def ready(self) -> bool:
        return self.seen > NUM_BASELINE

    @property
    def mean(self) -> float:
        return self.total / NUM_BASELINE

    @property
    def spread(self) -> float:
        """Standard deviation between its evaluations."""
        return math.sqrt(max(self.squares - self.total * self.mean, 0.0) / (NUM_BASELINE - 1))


Baselines = Mapping[str, Baseline]
"""By metric, those that are complete."""


@dataclass(frozen=True)
class SeriesRule:
    """One rule on one metric."""

    name: str
    metric: str
    rises: bool
    """Whether a rise is what it looks for."""
    severity: Severity
    of_batch: bool
    """The metric belongs to the whole batch: the first turns' fold speaks for all scopes."""
    limit: Callable[[Baselines, Measured], float | None]
    """How far is far; none while it cannot be told, or where nothing lies beyond."""

    def share(self, scope: str) -> budget.Share:
        return budget.share_of(self.name, self.severity, scope, of_batch=self.of_batch)


@dataclass(frozen=True)
class OpenSeries:
    severity: Severity
    clears_at: float
    num_clear: int = 0
    """Evaluations in a row on the near side of it."""


@dataclass(frozen=True)
class RuleState:
    capital: tuple[float, ...] = ()
    open: OpenSeries | None = None


@dataclass(frozen=True)
class SeriesState:
    """Baselines of all metrics that the rules and their words need, and what each rule holds."""

    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    rules: Mapping[str, RuleState] = field(default_factory=dict)
    """Without those that hold nothing."""

    @property
    def complete(self) -> Baselines:
        return {metric: baseline for metric, baseline in self.baselines.items() if baseline.ready}

    def without_baselines(self) -> "SeriesState":
        """After a change of setup: alerts that are open stay so, and clear at their old limit."""
        return SeriesState(
            rules={name: RuleState(open=rule.open) for name, rule in self.rules.items() if rule.open}
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "baselines": {
                metric: [one.seen, one.total, one.squares, one.first_step, one.last_step]
                for metric, one in self.baselines.items()
            },
            "rules": {
                name: [
                    list(rule.capital),
                    None
                    if rule.open is None
                    else [rule.open.severity, rule.open.clears_at, rule.open.num_clear],
                ]
                for name, rule in self.rules.items()
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SeriesState":
        return cls(
            baselines={metric: Baseline(*values) for metric, values in data["baselines"].items()},
            rules={
                name: RuleState(tuple(capital), None if opened is None else OpenSeries(*opened))
                for name, (capital, opened) in data["rules"].items()
            },
        )


@dataclass(frozen=True)
class SeriesFacts:
    """All that an alert of such a rule says."""

    rule: SeriesRule
    measured: Measured
    baselines: Baselines
    limit: float
    log_evalue: float
    share: budget.Share

    @property
    def baseline(self) -> Baseline:
        return self.baselines[self.rule.metric]

    @property
    def value(self) -> MetricValue:
        return self.measured.values[self.rule.metric]


Opens = Callable[[SeriesFacts], AlertTransition]
Clears = Callable[[SeriesRule, Measured, OpenSeries], AlertTransition]


def fold_series(
    state: SeriesState,
    measured: Measured,
    rules: Iterable[SeriesRule],
    metrics: Iterable[str],
    *,
    opens: Opens,
    clears: Clears,
) -> tuple[SeriesState, list[AlertTransition]]:
    """State after one evaluation, and the alerts that open or clear at it.

    An evaluation that a baseline is made of is no evidence against it.

    Args:
        metrics: of which a baseline is kept.
        opens: words of an alert that opens.
        clears: words of its end.
    """
    complete = state.complete
    baselines = dict(state.baselines)
    for metric in metrics:
        value = measured.value(metric)
        if value is not None:
            baselines[metric] = baselines.get(metric, Baseline()).add(value, measured.step)
    held, transitions = dict(state.rules), []
    for rule in rules:
        if rule.metric not in measured.values or (rule.of_batch and measured.scope != FIRST_TURN_SCOPE):
            continue
        before = held.pop(rule.name, RuleState())
        after, moves = _fold_rule(before, rule, measured, complete, opens=opens, clears=clears)
        if after != RuleState():
            held[rule.name] = after
        transitions += moves
    return SeriesState(baselines, held), transitions


def _fold_rule(
    state: RuleState,
    rule: SeriesRule,
    measured: Measured,
    baselines: Baselines,
    *,
    opens: Opens,
    clears: Clears,
) -> tuple[RuleState, list[AlertTransition]]:
    if state.open is not None:
        return _cleared(state.open, rule, measured, clears)
    limit = rule.limit(baselines, measured) if rule.metric in baselines else None
    if limit is None or measured.num_prompts < MIN_PROMPTS:
        return state, []
    share = rule.share(measured.scope)
    capital = _advanced(state.capital, rule, measured, baselines[rule.metric], limit)
    facts = SeriesFacts(rule, measured, baselines, limit, detectors.log_evalue(capital), share)
    beyond = facts.value.value > limit if rule.rises else facts.value.value < limit
    if beyond and facts.log_evalue >= budget.log_threshold(share):
        clears_at = limit + _CLEARS_AT * (facts.baseline.mean - limit)
        return RuleState(open=OpenSeries(rule.severity, clears_at)), [opens(facts)]
    # All capital lost is no capital: the next bet starts at 1 either way.
    return RuleState(capital if max(capital) > 0.0 else ()), []


def _advanced(
    capital: tuple[float, ...], rule: SeriesRule, measured: Measured, baseline: Baseline, limit: float
) -> tuple[float, ...]:
    value = measured.values[rule.metric]
    error = interval_bets.standard_error(
        value.low, value.high, num_prompts=measured.num_prompts, spread=baseline.spread
    )
    z = interval_bets.distance_beyond(value.value, limit, error, rises=rule.rises)
    return interval_bets.advanced(capital or interval_bets.NO_EVIDENCE, z)


def _cleared(
    opened: OpenSeries, rule: SeriesRule, measured: Measured, clears: Clears
) -> tuple[RuleState, list[AlertTransition]]:
    value = measured.values[rule.metric].value
    met = value < opened.clears_at if rule.rises else value > opened.clears_at
    opened = replace(opened, num_clear=opened.num_clear + 1 if met else 0)
    if opened.num_clear < NUM_CLEAR:
        return RuleState(open=opened), []
    return RuleState(), [clears(rule, measured, opened)]
