"""The page itself, the chart library from its own package, and the API page."""

import gzip
import hashlib
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from typing import NamedTuple

import zstandard
from fastapi import APIRouter, FastAPI, Request
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from collapsewatch_frontend import static_dir
from collapsewatch_server.openapi.page import api_page
from collapsewatch_server.openapi.schema import openapi_document

router = APIRouter(include_in_schema=False)

PLOTLY_VERSION = version("plotly")
_PLOTLY_TOKEN = "__PLOTLY_VERSION__"  # noqa: S105 (a place in the page)
_IMMUTABLE = "public, max-age=31536000, immutable"
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 12


class Asset(NamedTuple):
    """A large file, compressed once."""

    etag: str
    plain: bytes
    gzip: bytes
    zstd: bytes


class PageFiles(StaticFiles):
    """The page's files. Browsers ask each time and are mostly told that nothing changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, with a type that does not depend on what is installed on this machine."""
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        if path.endswith(".js") and response.status_code == 200:
            response.headers["Content-Type"] = "text/javascript; charset=utf-8"
        return response


def mount_page(app: FastAPI) -> None:
    """Adds the page to the app."""
    app.include_router(router)
    app.mount("/static", PageFiles(directory=static_dir()), name="static")


@router.get("/")
def index() -> HTMLResponse:
    """The page."""
    html = (static_dir() / "index.html").read_text(encoding="utf-8")
    return HTMLResponse(html.replace(_PLOTLY_TOKEN, PLOTLY_VERSION), headers={"Cache-Control": "no-cache"})


@router.get("/favicon.ico")
def favicon() -> Response:
    """Browsers ask for it whatever the page says."""
    path = static_dir() / "favicon.svg"
    return Response(path.read_bytes(), media_type="image/svg+xml", headers={"Cache-Control": "max-age=86400"})


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    """The API page."""
    return HTMLResponse(api_page(openapi_document(request.app)), headers={"Cache-Control": "no-cache"})


@router.get("/vendor/plotly.min.js")
def plotly(request: Request) -> Response:
    """The chart library; for ever the same file when the address names the version."""
    named = request.query_params.get("v") == PLOTLY_VERSION
    return _serve(request.headers, _IMMUTABLE if named else "no-cache")


@router.get(f"/vendor/plotly-{PLOTLY_VERSION}.min.js")
def plotly_of_version(request: Request) -> Response:
    """The chart library under a name that never means another file."""
    return _serve(request.headers, _IMMUTABLE)


def _serve(asked: Headers, cache_control: str) -> Response:
    asset = plotly_bundle()
    headers = {"ETag": asset.etag, "Cache-Control": cache_control, "Vary": "Accept-Encoding"}
    if asset.etag in (tag.strip() for tag in asked.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    accepted = _encodings(asked.get("accept-encoding", ""))
    content = asset.plain
    if "zstd" in accepted:
        content, headers["Content-Encoding"] = asset.zstd, "zstd"
    elif "gzip" in accepted:
        content, headers["Content-Encoding"] = asset.gzip, "gzip"
    return Response(content, media_type="text/javascript; charset=utf-8", headers=headers)


def _encodings(accept: str) -> set[str]:
    names = set()
    for item in accept.lower().split(","):
        name, _, quality = item.partition(";")
        if quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            names.add(name.strip())
    return names


@lru_cache(maxsize=1)
def plotly_bundle() -> Asset:
    """The bundle of the installed `plotly` package in every encoding that browsers ask for."""
    plain = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return Asset(
        etag=f'"{hashlib.sha256(plain).hexdigest()[:32]}"',
        plain=plain,
        gzip=gzip.compress(plain, _GZIP_LEVEL, mtime=0),
        zstd=zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(plain),
    )
