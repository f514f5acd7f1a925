"""A run's page in Chromium: charts that are shown together, and what exactly collapsed at a step."""

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Download, Locator, Page, expect

import collapsewatch
from tests.browser.policy_run import MAGNET, NUM_PROMPTS, collapse_at, log_policy_step
from tests.browser.recording import log_step, recorded_steps
from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
NUM_STEPS = 36
LAST = NUM_STEPS - 1


@pytest.fixture(scope="module")
def run_id(service: Service) -> str:
    """Collapses from step 16 on; a healthy sibling stands beside it."""
    for name, num_steps in (("policy", NUM_STEPS), ("sibling", 14)):
        with collapsewatch.init(
            "rooms", name, run_id=name, url=service.url, api_key=service.local_key(), scorer="policy"
        ) as run:
            for step in range(num_steps):
                collapsed = collapse_at(step) if name == "policy" else 0.05
                log_policy_step(run, step, collapsed=collapsed, version=f"global_step_{step // 12 * 12}")
        service.wait_until_scored(name, num_steps)
    return "policy"


@pytest.fixture
def run_page(page: Page, run_id: str) -> Page:
    page.goto(f"/#/runs/{run_id}")
    expect(page.locator("[data-testid=figure-quadrant] .js-plotly-plot")).to_be_visible()
    return page


def figure(page: Page, name: str) -> Locator:
    return page.get_by_test_id(f"figure-{name}")


def plotted(page: Page, name: str, what: str) -> Any:
    """A part of what the chart library was told of a figure."""
    plot = figure(page, name).locator(".js-plotly-plot")
    return plot.evaluate(f"node => JSON.parse(JSON.stringify(node.{what} ?? null))")


def until(page: Page, is_so: Callable[[], bool]) -> None:
    """Waits for what no locator can tell: a page with a strict policy evaluates no text that waits."""
    for _ in range(400):
        if is_so():
            return
        page.wait_for_timeout(75)
    raise AssertionError("it did not come to be so")


def download(page: Page, name: str, item: str) -> Download:
    figure(page, name).get_by_test_id("figure-menu").click()
    with page.expect_download() as waiting:
        figure(page, name).get_by_test_id(item).click()
    return waiting.value


def test_the_slider_walks_through_the_steps_and_everything_follows(run_page: Page) -> None:
    slider = run_page.get_by_test_id("player-slider")
    expect(run_page.get_by_test_id("player-step")).to_have_text(f"step {LAST} of {LAST}")
    slider.focus()
    for _ in range(5):
        run_page.keyboard.press("ArrowLeft")
    step = LAST - 5
    expect(run_page.get_by_test_id("player-step")).to_have_text(f"step {step} of {LAST}")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(rf"step {step}, \w+"))
    expect(figure(run_page, "quadrant")).to_contain_text(f"step {step}")
    expect(run_page.get_by_role("heading", name=f"Step {step}, {NUM_PROMPTS} prompts")).to_be_visible()
    expect(figure(run_page, "retrieval").locator(".selected-line")).to_be_visible()
    run_page.wait_for_url(re.compile(rf"step={step}"))
    run_page.reload()
    expect(run_page.get_by_test_id("player-step")).to_have_text(f"step {step} of {LAST}")
    run_page.get_by_test_id("player-newest").click()
    expect(run_page.get_by_test_id("player-step")).to_have_text(f"step {LAST} of {LAST}")
    expect(figure(run_page, "retrieval").locator(".selected-line")).to_be_hidden()


def test_the_way_can_be_played(run_page: Page) -> None:
    play = run_page.get_by_test_id("player-play")
    # It takes four seconds in all: nobody can be sure to see a part of it unless its clock stands still.
    run_page.clock.install()
    run_page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))
    play.click()
    expect(play).to_have_attribute("aria-label", "Pause")
    run_page.clock.run_for(700)
    expect(run_page.get_by_test_id("player-step")).to_have_text(re.compile(rf"^step [3-9] of {LAST}"))
    play.click()
    expect(play).to_have_attribute("aria-label", "Play the steps")


