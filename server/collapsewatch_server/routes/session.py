"""Signing in and out, and joining by a link."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.roles import Identity
from collapsewatch_server.accounts.people import NAME
from collapsewatch_server.accounts.sessions import NewToken
from collapsewatch_server.errors import Unauthorised
from collapsewatch_server.services import Services
from collapsewatch_server.web.cookies import drop_session, session_token, set_session
from collapsewatch_server.web.deps import BODY_ERRORS, ServicesDep, data_of, errors, request_body
from collapsewatch_server.web.guard import CallerDep, credentials_of

router = APIRouter(prefix="/api/v1/session", tags=["session"], responses=errors(*BODY_ERRORS, 429))

Password = Annotated[str, Field(min_length=1, max_length=1000)]
Token = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{20,200}$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SignIn(_Body):
    """Name and password."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    password: Password


class LinkToken(_Body):
    """Last part of the address of a link to join by."""

    token: Token


class Joining(LinkToken):
    """What somebody who was invited chooses."""

    name: Annotated[str, Field(pattern=NAME)]
    password: Password


class PasswordChange(_Body):
    """The old password and the new one."""

    old: Password
    new: Password


class Me(BaseModel):
    """Who is signed in, and how far that reaches."""

    needs_login: bool
    """Whether people have to sign in at all."""
    name: str | None
    """Whom the browser is signed in as; none when it is not, or need not be."""
    is_operator: bool
    """Whether everything may be done, in every project."""
    roles: dict[str, Literal["viewer", "editor", "admin"]]
    """By id of the project."""


class LinkView(BaseModel):
    """What a link to join by is for."""

    purpose: Literal["join", "password"]
    label: str
    makes_operator: bool
    role: str | None


def _me(caller: Identity | None, *, needs_login: bool) -> Me:
    return Me.model_validate(
        {
            "needs_login": needs_login,
            "name": caller.name if caller is not None and caller.kind == "account" else None,
            "is_operator": caller is not None and caller.is_operator,
            "roles": {str(project): role.name for project, role in caller.roles.items()} if caller else {},
        }
    )


@router.get("")
async def get_session(request: Request, response: Response, services: ServicesDep) -> Me:
    """Who is signed in; nobody is an answer as well. The page asks for it when it is opened."""
    try:
        caller = await run_in_threadpool(services.doorkeeper.identify, credentials_of(request), ())
    except Unauthorised:
        return _me(None, needs_login=True)
    token = session_token(request)
    if caller.kind == "account" and token is not None:
        fresh = await run_in_threadpool(services.sessions.rotated, token)
        if fresh is not None:
            _leave(request, response, fresh)
    return _me(caller, needs_login=services.doorkeeper.needs_login)


@router.post("", openapi_extra=request_body(SignIn))
async def sign_in(
    request: Request,
    response: Response,
    services: ServicesDep,
    body: Annotated[SignIn, Depends(data_of(SignIn))],
) -> Me:
    """Signs a browser in: the answer leaves a cookie with it."""
    account = await run_in_threadpool(services.people.sign_in, body.name, body.password)
    return await _open(request, response, services, account.id)


@router.delete("", status_code=204)
async def sign_out(request: Request, response: Response, services: ServicesDep) -> None:
    """Signs the browser out; again is harmless."""
    token = session_token(request)
    if token is not None:
        await run_in_threadpool(services.sessions.end, token)
    drop_session(request, response)


@router.post("/link", responses=errors(410), openapi_extra=request_body(LinkToken))
async def look_at_link(
    services: ServicesDep, body: Annotated[LinkToken, Depends(data_of(LinkToken))]
) -> LinkView:
    """What a link to join by is for; it stays good."""
    found = await run_in_threadpool(services.people.invitation, body.token)
    return LinkView(
        purpose="join" if found.account_pk is None else "password",
        label=found.label,
        makes_operator=found.makes_operator,
        role=found.role,
    )


@router.post("/join", responses=errors(409, 410), openapi_extra=request_body(Joining))
async def join(
    request: Request,
    response: Response,
    services: ServicesDep,
    body: Annotated[Joining, Depends(data_of(Joining))],
) -> Me:
    """Makes an account for somebody who was invited, or sets its new password, and signs the browser in."""
    account = await run_in_threadpool(services.people.join, body.token, body.name, body.password)
    return await _open(request, response, services, account.id)


@router.post("/accept", responses=errors(401, 403, 410), openapi_extra=request_body(LinkToken))
async def accept(
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[LinkToken, Depends(data_of(LinkToken))],
) -> Me:
    """Gives somebody who is signed in what a link is for."""
    await run_in_threadpool(services.people.accept, body.token, _account_of(caller))
    caller = await run_in_threadpool(services.doorkeeper.identify, credentials_of(request), ())
    return _me(caller, needs_login=True)


@router.post("/password", responses=errors(401, 403), openapi_extra=request_body(PasswordChange))
async def change_password(
    request: Request,
    response: Response,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[PasswordChange, Depends(data_of(PasswordChange))],
) -> Me:
    """Sets another password. All other browsers of this account are signed out."""
    account_pk = _account_of(caller)
    await run_in_threadpool(services.people.change_password, account_pk, body.old, body.new)
    await run_in_threadpool(services.sessions.end_all, account_pk)
    return await _open(request, response, services, account_pk)


def _account_of(caller: Identity) -> int:
    if caller.kind != "account" or caller.id is None:
        raise Unauthorised("nobody signs in here, or this is no person")
    return caller.id


async def _open(request: Request, response: Response, services: Services, account_pk: int) -> Me:
    credentials = credentials_of(request)
    browser = request.headers.get("user-agent", "")
    old = session_token(request)
    fresh = await run_in_threadpool(
        lambda: services.sessions.open(
            account_pk, address=credentials.address, browser=browser, instead_of=old
        )
    )
    _leave(request, response, fresh)
    caller = await run_in_threadpool(services.sessions.identify, fresh.token)
    return _me(caller, needs_login=services.doorkeeper.needs_login)


def _leave(request: Request, response: Response, fresh: NewToken) -> None:
    set_session(request, response, fresh.token, seconds=fresh.seconds)
