"""Curves on a common axis and what several runs come to, by hand and beside scipy."""

import numpy as np
import pytest
from scipy import stats

from collapsewatch_server.reading import compare_alignment as alignment
from collapsewatch_server.reading.compare_alignment import Curve


def curve(places: list[float], values: list[float]) -> Curve:
    return Curve(np.array(places, dtype=float), np.array(values, dtype=float))


def test_runs_of_the_same_steps_are_averaged_step_by_step() -> None:
    band = alignment.band([curve([1, 2, 4], [0.0, 1.0, 3.0]), curve([1, 2, 4], [2.0, 1.0, 5.0])], 10)
    assert band.places.tolist() == [1, 2, 4]
    assert band.mean.tolist() == [1.0, 1.0, 4.0]
    assert band.lowest.tolist() == [0.0, 1.0, 3.0]
    assert band.highest.tolist() == [2.0, 1.0, 5.0]
    # s = √2, n = 2: 12.706 · √2 / √2 to both sides of the first mean; none where the runs agree.
    assert band.high[0] - 1.0 == pytest.approx(12.706205, abs=1e-5)
    assert (band.low[1], band.high[1]) == (1.0, 1.0)


def test_between_its_own_steps_a_run_is_interpolated_and_beyond_them_it_is_left_out() -> None:
    band = alignment.band([curve([0, 10], [0.0, 10.0]), curve([4, 6, 20], [0.0, 0.0, 7.0])], 10)
    assert band.places.tolist() == [0, 4, 6, 10, 20]
    assert band.num_runs.tolist() == [1, 2, 2, 2, 1]
    assert band.mean.tolist() == pytest.approx([0.0, 2.0, 3.0, (10 + 2) / 2, 7.0])
    assert np.isnan(band.low).tolist() == [True, False, False, False, True]


def test_too_many_places_are_spread_evenly_from_the_first_to_the_last() -> None:
    long = curve(list(range(1000)), [2.0 * step for step in range(1000)])
    band = alignment.band([long, long], 5)
    assert band.places.tolist() == pytest.approx([0, 249.75, 499.5, 749.25, 999])
    assert band.mean.tolist() == pytest.approx([0, 499.5, 999, 1498.5, 1998])


def test_nothing_comes_to_nothing() -> None:
    assert alignment.band([], 10).places.tolist() == []
    assert alignment.band([curve([], [])], 10).mean.tolist() == []
    assert alignment.summary([]) is None


def test_a_single_run_has_a_mean_and_no_interval() -> None:
    assert alignment.summary([0.25]) == (0.25, None, None, 1)


@pytest.mark.parametrize("num_runs", range(2, alignment.MAX_RUNS + 1))
def test_intervals_are_those_of_students_t(num_runs: int) -> None:
    values = np.random.default_rng(num_runs).normal(3.0, 2.0, num_runs)
    found = alignment.summary(values.tolist())
    assert found is not None
    low, high = stats.t.interval(0.95, num_runs - 1, loc=values.mean(), scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6)
    assert found.mean == pytest.approx(values.mean())
