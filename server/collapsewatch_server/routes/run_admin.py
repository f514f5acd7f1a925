"""The list of runs as the page shows it, and what people do about runs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.errors import RunNotFound
from collapsewatch_server.reading.run_list_views import DeletedRun, RunAbout, RunRow, RunRows, Sparklines
from collapsewatch_server.services import Services
from collapsewatch_server.web.deps import (
    READ_ERRORS,
    RunId,
    ServicesDep,
    data_of,
    errors,
    request_body,
)
from collapsewatch_server.web.noting import note_target

router = APIRouter(prefix="/api/v1", tags=["runs"], responses=errors(*READ_ERRORS))

Name = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]
Ids = Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]


@router.get("/run-list")
def list_run_rows(
    services: ServicesDep,
    project: Name | None = None,
    archived: Annotated[bool, Query(description="Those that were put away, instead of the others.")] = False,
    run: Annotated[
        list[Ids] | None, Query(max_length=200, description="Only these; how an open list is kept fresh.")
    ] = None,
    group_by: Annotated[
        Name | None, Query(description="A key of `config_keys`, whose value comes with each run.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> RunRows:
    """What a list of runs shows of each, newest run first; their sparklines are asked for apart."""
    return services.run_list.rows(
        project or None, archived=archived, run_ids=run or (), group_key=group_by or None, limit=limit
    )


@router.get("/run-list/sparklines")
def list_sparklines(
    services: ServicesDep,
    run: Annotated[list[Ids], Query(min_length=1, max_length=200)],
    max_points: Annotated[int, Query(ge=2, le=200)] = 60,
) -> Sparklines:
    """Retrieval skill of first turns of these runs, at about as many steps as a small line has pixels."""
    return services.run_list.sparklines(run, max_points)


@router.patch(
    "/runs/{run_id}/about",
    responses=errors(400, 403, 408, 413, 415, 429),
    openapi_extra=request_body(RunAbout),
)
async def change_run(
    request: Request,
    run_id: RunId,
    services: ServicesDep,
    body: Annotated[RunAbout, Depends(data_of(RunAbout))],
) -> RunRow:
    """Changes a run's name, tags or notes, or puts it away; what is not given stays as it is.

    A trainer goes on, and resumes, under the name that it gave.
    """
    note_target(request, _words(body))
    return await run_in_threadpool(_change, services, run_id, body)


@router.delete("/runs/{run_id}", responses=errors(403))
def delete_run(run_id: RunId, services: ServicesDep) -> DeletedRun:
    """Deletes a run for good, with its rollouts, scores and alerts. Nobody can bring it back.

    It is out of sight with the answer and its id is free; rows and blobs go within minutes. What its
    trainer still sends is refused.
    """
    services.run_desk.delete(run_id)
    return DeletedRun(run_id=run_id)


def _change(services: Services, run_id: str, body: RunAbout) -> RunRow:
    services.run_desk.change(run_id, body)
    for archived in (False, True):
        found = services.run_list.rows(None, archived=archived, run_ids=[run_id], limit=1).rows
        if found:
            return found[0]
    raise RunNotFound(run_id)


def _words(about: RunAbout) -> str:
    given = about.given()
    # Notes may be long; that they were changed says enough.
    shown = {name: value for name, value in given.items() if name != "notes"}
    return ", ".join([f"{name} {value!r}" for name, value in shown.items()] + ["notes"] * ("notes" in given))
