"""Curves of several runs on one axis, and what they come to together. Pure numpy.

Shapes: R runs, G places of the common grid.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Two-sided 95 % quantiles of Student's t for 1, 2, … degrees of freedom: at most 20 runs are compared.
_T_975 = (
    *(12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139),
    *(2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024),
)
MAX_RUNS = len(_T_975) + 1


class Curve(NamedTuple):
    """One run's values over the axis; places grow."""

    places: Floats
    values: Floats


class Band(NamedTuple):
    """What several runs come to at each place of the grid, where at least one has a value."""

    places: Floats
    mean: Floats
    low: Floats
    """95 % interval of the mean (Student's t over runs); NaN for a single run, as `high`."""
    high: Floats
    lowest: Floats
    highest: Floats
    num_runs: npt.NDArray[np.int64]


class Summary(NamedTuple):
    """What one number of several runs comes to."""

    mean: float
    low: float | None
    """95 % interval of the mean (Student's t over runs); none for a single run, as `high`."""
    high: float | None
    num_runs: int


def on_grid(curve: Curve, grid: Floats) -> Floats:
    """The curve's values at the places of the grid, NaN before its first and after its last one.

    Between two of its places values are interpolated: runs that log at different steps have few in common.
    """
    if len(curve.places) == 0:
        return np.full(len(grid), np.nan)
    return np.interp(grid, curve.places, curve.values, left=np.nan, right=np.nan)


def common_grid(curves: Sequence[Curve], max_places: int) -> Floats:
    """All places at which any run has a value; evenly spread ones instead where these are too many."""
    places = np.unique(np.concatenate([curve.places for curve in curves])) if curves else np.empty(0)
    if len(places) <= max_places:
        return places
    return np.linspace(places[0], places[-1], max_places)


def band(curves: Sequence[Curve], max_places: int) -> Band:
    """Mean over the runs with its interval and the outermost runs, on a common grid."""
    grid = common_grid(curves, max_places)
    values_RG = np.array([on_grid(curve, grid) for curve in curves]).reshape(len(curves), len(grid))
    num_runs_G = np.isfinite(values_RG).sum(axis=0)
    there = num_runs_G > 0
    values_RG, num_runs_G = values_RG[:, there], num_runs_G[there]
    mean_G = np.nansum(values_RG, axis=0) / num_runs_G
    half_G = _half_width(values_RG, mean_G, num_runs_G)
    if values_RG.size == 0:
        lowest_G = highest_G = mean_G
    else:
        lowest_G, highest_G = np.nanmin(values_RG, axis=0), np.nanmax(values_RG, axis=0)
    return Band(grid[there], mean_G, mean_G - half_G, mean_G + half_G, lowest_G, highest_G, num_runs_G)


def summary(values: Sequence[float]) -> Summary | None:
    """Mean of the values of several runs with its interval; none of no values."""
    if not values:
        return None
    values_R1 = np.array(values, dtype=float)[:, None]
    mean = values_R1.mean(axis=0)
    half = float(_half_width(values_R1, mean, np.array([len(values)]))[0])
    if not np.isfinite(half):
        return Summary(float(mean[0]), None, None, len(values))
    return Summary(float(mean[0]), float(mean[0]) - half, float(mean[0]) + half, len(values))


def _half_width(values_RG: Floats, mean_G: Floats, num_runs_G: npt.NDArray[np.int64]) -> Floats:
    """Half the interval of the mean: t · s / √n with the sample deviation s; NaN for a single run."""
    several_G = num_runs_G > 1
    squares_G = np.nansum((values_RG - mean_G) ** 2, axis=0)
    degrees_G = np.where(several_G, num_runs_G - 1, 1)
    error_G = np.sqrt(squares_G / degrees_G / num_runs_G)
    quantile_G = np.array(_T_975)[degrees_G - 1]
    return np.where(several_G, quantile_G * error_G, np.nan)
