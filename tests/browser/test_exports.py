"""What is taken away from the page opens elsewhere: the report offline, the numbers as tables."""

import csv
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Page, expect

import collapsewatch
from tests.browser.recording import log_step, recorded_steps
from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"


def save(page: Page, testid: str, folder: Path) -> Path:
    page.get_by_test_id("export").locator("summary").click()
    with page.expect_download() as download:
        page.get_by_test_id(testid).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_numbers_are_saved_as_tables(page: Page, collapsed_run: str, tmp_path: Path) -> None:
    page.goto(f"/#/runs/{collapsed_run}")
    found = save(page, "export-csv", tmp_path)
    assert found.name == f"collapsewatch-{collapsed_run}.csv"
    with found.open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pq.read_table(save(page, "export-parquet", tmp_path))
    assert len(table) == len(rows) > 500
    page.get_by_test_id("export").locator("summary").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("export-csv")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("export-csv")).to_be_hidden()


def test_a_report_opens_offline_and_asks_for_nothing(
    page: Page, browser: Browser, collapsed_run: str, tmp_path: Path
) -> None:
    page.goto(f"/#/runs/{collapsed_run}")
    path = save(page, "export-report", tmp_path)
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    report = context.new_page()
    asked: list[str] = []
    problems: list[str] = []
    report.on("request", lambda request: asked.append(request.url))
    report.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
    report.on("pageerror", lambda error: problems.append(str(error)))
    report.goto(path.as_uri())
    charts = report.locator("[data-chart] .js-plotly-plot")
    expect(charts.first).to_be_visible()
    assert charts.count() == report.locator("[data-chart]").count() > 4
    expect(report.locator("h1")).to_have_text("collapsing")
    report.screenshot(path=SHOTS / "report-1280.png")
    report.set_viewport_size({"width": 390, "height": 900})
    assert report.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    report.screenshot(path=SHOTS / "report-390.png")
    context.close()
    assert asked == [path.as_uri()]
    assert problems == []


def test_a_shared_comparison_is_seen_and_exported(
    browser: Browser, page: Page, service: Service, collapsed_run: str, tmp_path: Path
) -> None:
    with collapsewatch.init(
        "recorded", "second", run_id="second", url=service.url, api_key=service.local_key(), scorer="lexical"
    ) as run:
        for step, rollouts in list(recorded_steps().items())[:3]:
            log_step(run, step, rollouts)
    service.wait_until_scored("second", 3)
    page.goto(f"/#/compare?runs={collapsed_run},second")
    expect(page.locator(".js-plotly-plot").first).to_be_visible()
    page.get_by_test_id("share").click()
    page.get_by_test_id("dialog-confirm").click()
    address = page.get_by_test_id("share-address").input_value()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=service.url)
    visitor = context.new_page()
    problems: list[str] = []
    visitor.on("console", lambda one: problems.append(one.text) if one.type == "error" else None)
    visitor.on("pageerror", lambda error: problems.append(str(error)))
    visitor.goto(address)
    expect(visitor.locator(".js-plotly-plot").first).to_be_visible()
    expect(visitor.get_by_test_id("share")).to_be_hidden()
    with save(visitor, "export-csv", tmp_path).open(newline="") as file:
        assert {row["run_id"] for row in csv.DictReader(file)} == {collapsed_run, "second"}
    visitor.screenshot(path=SHOTS / "shared-compare.png")
    context.close()
    assert problems == []
