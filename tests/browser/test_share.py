"""Links to runs and charts: made on the page, opened by somebody else, followed live, and ended."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

import collapsewatch
from tests.browser.conftest import is_fault
from tests.browser.recording import log_step, recorded_steps
from tests.browser.test_craft import AXE, grave_faults
from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
HOSTILE = "<img src=x onerror='window.owned=1'>"


def make_link(page: Page, *, title: str, mode: str = "live") -> str:
    """Makes a link in the dialog that is open; its address."""
    page.get_by_test_id("share-title").fill(title)
    page.get_by_test_id("share-mode").select_option(mode)
    page.get_by_test_id("dialog-confirm").click()
    address = page.get_by_test_id("share-address")
    expect(address).to_be_visible()
    found = address.input_value()
    page.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("share-made")).to_have_count(0)
    return found


def post_link(service: Service, **draft: Any) -> dict[str, Any]:
    answer = httpx.post(f"{service.url}/api/v1/shares", json={"title": "Look", **draft}, timeout=60)
    answer.raise_for_status()
    return dict(answer.json())


@pytest.fixture
def visitor(browser: Browser, service: Service) -> Any:
    """The page of somebody else, who has nothing but a link, and what went wrong on it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=service.url)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if is_fault(message) else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    # A link that was ended answers 410, which the browser tells as well.
    assert [text for text in problems if "status of 410" not in text] == []


def test_a_run_is_shared_read_only_and_the_link_is_ended(
    page: Page, visitor: Page, collapsed_run: str
) -> None:
    page.goto(f"/#/runs/{collapsed_run}")
    page.get_by_test_id("share").click()
    address = make_link(page, title=f"Look at this {HOSTILE}")
    asked: list[str] = []
    visitor.on("request", lambda request: asked.append(request.url))
    visitor.goto(address)
    expect(visitor.get_by_test_id("run-name")).to_have_text("collapsing")
    expect(visitor.get_by_test_id("shared-title")).to_contain_text("Look at this <img")
    expect(visitor.get_by_test_id("live-state")).to_have_text("live")
    expect(visitor.get_by_test_id("figure-retrieval").locator(".js-plotly-plot")).to_be_visible()
    assert visitor.evaluate("window.owned") is None
    # What is not shared is not offered, and not asked for.
    expect(visitor.get_by_role("navigation", name="Main")).to_have_count(0)
    expect(visitor.get_by_test_id("share")).to_be_hidden()
    calls = [url for url in asked if "/api/" in url]
    assert calls
    assert all("/api/v1/shared/" in url for url in calls), calls
    visitor.goto(f"{address}#/settings")
    expect(visitor.get_by_test_id("not-found")).to_contain_text("does not show that")
    visitor.goto(f"{address}#/runs/{collapsed_run}")
    expect(visitor.get_by_test_id("run-name")).to_be_visible()

    page.goto("/#/settings/shares")
    item = page.get_by_test_id("share-item").filter(has_text="Look at this")
    expect(item.get_by_test_id("share-about")).to_contain_text("opened")
    item.get_by_test_id("share-end").click()
    page.get_by_test_id("dialog-confirm").click()
    expect(item.get_by_test_id("share-about")).to_contain_text("ended")
    expect(visitor.get_by_test_id("shared-ended")).to_contain_text("has withdrawn it")
    visitor.reload()
    expect(visitor.get_by_test_id("shared-ended")).to_be_visible()


def test_a_live_link_follows_the_run_and_a_snapshot_stays(
    page: Page, visitor: Page, service: Service
) -> None:
    run_id = "followed"
    with collapsewatch.init(
        "shared", run_id, run_id=run_id, url=service.url, api_key=service.local_key()
    ) as run:
        run.log({"level": 0.1}, step=1)
    service.wait_until(lambda: service.get(f"/runs/{run_id}")["last_step"] == 1, "it is there")
    draft = {"kind": "run", "run_ids": [run_id], "view": f"#/runs/{run_id}"}
    frozen = post_link(service, mode="snapshot", **draft)
    live = post_link(service, **draft)
    visitor.goto(live["path"])
    expect(visitor.get_by_test_id("run-step")).to_have_text("step 1")
    expect(visitor.get_by_test_id("live-state")).to_have_text("live")
    with collapsewatch.init(
        "shared", run_id, run_id=run_id, url=service.url, api_key=service.local_key()
    ) as run:
        run.log({"level": 0.9}, step=2)
    expect(visitor.get_by_test_id("run-step")).to_have_text("step 2")
    page.goto(frozen["path"])
    expect(page.get_by_test_id("live-state")).to_contain_text("snapshot of")
    expect(page.get_by_test_id("run-step")).to_have_text("step 1")


