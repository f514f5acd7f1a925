"""Several runs laid over one another, for the page and for scripts."""

from typing import Annotated

from fastapi import APIRouter, Query

from collapsewatch_server.errors import InvalidRequest, wrong
from collapsewatch_server.reading import compare_views as views
from collapsewatch_server.web.deps import DEFAULT_SCOPE, ComparedRunIds, ScopeQuery, ServicesDep, errors

router = APIRouter(prefix="/api/v1/compare", tags=["compare"], responses=errors(422, 503))

_MAX_METRICS = 40
# About 50 MB of JSON, which a core writes in seconds.
_MAX_POINTS = 1_000_000
_Name = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]+$")]
GroupBy = Annotated[
    list[_Name],
    Query(
        max_length=20,
        description="Settings that the runs of a group share, such as `optimizer.lr`; `*` for all but the "
        "seed and what else names a single run. Without any there are no groups.",
    ),
]
Scalars = Annotated[
    list[_Name],
    Query(max_length=_MAX_METRICS, description="Which of the trainer's own values are wanted."),
]
Axis = Annotated[
    views.Axis,
    Query(description="`time` is seconds since the run's first step; `tokens` what its trainer counts."),
]
Place = Annotated[
    float | None, Query(allow_inf_nan=False, description="Where the part of the axis that is shown ends.")
]


@router.get("")
def compare_runs(
    run_ids: ComparedRunIds,
    services: ServicesDep,
    scope: ScopeQuery = DEFAULT_SCOPE,
    scalar: Scalars = [],  # noqa: B006 (the framework copies it)
    group_by: GroupBy = [],  # noqa: B006
) -> views.ComparedRuns:
    """Where the runs and their groups stand: settings, scorer, newest values with their intervals."""
    return services.comparison.runs(run_ids, scope, scalar, group_by)


@router.get("/series")
def compare_series(
    run_ids: ComparedRunIds,
    services: ServicesDep,
    metric: Annotated[list[_Name], Query(min_length=1, max_length=_MAX_METRICS)],
    scope: ScopeQuery = DEFAULT_SCOPE,
    axis: Axis = "step",
    max_points: Annotated[int, Query(ge=10, le=20_000, description="Of each series, about.")] = 600,
    from_place: Place = None,
    to_place: Place = None,
    intervals: Annotated[
        bool, Query(description="Whether the intervals of single points are wanted.")
    ] = True,
    group_by: GroupBy = [],  # noqa: B006
) -> views.ComparedSeriesView:
    """The named metrics of the runs on one axis, and their means over groups of runs.

    A long series keeps its first and last point and the extremes of every stretch. A group's mean is over
    the runs that have a value at a place, each interpolated between its own steps.
    """
    num_points = len(run_ids) * len(metric) * max_points
    if num_points > _MAX_POINTS:
        raise InvalidRequest(
            f"one answer holds {_MAX_POINTS} points at most; {len(run_ids)} runs, {len(metric)} metrics and"
            f" {max_points} points of each are up to {num_points}: ask for fewer",
            [wrong("max_points", "too many points in all", max_points)],
        )
    bounds = (
        float("-inf") if from_place is None else from_place,
        float("inf") if to_place is None else to_place,
    )
    return services.comparison.series(
        run_ids,
        scope,
        metric,
        axis=axis,
        max_points=max_points,
        between=bounds,
        intervals=intervals,
        group_by=group_by,
    )


@router.get("/paths")
def compare_paths(
    run_ids: ComparedRunIds,
    services: ServicesDep,
    scope: ScopeQuery = DEFAULT_SCOPE,
    max_points: Annotated[int, Query(ge=10, le=5_000, description="Of each path, at most.")] = 200,
    group_by: GroupBy = [],  # noqa: B006
) -> views.ComparedPaths:
    """The ways of the runs through the quadrant of diversity and input dependence, and those of groups.

    A path with more steps than `max_points` is that of the means of its stretches.
    """
    return services.comparison.paths(run_ids, scope, max_points=max_points, group_by=group_by)
