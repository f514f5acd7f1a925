"""Which metrics are watched against their own baseline, and how far each may go.

Source: docs/metrics.md section 5.
"""

from collections.abc import Callable

from collapsewatch_server.alerts.series import Baselines, Measured, SeriesRule
from collapsewatch_server.alerts.zero_variance import explained_fraction

INFORMATION_FALL = 0.5
INFORMATION_RISE = 1.5
MIN_INFORMATION = 0.1
"""Of the ceiling; where there is less, half of it is noise."""
MAX_INFORMATION = 0.95
"""A rise beyond it cannot be told from the ceiling."""
ENTROPY_COLLAPSE = 0.5
ENTROPY_EXPLOSION = 2.0
LENGTH_EXPLOSION = 2.0
LENGTH_SHRINKAGE = 0.5
SUCCESS_FALL = 0.7
MIN_SUCCESS = 0.05
REWARD_FALL_OF_LEVEL = 0.2
REWARD_FALL_OF_STD = 0.5
ZERO_VARIANCE_EXCESS = 0.15
MAX_ZERO_VARIANCE = 0.98

TRACKED = (
    "retrieval_skill",
    "mi_normalised",
    "conditional_entropy",
    "reward",
    "reward_std",
    "success",
    "zero_variance_fraction",
    "reasoning_length",
)
"""Metrics with a baseline of their own: what the rules judge, and what their words compare."""
TEXT_METRICS = frozenset({"mi_normalised", "conditional_entropy", "retrieval_skill", "reasoning_length"})
"""Of them, those whose numbers mean something else under another scorer."""


def _times_baseline(metric: str, factor: float) -> Callable[[Baselines, Measured], float | None]:
    def limit(baselines: Baselines, measured: Measured) -> float | None:
        mean = baselines[metric].mean
        return factor * mean if mean > 0.0 else None

    return limit


def _information_fall(baselines: Baselines, measured: Measured) -> float | None:
    mean = baselines["mi_normalised"].mean
    return INFORMATION_FALL * min(mean, 1.0) if mean >= MIN_INFORMATION else None


def _information_rise(baselines: Baselines, measured: Measured) -> float | None:
    limit = INFORMATION_RISE * baselines["mi_normalised"].mean
    return limit if MIN_INFORMATION <= limit <= MAX_INFORMATION else None


def _success_fall(baselines: Baselines, measured: Measured) -> float | None:
    mean = baselines["success"].mean
    return SUCCESS_FALL * mean if mean >= MIN_SUCCESS else None


def _reward_fall(baselines: Baselines, measured: Measured) -> float | None:
    """Half the usual spread within a group, and a fifth of the level: rewards have no scale of their own."""
    mean = baselines["reward"].mean
    std = baselines["reward_std"].mean if "reward_std" in baselines else 0.0
    fall = max(REWARD_FALL_OF_STD * std, REWARD_FALL_OF_LEVEL * abs(mean))
    return mean - fall if fall > 0.0 else None


def _zero_variance_excess(baselines: Baselines, measured: Measured) -> float | None:
    usual = max(baselines["zero_variance_fraction"].mean, explained_zero_variance(baselines, measured) or 0.0)
    limit = usual + ZERO_VARIANCE_EXCESS
    return limit if limit <= MAX_ZERO_VARIANCE else None


def explained_zero_variance(baselines: Baselines, measured: Measured) -> float | None:
    """The fraction that the success rate explains; none without one, or without knowing K.

    The mean reward stands for the success rate where there is none and it lies between 0 and 1.
    """
    fraction = baselines.get("zero_variance_fraction")
    if fraction is None or measured.num_rollouts is None or measured.num_rollouts < 2:
        return None
    for metric in ("success", "reward"):
        baseline, now = baselines.get(metric), measured.value(metric)
        if baseline is not None and now is not None:
            if not (0.0 < baseline.mean < 1.0 and 0.0 <= now <= 1.0):
                return None
            return explained_fraction(
                now,
                baseline_mean=baseline.mean,
                baseline_fraction=fraction.mean,
                num_rollouts=measured.num_rollouts,
            )
    return None


SERIES_RULES = (
    SeriesRule("mutual_information_fall", "mi_normalised", False, "warning", False, _information_fall),
    SeriesRule("mutual_information_rise", "mi_normalised", True, "info", False, _information_rise),
    SeriesRule(
        "reasoning_entropy_collapse",
        "conditional_entropy",
        False,
        "warning",
        False,
        _times_baseline("conditional_entropy", ENTROPY_COLLAPSE),
    ),
    SeriesRule(
        "reasoning_entropy_explosion",
        "conditional_entropy",
        True,
        "warning",
        False,
        _times_baseline("conditional_entropy", ENTROPY_EXPLOSION),
    ),
    SeriesRule("reward_drop", "reward", False, "warning", True, _reward_fall),
    SeriesRule("success_drop", "success", False, "warning", True, _success_fall),
    SeriesRule(
        "zero_variance_excess", "zero_variance_fraction", True, "warning", True, _zero_variance_excess
    ),
    SeriesRule(
        "reasoning_length_explosion",
        "reasoning_length",
        True,
        "warning",
        True,
        _times_baseline("reasoning_length", LENGTH_EXPLOSION),
    ),
    SeriesRule(
        "reasoning_length_shrinkage",
        "reasoning_length",
        False,
        "info",
        True,
        _times_baseline("reasoning_length", LENGTH_SHRINKAGE),
    ),
)
