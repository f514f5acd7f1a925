"""What proxies in front say of a request: its sender's address, its scheme, and whom they have signed in.

Anybody can send such headers. They are believed from the proxies that the operator has named, and from
nobody else.
"""

import ipaddress
import logging
import time
from collections.abc import Sequence

from fastapi import Request
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from collapsewatch_server.errors import ProxyNotTrusted

log = logging.getLogger(__name__)

_USER = "collapsewatch.proxy_user"
_WARN_SECONDS = 10.0


class ProxyMiddleware:
    """Puts what trusted proxies say in place of what the connection says.

    A request that names its user and comes from elsewhere is refused, not taken for nobody's: it is either
    an attempt, or a proxy that the operator forgot to name, who would look for the reason in vain.
    """

    def __init__(self, app: ASGIApp, *, trusted: Sequence[str], user_header: str | None) -> None:
        """The middleware.

        Args:
            trusted: networks of the proxies.
            user_header: in which they say whom they have signed in; None where they do not.
        """
        self._app = app
        self._networks = [ipaddress.ip_network(network) for network in trusted]
        self._user_header = user_header
        # Uvicorn's own, which reads the list of addresses from its end to the first that is no proxy.
        self._forwarded: ASGIApp = ProxyHeadersMiddleware(app, list(trusted))  # type: ignore[arg-type, assignment]
        self._warned_at = -_WARN_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_trusted = self._is_trusted(scope)
        users = [] if self._user_header is None else Headers(scope=scope).getlist(self._user_header)
        if users and (not is_trusted or len(users) > 1):
            await self._refuse(is_trusted, scope, receive, send)
            return
        if users and users[0].strip():
            scope[_USER] = users[0].strip()
        await (self._forwarded if is_trusted else self._app)(scope, receive, send)

    def _is_trusted(self, scope: Scope) -> bool:
        """Whether the connection itself comes from a proxy."""
        try:
            address = ipaddress.ip_address((scope.get("client") or ("", 0))[0])
        except ValueError:
            return False
        return any(address in network for network in self._networks)

    async def _refuse(self, is_trusted: bool, scope: Scope, receive: Receive, send: Send) -> None:
        peer = (scope.get("client") or ("", 0))[0]
        problem = (
            f"the header {self._user_header} came twice: the proxy has to replace what its clients send"
            if is_trusted
            else f"the header {self._user_header} is believed from trusted proxies alone, and {peer} is none"
        )
        if time.monotonic() - self._warned_at >= _WARN_SECONDS:
            # Seldom: whoever sends many such requests shall not fill the disk.
            self._warned_at = time.monotonic()
            log.warning("a request that names its own user was refused", extra={"peer": peer})
        error = ProxyNotTrusted(problem)
        response = JSONResponse(error.body().model_dump(mode="json"), error.status_code)
        await response(scope, receive, send)


def proxy_user(request: Request) -> str | None:
    """Whom a trusted proxy says that it has signed in."""
    user: str | None = request.scope.get(_USER)
    return user
