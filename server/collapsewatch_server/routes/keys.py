"""Keys of trainers, workers and programs that read: made, listed, revoked. A key is answered once."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.accounts.views import KeyDraft, KeyList, KeyReceipt, KeyView, ProjectKeyDraft
from collapsewatch_server.routes.people import RowId
from collapsewatch_server.services import Services
from collapsewatch_server.web.deps import READ_ERRORS, ServicesDep, data_of, errors, request_body
from collapsewatch_server.web.noting import note_target

router = APIRouter(prefix="/api/v1", tags=["keys"], responses=errors(401, 403, *READ_ERRORS))

_BODY_ERRORS = errors(400, 408, 409, 413, 415, 429)


@router.get("/keys")
def list_keys(services: ServicesDep) -> KeyList:
    """Every key, oldest first, without its secret part, also those that are no good any more."""
    return services.keys.listed()


@router.post("/keys", status_code=201, responses=_BODY_ERRORS, openapi_extra=request_body(KeyDraft))
async def create_key(
    request: Request, services: ServicesDep, body: Annotated[KeyDraft, Depends(data_of(KeyDraft))]
) -> KeyReceipt:
    """Makes a key for all projects; it is answered this once."""
    return await _made(request, services, body, None)


@router.delete("/keys/{key_id}")
def revoke_key(key_id: RowId, services: ServicesDep) -> KeyView:
    """Makes a key worthless, from the next request on; again is harmless."""
    return services.keys.revoke(key_id)


@router.get("/projects/{project_id}/keys")
def list_project_keys(project_id: RowId, services: ServicesDep) -> KeyList:
    """Keys that are good for this project alone, oldest first, without their secret part."""
    return services.keys.listed(project_id)


@router.post(
    "/projects/{project_id}/keys",
    status_code=201,
    responses=_BODY_ERRORS,
    openapi_extra=request_body(ProjectKeyDraft),
)
async def create_project_key(
    request: Request,
    project_id: RowId,
    services: ServicesDep,
    body: Annotated[ProjectKeyDraft, Depends(data_of(ProjectKeyDraft))],
) -> KeyReceipt:
    """Makes a key that is good for this project alone; it is answered this once."""
    return await _made(request, services, body, project_id)


@router.delete("/projects/{project_id}/keys/{key_id}")
def revoke_project_key(project_id: RowId, key_id: RowId, services: ServicesDep) -> KeyView:
    """Makes a key of this project worthless, from the next request on; again is harmless."""
    return services.keys.revoke(key_id, project_id)


async def _made(
    request: Request, services: Services, body: KeyDraft | ProjectKeyDraft, project_id: int | None
) -> KeyReceipt:
    life = "for ever" if body.days is None else f"for {body.days:g} days"
    note_target(request, f"{body.purpose} key {body.label!r}, {life}")
    receipt = await run_in_threadpool(services.keys.create, body, project_id)
    note_target(request, f"key {receipt.id}")
    return receipt
