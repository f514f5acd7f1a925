"""Refuses addresses that are longer than any that the page or a script has reason to ask for."""

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from collapsewatch_server.errors import QueryTooLong, wrong

MAX_QUERY_BYTES = 32 * 2**10
"""The longest that make sense name 200 runs, or 500 metrics; each name is looked up."""
MAX_PATH_BYTES = 4 * 2**10


class HeadMiddleware:
    """Looks at the length of the address before it is taken apart. The web server limits the headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := _refusal(scope)) is not None:
            body = refusal.body().model_dump(mode="json")
            await JSONResponse(body, refusal.status_code)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refusal(scope: Scope) -> QueryTooLong | None:
    query, path = len(scope["query_string"]), len(scope.get("raw_path") or b"")
    for name, given, most in (("query", query, MAX_QUERY_BYTES), ("path", path, MAX_PATH_BYTES)):
        if given > most:
            message = f"the {name} of an address may hold {most} bytes, this one has {given}"
            return QueryTooLong(message, [wrong(name, f"longer than {most} bytes", given)])
    return None
