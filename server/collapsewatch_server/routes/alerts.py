"""The inbox of alerts, and what people do about them."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.roles import Identity
from collapsewatch_server.alerts.lifecycle import ActionKind
from collapsewatch_server.reading import alert_views, trace_views
from collapsewatch_server.reading.alert_views import BulkHandling, Handling, Snoozing
from collapsewatch_server.repositories.alert_inbox import Filters
from collapsewatch_server.services import Services
from collapsewatch_server.web.deps import (
    READ_ERRORS,
    ServicesDep,
    data_of,
    errors,
    request_body,
)
from collapsewatch_server.web.guard import CallerDep
from collapsewatch_server.web.noting import note_target

router = APIRouter(prefix="/api/v1/alerts", tags=["alerts"], responses=errors(*READ_ERRORS))

AlertId = Annotated[int, Path(ge=1, lt=2**63, description="Any alert of the item.")]
Name = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]
_HANDLED = errors(400, 403, 408, 409, 413, 415, 429)


@router.get("")
def list_alerts(
    services: ServicesDep,
    status: Annotated[list[alert_views.State] | None, Query()] = None,
    severity: Annotated[list[Literal["info", "warning", "critical"]] | None, Query()] = None,
    project: Name | None = None,
    run: Name | None = None,
    rule: Name | None = None,
    text: Annotated[Name | None, Query(description="Words of the alert or of the run's name.")] = None,
    cursor: Annotated[
        int | None, Query(ge=1, lt=2**63, description="`next_cursor` of the last page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> alert_views.Inbox:
    """Alerts of all runs and of the service, newest first; an alert that grew graver is one item."""
    filters = Filters(status or (), severity or (), project or None, run or None, rule or None, text or None)
    return services.alerts.inbox(filters, cursor, limit)


@router.post(
    "/acknowledge",
    responses=_HANDLED,
    openapi_extra=request_body(BulkHandling),
)
async def acknowledge_alerts(
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[BulkHandling, Depends(data_of(BulkHandling))],
) -> alert_views.ActedOn:
    """Acknowledges several alerts, or none of them when one does not allow it."""
    words = f"alerts {', '.join(map(str, body.alert_ids))}"
    note_target(request, words, alert_ids=body.alert_ids)
    return await run_in_threadpool(_act, services, caller, list(body.alert_ids), "acknowledge", body)


@router.get("/{alert_id}")
def get_alert(alert_id: AlertId, services: ServicesDep) -> alert_views.AlertDetail:
    """One item of the inbox: its history, and what was measured around its moment."""
    return services.alerts.detail(alert_id)


# A plain function: reading and parsing a batch goes on in a thread.
@router.get("/{alert_id}/traces", responses=errors(429))
def get_alert_traces(alert_id: AlertId, services: ServicesDep) -> trace_views.AlertTraces:
    """What the model answered to the prompts that drove the alert, and to the same ones at baseline.

    Read from the stored batches of both steps, up to 64 MiB of each; `reason` says what could not be.
    """
    return services.alert_traces.traces(alert_id)


@router.post(
    "/{alert_id}/acknowledge",
    responses=_HANDLED,
    openapi_extra=request_body(Handling),
)
async def acknowledge_alert(
    alert_id: AlertId,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[Handling, Depends(data_of(Handling))],
) -> alert_views.ActedOn:
    """Says that somebody looks after it; a graver alert that takes its place is open again."""
    return await run_in_threadpool(_act, services, caller, [alert_id], "acknowledge", body)


@router.post(
    "/{alert_id}/snooze",
    responses=_HANDLED,
    openapi_extra=request_body(Snoozing),
)
async def snooze_alert(
    alert_id: AlertId,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[Snoozing, Depends(data_of(Snoozing))],
) -> alert_views.ActedOn:
    """Keeps it quiet for a while; if it is still open then, it tells of itself again."""
    return await run_in_threadpool(_act, services, caller, [alert_id], "snooze", body)


@router.post(
    "/{alert_id}/resolve",
    responses=_HANDLED,
    openapi_extra=request_body(Handling),
)
async def resolve_alert(
    alert_id: AlertId,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[Handling, Depends(data_of(Handling))],
) -> alert_views.ActedOn:
    """Resolves it by hand, whatever its rule says; a graver alert that takes its place is open."""
    return await run_in_threadpool(_act, services, caller, [alert_id], "resolve", body)


@router.post(
    "/{alert_id}/reopen",
    responses=_HANDLED,
    openapi_extra=request_body(Handling),
)
async def reopen_alert(
    alert_id: AlertId,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[Handling, Depends(data_of(Handling))],
) -> alert_views.ActedOn:
    """Opens it again. One that its rule had resolved stays open until somebody resolves it."""
    return await run_in_threadpool(_act, services, caller, [alert_id], "reopen", body)


def _act(
    services: Services, caller: Identity, alert_ids: list[int], kind: ActionKind, body: Handling
) -> alert_views.ActedOn:
    seconds = body.seconds if isinstance(body, Snoozing) else None
    # Who is signed in does it under no other name.
    by = caller.name if caller.kind == "account" else body.by
    num_changed = services.desk.handle(alert_ids, kind, by=by, note=body.note, seconds=seconds)
    return alert_views.ActedOn(items=services.alerts.items(alert_ids), num_changed=num_changed)
