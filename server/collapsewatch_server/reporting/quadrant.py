"""Regions and ranges of the quadrant, as the page has them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from collapsewatch_server.reading.views import TrajectoryPoint

FLOORS = {"low_dependence": 0.1, "high_dependence": 0.2, "low_diversity": 0.5, "high_diversity": 2.0}
"""Limits of the regions before a run has a baseline."""
_TOP = 1.13


class Region(NamedTuple):
    """A part of the quadrant that has a name."""

    regime: str
    x0: float
    x1: float
    y0: float
    y1: float


class Ranges(NamedTuple):
    """What the axes show."""

    x: tuple[float, float]
    y: tuple[float, float]


def placed(points: Iterable[TrajectoryPoint]) -> list[TrajectoryPoint]:
    """The points that have a place on both axes."""
    return [one for one in points if one.diversity is not None and one.dependence is not None]


def places(points: Iterable[TrajectoryPoint]) -> tuple[list[float], list[float]]:
    """Diversity and dependence of the points that have both."""
    known = [
        (one.diversity, one.dependence)
        for one in points
        if one.diversity is not None and one.dependence is not None
    ]
    return [across for across, _ in known], [up for _, up in known]


def ranges(points: Sequence[TrajectoryPoint], thresholds: Mapping[str, float]) -> Ranges:
    """Axes that hold the points and leave room for the names of the regions."""
    across = [value for one in points for value in (one.diversity, one.diversity_high) if value is not None]
    up = [value for one in points for value in (one.dependence, one.dependence_low) if value is not None]
    right = max([1.5, *(value + 0.06 for value in across)])
    left = min([thresholds["low_diversity"] - 0.3, *(value - 0.06 for value in across)])
    bottom = min([-0.08, *(max(-0.3, value) - 0.03 for value in up)])
    return Ranges((max(0.0, left), right), (bottom, _TOP))


def regions(thresholds: Mapping[str, float], shown: Ranges) -> list[Region]:
    """The four regions within the axes; what lies between low and high belongs to none."""
    (left, right), (bottom, top) = shown
    low, high = thresholds["low_dependence"], thresholds["high_dependence"]
    few = thresholds["low_diversity"]
    return [
        Region("compressed_reasoning", left, few, high, top),
        Region("diverse_reasoning", few, right, high, top),
        Region("low_entropy_collapse", left, few, bottom, low),
        Region("template_collapse", few, right, bottom, low),
    ]
