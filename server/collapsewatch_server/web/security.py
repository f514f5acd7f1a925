"""What holds for every answer: which hosts are served, and what a browser may do with the page."""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collapsewatch_server.errors import WrongHost, wrong
from collapsewatch_server.settings import is_loopback

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]]*)(:\d{1,5})?")
# Plotly writes style elements and draws pictures as data and blob URLs; nothing else is not from here.
_POLICY = [
    "default-src 'self'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
]
CONTENT_SECURITY_POLICY = "; ".join([*_POLICY, "frame-ancestors 'none'"])
FRAMED_HEADERS = {"Content-Security-Policy": "; ".join([*_POLICY, "frame-ancestors *"])}
"""Of a page that notebooks and others may show in a frame: nothing can be changed on it, so that no click on
it can be stolen. It cannot be left for another page of this server either, which all refuse frames."""
_FRAMED_POLICY = FRAMED_HEADERS["Content-Security-Policy"]
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
# What the API answers is for whoever asked, and not for the next one at the same browser or proxy.
_NOT_KEPT = {"Cache-Control": "no-store"}


class SecurityMiddleware:
    """Checks the Host header and adds the security headers.

    Plain ASGI, because the wrappers that hand over requests and responses would buffer the event streams.
    """

    def __init__(self, app: ASGIApp, *, any_host: bool) -> None:
        self._app = app
        self._any_host = any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                may_be_framed = headers.get("content-security-policy") == _FRAMED_POLICY
                wanted = _HEADERS | _NOT_KEPT if scope["path"].startswith("/api/") else _HEADERS
                for name, value in wanted.items():
                    if not (may_be_framed and name == "X-Frame-Options"):
                        headers.setdefault(name, value)
            await send(message)

        host = Headers(scope=scope).get("host", "")
        # A page of another site can have its own name point here; the name it is asked for gives it away.
        if not self._any_host and not _names_this_machine(host):
            error = WrongHost(
                "this server answers to localhost, 127.0.0.1 and [::1] only",
                [wrong("host", "not a name of this machine", host)],
            )
            response = JSONResponse(error.body().model_dump(mode="json"), error.status_code)
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)


def _names_this_machine(host: str) -> bool:
    match = _HOST.fullmatch(host)
    return match is not None and is_loopback(match["name"])
