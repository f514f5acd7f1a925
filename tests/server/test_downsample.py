"""A series cut down keeps its ends and its extremes."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.reading.downsample import downsample, positions, thinned, window
from collapsewatch_server.repositories.columns import Columns, joined


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


@given(st.lists(st.integers(0, 2**53), min_size=5, max_size=80, unique=True), st.integers(4, 40), st.data())
def test_any_steps_can_be_cut(drawn: list[int], max_points: int, data: st.DataObject) -> None:
    steps = np.array(sorted(drawn))
    values = np.array(data.draw(st.lists(st.floats(-10, 10), min_size=len(drawn), max_size=len(drawn))))
    kept = positions(steps, values, max_points)
    assert len(kept) <= max_points
    assert kept.tolist() == sorted(set(kept.tolist()))
    assert {0, len(steps) - 1} <= set(kept.tolist())
    assert values[kept].min() == values.min()
    assert values[kept].max() == values.max()


def test_the_stretches_are_equally_long_in_steps() -> None:
    # Hand-worked: inner steps 1..4 are one stretch, 97..98 the other; equal counts would cut 1..3 and 4..98.
    steps = np.array([0, 1, 2, 3, 4, 97, 98, 99])
    values = np.array([0.0, 1.0, 5.0, 2.0, 3.0, 8.0, 7.0, 0.0])
    assert steps[positions(steps, values, 6)].tolist() == [0, 1, 2, 97, 98, 99]


def columns(steps: list[int], *, limits: bool = False) -> Columns:
    values = np.array(steps, dtype=float)
    return Columns(np.array(steps), values, values - 1 if limits else None, values + 1 if limits else None)


def test_limits_stay_with_their_points() -> None:
    cut = thinned(columns(list(range(1000)), limits=True), 20)
    assert cut.low is not None
    assert cut.high is not None
    assert len(cut.steps) <= 20
    assert cut.low.tolist() == [step - 1 for step in cut.steps]
    assert cut.high.tolist() == [step + 1 for step in cut.steps]


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ((3, 5), [2, 4, 6]),
        ((4, 6), [2, 4, 6, 8]),
        ((0, None), [2, 4, 6, 8]),
        ((7, None), [6, 8]),
        ((0, 1), [2]),
        ((9, 12), [8]),
        ((7, 7), [6, 8]),
    ],
)
def test_a_window_brings_the_points_next_to_it(span: tuple[int, int | None], expected: list[int]) -> None:
    assert window(columns([2, 4, 6, 8]), *span).steps.tolist() == expected


def test_a_tail_takes_the_place_of_what_was_there_from_its_first_step_on() -> None:
    whole = joined(columns([1, 2, 3, 4]), columns([3, 5], limits=True))
    assert whole.steps.tolist() == [1, 2, 3, 5]
    assert whole.low is not None
    assert np.isnan(whole.low[:2]).all()
    assert whole.low[2:].tolist() == [2.0, 4.0]
