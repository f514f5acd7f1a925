"""What the page reads, of the projects in which whoever asks has a role."""

from typing import Annotated

from fastapi import APIRouter, Query

from collapsewatch.contracts.metrics import METRICS
from collapsewatch_server.reading import views
from collapsewatch_server.reading.series import Stretch
from collapsewatch_server.web.deps import (
    DEFAULT_SCOPE,
    READ_ERRORS,
    RunId,
    ScopeQuery,
    ServicesDep,
    SinceStep,
    StepPath,
    errors,
)
from collapsewatch_server.web.guard import CallerDep

router = APIRouter(prefix="/api/v1", tags=["read"], responses=errors(*READ_ERRORS))

Name = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]

AttemptId = Annotated[
    str | None,
    Query(
        alias="attempt",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$",
        description="Answers with all that belongs to this attempt, also what a later one replayed; when "
        "absent with the run's own series, which holds every step once.",
    ),
]

_LAST_STEP = 2**53
FromStep = Annotated[
    int | None,
    Query(
        ge=0,
        le=_LAST_STEP,
        description="First step that a figure shows; the point before it comes along, so that a line runs "
        "on to the edge.",
    ),
]
ToStep = Annotated[
    int | None,
    Query(ge=0, le=_LAST_STEP, description="Last step that a figure shows; the next point comes along."),
]
MaxPoints = Annotated[
    int, Query(ge=10, le=20_000, description="Of a series; about as many as the figure has pixels.")
]


@router.get("/projects")
def list_projects(caller: CallerDep, services: ServicesDep) -> views.ProjectList:
    """Projects that the caller may read, by name, and what it may do in each."""
    return services.reading.projects(caller)


@router.get("/runs")
def list_runs(
    services: ServicesDep,
    project: Name | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> views.RunList:
    """Runs, newest first, of one project or of all."""
    return services.reading.runs(project or None, limit)


@router.get("/runs/{run_id}")
def get_run(run_id: RunId, services: ServicesDep) -> views.RunDetail:
    """All that a run's page needs before its series."""
    return services.reading.run(run_id)


@router.get("/runs/{run_id}/series")
def get_series(
    run_id: RunId,
    services: ServicesDep,
    scope: ScopeQuery = DEFAULT_SCOPE,
    metric: Annotated[list[Name] | None, Query(max_length=500)] = None,
    since_step: SinceStep = 0,
    from_step: FromStep = None,
    to_step: ToStep = None,
    max_points: MaxPoints = 2000,
    attempt: AttemptId = None,
) -> views.SeriesView:
    """Series of the named metrics, or of all metrics of the scope.

    A series longer than `max_points` keeps its first and last point and the extremes of every stretch. All
    series of an answer together have about two million points at most; very many are cut down to fewer each.
    """
    stretch = Stretch(since_step, from_step, to_step)
    return services.reading.series(
        run_id, scope, metric or [], max_points, stretch=stretch, attempt_id=attempt
    )


@router.get("/runs/{run_id}/trajectory")
def get_trajectory(
    run_id: RunId,
    services: ServicesDep,
    scope: ScopeQuery = DEFAULT_SCOPE,
    since_step: SinceStep = 0,
    from_step: FromStep = None,
    to_step: ToStep = None,
    max_points: MaxPoints = 2000,
    attempt: AttemptId = None,
) -> views.TrajectoryView:
    """The run's way through the quadrant of diversity and input dependence.

    Of more than `max_points` evaluations these are the ends and the extremes along both axes.
    """
    stretch = Stretch(since_step, from_step, to_step)
    return services.reading.trajectory(run_id, scope, max_points, stretch=stretch, attempt_id=attempt)


@router.get("/runs/{run_id}/alerts")
def list_alerts(run_id: RunId, services: ServicesDep) -> views.AlertList:
    """The run's alerts with the values that caused them, newest first."""
    return services.reading.alerts(run_id)


@router.get("/runs/{run_id}/steps/{step}")
def get_step(
    run_id: RunId,
    step: StepPath,
    services: ServicesDep,
    scope: ScopeQuery = DEFAULT_SCOPE,
    attempt: AttemptId = None,
) -> views.StepView:
    """One step in one scope: every prompt, every group, every filter."""
    return services.reading.step(run_id, step, scope, attempt)


@router.get("/metrics-info")
def metrics_info() -> views.MetricInfoList:
    """What every metric means."""
    return views.MetricInfoList(
        metrics={name: views.MetricInfoView(**info._asdict()) for name, info in METRICS.items()}
    )
