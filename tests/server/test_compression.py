"""Large answers go compressed to who takes that, and events never wait for more of them."""

import asyncio
import gzip
from typing import Any

import pytest
import zstandard
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from collapsewatch_server.web.compression import CompressionMiddleware

_LARGE = {"values": [number / 7 for number in range(2_000)]}


def _large(request: Request) -> Response:
    return JSONResponse(_LARGE, headers={"ETag": '"one"'})


def _small(request: Request) -> Response:
    return JSONResponse({"values": [1]})


def _parquet(request: Request) -> Response:
    return Response(b"x" * 10_000, media_type="application/vnd.apache.parquet")


def _packed(request: Request) -> Response:
    body = gzip.compress(b"[1]" * 2_000)
    return Response(body, media_type="application/json", headers={"Content-Encoding": "gzip"})


def _parts(request: Request) -> Response:
    return StreamingResponse(iter(["[" + "1," * 2_000, "1]"]), media_type="application/json")


@pytest.fixture(scope="module")
def client() -> TestClient:
    handlers = {"large": _large, "small": _small, "parquet": _parquet, "packed": _packed, "parts": _parts}
    app = Starlette(routes=[Route(f"/{name}", handler) for name, handler in handlers.items()])
    app.routes.append(Route("/file", lambda request: FileResponse(__file__, media_type="text/css")))
    app.add_middleware(CompressionMiddleware)
    return TestClient(app)


def _unpacked(body: bytes, encoding: str | None) -> bytes:
    if encoding == "zstd":
        return zstandard.ZstdDecompressor().decompress(body)
    return body if encoding is None else gzip.decompress(body)


def _get(client: TestClient, path: str, accept: str) -> tuple[Any, bytes]:
    with client.stream("GET", path, headers={"Accept-Encoding": accept}) as response:
        return response, b"".join(response.iter_raw())


@pytest.mark.parametrize(
    ("accept", "encoding"),
    [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip", "gzip"),
        ("GZIP;q=0.5", "gzip"),
        ("zstd;q=0, gzip;q=1.0", "gzip"),
        ("br", None),
        ("identity", None),
        ("gzip; q=0.0", None),
    ],
)
def test_a_large_answer_comes_as_it_is_wanted(client: TestClient, accept: str, encoding: str | None) -> None:
    response, body = _get(client, "/large", accept)
    plain = client.get("/large", headers={"Accept-Encoding": "identity"}).content
    assert response.headers.get("content-encoding") == encoding
    assert int(response.headers["content-length"]) == len(body)
    assert _unpacked(body, encoding) == plain
    if encoding:
        assert len(body) < len(plain) / 2
        assert response.headers["etag"] == 'W/"one"'
        assert response.headers["vary"] == "Accept-Encoding"


def test_a_file_of_the_page_is_compressed(client: TestClient) -> None:
    response, body = _get(client, "/file", "gzip")
    assert response.headers["content-encoding"] == "gzip"
    assert b"Large answers go compressed" in gzip.decompress(body)


@pytest.mark.parametrize("path", ["/small", "/parquet", "/packed", "/parts"])
def test_what_gains_nothing_is_left_alone(client: TestClient, path: str) -> None:
    response, body = _get(client, path, "gzip, zstd")
    assert response.headers.get("content-encoding") == ("gzip" if path == "/packed" else None)
    assert (gzip.decompress(body) if path == "/packed" else body)[:1] in (b"[", b"{", b"x")


def test_the_first_part_of_an_answer_is_not_held_back() -> None:
    """Even one of a type that is compressed elsewhere: what comes bit by bit goes on at once."""
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"[" * 5_000, "more_body": True})
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
        await send({"type": "http.response.body", "body": b"]" * 5_000})

    async def keep(message: Any) -> None:
        sent.append(message)

    async def nothing() -> Any:
        raise AssertionError("nothing was to be received")

    scope = {"type": "http", "method": "GET", "headers": [(b"accept-encoding", b"gzip")]}
    asyncio.run(CompressionMiddleware(app)(scope, nothing, keep))
    assert b"".join(message.get("body", b"") for message in sent) == b"[" * 5_000 + b"]" * 5_000
