"""Answers of some size go compressed to who can take that: JSON of numbers shrinks to a third."""

import zlib

import zstandard
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TYPES = ("application/json", "text/javascript", "text/css", "text/html", "image/svg+xml")
_LEAST_BYTES = 2_000
# Fast ones: on a slow line they save seconds, and nobody waits for them where there is none.
_GZIP_LEVEL = 4
_ZSTD_LEVEL = 3


class CompressionMiddleware:
    """Compresses answers that come in one piece; what is sent bit by bit, as events are, passes untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        encoding = _encoding(Headers(scope=scope).get("accept-encoding", "")) if _has_body(scope) else None
        if encoding is None:
            await self._app(scope, receive, send)
            return
        held: Message | None = None

        async def send_compressed(message: Message) -> None:
            nonlocal held
            if message["type"] == "http.response.start" and _is_wanted(message):
                held = message
                return
            if held is not None:
                start, held = held, None
                MutableHeaders(scope=start).add_vary_header("Accept-Encoding")
                if message["type"] == "http.response.body" and not message.get("more_body", False):
                    message = _compressed(start, message, encoding)
                await send(start)
            await send(message)

        await self._app(scope, receive, send_compressed)


def _has_body(scope: Scope) -> bool:
    kind: tuple[str, str] = (scope["type"], scope.get("method", ""))
    return kind[0] == "http" and kind[1] != "HEAD"


def _encoding(accepted: str) -> str | None:
    """The best of those that the header names and does not refuse."""
    named = {}
    for item in accepted.lower().split(","):
        name, _, weight = item.partition(";")
        named[name.strip()] = weight.replace(" ", "")
    return next((name for name in ("zstd", "gzip") if not _is_refused(named.get(name, "q=0"))), None)


def _is_refused(weight: str) -> bool:
    return weight.startswith("q=") and weight[2:].strip("0.") == ""


def _is_wanted(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    kind = headers.get("content-type", "").partition(";")[0]
    status: int = start["status"]
    return status == 200 and kind in _TYPES and "content-encoding" not in headers


def _compressed(start: Message, message: Message, encoding: str) -> Message:
    body = message.get("body", b"")
    if len(body) < _LEAST_BYTES:
        return message
    if encoding == "zstd":
        packed = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(body)
    else:
        packer = zlib.compressobj(_GZIP_LEVEL, wbits=31)
        packed = packer.compress(body) + packer.flush()
    headers = MutableHeaders(scope=start)
    headers["Content-Encoding"] = encoding
    headers["Content-Length"] = str(len(packed))
    # The same content in other bytes is what a weak tag stands for.
    tag = headers.get("etag", "")
    if tag.startswith('"'):
        headers["ETag"] = f"W/{tag}"
    return {**message, "body": packed}
