"""A series cut down to what a screen can show."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from tsdownsample import MinMaxDownsampler

from collapsewatch_server.repositories.columns import Columns


class HasValue(Protocol):
    """What the cut looks at."""

    @property
    def step(self) -> int: ...
    @property
    def value(self) -> float: ...


PointT = TypeVar("PointT", bound=HasValue)
Positions = npt.NDArray[np.int64]

_cut: Callable[..., npt.NDArray[np.uint64]] = MinMaxDownsampler().downsample  # type: ignore[no-untyped-call]


def positions(steps: npt.NDArray[np.int64], values: npt.NDArray[np.float64], max_points: int) -> Positions:
    """Positions of at most `max_points` points, in order: the ends, and the extremes of every stretch.

    The stretches are equally long in steps, as the columns of pixels are. A spike of a single step stays
    visible, which averages and every n-th point would lose.

    Args:
        max_points: 4 or more.
    """
    if len(steps) <= max_points:
        return np.arange(len(steps))
    inner = values[1:-1]
    if max_points < 6:
        # A single stretch, which the library does not cut.
        extremes = np.array([inner.argmin(), inner.argmax()])
    else:
        # The library's last stretch may leave out the last point, by the rounding of its edge. So it gets one
        # more, which is no new extreme, at the place of the end, which is kept anyway.
        values_and_one = np.append(inner, inner[-1])
        extremes = _cut(steps[1:], values_and_one, n_out=(max_points - 2) // 2 * 2).astype(np.int64)
    # Of a stretch with a single point it is both the lowest and the highest.
    return np.unique(np.concatenate([[0], extremes + 1, [len(steps) - 1]]))


def downsample(points: Sequence[PointT], max_points: int) -> list[PointT]:
    """The same for points: at most `max_points` of them."""
    if len(points) <= max_points:
        return list(points)
    steps = np.fromiter((point.step for point in points), np.int64, len(points))
    values = np.fromiter((point.value for point in points), np.float64, len(points))
    return [points[position] for position in positions(steps, values, max_points)]


def thinned(columns: Columns, max_points: int) -> Columns:
    """The same for columns."""
    if len(columns.steps) <= max_points:
        return columns
    return columns.at(positions(columns.steps, columns.values, max_points))


def window(columns: Columns, from_step: int, to_step: int | None) -> Columns:
    """The points of these steps, both ends among them, and the one before and the one after.

    With its neighbours a line runs on to the edges of the figure.
    """
    steps = columns.steps
    start = int(np.searchsorted(steps, from_step, side="left"))
    end = len(steps) if to_step is None else int(np.searchsorted(steps, to_step, side="right"))
    return columns.part(max(0, start - 1), min(len(steps), max(start, end) + 1))
