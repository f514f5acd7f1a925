"""Groups sorted into buckets by the spread of their rewards."""

import math
from collections.abc import Sequence

from collapsewatch.filters.rounding import float32

FIXED_BUCKET_EDGES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
"""Lower edges of the fixed buckets; the last is open above."""


def variance_buckets(
    stds: Sequence[float], *, mode: str = "quantile", num_buckets: int = 6
) -> list[tuple[int, ...]]:
    """Positions of the groups in each bucket of reward spread, from low to high.

    `quantile`: equal numbers of groups, ties in order of position, the remainder in the last, fewer
    buckets when there are fewer groups. `fixed`: one bucket per `FIXED_BUCKET_EDGES`, some maybe empty,
    whatever `num_buckets` says. Spreads are rounded to float32, so that one computed as
    4.999999999999999 lies on the edge 5.

    Raises:
        ValueError: another mode, `num_buckets` below 1, or a spread that is no number.
    """
    if mode not in ("quantile", "fixed"):
        raise ValueError(f"bucket mode must be 'quantile' or 'fixed', got {mode!r}")
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, got {num_buckets}")
    if any(math.isnan(std) for std in stds):
        raise ValueError("a group without a spread (one rollout) belongs to no bucket")
    rounded = [float32(std) for std in stds]
    if mode == "fixed":
        uppers = [*FIXED_BUCKET_EDGES[1:], math.inf]
        return [
            tuple(
                position
                for position, std in enumerate(rounded)
                if low <= std < high or std == high == math.inf
            )
            for low, high in zip(FIXED_BUCKET_EDGES, uppers, strict=True)
        ]
    order = sorted(range(len(rounded)), key=rounded.__getitem__)
    used = min(num_buckets, len(order))
    size = len(order) // used if used else 0
    starts = [number * size for number in range(used)]
    ends = [*starts[1:], len(order)]
    return [tuple(order[start:end]) for start, end in zip(starts, ends, strict=bool(used))]
