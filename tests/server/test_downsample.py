"""A series cut down keeps its ends and its extremes."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.reading.downsample import downsample


class P(NamedTuple):
    step: int
    value: float


def points(values: list[float]) -> list[P]:
    return [P(step, value) for step, value in enumerate(values)]


def test_a_short_series_is_left_alone() -> None:
    assert downsample(points([3.0, 1.0, 2.0]), 4) == points([3.0, 1.0, 2.0])


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=300), st.integers(4, 60))
def test_ends_order_and_extremes_stay(values: list[float], max_points: int) -> None:
    series = points(values)
    kept = downsample(series, max_points)
    assert len(kept) <= max(max_points, 1)
    assert (kept[0], kept[-1]) == (series[0], series[-1])
    assert kept == sorted(set(kept))
    assert min(p.value for p in kept) == min(values)
    assert max(p.value for p in kept) == max(values)
