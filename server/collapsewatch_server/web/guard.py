"""The one place that decides whether a request may go on: every route of the app passes through it."""

import math
import time
from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.roles import LOCAL, Identity
from collapsewatch_server.access.rules import RULES, Door, Rule
from collapsewatch_server.access.visible import Visible, seeing
from collapsewatch_server.accounts.doorkeeper import Credentials, Doorkeeper, is_unbounded
from collapsewatch_server.errors import CrossSite, NoRule
from collapsewatch_server.services import Services
from collapsewatch_server.web.cookies import session_token
from collapsewatch_server.web.noting import noted, outcome_of
from collapsewatch_server.web.proxies import proxy_user

_SAFE_METHODS = frozenset({"GET", "HEAD"})
_LOOK_AGAIN_SECONDS = 1.0


async def guard(request: Request) -> AsyncIterator[None]:
    """Lets the request go on, seeing what its caller can see, or raises.

    Raises:
        NoRule: nobody has said who may call this route.
        Unauthorised: the caller has to sign in, or its key is no good.
        Forbidden: it may not do this.
        CrossSite: a page of another origin sent it.
    """
    rule = _rule_of(request)
    if isinstance(rule, Door):
        if rule is Door.everybody and request.method not in _SAFE_METHODS:
            check_same_origin(request)
        yield
        return
    services: Services = request.app.state.services
    caller = await _identified(request, rule)
    request.state.caller = caller
    if rule.action:
        request.state.subject = await run_in_threadpool(services.audit.subject_of, request.path_params)
    outcome = "failed"
    try:
        if request.method not in _SAFE_METHODS and caller.kind != "key":
            check_same_origin(request, must_say=caller.kind == "account")
        with seeing(await _bounds(request, caller, rule)):
            yield
        outcome = "done"
    except Exception as error:
        outcome = outcome_of(error)
        raise
    finally:
        if rule.action:
            await noted(
                request, rule.action, caller.name, address=credentials_of(request).address, outcome=outcome
            )


class StillSeen:
    """What the caller of an answer that goes on and on may see by now."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._visible: Visible | None = None
        self._asked_at = -math.inf

    async def visible(self) -> Visible | None:
        """What it sees, as it was a second ago at most; None for everything.

        Raises:
            Unauthorised: its session has ended, its account was closed, or its key is no good any more.
            Forbidden: it has lost the role that the route needs.
        """
        if time.monotonic() - self._asked_at >= _LOOK_AGAIN_SECONDS:
            rule = _rule_of(self._request)
            assert isinstance(rule, Rule)
            caller = await _identified(self._request, rule)
            self._visible = await _bounds(self._request, caller, rule)
            self._asked_at = time.monotonic()
        return self._visible


def _rule_of(request: Request) -> Rule | Door:
    rule = RULES.get((request.method, request.scope["route"].path))
    if rule is None:
        raise NoRule("nobody may call this")
    return rule


async def _identified(request: Request, rule: Rule) -> Identity:
    doorkeeper = _doorkeeper(request)
    # Where nobody signs in, no thread need be asked who it is.
    if not doorkeeper.needs_login:
        return LOCAL
    return await run_in_threadpool(doorkeeper.identify, credentials_of(request), rule.keys)


async def _bounds(request: Request, caller: Identity, rule: Rule) -> Visible | None:
    if is_unbounded(caller, rule):
        return None
    return await run_in_threadpool(_doorkeeper(request).bounds, caller, rule, request.path_params)


def _doorkeeper(request: Request) -> Doorkeeper:
    services: Services = request.app.state.services
    return services.doorkeeper


def caller_of(request: Request) -> Identity:
    """Whose request it is, as the guard found out."""
    found: Identity = request.state.caller
    return found


CallerDep = Annotated[Identity, Depends(caller_of)]


def credentials_of(request: Request) -> Credentials:
    """What a request says of who sent it."""
    return Credentials(
        authorization=request.headers.get("authorization"),
        session_token=session_token(request),
        address=request.client.host if request.client is not None else "",
        proxy_user=proxy_user(request),
    )


def check_same_origin(request: Request, *, must_say: bool = False) -> None:
    """Comes back unless a page of another origin sent the request.

    Browsers say where a request comes from and pages cannot make them lie; programs say nothing.

    Args:
        must_say: refuses as well what does not say it: a cookie came along, so a browser sent it.

    Raises:
        CrossSite: it comes from elsewhere.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    foreign = origin is not None and _netloc(origin) != request.headers.get("host")
    if foreign or site not in (None, "same-origin", "none"):
        raise CrossSite("a page of another origin may not change anything here")
    if must_say and site is None and origin is None:
        raise CrossSite("a request with a session's cookie has to say which page it comes from")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # such as `http://[`
        return None
