"""The fold of one scope of a run: everything that depends on the order of its evaluations.

`fold` is pure: the state is a value, small and JSON, so that a late step is inserted by taking the state
before it and folding everything after it again.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE, RAGEN_PREFIX
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts import dependence, detectors, series_book
from collapsewatch_server.alerts.dependence import DropState
from collapsewatch_server.alerts.series import SeriesState
from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.alerts.validity import ValidityState, fold_validity
from collapsewatch_server.folds import ema
from collapsewatch_server.folds.baseline import BaselineStanding, BaselineState, Setup, fold_baseline
from collapsewatch_server.folds.ema import EmaState
from collapsewatch_server.folds.evaluation import Evaluation
from collapsewatch_server.folds.gates import unmet_gate
from collapsewatch_server.folds.readings import measured_of, reading_of, reference_of
from collapsewatch_server.folds.regimes import Regime, Thresholds, insufficient, regime_of

__all__ = ["AlertTransition", "Evaluation", "FoldOutput", "FoldState", "fold", "initial_state"]

_LN10 = 2.302585092994046
_VERSION = 4


@dataclass(frozen=True)
class FoldState:
    """The run's history as far as the next evaluation needs it, for one scope."""

    last_step: int = -1
    setup: Setup | None = None
    """With which the smoothed spreads began: those of one setup say nothing about another's."""
    entropy_sum: float = 0.0
    """H(Z|X) so far, for diversity while there is no baseline."""
    num_entropies: int = 0
    ema: EmaState = field(default_factory=EmaState.initial)
    baseline: BaselineState = field(default_factory=BaselineState)
    drop: DropState = field(default_factory=DropState)
    validity: ValidityState = field(default_factory=ValidityState)
    series: SeriesState = field(default_factory=SeriesState)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "last_step": self.last_step,
            "setup": None if self.setup is None else asdict(self.setup),
            "entropy_sum": self.entropy_sum,
            "num_entropies": self.num_entropies,
            "ema": self.ema.to_json(),
            "baseline": self.baseline.to_json(),
            "drop": self.drop.to_json(),
            "validity": self.validity.to_json(),
            "series": self.series.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "FoldState":
        """The state that `to_json` wrote.

        Raises:
            ValueError: written by another version of this module; fold the run again from its start.
        """
        if data.get("version") != _VERSION:
            raise ValueError(f"fold state of version {data.get('version')}, expected {_VERSION}")
        return cls(
            last_step=data["last_step"],
            setup=None if data["setup"] is None else Setup(**data["setup"]),
            entropy_sum=data["entropy_sum"],
            num_entropies=data["num_entropies"],
            ema=EmaState.from_json(data["ema"]),
            baseline=BaselineState.from_json(data["baseline"]),
            drop=DropState.from_json(data["drop"]),
            validity=ValidityState.from_json(data["validity"]),
            series=SeriesState.from_json(data["series"]),
        )


@dataclass(frozen=True)
class FoldOutput:
    """What one evaluation means in the light of those before it."""

    regime: str
    reason: str
    derived: Mapping[str, float]
    """Metrics that need history: `mi_zscore_ema`, `ragen/…`, `diversity_ratio`, `log_evalue_…` (log10)."""
    thresholds: Mapping[str, float] | None
    """Limits of the quadrant's regions, once a baseline is complete."""
    baseline: Mapping[str, Any] | None
    """`Window.summary()` of the baseline so far."""
    diversity: float | None
    """H(Z|X) ÷ its baseline, or ÷ its mean so far while there is none."""
    diversity_low: float | None
    diversity_high: float | None
    dependence: float | None
    """Retrieval skill of this evaluation; the regime is judged on the last three, pooled."""
    dependence_low: float | None
    dependence_high: float | None
    transitions: list[AlertTransition]
    """In the order in which they happen."""


def initial_state() -> FoldState:
    """The state before a run's first evaluation."""
    return FoldState()


def fold(state: FoldState, evaluation: Evaluation) -> tuple[FoldState, FoldOutput]:
    """State after the evaluation, and what it means.

    Raises:
        ValueError: a step before the last one folded.
    """
    if evaluation.step < state.last_step:
        raise ValueError(f"step {evaluation.step} comes after step {state.last_step} was folded")
    state, standing = _with_baseline(state, evaluation)
    state, derived = _with_ema(state, evaluation, standing)
    state, transitions = _with_alerts(state, evaluation, standing)
    state, diversity = _with_diversity(state, evaluation, standing)
    if standing.unmet is None:
        derived |= {
            "log_evalue_warning": detectors.log_evalue(state.drop.warning) / _LN10,
            "log_evalue_critical": detectors.log_evalue(state.drop.critical) / _LN10,
        }
    if diversity is not None:
        derived["diversity_ratio"] = diversity.value
    return state, _output(state, evaluation, standing, diversity, derived, transitions)


def _with_ema(
    state: FoldState, evaluation: Evaluation, standing: BaselineStanding
) -> tuple[FoldState, dict[str, float]]:
    """The spread is smoothed anew by what begins a new baseline.

    What somebody changed on purpose counts at once. The number of prompts also changes with one small batch,
    so a new one counts once the baseline has taken it over.
    """
    setup = Setup.of(evaluation)
    changed = state.setup is None or state.setup.other_change(setup) is not None
    if changed or standing.only_count_changed:
        state = replace(state, ema=EmaState.initial(), setup=setup)
    metrics = {name: metric.value for name, metric in evaluation.evaluation.metrics.items()}
    smoothed, derived = ema.fold_ema(state.ema, metrics)
    smoothed, ragen = ema.fold_ragen_ema(smoothed, evaluation.evaluation.ragen)
    derived |= {f"{RAGEN_PREFIX}{name}": value for name, value in ragen.items()}
    state = replace(state, last_step=evaluation.step, ema=smoothed)
    return state, ema.finite(derived)


