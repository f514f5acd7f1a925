"""The page itself, the chart library from its own package, and the API page."""

import gzip
import hashlib
import re
import time
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import zstandard
from fastapi import APIRouter, FastAPI, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from collapsewatch_frontend import static_dir
from collapsewatch_server.openapi.page import api_page
from collapsewatch_server.openapi.schema import openapi_document
from collapsewatch_server.web.deps import ServicesDep
from collapsewatch_server.web.security import FRAMED_HEADERS

router = APIRouter(include_in_schema=False)

PLOTLY_VERSION = version("plotly")
_PLOTLY_TOKEN = "__PLOTLY_VERSION__"  # noqa: S105 (a place in the page)
_APP = "/static/js/app.js"
_SHARED_APP = "/static/js/shared_app.js"
_FIRST_ASKS = '<script type="module" async src="/static/js/first_asks.js"></script>'
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
        edition, _, rest = path.partition("/")
        is_edition = _EDITION.fullmatch(edition) is not None
        response = await super().get_response(rest if is_edition else path, scope)
        # Under the name of this edition there will never be another file; of another one nobody can tell.
        lasting = is_edition and edition == page_edition() and response.status_code == 200
        response.headers["Cache-Control"] = _IMMUTABLE if lasting else "no-cache"
        if path.endswith(".js") and response.status_code == 200:
            response.headers["Content-Type"] = "text/javascript; charset=utf-8"
        return response


_EDITION = re.compile(r"v-[0-9a-f]{16}")


def page_edition() -> str:
    """A name for the page's files as they are now: modules that name each other stay in one edition."""
    return _edition_at(int(time.monotonic()))


@lru_cache(maxsize=1)
def _edition_at(second: int) -> str:
    # Looked at once a second, since a page asks for a hundred files and somebody may be at work on them.
    known = hashlib.sha256()
    for path in sorted(static_dir().rglob("*")):
        status = path.stat()
        known.update(f"{path.relative_to(static_dir())} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"v-{known.hexdigest()[:16]}"


def page_html(*, app: str = _APP) -> str:
    """The page's document; its files go by the name of their edition, so browsers ask for each only once."""
    return _page_of(app, page_edition())


@lru_cache(maxsize=4)
def _page_of(app: str, edition: str) -> str:
    html = (static_dir() / "index.html").read_text(encoding="utf-8").replace(_PLOTLY_TOKEN, PLOTLY_VERSION)
    if app == _APP:
        html = html.replace(_PRELOADS, _preloads())
    else:
        # What a link shows is told by the server first.
        html = html.replace(_PRELOADS, "").replace(_FIRST_ASKS, "").replace(_APP, app)
    return html.replace('="/static/', f'="/static/{edition}/')


def _preloads() -> str:
    # Without these a browser learns of a module only when it has read the one that imports it.
    first = _imported(static_dir() / "js" / "first_asks.js", set())
    rest = sorted(path for path in (static_dir() / "js").rglob("*.js") if path.name not in _NOT_AHEAD)
    links = [_preload(path, "high") for path in sorted(first)]
    links += [_preload(path, "low") for path in rest if path not in first]
    return "\n    ".join(links)


def _preload(path: Path, priority: str) -> str:
    place = path.relative_to(static_dir()).as_posix()
    return f'<link rel="modulepreload" fetchpriority="{priority}" href="/static/{place}" />'


def _imported(path: Path, found: set[Path]) -> set[Path]:
    """The module and all that it needs to run."""
    if path not in found:
        found.add(path)
        for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
            _imported((path.parent / name).resolve(), found)
    return found


_PRELOADS = "<!-- modules -->"
_IMPORT = re.compile(r'\bfrom "(\.[^"]+\.js)";')
_NOT_AHEAD = {"theme-boot.js", "shared_app.js", "live_worker.js"}


def mount_page(app: FastAPI) -> None:
    """Adds the page to the app."""
    app.include_router(router)
    app.mount("/static", PageFiles(directory=static_dir()), name="static")


@router.get("/")
def index(services: ServicesDep) -> HTMLResponse:
    """The page, with the id of the newest event: what it loads afterwards misses nothing that comes later."""
    html = page_html()
    with suppress(SQLAlchemyError):
        newest = services.reading.kept_event_ids()[1]
        html = html.replace("<html ", f'<html data-last-event-id="{newest}" ', 1)
    return HTMLResponse(html, headers={"Cache-Control": "no-cache"})


@router.get("/s/{token}")
def shared_page(token: str) -> HTMLResponse:
    """The page of a link; what it shows, and whether it is good, the page asks for itself."""
    html = page_html(app=_SHARED_APP)
    return HTMLResponse(html, headers={"Cache-Control": "no-cache", **FRAMED_HEADERS})


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