def test_a_chart_is_shared_alone(page: Page, visitor: Page, collapsed_run: str) -> None:
    page.goto(f"/#/runs/{collapsed_run}?smooth=0.5")
    card = page.get_by_test_id("figure-reward")
    card.get_by_test_id("figure-menu").click()
    card.get_by_test_id("figure-share").click()
    address = make_link(page, title="The reward alone")
    visitor.goto(address)
    chart = visitor.get_by_test_id("shared-chart")
    expect(chart.get_by_test_id("figure-reward").locator(".js-plotly-plot")).to_be_visible()
    expect(visitor.get_by_test_id("chart-smoothing")).to_have_value("0.5")
    expect(visitor.get_by_test_id("figure-retrieval")).to_have_count(0)
    token = address.rsplit("/", 1)[1]
    for path in (f"/runs/{collapsed_run}/alerts", f"/runs/{collapsed_run}/series?metric=retrieval_accuracy"):
        answer = visitor.request.get(f"/api/v1/shared/{token}{path}")
        assert answer.status == 404, path


def test_rollouts_are_shown_only_by_links_that_say_so(
    visitor: Page, service: Service, collapsed_run: str
) -> None:
    draft = {"kind": "run", "run_ids": [collapsed_run], "view": f"#/runs/{collapsed_run}"}
    without, with_rollouts = post_link(service, **draft), post_link(service, with_rollouts=True, **draft)
    visitor.goto(without["path"])
    expect(visitor.get_by_test_id("run-name")).to_be_visible()
    expect(visitor.get_by_test_id("rollouts-link")).to_be_hidden()
    visitor.goto(f"{without['path']}#/runs/{collapsed_run}/rollouts")
    expect(visitor.get_by_test_id("not-found")).to_contain_text("does not show that")
    visitor.goto(with_rollouts["path"])
    visitor.get_by_test_id("rollouts-link").click()
    expect(visitor.get_by_test_id("rollouts-page")).to_be_visible()
    expect(visitor.locator(".loading")).to_have_count(0)


def test_the_quadrant_is_shared_alone(visitor: Page, service: Service, collapsed_run: str) -> None:
    limits = {"chart": "quadrant", "trajectories": ["first_turn"]}
    link = post_link(service, kind="chart", run_ids=[collapsed_run], limits=limits, mode="snapshot")
    visitor.goto(link["path"])
    expect(visitor.get_by_test_id("figure-quadrant").locator(".js-plotly-plot")).to_be_visible()


@pytest.fixture(scope="module")
def run_beside(service: Service) -> str:
    steps = recorded_steps()
    with collapsewatch.init(
        "recorded", "beside", url=service.url, api_key=service.local_key(), scorer="lexical"
    ) as run:
        for step, rollouts in steps.items():
            log_step(run, step, rollouts)
    service.wait_until_scored(run.id, len(steps))
    return run.id


