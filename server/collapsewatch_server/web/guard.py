"""The one place that decides whether a request may go on: every route of the app passes through it."""

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.roles import Identity
from collapsewatch_server.access.rules import RULES, Door
from collapsewatch_server.access.visible import seeing
from collapsewatch_server.accounts.doorkeeper import Credentials
from collapsewatch_server.errors import CrossSite, NoRule, ServerError
from collapsewatch_server.services import Services
from collapsewatch_server.web.cookies import session_token

_SAFE_METHODS = frozenset({"GET", "HEAD"})


async def guard(request: Request) -> AsyncIterator[None]:
    """Lets the request go on, seeing what its caller can see, or raises.

    Raises:
        NoRule: nobody has said who may call this route.
        Unauthorised: the caller has to sign in, or its key is no good.
        Forbidden: it may not do this.
        CrossSite: a page of another origin sent it.
    """
    rule = RULES.get((request.method, request.scope["route"].path))
    if rule is None:
        raise NoRule("nobody may call this")
    if isinstance(rule, Door):
        if rule is Door.everybody and request.method not in _SAFE_METHODS:
            check_same_origin(request)
        yield
        return
    services: Services = request.app.state.services
    credentials = credentials_of(request)
    caller = await run_in_threadpool(services.doorkeeper.identify, credentials, rule.keys)
    request.state.caller = caller
    outcome = "failed"
    try:
        if request.method not in _SAFE_METHODS and caller.kind != "key":
            check_same_origin(request, must_say=caller.kind == "account")
        visible = await run_in_threadpool(services.doorkeeper.bounds, caller, rule, request.path_params)
        with seeing(visible):
            yield
        outcome = "done"
    except ServerError as error:
        outcome = error.code
        raise
    finally:
        if rule.action:
            await run_in_threadpool(
                services.audit.note_call,
                request.path_params,
                rule.action,
                caller,
                credentials.address,
                outcome,
            )


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
