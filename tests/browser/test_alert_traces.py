"""Traces on an alert's page: what the model wrote, read once somebody asks, and never markup."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

import collapsewatch
from tests.browser.firing import post
from tests.browser.recording import log_step
from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
HOSTILE = "<img src=x onerror='window.owned=1'><b>bold</b>"


def test_an_alert_shows_what_the_model_wrote_once_it_is_asked_to(page: Page, collapsed_run: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/traces" in request.url else None)
    page.goto(f"/#/alerts?run={collapsed_run}")
    page.get_by_test_id("inbox-title").filter(has_text="Input dependence").first.click()
    card = page.get_by_test_id("alert-traces")
    expect(card).to_be_visible()
    assert asked == []
    card.locator("summary").focus()
    page.keyboard.press("Enter")
    prompts = card.get_by_test_id("trace-prompt")
    expect(prompts.first).to_be_visible()
    assert prompts.count() == 4
    expect(prompts.first.get_by_test_id("trace")).to_have_count(3)
    expect(prompts.first.get_by_test_id("trace-baseline")).to_contain_text("At baseline")
    # The words of the template are told from the others, and those of the baseline are not of it.
    phrase = page.get_by_test_id("alert-phrases").locator("th .prompt-text").first.inner_text()
    now = prompts.first.locator(".trace-grid > .trace mark.shared")
    assert phrase.split()[0] in " ".join(now.all_inner_texts()).lower()
    # Text that is longer than its box is reached by keyboard.
    page.keyboard.press("Tab")
    expect(prompts.first.locator(".trace-seen").first).to_be_focused()
    assert len(asked) == 1
    card.locator("summary").click()
    card.locator("summary").click()
    expect(prompts.first).to_be_visible()
    assert len(asked) == 1


def test_traces_that_cannot_be_read_are_asked_for_again(
    browser: Browser, service: Service, collapsed_run: str
) -> None:
    context = browser.new_context(base_url=service.url)
    page = context.new_page()
    busy = {"error": {"code": "too_busy", "message": "others are read", "details": []}}
    page.route("**/traces", lambda route: route.fulfill(status=429, json=busy), times=1)
    page.goto(f"/#/alerts?run={collapsed_run}")
    page.get_by_test_id("inbox-title").filter(has_text="Input dependence").first.click()
    card = page.get_by_test_id("alert-traces")
    card.locator("summary").click()
    expect(card).to_contain_text("The traces could not be read: others are read.")
    card.get_by_role("button", name="Try again").click()
    expect(card.get_by_test_id("trace-prompt").first).to_be_visible()
    context.close()


@pytest.fixture
def hostile_run(service: Service) -> str:
    """A run whose model writes markup, with an alert on it."""
    run_id = "markup"
    rule = {"name": "Markup", "metric": "retrieval_accuracy", "scope": "first_turn", "operator": ">="}
    post(service, "/alert-rules", {**rule, "threshold": 0, "severity": "warning", "run": run_id})
    texts = {
        "prompt": f"{HOSTILE} {{}} <think>",
        "response": f"{HOSTILE} {{}}</think>{HOSTILE}",
        "group": "g{}",
    }
    rollouts = [
        {"reward": 0.5, **{name: text.format(at % 2) for name, text in texts.items()}} for at in range(8)
    ]
    with collapsewatch.init(
        "marked", run_id, run_id=run_id, url=service.url, api_key=service.local_key(), scorer="lexical"
    ) as run:
        log_step(run, 1, rollouts)
    service.wait_until(lambda: service.get("/alerts", run=run_id)["items"], "the alert is open")
    return run_id


def test_what_the_model_wrote_never_becomes_markup(page: Page, hostile_run: str) -> None:
    page.goto(f"/#/alerts?run={hostile_run}")
    page.get_by_test_id("inbox-title").click()
    card = page.get_by_test_id("alert-traces")
    card.locator("summary").click()
    expect(card.get_by_test_id("trace").first).to_contain_text("<b>bold</b>")
    expect(card.locator(".trace-seen").first).to_contain_text(HOSTILE)
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_traces_fit_their_screen(
    browser: Browser, service: Service, collapsed_run: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    alert_id = service.get("/alerts", run=collapsed_run)["items"][0]["alert_id"]
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    page.goto(f"/#/alerts/{alert_id}")
    card = page.get_by_test_id("alert-traces")
    card.locator("summary").click()
    expect(card.get_by_test_id("trace").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    for box in card.locator(".trace-box").all():
        assert box.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    card.screenshot(path=SHOTS / f"alert-traces-{theme}-{width}.png")
    context.close()