def test_charts_zoom_and_point_together(run_page: Page) -> None:
    accuracy, mutual = figure(run_page, "retrieval"), figure(run_page, "mi")
    accuracy.scroll_into_view_if_needed()
    box = accuracy.locator(".nsewdrag").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    run_page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    expect(mutual.locator(".cursor-line")).to_be_visible()
    expect(accuracy.locator(".cursor-line")).to_be_hidden()
    run_page.mouse.move(box["x"] + box["width"] * 0.25, middle)
    run_page.mouse.down()
    run_page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=5)
    run_page.mouse.up()
    expect(run_page.get_by_test_id("chart-reset")).to_be_enabled()
    low, high = plotted(run_page, "retrieval", "layout.xaxis.range")
    assert 5 < low < 13
    assert 14 < high < 22
    until(run_page, lambda: plotted(run_page, "mi", "layout.xaxis.range") == [low, high])
    until(run_page, lambda: plotted(run_page, "reward", "layout.xaxis.range") == [low, high])
    run_page.get_by_test_id("chart-from").fill("20")
    run_page.get_by_test_id("chart-from").press("Tab")
    run_page.get_by_test_id("chart-to").fill("30")
    run_page.get_by_test_id("chart-to").press("Tab")
    run_page.wait_for_url(re.compile(r"from=20&to=30"))
    until(run_page, lambda: plotted(run_page, "mi", "layout.xaxis.range") == [20, 30])
    accuracy.locator(".nsewdrag").dblclick()
    expect(run_page.get_by_test_id("chart-reset")).to_be_disabled()


def test_smoothing_scale_and_axis_hold_for_all_charts_and_stand_in_the_address(run_page: Page) -> None:
    run_page.get_by_test_id("chart-smoothing").fill("0.8")
    run_page.get_by_test_id("chart-log").check()
    run_page.get_by_test_id("chart-axis-time").click()
    run_page.wait_for_url(re.compile(r"smooth=0.8&y=log&x=time"))
    run_page.reload()
    expect(run_page.get_by_test_id("chart-log")).to_be_checked()
    expect(run_page.get_by_test_id("chart-axis-time")).to_have_attribute("aria-pressed", "true")
    expect(run_page.locator("[data-testid=figure-retrieval] .js-plotly-plot")).to_be_visible()
    until(run_page, lambda: plotted(run_page, "mi", "layout.xaxis.type") == "date")
    assert plotted(run_page, "mi", "layout.yaxis.type") == "log"
    # Mutual information fell below zero, where a logarithmic axis has no place.
    expect(figure(run_page, "mi")).to_contain_text("of 0 or less not drawn")
    columns = [trace["meta"]["column"] for trace in plotted(run_page, "mi", "data") if trace.get("meta")]
    assert "I(X;Z)" in columns
    run_page.get_by_test_id("chart-axis-step").click()
    run_page.get_by_test_id("chart-log").uncheck()
    expect(figure(run_page, "mi")).not_to_contain_text("not drawn")


