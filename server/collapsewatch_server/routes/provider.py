"""Signing in by an OpenID provider: there and back."""

import logging
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, RedirectResponse

from collapsewatch_server.account_tables import Invitation
from collapsewatch_server.accounts.arrivals import Arrival
from collapsewatch_server.accounts.sessions import NewToken
from collapsewatch_server.errors import InvitationEnded, NoProvider, NotLetIn, ProviderAway
from collapsewatch_server.routes.session import LinkToken
from collapsewatch_server.services import Services
from collapsewatch_server.web.cookies import (
    drop_provider_state,
    provider_state,
    session_token,
    set_provider_state,
    set_session,
)
from collapsewatch_server.web.deps import BODY_ERRORS, ServicesDep, entry_of, errors, request_body
from collapsewatch_server.web.guard import credentials_of
from collapsewatch_server.web.provider import STATE_SECONDS, Provider, ProviderProblem

log = logging.getLogger(__name__)

router = APIRouter(
    prefix="/api/v1/session/provider",
    tags=["session"],
    responses=errors(404, 429),
    default_response_class=RedirectResponse,
)
# Below whatever path a proxy has put the service.
_PAGE_FROM_THERE, _PAGE_FROM_BACK = "../../../", "../../../../"


class WayThere(BaseModel):
    """Address at the provider to which the browser goes."""

    url: str


@router.get("", status_code=303)
async def go_to_provider(request: Request, services: ServicesDep) -> RedirectResponse:
    """Sends the browser to the OpenID provider to sign in there, or back to the page with the reason."""
    provider = _provider(services)
    try:
        url, state = await provider.begin(_back_url(request, services))
    except ProviderProblem as problem:
        return _to_page(_PAGE_FROM_THERE, problem)
    response = RedirectResponse(url, 303)
    set_provider_state(request, response, state, seconds=STATE_SECONDS)
    return response


@router.post(
    "",
    response_class=JSONResponse,
    responses=errors(*BODY_ERRORS, 410, 502),
    openapi_extra=request_body(LinkToken),
)
async def join_by_provider(
    request: Request,
    response: Response,
    services: ServicesDep,
    body: Annotated[LinkToken, Depends(entry_of(LinkToken))],
) -> WayThere:
    """Where somebody with a link to join by signs in at the OpenID provider; it is accepted afterwards."""
    provider = _provider(services)
    guess = services.throttle.guesses.of_invitation(credentials_of(request).address)
    await run_in_threadpool(_looked_at, guess, services, body.token)
    try:
        url, state = await provider.begin(_back_url(request, services), joining=body.token)
    except ProviderProblem as problem:
        raise ProviderAway("the provider does not answer; try again in a moment") from problem
    set_provider_state(request, response, state, seconds=STATE_SECONDS)
    return WayThere(url=url)


@router.get("/back", status_code=303)
async def come_back(request: Request, services: ServicesDep) -> RedirectResponse:
    """Signs in the browser that comes from the OpenID provider, and sends it to the page."""
    provider = _provider(services)
    try:
        arrival, token = await provider.arrival(request, provider_state(request))
        response = await _signed_in(request, services, arrival, token)
    except (ProviderProblem, NotLetIn) as problem:
        response = _to_page(_PAGE_FROM_BACK, problem)
    drop_provider_state(request, response)
    return response


def _looked_at(guess: AbstractContextManager[None], services: Services, token: str) -> Invitation:
    with guess:
        return services.people.invitation(token)


async def _signed_in(
    request: Request, services: Services, arrival: Arrival, token: str | None
) -> RedirectResponse:
    address = credentials_of(request).address
    browser = request.headers.get("user-agent", "")
    old = session_token(request)

    def opened() -> NewToken:
        try:
            account = services.arrivals.account_of(_invited(services, arrival, token), address=address)
        except NotLetIn as refusal:
            services.audit.note("session.open", actor=arrival.name, address=address, outcome=refusal.code)
            raise
        fresh = services.sessions.open(account.id, address=address, browser=browser, instead_of=old)
        services.audit.note("session.open", actor=account.name, target="by the provider", address=address)
        return fresh

    fresh = await run_in_threadpool(opened)
    response = RedirectResponse(_PAGE_FROM_BACK, 303)
    set_session(request, response, fresh.token, seconds=fresh.seconds)
    return response


def _invited(services: Services, arrival: Arrival, token: str | None) -> Arrival:
    """The same, who may join when the link in hand is for somebody who joins."""
    if token is None or arrival.may_join:
        return arrival
    with suppress(InvitationEnded):
        return replace(arrival, may_join=services.people.invitation(token).account_pk is None)
    return arrival


def _provider(services: Services) -> Provider:
    if services.provider is None:
        raise NoProvider("people sign in here by their passwords alone")
    return services.provider


def _back_url(request: Request, services: Services) -> str:
    base = services.settings.public_url or str(request.base_url)
    return f"{base.rstrip('/')}/api/v1/session/provider/back"


def _to_page(page: str, problem: ProviderProblem | NotLetIn) -> RedirectResponse:
    # The page has sentences of its own for these words: nobody can put others into its mouth by a link.
    log.warning(
        "signing in by the provider failed", extra={"reason": problem.reason, "problem": str(problem)}
    )
    return RedirectResponse(f"{page}#/sign-in/{quote(problem.reason, safe='')}", 303)
