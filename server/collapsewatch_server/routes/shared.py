"""What somebody reads who holds a link: the same answers as the page's own, of what was shared alone.

Routes are let through one by one, each with what decides whether the link shows what is asked for; one that
is not named here cannot be reached by a link.
"""

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from fastapi.routing import APIRoute
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.errors import ShareEnded, ShareNotFound
from collapsewatch_server.events import follow
from collapsewatch_server.reading import views
from collapsewatch_server.reading.compare_views import ComparedRuns
from collapsewatch_server.repositories.events import StoredEvent
from collapsewatch_server.routes import compare, exports, rollouts, runs, steps
from collapsewatch_server.sharing.trimming import as_compared, as_shared
from collapsewatch_server.sharing.views import SharedPage
from collapsewatch_server.web import shared_access
from collapsewatch_server.web.deps import (
    DEFAULT_SCOPE,
    ComparedRunIds,
    RunId,
    ScopeQuery,
    ServicesDep,
    errors,
)
from collapsewatch_server.web.shared_access import Opened, ServerDep, Token
from collapsewatch_server.web.traffic import LiveStream

PREFIX = "/api/v1"
router = APIRouter(prefix=f"{PREFIX}/shared/{{token}}", tags=["shared"], responses=errors(404, 410, 422, 503))

_EVENTS_PER_LOOK = 500
_RECONNECT_MILLISECONDS = 1000
_LARGEST_ID = 2**63 - 1
# What an event says beside this, such as who acknowledged an alert, no link shows.
_TOLD = ("run_id", "step", "scope")
_KINDS = ("run", "batch", "metrics", "alert")


@router.get("")
def open_share(server: ServerDep, share: Opened) -> SharedPage:
    """What the link shows, and on which screen. This is what counts as opening it."""
    server.shares.note_opened(share.share_id)
    return share.page()


@router.get("/runs")
def list_shared_runs(services: ServicesDep, share: Opened) -> views.RunList:
    """The runs that the link shows, in its order."""
    found = [as_shared(services.reading.run(run.run_id), share.limits) for run in share.runs]
    return views.RunList(runs=[views.RunSummary.model_validate(run.model_dump()) for run in found])


@router.get("/runs/{run_id}", dependencies=[Depends(shared_access.of_run)])
def get_shared_run(run_id: RunId, services: ServicesDep, share: Opened) -> views.RunDetail:
    """All that a run's page needs before its series; of a chart's run only what belongs to the chart."""
    return as_shared(services.reading.run(run_id), share.limits)


@router.get("/compare", dependencies=[Depends(shared_access.of_compared)])
def compare_shared_runs(
    run_ids: ComparedRunIds,
    services: ServicesDep,
    share: Opened,
    scope: ScopeQuery = DEFAULT_SCOPE,
    scalar: compare.Scalars = [],  # noqa: B006 (the framework copies it)
    group_by: compare.GroupBy = [],  # noqa: B006
) -> ComparedRuns:
    """Where the runs and their groups stand; of a chart's runs only what belongs to the chart."""
    return as_compared(services.comparison.runs(run_ids, scope, scalar, group_by), share.limits)


@router.get("/stream", response_class=EventSourceResponse, dependencies=[Depends(shared_access.of_live)])
async def shared_stream(
    live: LiveStream,
    token: Token,
    server: ServerDep,
    share: Opened,
    resume_after: Annotated[int | None, Query(alias="last_event_id", ge=0, le=_LARGEST_ID)] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=_LARGEST_ID)] = None,
    max_missed: Annotated[int | None, Query(ge=0)] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Events of the runs that the link shows: that there is news, and at which step. Ends with the link.

    It begins, and goes on after a break, as the page's own stream does.
    """
    reading, desk, run_ids = server.reading, server.shares, share.run_ids
    oldest, newest = await run_in_threadpool(reading.kept_event_ids)
    start = last_event_id if last_event_id is not None else resume_after
    too_many = max_missed is not None and start is not None and newest - start > max_missed
    if start is None or too_many or not oldest - 1 <= start <= newest:
        start = newest
        yield ServerSentEvent(
            event="hello", id=str(start), data={"last_event_id": start}, retry=_RECONNECT_MILLISECONDS
        )
    else:
        yield ServerSentEvent(comment="resumed", retry=_RECONNECT_MILLISECONDS)

    async def read_after(event_id: int) -> list[StoredEvent]:
        # Whoever ends a link expects that an open page goes quiet as well.
        await run_in_threadpool(desk.open, token)
        return await run_in_threadpool(desk.events_after, event_id, run_ids, _EVENTS_PER_LOOK)

    try:
        async for event in follow(server.hub, read_after, start):
            if event.kind in _KINDS:
                told = {name: event.data[name] for name in _TOLD if name in event.data}
                yield ServerSentEvent(
                    event=event.kind, id=str(event.event_id), raw_data=json.dumps(told, separators=(",", ":"))
                )
    except (ShareNotFound, ShareEnded):
        return


def _let_through(source: APIRouter, guard: Callable[..., Any], *names: str) -> None:
    """Answers the named routes of another room as they are, of what the link shows."""
    found = {route.name: route for route in source.routes if isinstance(route, APIRoute)}
    for name in names:
        route = found[name]
        assert route.methods == {"GET"}
        router.add_api_route(
            route.path.removeprefix(PREFIX),
            route.endpoint,
            name=f"shared_{route.name}",
            dependencies=[Depends(guard)],
            response_class=route.response_class,
            responses=route.responses,
        )


_let_through(runs.router, shared_access.of_anything, "metrics_info")
_let_through(runs.router, shared_access.of_series, "get_series")
_let_through(runs.router, shared_access.of_trajectory, "get_trajectory")
_let_through(runs.router, shared_access.of_whole_run, "list_alerts", "get_step")
# A chart may stand on times, with marks where another policy began to write.
_let_through(steps.router, shared_access.of_run, "get_clock")
_let_through(steps.router, shared_access.of_whole_run, "get_kept")
_let_through(compare.router, shared_access.of_compared_series, "compare_series")
_let_through(compare.router, shared_access.of_compared_paths, "compare_paths")
_let_through(
    exports.router, shared_access.of_runs, "series_csv", "series_parquet", "chart_picture", "html_report"
)
_let_through(
    rollouts.router,
    shared_access.of_rollouts,
    "list_rollouts",
    "get_rollout",
    "search_rollouts",
    "get_template",
)
