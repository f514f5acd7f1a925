"""Signing in and out, and joining by a link."""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from contextvars import copy_context
from functools import partial
from typing import Annotated, Literal, ParamSpec, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.roles import Identity
from collapsewatch_server.account_tables import Account, Invitation
from collapsewatch_server.accounts.passwords import AT_ONCE
from collapsewatch_server.accounts.people import NAME
from collapsewatch_server.accounts.sessions import NewToken
from collapsewatch_server.errors import Forbidden, Unauthorised
from collapsewatch_server.services import Services
from collapsewatch_server.web.cookies import drop_session, session_token, set_session
from collapsewatch_server.web.deps import BODY_ERRORS, ServicesDep, entry_of, errors, request_body
from collapsewatch_server.web.guard import CallerDep, credentials_of
from collapsewatch_server.web.noting import note_target, noting

router = APIRouter(prefix="/api/v1/session", tags=["session"], responses=errors(*BODY_ERRORS, 429))

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
# The threads that answer everything else are not for people who wait until their password is hashed.
_hashing = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")

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


class ProviderView(BaseModel):
    """An OpenID provider: a browser that goes to `/api/v1/session/provider` is signed in there."""

    name: str


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
    provider: ProviderView | None = None
    """Another service by which people sign in as well."""


class LinkView(BaseModel):
    """What a link to join by is for."""

    purpose: Literal["join", "password"]
    label: str
    makes_operator: bool
    role: str | None


def _me(caller: Identity | None, services: Services) -> Me:
    provider = services.provider
    return Me.model_validate(
        {
            "needs_login": services.doorkeeper.needs_login,
            "name": caller.name if caller is not None and caller.kind == "account" else None,
            "is_operator": caller is not None and caller.is_operator,
            "roles": {str(project): role.name for project, role in caller.roles.items()} if caller else {},
            "provider": None if provider is None else {"name": provider.name},
        }
    )


@router.get("")
async def get_session(request: Request, response: Response, services: ServicesDep) -> Me:
    """Who is signed in; nobody is an answer as well. The page asks for it when it is opened."""
    try:
        caller = await run_in_threadpool(services.doorkeeper.identify, credentials_of(request), ())
    except (Unauthorised, Forbidden):
        # Somebody's key says nothing of a person.
        return _me(None, services)
    token = session_token(request)
    if caller.kind == "account" and token is not None:
        # It may have ended just now, or a proxy may have said who it is.
        with suppress(LookupError):
            fresh = await run_in_threadpool(services.sessions.rotated, token)
            if fresh is not None:
                _leave(request, response, fresh)
    return _me(caller, services)


@router.post("", openapi_extra=request_body(SignIn))
async def sign_in(
    request: Request,
    response: Response,
    services: ServicesDep,
    body: Annotated[SignIn, Depends(entry_of(SignIn))],
) -> Me:
    """Signs a browser in: the answer leaves a cookie with it."""
    guess = services.throttle.guesses.of_password(body.name, credentials_of(request).address)
    async with noting(
        request, "session.open", actor=_tried(body.name), address=credentials_of(request).address
    ):
        account = await _in_turn(partial(_guessing, guess, services.people.sign_in, body.name, body.password))
    return await _open(request, response, services, account.id)


@router.delete("", status_code=204)
async def sign_out(request: Request, response: Response, services: ServicesDep) -> None:
    """Signs the browser out; again is harmless."""
    token = session_token(request)
    if token is not None:
        await run_in_threadpool(_end, services, token, credentials_of(request).address)
    drop_session(request, response)


