"""z-scores whose spread is smoothed over the run's evaluations.

Source: docs/metrics.md section 2 (`mi_zscore_ema`); arXiv 2604.06268.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

DEFAULT_DECAY = 0.9
DEFAULT_STD_EPS = 1e-3
"""Added to the spread before dividing by it, in the spread's unit."""

_RAGEN_SUFFIXES = ("", "_seq")
_RAGEN_MI = {"": "mi_estimate", "_seq": "mi_seq_estimate"}


@dataclass(frozen=True)
class EmaState:
    """Smoothed spreads so far, by the name of what is smoothed; empty before the first evaluation."""

    smoothed: Mapping[str, float]

    @classmethod
    def initial(cls) -> "EmaState":
        return cls({})

    def to_json(self) -> dict[str, float]:
        return dict(self.smoothed)

    @classmethod
    def from_json(cls, data: Mapping[str, float]) -> "EmaState":
        return cls({name: float(value) for name, value in data.items()})


def smoothed_std(previous: float | None, current: float, *, decay: float = DEFAULT_DECAY) -> float:
    """The exponential moving average after one more value; the first value starts it as it is."""
    if previous is None:
        return current
    return decay * previous + (1.0 - decay) * current


def zscore(mean_pmi: float, std: float, *, std_eps: float = DEFAULT_STD_EPS) -> float:
    """Mean pointwise mutual information in units of the marginal's spread; 0 / 0 is NaN, x / 0 infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.float64(mean_pmi) / np.float64(std + std_eps))


def fold_ema(
    state: EmaState, metrics: Mapping[str, float], *, decay: float = DEFAULT_DECAY
) -> tuple[EmaState, dict[str, float]]:
    """State after one evaluation, and `mi_zscore_ema` where `mi_token` and `marginal_std` are given.

    An evaluation without them (no model scored it) leaves the state as it is and yields nothing.
    """
    if "marginal_std" not in metrics or "mi_token" not in metrics:
        return state, {}
    std = smoothed_std(state.smoothed.get("marginal_std"), metrics["marginal_std"], decay=decay)
    return EmaState({**state.smoothed, "marginal_std": std}), {
        "mi_zscore_ema": zscore(metrics["mi_token"], std)
    }


def fold_ragen_ema(
    state: EmaState,
    ragen: Mapping[str, float],
    *,
    decay: float = DEFAULT_DECAY,
    std_eps: float = DEFAULT_STD_EPS,
) -> tuple[EmaState, dict[str, float]]:
    """State after one evaluation, and the smoothed members of the `ragen/…` family, without the prefix.

    Gives `marginal_std_ema`, `mi_zscore_ema` and both with `_seq`, as the public code defines them:
    `mi_estimate` (`mi_seq_estimate`) over the smoothed `marginal_std` (`marginal_std_seq`) + `std_eps`.
    One state belongs to one scope. A pair that is missing leaves its part of the state as it is.
    Non-finite inputs spread by the rules of IEEE arithmetic, as they do there.
    """
    smoothed = dict(state.smoothed)
    outputs: dict[str, float] = {}
    for suffix in _RAGEN_SUFFIXES:
        std_name, mi_name = f"marginal_std{suffix}", _RAGEN_MI[suffix]
        if std_name not in ragen or mi_name not in ragen:
            continue
        key = f"ragen/{std_name}"
        smoothed[key] = smoothed_std(smoothed.get(key), ragen[std_name], decay=decay)
        outputs[f"marginal_std_ema{suffix}"] = smoothed[key]
        outputs[f"mi_zscore_ema{suffix}"] = zscore(ragen[mi_name], smoothed[key], std_eps=std_eps)
    return EmaState(smoothed), outputs


def finite(values: Mapping[str, float]) -> dict[str, float]:
    """The values that a metric may hold: those that are numbers."""
    return {name: value for name, value in values.items() if math.isfinite(value)}
