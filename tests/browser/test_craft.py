"""Every page in both themes and at the width of a phone: pictures of it, and what axe finds on it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import is_fault
from tests.integration.service import Service

ROOT = Path(__file__).parents[2]
AXE = ROOT / "tests" / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = ROOT / "build" / "screenshots"
WIDE: ViewportSize = {"width": 1280, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
GRAVE = {"serious", "critical"}
PAGES = {
    "runs": "#/",
    "run": "#/runs/{run}",
    "rollouts": "#/runs/{run}/rollouts",
    "compare": "#/compare?runs={run}",
    "alerts": "#/alerts",
    "rules": "#/alerts/rules",
    "settings": "#/settings",
    "channels": "#/settings/channels",
    "shares": "#/settings/shares",
    "keys": "#/settings/keys",
    "retention": "#/settings/retention",
    "audit": "#/settings/audit",
    "nowhere": "#/nowhere",
}


@pytest.fixture(scope="module")
def axe() -> str:
    assert AXE.exists(), "axe-core is missing: make js"
    return AXE.read_text(encoding="utf-8")


@pytest.fixture(params=["light", "dark", "phone"])
def looked_at(request: pytest.FixtureRequest, browser: Browser, service: Service) -> Iterator[Page]:
    is_phone = request.param == "phone"
    context = browser.new_context(
        viewport=PHONE if is_phone else WIDE,
        color_scheme="dark" if request.param == "dark" else "light",
        base_url=service.url,
        reduced_motion="reduce",
    )
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if is_fault(message) else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert problems == []


def settle(page: Page) -> None:
    """Comes back when the page has drawn what it shows."""
    page.wait_for_function(
        """() => document.querySelector('h1') !== null
            && document.querySelector('.loading:not([hidden]), .awaiting') === null
            && ![...document.querySelectorAll('.figure-empty')]
                .some((note) => note.textContent === 'Loading…')"""
    )
    page.wait_for_function(
        """() => [...document.querySelectorAll('.plot')].every((plot) => {
            const box = plot.getBoundingClientRect();
            return plot.hidden || box.width === 0 || box.top > innerHeight
                || plot.classList.contains('js-plotly-plot');
        })"""
    )


def grave_faults(page: Page, axe: str) -> list[str]:
    """What axe calls serious or critical, a line each."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{fault['id']} at {node['target']}: {json.dumps(node['any'][:1])[:300]}"
        for fault in found["violations"]
        if fault["impact"] in GRAVE
        for node in fault["nodes"][:3]
    ]


def test_every_page_is_fit_to_be_seen(
    looked_at: Page, axe: str, collapsed_run: str, request: pytest.FixtureRequest
) -> None:
    look = request.node.callspec.params["looked_at"]
    faults: dict[str, list[str]] = {}
    for name, address in PAGES.items():
        looked_at.goto("/" + address.format(run=collapsed_run))
        settle(looked_at)
        picture = PICTURES / look / f"{name}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        looked_at.screenshot(path=picture, full_page=True)
        found = grave_faults(looked_at, axe)
        width = looked_at.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if width[0] > width[1]:
            found.append(f"the page is {width[0]} px wide, the window {width[1]}")
        if found:
            faults[name] = found
    assert faults == {}, json.dumps(faults, indent=1)


def test_where_nobody_signs_in_nothing_of_it_is_there(page: Page) -> None:
    page.goto("/#/settings")
    expect(page.get_by_test_id("settings-page")).to_be_visible()
    expect(page.get_by_test_id("me")).to_have_count(0)
    tabs = page.get_by_role("navigation", name="Settings").get_by_role("link")
    expect(tabs).to_have_text(
        ["Workers and queue", "Alert channels", "Shared links", "Keys", "What is kept", "Audit"]
    )
