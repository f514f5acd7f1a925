"""Screens come when they are gone to: what is fetched when, and what is shown when one does not come."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, Route, expect

from tests.integration.service import Service

pytestmark = pytest.mark.browser
RUN = "**/js/views/run.js"
SETTINGS = "**/js/views/settings.js"


@pytest.fixture
def visitor(browser: Browser, service: Service) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=service.url)
    yield context.new_page()
    context.close()


def test_a_visit_fetches_its_own_screen_first_and_the_others_later(visitor: Page) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        _, is_script, name = request.url.partition("/js/")
        if is_script:
            asked.append(name)

    visitor.on("request", note)
    # What the page does later it does when this clock says so, however long the first screen takes.
    visitor.clock.install(time=0)
    visitor.clock.pause_at(1000)
    visitor.goto("/#/settings")
    expect(visitor.get_by_test_id("settings-page")).to_be_visible()
    assert "views/settings.js" in asked
    assert "views/run.js" not in asked
    assert len(asked) == len(set(asked))
    with visitor.expect_request("**/js/views/audit.js"):
        visitor.clock.run_for(10_000)
    assert "views/run.js" in asked


def test_a_screen_that_did_not_come_says_so_and_is_tried_again(visitor: Page) -> None:
    visitor.route(SETTINGS, lambda route: route.abort())
    visitor.goto("/#/alerts")
    expect(visitor.get_by_test_id("inbox-page")).to_be_visible()
    visitor.get_by_role("link", name="Settings").click()
    expect(visitor.get_by_role("main")).to_contain_text("This screen could not be loaded")
    expect(visitor.get_by_test_id("inbox-page")).to_have_count(0)
    visitor.unroute(SETTINGS)
    visitor.get_by_role("button", name="Try again").click()
    expect(visitor.get_by_test_id("settings-page")).to_be_visible()


def test_a_late_screen_does_not_take_the_place_of_the_one_gone_to_since(visitor: Page) -> None:
    held: list[Route] = []
    visitor.route(SETTINGS, lambda route: held.append(route))
    visitor.goto("/#/alerts")
    expect(visitor.get_by_test_id("inbox-page")).to_be_visible()
    visitor.get_by_role("link", name="Settings").click()
    expect(visitor.get_by_role("main")).to_have_text("Loading…")
    visitor.get_by_role("link", name="Alerts").click()
    expect(visitor.get_by_test_id("inbox-page")).to_be_visible()
    assert len(held) == 1
    with visitor.expect_response(SETTINGS):
        held[0].continue_()
    # By then it would have been shown.
    visitor.wait_for_timeout(500)
    expect(visitor.get_by_test_id("inbox-page")).to_be_visible()
    expect(visitor.get_by_test_id("settings-page")).to_have_count(0)


@pytest.fixture
def api(service: Service) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {service.local_key()}"}
    with httpx.Client(base_url=f"{service.url}/api/v1", headers=headers, trust_env=False) as client:
        yield client


def test_what_happens_while_the_first_screen_comes_is_on_it(visitor: Page, api: httpx.Client) -> None:
    body = {"run_id": "held", "project": "screens", "name": "before"}
    api.post("/runs", json=body).raise_for_status()
    held: list[Route] = []
    visitor.route(RUN, lambda route: held.append(route))
    with visitor.expect_response("**/api/v1/runs/held"):
        visitor.goto("/#/runs/held")
    # The frame is there, and hears of what happens from here on.
    expect(visitor.get_by_test_id("live-state")).to_have_text("live")
    api.patch("/runs/held/about", json={"name": "after"}).raise_for_status()
    # By then it is told.
    visitor.wait_for_timeout(1000)
    assert len(held) == 1
    held[0].continue_()
    expect(visitor.get_by_test_id("run-name")).to_contain_text("after")


def test_a_screen_that_was_left_does_not_take_its_address_back(visitor: Page, api: httpx.Client) -> None:
    api.post("/runs", json={"run_id": "left", "project": "screens", "name": "left"}).raise_for_status()
    held: list[Route] = []
    visitor.route(SETTINGS, lambda route: held.append(route))
    visitor.goto("/#/runs/left")
    expect(visitor.get_by_test_id("run-name")).to_contain_text("left")
    # The page notes what is unfolded in its address a moment later.
    visitor.evaluate(
        """() => {
          document.querySelector('.more-measures summary').click();
          document.querySelector('a[href="#/settings"]').click();
        }"""
    )
    visitor.wait_for_timeout(1000)
    assert visitor.evaluate("window.location.hash") == "#/settings"
    held[0].continue_()
    expect(visitor.get_by_test_id("settings-page")).to_be_visible()
