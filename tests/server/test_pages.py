"""The page, the chart library and the API page, all from this machine."""

import gzip
import posixpath
import re
from typing import Any

import pytest
import zstandard

from collapsewatch_server.routes.pages import PLOTLY_VERSION, plotly_bundle
from tests.server.live import LiveServer


@pytest.fixture
def live(start_sqlite_server: Any) -> LiveServer:
    server: LiveServer = start_sqlite_server()
    return server


def test_everything_the_page_names_is_served(live: LiveServer) -> None:
    page = live.http.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "__PLOTLY_VERSION__" not in page.text
    addresses = re.findall(r'(?:href|src|content)="(/[^"]+)"', page.text)
    assert any("plotly" in address for address in addresses)
    for address in addresses:
        assert live.http.get(address).status_code == 200, address
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_scripts_are_scripts_whatever_this_machine_thinks_of_the_suffix(live: LiveServer) -> None:
    response = live.http.get("/static/js/app.js")
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    assert response.headers["cache-control"] == "no-cache"
    again = live.http.get("/static/js/app.js", headers={"If-None-Match": response.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize(
    ("accept", "encoding"), [("gzip, zstd", "zstd"), ("gzip", "gzip"), ("br, zstd;q=0", None)]
)
def test_the_chart_library_comes_compressed_and_for_ever(
    live: LiveServer, accept: str, encoding: str | None
) -> None:
    path = f"/vendor/plotly.min.js?v={PLOTLY_VERSION}"
    with live.http.stream("GET", path, headers={"Accept-Encoding": accept}) as response:
        body = b"".join(response.iter_raw())
        headers = response.headers
    assert headers.get("content-encoding") == encoding
    assert "immutable" in headers["cache-control"]
    unpacked = body
    if encoding == "zstd":
        unpacked = zstandard.ZstdDecompressor().decompress(body)
    elif encoding == "gzip":
        unpacked = gzip.decompress(body)
    assert unpacked == plotly_bundle().plain
    assert encoding is None or len(body) < len(unpacked) / 2


def test_the_chart_library_is_sent_once(live: LiveServer) -> None:
    etag = plotly_bundle().etag
    for path in (f"/vendor/plotly-{PLOTLY_VERSION}.min.js", "/vendor/plotly.min.js"):
        response = live.http.get(path, headers={"If-None-Match": etag})
        assert (response.status_code, response.content) == (304, b"")
    assert live.http.get("/vendor/plotly.min.js?v=1.0").headers["cache-control"] == "no-cache"


def test_the_api_page_shows_every_route_and_loads_nothing(live: LiveServer) -> None:
    html = live.http.get("/docs").text
    for path in live.http.get("/openapi.json").json()["paths"]:
        assert path in html
    assert "<script" not in html
    assert not re.search(r'(?:src|href)="https?:', html)


def test_the_files_of_an_edition_are_asked_for_once(live: LiveServer) -> None:
    page = live.http.get("/").text
    edition = re.search(r'src="/static/(v-[0-9a-f]{16})/js/app.js"', page)
    assert edition is not None
    for path in ("js/app.js", "js/live_worker.js", "css/base.css"):
        response = live.http.get(f"/static/{edition[1]}/{path}")
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]
        assert response.content == live.http.get(f"/static/{path}").content
    # A page of an edition that is no more still gets what there is, and keeps none of it.
    other = live.http.get("/static/v-0123456789abcdef/js/app.js")
    assert (other.status_code, other.headers["cache-control"]) == (200, "no-cache")
    assert live.http.get("/static/v-0123456789abcdef/js/nothing.js").status_code == 404
    assert live.http.get("/static/v-0123456789abcdef/../../main.py").status_code == 404


def test_the_style_sheets_come_as_one(live: LiveServer) -> None:
    sheets = re.findall(r'rel="stylesheet" href="/static/([^"]+)"', live.http.get("/static/index.html").text)
    assert len(sheets) > 10
    (together,) = re.findall(r'rel="stylesheet" href="([^"]+)"', live.http.get("/").text)
    found = live.http.get(together)
    assert found.headers["content-type"] == "text/css; charset=utf-8"
    assert found.text == "\n".join(live.http.get(f"/static/{sheet}").text for sheet in sheets)


def test_the_page_names_the_modules_that_it_needs_ahead(live: LiveServer) -> None:
    page = live.http.get("/").text
    link = r'<link rel="modulepreload" fetchpriority="(high|low)" href="/static/v-[0-9a-f]{16}/([^"]+)"'
    ahead = {path: priority for priority, path in re.findall(link, page)}
    # What asks for the first answers is wanted before the frame.
    assert ahead["js/first_asks.js"] == ahead["js/api.js"] == ahead["js/format.js"] == "high"
    assert ahead["js/app.js"] == ahead["js/views/shell.js"] == "low"
    assert not {"js/theme-boot.js", "js/shared_app.js", "js/live_worker.js", "js/views/run.js"} & set(ahead)
    assert "first_asks" not in live.http.get("/s/0123456789abcdef0123456789abcdef").text.split("<body>")[0]


def test_the_page_names_all_that_each_screen_needs(live: LiveServer) -> None:
    page = live.http.get("/").text
    screens = {
        name: set(modules.split())
        for name, modules in re.findall(r'<meta name="screen-([\w-]+)" content="([^"]*)"', page)
    }
    assert {"runs", "run", "compare", "rollouts", "settings"} < set(screens)
    assert {"views/run.js", "figures/lines.js"} <= screens["run"]
    assert "views/run.js" not in screens["runs"]
    ahead = set(re.findall(r'href="/static/v-[0-9a-f]{16}/js/([^"]+)"', page))
    for name, modules in screens.items():
        assert not modules & ahead, name
        for module in modules:
            source = live.http.get(f"/static/js/{module}").text
            folder = f"js/{module}".rpartition("/")[0]
            for imported in re.findall(r'\bfrom "(\.[^"]+)"', source):
                path = posixpath.normpath(f"{folder}/{imported}").removeprefix("js/")
                assert path in modules | ahead, (name, module, imported)


def test_the_page_knows_the_newest_event(live: LiveServer) -> None:
    live.start_run()
    newest = live.services.reading.kept_event_ids()[1]
    assert newest > 0
    assert f'<html data-last-event-id="{newest}" ' in live.http.get("/").text
