"""How long a project keeps what it has."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.keeping.desk import RetentionTerms, RetentionView
from collapsewatch_server.web.deps import BODY_ERRORS, READ_ERRORS, ServicesDep, data_of, errors, request_body
from collapsewatch_server.web.noting import note_target

router = APIRouter(
    prefix="/api/v1/projects/{project_id}/retention",
    tags=["retention"],
    responses=errors(401, 403, *READ_ERRORS),
)

ProjectId = Annotated[int, Path(ge=1, lt=2**63)]


@router.get("")
def get_retention(project_id: ProjectId, services: ServicesDep) -> RetentionView:
    """How long the project keeps what it has, and how much of it is due."""
    return services.retention.of_project(project_id)


@router.put("", responses=errors(*BODY_ERRORS, 429), openapi_extra=request_body(RetentionTerms))
async def set_retention(
    request: Request,
    project_id: ProjectId,
    services: ServicesDep,
    body: Annotated[RetentionTerms, Depends(data_of(RetentionTerms))],
) -> RetentionView:
    """Has the project keep what it has for so long. What is older already goes within minutes, for good."""
    note_target(request, f"text {_words(body.text_days)}, ended runs {_words(body.run_days)}")
    return await run_in_threadpool(services.retention.set, project_id, body)


def _words(days: float | None) -> str:
    return "for ever" if days is None else f"for {days:g} days"
