"""The audit log: who did what, when, from where."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from collapsewatch_server.accounts.audit_views import AuditPage
from collapsewatch_server.reporting.audit_table import csv_chunks
from collapsewatch_server.web.deps import READ_ERRORS, ServicesDep, errors
from collapsewatch_server.web.traffic import Costly

router = APIRouter(prefix="/api/v1/audit", tags=["audit"], responses=errors(401, 403, *READ_ERRORS))

OfProject = Annotated[int | None, Query(ge=1, lt=2**63, description="Id of a project, for its entries only.")]
Action = Annotated[
    str | None,
    Query(
        max_length=100,
        pattern=r"^[a-z_]+(\.[a-z_]+)?$",
        description="Such as `run.delete`, or `run` for all of that kind.",
    ),
]


@router.get("")
def list_entries(
    services: ServicesDep,
    before_id: Annotated[
        int | None, Query(ge=1, lt=2**63, description="`next_before_id` of the last page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    project_id: OfProject = None,
    action: Action = None,
) -> AuditPage:
    """What was done, newest first: in the projects that the caller administers, or everywhere."""
    return services.audit_reading.page(before_id=before_id, limit=limit, project_id=project_id, action=action)


@router.get(
    "/export.csv",
    response_class=StreamingResponse,
    responses={200: {"description": "One row per entry, with a header.", "content": {"text/csv": {}}}},
)
def export_entries(
    turn: Costly, services: ServicesDep, project_id: OfProject = None, action: Action = None
) -> StreamingResponse:
    """The same as a table in UTF-8, all of it.

    Text that a spreadsheet would take for a formula has a quote before it.
    """
    entries = services.audit_reading.all(project_id=project_id, action=action)
    headers = {
        "Content-Disposition": 'attachment; filename="collapsewatch-audit.csv"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(csv_chunks(entries), media_type="text/csv; charset=utf-8", headers=headers)