@router.post("/link", responses=errors(410), openapi_extra=request_body(LinkToken))
async def look_at_link(
    request: Request, services: ServicesDep, body: Annotated[LinkToken, Depends(entry_of(LinkToken))]
) -> LinkView:
    """What a link to join by is for; it stays good."""
    guess = services.throttle.guesses.of_invitation(credentials_of(request).address)
    found = await run_in_threadpool(_guessing, guess, services.people.invitation, body.token)
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
    body: Annotated[Joining, Depends(entry_of(Joining))],
) -> Me:
    """Makes an account for somebody who was invited, or sets its new password, and signs the browser in."""
    guess = services.throttle.guesses.of_invitation(credentials_of(request).address)
    async with noting(
        request, "account.join", actor=_tried(body.name), address=credentials_of(request).address
    ):
        invitation, account = await _in_turn(partial(_guessing, guess, _joined, services, body))
        note_target(request, _what_for(invitation), project_id=invitation.project_id)
    return await _open(request, response, services, account.id)


@router.post("/accept", responses=errors(401, 403, 410), openapi_extra=request_body(LinkToken))
async def accept(
    request: Request,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[LinkToken, Depends(entry_of(LinkToken))],
) -> Me:
    """Gives somebody who is signed in what a link is for."""
    guess = services.throttle.guesses.of_invitation(credentials_of(request).address)
    account_pk = _account_of(caller)
    invitation = await run_in_threadpool(_guessing, guess, _accepted, services, body.token, account_pk)
    note_target(request, _what_for(invitation), project_id=invitation.project_id)
    caller = await run_in_threadpool(services.doorkeeper.identify, credentials_of(request), ())
    return _me(caller, services)


@router.post("/password", responses=errors(401, 403), openapi_extra=request_body(PasswordChange))
async def change_password(
    request: Request,
    response: Response,
    caller: CallerDep,
    services: ServicesDep,
    body: Annotated[PasswordChange, Depends(entry_of(PasswordChange))],
) -> Me:
    """Sets another password. All other browsers of this account are signed out."""
    account_pk = _account_of(caller)
    guess = services.throttle.guesses.of_password(caller.name, credentials_of(request).address)
    await _in_turn(partial(_guessing, guess, services.people.change_password, account_pk, body.old, body.new))
    await run_in_threadpool(services.sessions.end_all, account_pk)
    return await _open(request, response, services, account_pk)


def _joined(services: Services, body: Joining) -> tuple[Invitation, Account]:
    # As it was before it was used.
    invitation = services.people.invitation(body.token)
    return invitation, services.people.join(body.token, body.name, body.password)


def _accepted(services: Services, token: str, account_pk: int) -> Invitation:
    invitation = services.people.invitation(token)
    services.people.accept(token, account_pk)
    return invitation


def _end(services: Services, token: str, address: str) -> None:
    whose = services.sessions.identify(token)
    services.sessions.end(token)
    if whose is not None:
        services.audit.note("session.end", actor=whose.name, address=address)


def _what_for(invitation: Invitation) -> str:
    if invitation.account_pk is not None:
        return f"new password for account {invitation.label!r}"
    role = ", as operator" if invitation.makes_operator else f", as {invitation.role}" * bool(invitation.role)
    return f"invitation {invitation.id} {invitation.label!r}{role}"


def _tried(name: str) -> str:
    """The name as the log may hold it: who types a password into the wrong field is not betrayed by it."""
    return name.lower() if re.fullmatch(NAME, name) else "somebody"


def _account_of(caller: Identity) -> int:
    if caller.kind != "account" or caller.id is None:
        raise Unauthorised("nobody signs in here, or this is no person")
    return caller.id


def _guessing(
    guess: AbstractContextManager[None],
    call: Callable[Arguments, Result],
    *arguments: Arguments.args,
    **named: Arguments.kwargs,
) -> Result:
    """What the call comes back with, which looks whether a password or a link is good."""
    with guess:
        return call(*arguments, **named)


async def _in_turn(call: Callable[[], Result]) -> Result:
    """What the call, which hashes a password, comes back with."""
    return await asyncio.get_running_loop().run_in_executor(_hashing, partial(copy_context().run, call))


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
    return _me(caller, services)


def _leave(request: Request, response: Response, fresh: NewToken) -> None:
    set_session(request, response, fresh.token, seconds=fresh.seconds)
