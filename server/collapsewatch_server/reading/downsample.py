"""A series cut down to what a screen can show."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class HasValue(Protocol):
    """What the cut looks at."""

    @property
    def value(self) -> float: ...


PointT = TypeVar("PointT", bound=HasValue)


def downsample(points: Sequence[PointT], max_points: int) -> list[PointT]:
    """At most `max_points` of the points, in order: the first, the last, and each stretch's extremes.

    A spike of a single step stays visible, which averages and every n-th point would lose.

    Args:
        max_points: 4 or more.
    """
    if len(points) <= max_points:
        return list(points)
    inner = points[1:-1]
    num_stretches = (max_points - 2) // 2
    kept = [points[0]]
    for stretch in range(num_stretches):
        start = stretch * len(inner) // num_stretches
        end = (stretch + 1) * len(inner) // num_stretches
        lowest = min(range(start, end), key=lambda index: inner[index].value)
        highest = max(range(start, end), key=lambda index: inner[index].value)
        kept += [inner[index] for index in sorted({lowest, highest})]
    return [*kept, points[-1]]