def test_a_chart_of_a_comparison_is_shared_alone(
    page: Page, visitor: Page, collapsed_run: str, run_beside: str
) -> None:
    page.goto(f"/#/compare?runs={collapsed_run},{run_beside}&smooth=0.5")
    card = page.get_by_test_id("figure-compare-reward")
    card.get_by_test_id("figure-menu").click()
    card.get_by_test_id("figure-share").click()
    address = make_link(page, title="Both rewards")
    visitor.goto(address)
    chart = visitor.get_by_test_id("shared-chart")
    expect(chart.get_by_test_id("figure-compare-reward").locator(".trace path").first).to_be_visible()
    expect(visitor.get_by_test_id("chart-smoothing")).to_have_value("0.5")
    expect(visitor.get_by_test_id("figure-compare-retrieval")).to_have_count(0)
    chips = visitor.get_by_test_id("legend-chip")
    expect(chips).to_have_count(2)
    chips.first.click()
    expect(chips.first).to_have_attribute("aria-pressed", "false")
    visitor.get_by_test_id("compare-axis-time").click()
    expect(visitor.get_by_test_id("compare-axis-time")).to_have_attribute("aria-pressed", "true")
    runs = f"run={collapsed_run}&run={run_beside}"
    for path in (f"/compare/series?{runs}&metric=retrieval_accuracy", f"/compare/paths?{runs}"):
        answer = visitor.request.get(f"/api/v1/shared/{address.rsplit('/', 1)[1]}{path}")
        assert answer.status == 404, path
    quadrant = page.get_by_test_id("figure-compare-quadrant")
    quadrant.get_by_test_id("figure-menu").click()
    quadrant.get_by_test_id("figure-share").click()
    visitor.goto(make_link(page, title="Both ways", mode="snapshot"))
    expect(chart.get_by_test_id("figure-compare-quadrant").locator(".trace path").first).to_be_visible()


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[str]:
    """Address of a server of another origin, as that of a notebook is, which serves what is in a folder."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_link_may_be_shown_in_a_frame_and_nothing_else_may(
    page: Page, service: Service, collapsed_run: str, notebook: str, tmp_path: Path
) -> None:
    link = post_link(service, kind="run", run_ids=[collapsed_run], view=f"#/runs/{collapsed_run}")
    framed = f"{service.url}{link['path']}?embed"
    html = f'<link rel="icon" href="data:,"><iframe id="a" src="{framed}" width="900" height="700"></iframe>'
    (tmp_path / "cell.html").write_text(html)
    page.goto(f"{notebook}/cell.html")
    frame = page.frame_locator("#a")
    expect(frame.get_by_test_id("run-name")).to_be_visible()
    expect(frame.locator(".topbar")).to_be_hidden()
    answer = httpx.get(service.url, timeout=60)
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "x-frame-options" not in httpx.get(framed, timeout=60).headers


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_links_fit_their_screen(
    browser: Browser, service: Service, collapsed_run: str, run_beside: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    draft = {"run_ids": [collapsed_run], "view": f"#/runs/{collapsed_run}"}
    run = post_link(service, title="Retrieval falls after step 40", kind="run", **draft)
    limits = {"chart": "retrieval", "series": {"first_turn": ["retrieval_accuracy", "retrieval_chance"]}}
    chart = post_link(service, kind="chart", limits=limits, mode="snapshot", **draft)
    both = {"run_ids": [collapsed_run, run_beside], "view": f"#/compare?runs={collapsed_run},{run_beside}"}
    limits = limits | {"chart": "compare-retrieval"}
    compared = post_link(service, kind="chart", limits=limits, **(both | {"title": "Retrieval of both"}))
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()

    def shoot(name: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        page.screenshot(path=SHOTS / f"{name}-{theme}-{width}.png")
        assert grave_faults(page, AXE.read_text(encoding="utf-8")) == [], name

    page.goto(run["path"])
    expect(page.get_by_test_id("figure-retrieval").locator(".js-plotly-plot")).to_be_visible()
    shoot("shared-run")
    page.goto(chart["path"])
    expect(page.get_by_test_id("figure-retrieval").locator(".js-plotly-plot")).to_be_visible()
    shoot("shared-chart")
    page.goto(compared["path"])
    expect(page.get_by_test_id("shared-chart").locator(".trace path").first).to_be_visible()
    shoot("shared-compared-chart")
    page.goto("/#/settings/shares")
    expect(page.get_by_test_id("share-item").first).to_be_visible()
    shoot("shares")
    page.goto(f"/#/runs/{collapsed_run}")
    page.get_by_test_id("share").click()
    expect(page.get_by_test_id("share-dialog")).to_be_visible()
    shoot("share-dialog")
    page.goto("/s/" + "x" * 32)
    expect(page.get_by_test_id("shared-ended")).to_be_visible()
    shoot("shared-ended")
    context.close()
