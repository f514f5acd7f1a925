"""Order statistics of latencies."""

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed: one that was measured, not between two.

    Raises:
        ValueError: no values, or a share outside 0..1.
    """
    if not values:
        raise ValueError("a quantile needs at least one value")
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, got {share}")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    return {"p50": quantile(values, 0.5), "p99": quantile(values, 0.99), "max": max(values)}
