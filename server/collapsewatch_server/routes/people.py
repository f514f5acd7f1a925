"""Who has an account, who may do what in a project, and links by which people are invited."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.roles import Role
from collapsewatch_server.accounts.people import NewLink
from collapsewatch_server.accounts.views import (
    AccountChange,
    AccountList,
    AccountView,
    InvitationDraft,
    InvitationList,
    InvitationReceipt,
    LinkReceipt,
    MemberList,
    MemberView,
    ProjectInvitationDraft,
    RoleChoice,
    invitation_view,
)
from collapsewatch_server.notify.views import Deleted
from collapsewatch_server.reading.views import iso
from collapsewatch_server.services import Services
from collapsewatch_server.web.deps import READ_ERRORS, ServicesDep, data_of, errors, request_body
from collapsewatch_server.web.guard import CallerDep
from collapsewatch_server.web.noting import note_target

router = APIRouter(prefix="/api/v1", tags=["people"], responses=errors(401, 403, *READ_ERRORS))

RowId = Annotated[int, Path(ge=1, lt=2**63)]
_BODY_ERRORS = errors(400, 408, 409, 413, 415, 429)


@router.get("/accounts")
def list_accounts(services: ServicesDep) -> AccountList:
    """Everybody who has an account, by name, also those whose account is closed."""
    return services.directory.listed()


@router.patch("/accounts/{account_id}", responses=_BODY_ERRORS, openapi_extra=request_body(AccountChange))
async def change_account(
    request: Request,
    account_id: RowId,
    services: ServicesDep,
    body: Annotated[AccountChange, Depends(data_of(AccountChange))],
) -> AccountView:
    """Closes an account or opens it again, and says whether the person operates the service.

    Who is closed is signed out at once. The last operator stays one.
    """
    changes = body.model_dump(exclude_none=True)
    note_target(request, ", ".join(f"{name} {value}" for name, value in changes.items()))
    return await run_in_threadpool(services.directory.change, account_id, body)


@router.post("/accounts/{account_id}/reset", responses=errors(409))
def make_reset_link(account_id: RowId, request: Request, services: ServicesDep) -> LinkReceipt:
    """Makes a link by which the person sets a new password: good once, for a day, answered this once."""
    made = services.directory.reset_link(account_id)
    return LinkReceipt(url=_join_url(request, services, made), expires_at=iso(made.invitation.expires_at))


@router.get("/invitations")
def list_invitations(services: ServicesDep) -> InvitationList:
    """Links to the service itself that are still good, newest first."""
    return services.invitations.listed()


@router.post(
    "/invitations",
    status_code=201,
    responses=_BODY_ERRORS,
    openapi_extra=request_body(InvitationDraft),
)
async def create_invitation(
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[InvitationDraft, Depends(data_of(InvitationDraft))],
) -> InvitationReceipt:
    """Makes a link by which somebody gets an account: good once, for a week, answered this once."""
    note_target(request, f"{body.label!r}" + ", as operator" * body.makes_operator)
    made = await run_in_threadpool(services.invitations.create, caller, body)
    note_target(request, f"invitation {made.invitation.id}")
    return _receipt(request, services, caller.name, made)


@router.delete("/invitations/{invitation_id}")
def revoke_invitation(invitation_id: RowId, services: ServicesDep) -> Deleted:
    """Makes a link to the service itself worthless."""
    services.invitations.revoke(invitation_id)
    return Deleted(deleted=True)


@router.get("/projects/{project_id}/members")
def list_members(project_id: RowId, services: ServicesDep) -> MemberList:
    """Everybody with a role in the project, by name; operators need none."""
    return services.members.listed(project_id)


@router.put(
    "/projects/{project_id}/members/{account_id}",
    responses=_BODY_ERRORS,
    openapi_extra=request_body(RoleChoice),
)
async def set_member(
    request: Request,
    project_id: RowId,
    account_id: RowId,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[RoleChoice, Depends(data_of(RoleChoice))],
) -> MemberView:
    """Gives a member another role. Only operators give one to somebody who has none; others invite."""
    role = Role[body.role]
    note_target(request, f"as {role.name}")
    return await run_in_threadpool(services.members.set_role, caller, project_id, account_id, role)


@router.delete("/projects/{project_id}/members/{account_id}", responses=errors(409))
def remove_member(project_id: RowId, account_id: RowId, caller: CallerDep, services: ServicesDep) -> Deleted:
    """Takes a member's role away, from the next request on."""
    services.members.remove(caller, project_id, account_id)
    return Deleted(deleted=True)


@router.get("/projects/{project_id}/invitations")
def list_project_invitations(project_id: RowId, services: ServicesDep) -> InvitationList:
    """Links to the project that are still good, newest first."""
    return services.invitations.listed(project_id)


@router.post(
    "/projects/{project_id}/invitations",
    status_code=201,
    responses=_BODY_ERRORS,
    openapi_extra=request_body(ProjectInvitationDraft),
)
async def create_project_invitation(
    project_id: RowId,
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[ProjectInvitationDraft, Depends(data_of(ProjectInvitationDraft))],
) -> InvitationReceipt:
    """Makes a link that gives a role in the project: good once, for a week, answered this once."""
    note_target(request, f"{body.label!r}, as {body.role}")
    made = await run_in_threadpool(services.invitations.create_for, caller, project_id, body)
    note_target(request, f"invitation {made.invitation.id}")
    return _receipt(request, services, caller.name, made)


@router.delete("/projects/{project_id}/invitations/{invitation_id}")
def revoke_project_invitation(project_id: RowId, invitation_id: RowId, services: ServicesDep) -> Deleted:
    """Makes a link to the project worthless."""
    services.invitations.revoke(invitation_id, project_id)
    return Deleted(deleted=True)


def _receipt(request: Request, services: Services, by: str, made: NewLink) -> InvitationReceipt:
    by_account = by if made.invitation.invited_by is not None else None
    view = invitation_view(made.invitation, by_account)
    return InvitationReceipt(**view.model_dump(), url=_join_url(request, services, made))


def _join_url(request: Request, services: Services, made: NewLink) -> str:
    return made.url(services.settings.public_url or str(request.base_url))