def test_numbers_and_pictures_of_what_is_seen_can_be_saved(run_page: Page) -> None:
    run_page.goto(f"{run_page.url}?from=10&to=12")
    expect(run_page.get_by_test_id("chart-from")).to_have_value("10")
    until(run_page, lambda: plotted(run_page, "retrieval", "layout.xaxis.range[0]") == 10)
    saved = download(run_page, "retrieval", "figure-csv")
    assert saved.suggested_filename == "policy-first-turn-retrieval-accuracy.csv"
    rows = list(csv.reader(io.StringIO(Path(saved.path()).read_text("utf-8-sig"))))
    assert rows[0] == ["step", "time", "accuracy", "accuracy low", "accuracy high", "chance"]
    assert [row[0] for row in rows[1:]] == ["10", "11", "12"]
    assert float(rows[1][2]) == 1.0
    assert Path(download(run_page, "retrieval", "figure-png").path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    picture = Path(download(run_page, "mi", "figure-svg").path()).read_text()
    assert picture.startswith("<svg")
    assert "Mutual information · policy · first turn" in picture
    quadrant = Path(download(run_page, "quadrant", "figure-csv").path()).read_text("utf-8-sig")
    assert len(quadrant.splitlines()) == NUM_STEPS + 1


def test_a_figure_fills_the_screen_and_comes_back_by_keyboard(run_page: Page) -> None:
    card = figure(run_page, "mi")
    button = card.get_by_test_id("figure-menu")
    before = card.bounding_box()
    button.focus()
    run_page.keyboard.press("Enter")
    expect(card.get_by_role("menuitem", name="Full screen")).to_be_focused()
    run_page.keyboard.press("ArrowDown")
    expect(card.get_by_role("menuitem", name="Save as PNG")).to_be_focused()
    run_page.keyboard.press("Escape")
    expect(button).to_be_focused()
    run_page.keyboard.press("Enter")
    run_page.keyboard.press("Enter")
    expect(card).to_have_class(re.compile("is-full"))
    full = card.bounding_box()
    assert before is not None
    assert full is not None
    assert full["width"] > 1.5 * before["width"]
    run_page.keyboard.press("Escape")
    expect(card).not_to_have_class(re.compile("is-full"))


def test_more_measures_are_loaded_when_they_are_opened(run_page: Page) -> None:
    measures = run_page.get_by_test_id("more-measures")
    expect(figure(run_page, "mi-token")).to_have_count(0)
    measures.locator("summary").click()
    expect(figure(run_page, "mi-token").locator(".js-plotly-plot")).to_be_visible()
    run_page.wait_for_url(re.compile("more=1"))
    figure(run_page, "mi-token").get_by_role("button", name="About").focus()
    expect(figure(run_page, "mi-token").get_by_role("tooltip")).to_contain_text(
        "mean over rows of pmi(r) / n(r)"
    )


def test_the_points_of_one_scorer_can_be_shown_alone(page: Page, service: Service) -> None:
    with collapsewatch.init(
        "rooms", "two scorers", run_id="two-scorers", url=service.url, api_key=service.local_key()
    ) as run:
        recorded = recorded_steps()
        for step in range(3):
            log_step(run, step, recorded[step])
        # Their matrix makes the policy the scorer of the steps that follow.
        for step in range(3, 5):
            log_policy_step(run, step)
    service.wait_until_scored("two-scorers", 5)
    page.goto("/#/runs/two-scorers")
    picker = page.get_by_test_id("scorer-picker")
    expect(picker.locator("option")).to_have_count(3)
    expect(page.get_by_test_id("player-step")).to_have_text("step 4 of 4")
    lexical = picker.locator("option", has_text="lexical").text_content()
    picker.select_option(label=lexical)
    expect(page.get_by_test_id("player-step")).to_have_text("step 2 of 2")
    expect(page.get_by_role("heading", name="Newest scored batch: step 2")).to_be_visible()
    page.wait_for_url(re.compile("scorer=lexical"))


def test_a_link_leads_to_its_chart(page: Page, run_id: str) -> None:
    page.goto(f"/#/runs/{run_id}?chart=reward-variance")
    expect(figure(page, "reward-variance")).to_be_in_viewport()
    expect(figure(page, "reward-variance")).to_be_focused()


def test_what_collapsed_is_seen_prompt_by_prompt_and_against_another_step(run_page: Page) -> None:
    detail = run_page.get_by_test_id("step-detail")
    detail.scroll_into_view_if_needed()
    rows = run_page.get_by_test_id("prompt-row")
    expect(rows).to_have_count(NUM_PROMPTS)
    magnet = MAGNET + 1
    # Every reasoning fits the magnet's prompt, whosever it is.
    expect(rows.nth(5)).to_contain_text(f"#{magnet}")
    expect(rows.nth(MAGNET)).to_contain_text("itself")
    # Prompt 1 is always solved and prompt 2 never: nothing keeps them.
    expect(rows.nth(0)).to_contain_text("never")
    expect(rows.nth(1)).to_contain_text("every try failed since step 0")
    expect(rows.nth(5)).to_contain_text("step")
    expect(run_page.get_by_test_id("kept-note")).to_contain_text("2 prompts of this step never")
    run_page.get_by_test_id("sort-attracts").click()
    expect(rows.nth(0)).to_contain_text(f"Room {MAGNET}:")
    expect(run_page.locator("[data-testid=figure-heatmap] .js-plotly-plot")).to_be_visible()
    assert plotted(run_page, "heatmap", "data[0].y")[0] == str(magnet)

    run_page.get_by_test_id("against-input").fill("8")
    run_page.get_by_test_id("against-input").press("Enter")
    expect(figure(run_page, "heatmap-beside")).to_contain_text("step 8")
    run_page.wait_for_url(re.compile("against=8"))
    run_page.get_by_test_id("sort-change").click()
    expect(rows.nth(0)).to_contain_text("−1")
    run_page.get_by_test_id("heatmap-change").check()
    expect(figure(run_page, "heatmap-beside")).to_contain_text(f"step {LAST} minus step 8")
    run_page.get_by_test_id("step-before").click()
    expect(run_page.get_by_role("heading", name=f"Step {LAST - 1},")).to_be_visible()
    run_page.get_by_test_id("against-none").click()
    expect(figure(run_page, "heatmap-beside")).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_screen_in_both_themes(
    browser: Browser, service: Service, run_id: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    page.goto(f"/#/runs/{run_id}?step=24&against=8&smooth=0.6&ghost=sibling")
    expect(figure(page, "heatmap-beside")).to_contain_text("step 8")
    expect(page.locator("[data-testid=figure-heatmap-beside] .js-plotly-plot")).to_be_visible()
    page.get_by_test_id("prompt-table").scroll_into_view_if_needed()
    expect(page.get_by_test_id("kept-note")).to_contain_text("would have kept")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.evaluate("window.scrollTo(0, 0)")
    page.screenshot(path=SHOTS / f"run-steps-{theme}-{width}.png", full_page=True)
    context.close()
