"""The page itself, the chart library from its own package, and the API page."""

import posixpath
import re
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from collapsewatch_frontend import static_dir
from collapsewatch_server.openapi.page import api_page
from collapsewatch_server.openapi.schema import openapi_document
from collapsewatch_server.web.deps import ServicesDep
from collapsewatch_server.web.page_files import (
    IMMUTABLE,
    STYLE_LINK,
    STYLES,
    Asset,
    Edition,
    newest_edition,
    page_file,
)
from collapsewatch_server.web.security import FRAMED_HEADERS

router = APIRouter(include_in_schema=False)

PLOTLY_VERSION = version("plotly")
_PLOTLY_TOKEN = "__PLOTLY_VERSION__"  # noqa: S105 (a place in the page)
_APP = "/static/js/app.js"
_SHARED_APP = "/static/js/shared_app.js"
_FIRST_ASKS = '<script type="module" async src="/static/js/first_asks.js"></script>'


def page_html(*, app: str = _APP) -> str:
    """The page's document; its files go by the name of their edition, so browsers ask for each only once."""
    return _page_of(app, newest_edition())


@lru_cache(maxsize=4)
def _page_of(app: str, edition: Edition) -> str:
    html = _text(edition, "index.html").replace(_PLOTLY_TOKEN, PLOTLY_VERSION)
    if app == _APP:
        html = html.replace(_PRELOADS, _preloads(edition))
    else:
        # What a link shows is told by the server first.
        html = html.replace(_PRELOADS, "").replace(_FIRST_ASKS, "").replace(_APP, app)
    # One sheet, where each would be a request of its own.
    html = STYLE_LINK.sub("", html, count=len(STYLE_LINK.findall(html)) - 1)
    html = STYLE_LINK.sub(f'<link rel="stylesheet" href="/static/{STYLES}" />\n', html)
    return html.replace('="/static/', f'="/static/{edition.name}/')


def _text(edition: Edition, name: str) -> str:
    return edition.files[name].plain.decode()


def _preloads(edition: Edition) -> str:
    # Without these a browser learns of a module only when it has read the one that imports it.
    first = _imported(edition, "js/first_asks.js", set())
    frame = _imported(edition, "js/app.js", set()) - first
    links = [_preload(name, "high") for name in sorted(first)]
    links += [_preload(name, "low") for name in sorted(frame)]
    for screen, place in _SCREEN.findall(_text(edition, "js/screens.js")):
        rest = _imported(edition, _beside("js/screens.js", place), set()) - first - frame
        modules = " ".join(name.removeprefix("js/") for name in sorted(rest))
        links.append(f'<meta name="screen-{screen}" content="{modules}" />')
    return "\n    ".join(links)


def _preload(name: str, priority: str) -> str:
    return f'<link rel="modulepreload" fetchpriority="{priority}" href="/static/{name}" />'


def _imported(edition: Edition, name: str, found: set[str]) -> set[str]:
    """The module and all that it needs to run."""
    if name not in found:
        found.add(name)
        for place in _IMPORT.findall(_text(edition, name)):
            _imported(edition, _beside(name, place), found)
    return found


def _beside(name: str, place: str) -> str:
    """The name of a file that `name` names by where it is."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), place))


_PRELOADS = "<!-- modules -->"
_IMPORT = re.compile(r'\bfrom "(\.[^"]+\.js)";')
_SCREEN = re.compile(r'^  (\w+): .*\bimport\("(\./[^"]+\.js)"\)', re.MULTILINE)


def mount_page(app: FastAPI) -> None:
    """Adds the page to the app."""
    app.include_router(router)
    app.add_route("/static/{path:path}", static_file, name="static", include_in_schema=False)


async def static_file(request: Request) -> Response:
    """One of the page's files. It has no secrets, and costs too little to be counted."""
    response = page_file(request.path_params["path"], request.headers)
    if response is None:
        raise HTTPException(404)
    return response


def warm_page() -> None:
    """Compresses all that the page consists of."""
    plotly_bundle().warm()
    for asset in newest_edition().files.values():
        asset.warm()


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
    return plotly_bundle().answer(request.headers, IMMUTABLE if named else "no-cache")


@router.get(f"/vendor/plotly-{PLOTLY_VERSION}.min.js")
def plotly_of_version(request: Request) -> Response:
    """The chart library under a name that never means another file."""
    return plotly_bundle().answer(request.headers, IMMUTABLE)


@lru_cache(maxsize=1)
def plotly_bundle() -> Asset:
    """The bundle of the installed `plotly` package in every encoding that browsers ask for."""
    plain = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    return Asset(plain, "text/javascript; charset=utf-8")
