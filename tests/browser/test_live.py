"""Pages that are left open: many tabs, a server that goes away and comes back, loads that fail."""

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.recording import DATA
from tests.integration.service import Service, base_environment

NUM_TABS = 8
"""A browser opens six connections to a server, so the seventh tab with one of its own would hang."""


@pytest.fixture(scope="module")
def lone_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that tests may stop and start again; nobody scores for it."""
    home = tmp_path_factory.mktemp("live")
    running = Service(home, base_environment(home, DATA), scaled_out=False)
    start(running)
    yield running
    running.stop()


def start(service: Service) -> None:
    service.spawn("server", "serve", "--port", str(service.port), "--no-worker")
    service.wait_until(service.is_ready, "the server is ready", timeout_seconds=120)


@pytest.fixture
def context(browser: Browser, lone_service: Service) -> Iterator[BrowserContext]:
    opened = browser.new_context(viewport={"width": 1000, "height": 700}, base_url=lone_service.url)
    yield opened
    opened.close()


def log_values(service: Service, run_id: str, steps: range) -> None:
    headers = {"Authorization": f"Bearer {service.local_key()}"}
    with httpx.Client(
        base_url=f"{service.url}/api/v1", headers=headers, timeout=60, trust_env=False
    ) as client:
        run = {"run_id": run_id, "project": "live", "name": run_id}
        assert client.post("/runs", json=run).status_code in (200, 201)
        points = [{"step": step, "values": {"success": step / 100}} for step in steps]
        assert client.post(f"/runs/{run_id}/scalars", json={"points": points}).status_code == 200


def is_live(page: Page) -> None:
    expect(page.get_by_test_id("live-state")).to_have_text("live", timeout=60_000)


def shows_step(page: Page, step: int) -> None:
    figure = page.get_by_test_id("figure-trainer-success")
    expect(figure.locator(".plot")).to_have_attribute(
        "aria-label", re.compile(rf"at step {step}$"), timeout=60_000
    )


def test_more_tabs_than_a_browser_has_connections_are_all_live(
    browser: Browser, context: BrowserContext, lone_service: Service
) -> None:
    log_values(lone_service, "tabs", range(3))
    tabs = [context.new_page() for _ in range(NUM_TABS)]
    first, *between, last = tabs
    for tab in between:
        tab.goto("/#/settings", wait_until="commit")
    for tab in (first, last):
        tab.goto("/#/runs/tabs", wait_until="commit")
        shows_step(tab, 2)
    for tab in tabs:
        is_live(tab)
    log_values(lone_service, "tabs", range(3, 6))
    for tab in (first, last):
        shows_step(tab, 5)
    targets = browser.new_browser_cdp_session().send("Target.getTargets")["targetInfos"]
    assert [target["type"] for target in targets].count("shared_worker") == 1


def test_a_restart_of_the_server_heals_without_a_reload(
    context: BrowserContext, lone_service: Service
) -> None:
    log_values(lone_service, "restart", range(3))
    page = context.new_page()
    page.goto("/#/runs/restart")
    shows_step(page, 2)
    is_live(page)
    page.evaluate("window.stayed = true")
    lone_service.processes[-1].kill()
    lone_service.processes[-1].wait()
    expect(page.get_by_test_id("live-state")).to_contain_text("stale since", timeout=60_000)
    start(lone_service)
    log_values(lone_service, "restart", range(3, 5))
    is_live(page)
    shows_step(page, 4)
    assert page.evaluate("window.stayed") is True


def test_the_mark_does_not_say_live_while_nothing_can_be_loaded(
    context: BrowserContext, lone_service: Service
) -> None:
    log_values(lone_service, "failing", range(3))
    page = context.new_page()
    page.goto("/#/runs/failing")
    shows_step(page, 2)
    is_live(page)

    def refuse(route: Route) -> None:
        route.fulfill(status=503, json={"error": {"code": "not_ready", "message": "away"}})

    page.route("**/api/v1/runs/failing**", refuse)
    log_values(lone_service, "failing", range(3, 5))
    expect(page.get_by_test_id("live-state")).to_contain_text("stale since", timeout=60_000)
    page.unroute("**/api/v1/runs/failing**")
    is_live(page)
    shows_step(page, 4)
