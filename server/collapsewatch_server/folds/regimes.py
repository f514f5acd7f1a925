"""In which corner of the quadrant a run stands, and why.

Source: docs/metrics.md section 4; arXiv 2604.06268.
"""

from dataclasses import asdict, dataclass

from collapsewatch.contracts.scoring import MetricValue

LOW_DIVERSITY = 0.5
HIGH_DIVERSITY = 2.0
"""Diversity is H(Z|X) ÷ the baseline's: there is no absolute zero across vocabularies."""


@dataclass(frozen=True)
class Thresholds:
    """Where the quadrant's regions begin."""

    low_dependence: float
    high_dependence: float
    low_diversity: float = LOW_DIVERSITY
    high_diversity: float = HIGH_DIVERSITY

    @classmethod
    def for_baseline(cls, skill: float) -> "Thresholds":
        return cls(low_dependence=max(0.10, 0.25 * skill), high_dependence=max(0.20, 0.5 * skill))

    def to_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class Regime:
    name: str
    reason: str
    """One sentence with the numbers that decided."""


def insufficient(gate: str) -> Regime:
    """The regime of an evaluation from which nothing is concluded, naming the gate that it did not meet."""
    return Regime("insufficient", f"Not enough to judge: {gate}.")


def regime_of(dependence: MetricValue, diversity: MetricValue | None, thresholds: Thresholds) -> Regime:
    """The regime by 95 % intervals: a side is taken only when the whole interval lies there.

    Args:
        dependence: retrieval skill of the last evaluations, 0 chance, 1 perfect.
        diversity: H(Z|X) ÷ the baseline's; none when nobody measured log-probs.
        thresholds: of the run's baseline.
    """
    dependence_side = _dependence_side(dependence, thresholds)
    diversity_side = _diversity_side(diversity, thresholds)
    name = _NAMES.get((diversity_side, dependence_side), "indeterminate")
    sentence = (
        _dependence_clause(dependence, dependence_side, thresholds)
        + _JOINTS.get(name, "; " if diversity is None else " and ")
        + _diversity_clause(diversity, diversity_side, thresholds)
        + _CONCLUSIONS.get(name, "")
    )
    return Regime(name, f"{sentence}.")


_NAMES = {
    ("high", "high"): "diverse_reasoning",
    ("exploded", "high"): "diverse_reasoning",
    ("high", "low"): "template_collapse",
    ("exploded", "low"): "template_collapse",
    ("low", "high"): "compressed_reasoning",
    ("low", "low"): "low_entropy_collapse",
}
_JOINTS = {"template_collapse": " while "}
_CONCLUSIONS = {
    "template_collapse": ": the texts still vary, but no longer with the prompt",
    "low_entropy_collapse": ": the texts neither vary nor depend on the prompt",
    "compressed_reasoning": ": little variation within a prompt, and what is written still depends on it",
}


def _dependence_side(dependence: MetricValue, thresholds: Thresholds) -> str:
    if dependence.low is None or dependence.high is None:
        return "unknown"
    if dependence.high < thresholds.low_dependence:
        return "low"
    return "high" if dependence.low > thresholds.high_dependence else "between"


def _diversity_side(diversity: MetricValue | None, thresholds: Thresholds) -> str:
    if diversity is None or diversity.low is None or diversity.high is None:
        return "unknown"
    if diversity.high < thresholds.low_diversity:
        return "low"
    if diversity.low < thresholds.low_diversity:
        return "between"
    return "exploded" if diversity.low > thresholds.high_diversity else "high"


def _dependence_clause(dependence: MetricValue, side: str, thresholds: Thresholds) -> str:
    skill = f"recent skill {_with_interval(dependence)}"
    low, high = f"{thresholds.low_dependence:.2f}", f"{thresholds.high_dependence:.2f}"
    return {
        "low": f"Input dependence is low ({skill}, low below {low})",
        "high": f"Input dependence is high ({skill}, high above {high})",
        "between": f"Input dependence is neither clearly low nor high ({skill}, limits {low} and {high})",
        "unknown": f"Input dependence has no interval ({skill})",
    }[side]


def _diversity_clause(diversity: MetricValue | None, side: str, thresholds: Thresholds) -> str:
    if diversity is None:
        return "diversity is unknown, because the scorer gives no H(Z|X)"
    ratio = f"H(Z|X) is {_with_interval(diversity)} × baseline"
    return {
        "low": f"{ratio}, low below {thresholds.low_diversity}",
        "high": ratio,
        "exploded": f"{ratio}, above {thresholds.high_diversity}: it exploded",
        "between": f"{ratio}, not clearly below or above {thresholds.low_diversity}",
        "unknown": f"{ratio} without an interval",
    }[side]


def _with_interval(metric: MetricValue) -> str:
    if metric.low is None or metric.high is None:
        return f"{metric.value:.2f}"
    return f"{metric.value:.2f}, 95 % {metric.low:.2f} to {metric.high:.2f}"