def _with_baseline(state: FoldState, evaluation: Evaluation) -> tuple[FoldState, BaselineStanding]:
    gate = unmet_gate(evaluation)
    if gate is not None:
        return state, BaselineStanding(gate, gated=True)
    baseline, standing = fold_baseline(state.baseline, evaluation)
    state = replace(state, baseline=baseline)
    if standing.restarted is not None:
        state = replace(state, drop=state.drop.without_evidence(), entropy_sum=0.0, num_entropies=0)
    return state, standing


def _with_alerts(
    state: FoldState, evaluation: Evaluation, standing: BaselineStanding
) -> tuple[FoldState, list[AlertTransition]]:
    state, transitions = _with_validity(state, evaluation)
    if standing.set_aside:
        return state, transitions
    state, moves = _with_series(state, evaluation, standing)
    transitions = transitions + moves
    if standing.gated:
        return state, transitions
    scope, drop = evaluation.evaluation.scope, state.drop
    if standing.restarted is not None and standing.scorer_changed:
        drop, abandoned = dependence.abandoned(drop, standing.restarted, scope=scope)
        transitions = transitions + abandoned
    reference = None if standing.measured else reference_of(state.baseline.window)
    drop, moves = dependence.fold_drop(drop, reading_of(evaluation), reference, scope=scope)
    return replace(state, drop=drop), transitions + moves


def _with_validity(state: FoldState, evaluation: Evaluation) -> tuple[FoldState, list[AlertTransition]]:
    rate = evaluation.batch_metrics.get("valid_reasoning_rate")
    # The rate belongs to the whole batch: one scope speaks for all.
    if evaluation.evaluation.scope != FIRST_TURN_SCOPE or rate is None:
        return state, []
    validity, transitions = fold_validity(
        state.validity, rate, step=evaluation.step, num_prompts=evaluation.evaluation.num_prompts
    )
    return replace(state, validity=validity), transitions


def _with_series(
    state: FoldState, evaluation: Evaluation, standing: BaselineStanding
) -> tuple[FoldState, list[AlertTransition]]:
    series = state.series
    abandoned: list[AlertTransition] = []
    if standing.restarted is not None:
        series, abandoned = series_book.restarted(
            series,
            standing.restarted,
            scope=evaluation.evaluation.scope,
            scorer_changed=standing.scorer_changed,
        )
    series, moves = series_book.fold_all(series, measured_of(evaluation, gated=standing.gated))
    return replace(state, series=series), [*abandoned, *moves]


def _with_diversity(
    state: FoldState, evaluation: Evaluation, standing: BaselineStanding
) -> tuple[FoldState, MetricValue | None]:
    entropy = evaluation.evaluation.metrics.get("conditional_entropy")
    if entropy is None or standing.set_aside:
        return state, None
    if state.baseline.ready:
        return state, _scaled(entropy, state.baseline.window.mean("conditional_entropy"))
    state = replace(
        state, entropy_sum=state.entropy_sum + entropy.value, num_entropies=state.num_entropies + 1
    )
    return state, _scaled(entropy, state.entropy_sum / state.num_entropies)


def _output(
    state: FoldState,
    evaluation: Evaluation,
    standing: BaselineStanding,
    diversity: MetricValue | None,
    derived: Mapping[str, float],
    transitions: list[AlertTransition],
) -> FoldOutput:
    skill = evaluation.evaluation.metrics.get("retrieval_skill")
    window = state.baseline.window
    thresholds = Thresholds.for_baseline(window.skill) if window.complete else None
    regime = _regime(standing, _recent_skill(state.drop, evaluation.step), diversity, thresholds)
    return FoldOutput(
        regime=regime.name,
        reason=regime.reason,
        derived=derived,
        thresholds=None if thresholds is None else thresholds.to_json(),
        baseline=window.summary() if window.num_evaluations else None,
        diversity=None if diversity is None else diversity.value,
        diversity_low=None if diversity is None else diversity.low,
        diversity_high=None if diversity is None else diversity.high,
        dependence=None if skill is None else skill.value,
        dependence_low=None if skill is None else skill.low,
        dependence_high=None if skill is None else skill.high,
        transitions=transitions,
    )


def _recent_skill(drop: DropState, step: int) -> MetricValue | None:
    """Skill pooled over the last evaluations of this baseline.

    At 8 prompts the interval of a single evaluation is half as wide as the whole low region, and a run that
    has long collapsed would drift in and out of it.
    """
    if not drop.recent:
        return None
    pooled = detectors.pooled_skill([item.skills for item in drop.recent], seed=step)
    return MetricValue(value=pooled.value, low=pooled.low, high=pooled.high)


def _regime(
    standing: BaselineStanding,
    skill: MetricValue | None,
    diversity: MetricValue | None,
    thresholds: Thresholds | None,
) -> Regime:
    if standing.unmet is not None or skill is None or thresholds is None:
        return insufficient(standing.unmet or "no retrieval skill")
    return regime_of(skill, diversity, thresholds)


def _scaled(metric: MetricValue, reference: float | None) -> MetricValue | None:
    if not reference or reference < 0.0:
        return None
    return MetricValue(
        value=metric.value / reference,
        low=None if metric.low is None else metric.low / reference,
        high=None if metric.high is None else metric.high / reference,
    )
