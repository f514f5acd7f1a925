"""The list of runs in Chromium: found, ordered, named, put away, deleted, by pointer and by keyboard."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import collapsewatch
from tests.browser.recording import log_step, recorded_steps
from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
NUM_MANY = 150
HOSTILE = "<img src=x onerror='window.owned=1'>"


@pytest.fixture
def api(service: Service) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {service.local_key()}"}
    with httpx.Client(
        base_url=f"{service.url}/api/v1", headers=headers, timeout=60, trust_env=False
    ) as client:
        yield client


def start(api: httpx.Client, run_id: str, **about: Any) -> str:
    body = {"run_id": run_id, "project": "few", "name": run_id, **about}
    api.post("/runs", json=body).raise_for_status()
    return run_id


@pytest.fixture(scope="module")
def many(service: Service) -> str:
    """A project with more runs than fit on a screen."""
    headers = {"Authorization": f"Bearer {service.local_key()}"}
    with httpx.Client(base_url=f"{service.url}/api/v1", headers=headers, timeout=60, trust_env=False) as api:
        for number in range(NUM_MANY):
            config = {"lr": 1e-6 * (1 + number % 3), "seed": number}
            tags = ["even" if number % 2 == 0 else "odd"]
            start(api, f"many-{number:03}", project="many", config=config, tags=tags)
    return "many"


@pytest.fixture(scope="module")
def scored(service: Service) -> str:
    steps = recorded_steps()
    with collapsewatch.init(
        "few", "scored", url=service.url, api_key=service.local_key(), run_id="scored", config={"lr": 2e-6}
    ) as run:
        for step in range(3):
            log_step(run, step, steps[step])
    service.wait_until_scored(run.id, 3)
    return run.id


def row(page: Page, run_id: str) -> Locator:
    return page.locator(f'[data-testid=run-row][data-run-id="{run_id}"]')


def shown(page: Page) -> list[str]:
    """Ids of the lines that are in the page, from the top."""
    ids = page.locator("[data-testid=run-row]").evaluate_all("rows => rows.map((row) => row.dataset.runId)")
    return [str(one) for one in ids]


def test_a_line_tells_state_regime_reason_and_skill(page: Page, scored: str) -> None:
    page.goto("/#/?project=few")
    line = row(page, scored)
    expect(line.get_by_test_id("run-state")).to_have_text("Finished")
    expect(line.get_by_test_id("regime-badge")).to_have_text("Not enough evidence")
    expect(line.locator(".regime-reason")).to_contain_text("baseline")
    expect(line.locator("svg.sparkline")).to_have_attribute("aria-label", re.compile("step 0 to 2"))
    expect(line.locator(".cell-step")).to_have_text("2")
    expect(line.locator(".cell-accuracy")).to_contain_text("chance")


def test_only_the_lines_in_sight_are_in_the_page(page: Page, many: str) -> None:
    page.goto(f"/#/?project={many}")
    expect(row(page, "many-149")).to_be_visible()
    expect(page.get_by_test_id("runs-summary")).to_contain_text("150 runs")
    assert len(shown(page)) < 60
    heights = page.locator("[data-testid=run-row]").evaluate_all(
        "rows => [...new Set(rows.map((row) => row.getBoundingClientRect().height))]"
    )
    assert heights == [76]
    page.evaluate("window.scrollTo(0, document.documentElement.scrollHeight)")
    expect(row(page, "many-000")).to_be_in_viewport()
    assert len(shown(page)) < 60
    assert "many-149" not in shown(page)
    whole = page.evaluate("document.querySelector('.runs').getBoundingClientRect().height")
    assert whole == pytest.approx(NUM_MANY * 76 + 40, abs=4)


def test_the_keyboard_goes_through_lines_that_are_not_there_yet(page: Page, many: str) -> None:
    page.goto(f"/#/?project={many}")
    row(page, "many-149").get_by_role("link").focus()
    for _ in range(70):
        page.keyboard.press("ArrowDown")
    focused = "document.activeElement.closest('tr')?.dataset.runId"
    assert page.evaluate(focused) == "many-079"
    expect(row(page, "many-079")).to_be_in_viewport()
    page.keyboard.press("x")
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.get_by_test_id("compare-button")).to_contain_text("Compare 2 runs")
    assert page.evaluate(focused) == "many-080"
    page.keyboard.press("e")
    expect(page.get_by_test_id("run-dialog")).to_contain_text("About many-080")
    page.keyboard.press("Escape")
    # Scrolled away and pressed again, the keys go on from where they were.
    page.evaluate("window.scrollTo(0, 0)")
    expect(row(page, "many-149")).to_be_in_viewport()
    page.keyboard.press("ArrowDown")
    expect(row(page, "many-079")).to_be_in_viewport()
    assert page.evaluate(focused) == "many-079"


def test_the_address_holds_the_whole_view(page: Page, many: str) -> None:
    page.goto(f"/#/?project={many}")
    expect(row(page, "many-149")).to_be_visible()
    page.get_by_test_id("runs-group").select_option("config.lr")
    expect(page.get_by_test_id("run-group").first).to_have_text(re.compile("lr = 0?.*50 runs"))
    page.get_by_test_id("sort-name").click()
    page.get_by_test_id("runs-tag").select_option("even")
    expect(page.get_by_test_id("run-group").first).to_contain_text("25 runs")
    page.get_by_test_id("run-search").fill("MANY-0")
    expect(page.get_by_test_id("runs-summary")).to_contain_text("50 runs")
    assert shown(page)[:3] == ["many-000", "many-006", "many-012"]
    address = page.url
    for part in ("project=many", "q=MANY-0", "tag=even", "group=config.lr", "sort=name"):
        assert part in address
    page.reload()
    expect(page.get_by_test_id("runs-summary")).to_contain_text("50 runs")
    assert shown(page)[:3] == ["many-000", "many-006", "many-012"]
    assert page.get_by_test_id("run-search").input_value() == "MANY-0"
    # A search that is typed is no step of the history, a choice is one.
    page.go_back()
    expect(page.get_by_test_id("runs-tag")).to_have_value("")
    expect(page.locator("[aria-sort=ascending]")).to_have_text(re.compile("Run"))
    row(page, "many-000").get_by_role("button", name="even").click()
    expect(page.get_by_test_id("runs-tag")).to_have_value("even")
    page.get_by_test_id("run-search").fill("nothing like it")
    expect(page.get_by_test_id("runs-empty")).to_contain_text("No run matches")
    page.get_by_test_id("runs-empty").get_by_role("link").click()
    expect(page.get_by_test_id("runs-summary")).to_contain_text("150 runs")


def test_choices_in_quick_succession_all_count(page: Page, many: str) -> None:
    page.goto(f"/#/?project={many}")
    expect(row(page, "many-149")).to_be_visible()
    # Faster than the browser tells of an address: the second counts from what the first has made of it.
    page.evaluate("""() => {
      document.querySelector('[data-testid=sort-name]').click();
      const tag = document.querySelector('[data-testid=runs-tag]');
      tag.value = 'even';
      tag.dispatchEvent(new Event('change', { bubbles: true }));
    }""")
    expect(page).to_have_url(re.compile(r"(?=.*tag=even)(?=.*sort=name)"))
    expect(page.locator("[aria-sort=ascending]")).to_have_text(re.compile("Run"))
    assert shown(page)[:2] == ["many-000", "many-002"]


def test_a_run_is_renamed_tagged_and_noted(page: Page, api: httpx.Client) -> None:
    start(api, "to-rename")
    page.goto("/#/?project=few")
    row(page, "to-rename").get_by_test_id("edit-run").click()
    dialog = page.get_by_test_id("run-dialog")
    dialog.get_by_test_id("run-name").fill("")
    dialog.get_by_test_id("dialog-confirm").click()
    expect(
        dialog.locator("#" + (dialog.get_by_test_id("run-name").get_attribute("id") or "") + "-error")
    ).to_be_visible()
    dialog.get_by_test_id("run-name").fill(HOSTILE)
    dialog.get_by_test_id("run-tags").fill("fresh, baseline, fresh")
    dialog.get_by_test_id("run-notes").fill("The filter was off.")
    dialog.get_by_test_id("dialog-confirm").click()
    expect(dialog).to_be_hidden()
    line = row(page, "to-rename")
    expect(line.get_by_role("link")).to_have_text(HOSTILE)
    expect(line.get_by_role("button", name="fresh")).to_have_count(1)
    page.reload()
    expect(line.get_by_role("link")).to_have_text(HOSTILE)
    line.get_by_test_id("edit-run").click()
    expect(page.get_by_test_id("run-notes")).to_have_value("The filter was off.")
    expect(page.get_by_test_id("run-dialog")).to_contain_text("Its trainer calls it to-rename.")
    assert page.evaluate("window.owned") is None


def test_runs_are_put_away_and_come_back(page: Page, api: httpx.Client) -> None:
    start(api, "to-archive-1")
    start(api, "to-archive-2")
    page.goto("/#/?project=few&q=to-archive")
    page.get_by_test_id("pick-all").check()
    page.get_by_test_id("archive-runs").click()
    expect(page.get_by_test_id("runs-said")).to_have_text("Archived 2 runs.")
    expect(page.get_by_test_id("runs-empty")).to_be_visible()
    page.get_by_test_id("tab-archived").click()
    expect(row(page, "to-archive-1")).to_be_visible()
    assert "show=archived" in page.url
    row(page, "to-archive-1").get_by_test_id("edit-run").click()
    page.get_by_test_id("archive-run").click()
    expect(row(page, "to-archive-1")).to_be_hidden()
    page.get_by_test_id("tab-active").click()
    expect(row(page, "to-archive-1")).to_be_visible()
    expect(row(page, "to-archive-2")).to_be_hidden()


def test_a_run_is_deleted_only_after_a_second_yes(page: Page, api: httpx.Client) -> None:
    start(api, "to-delete")
    page.goto("/#/?project=few")
    row(page, "to-delete").get_by_role("checkbox").check()
    page.get_by_test_id("delete-runs").click()
    dialog = page.get_by_test_id("delete-dialog")
    expect(dialog).to_contain_text("Nobody can bring them back")
    expect(dialog).to_contain_text("Training still goes on")
    with page.expect_download() as saved:
        dialog.get_by_role("link", name="CSV").click()
    assert Path(saved.value.path()).read_text().startswith("run_id,scope,metric,step,value")
    dialog.get_by_role("button", name="Cancel").click()
    assert api.get("/runs/to-delete").status_code == 200
    page.get_by_test_id("delete-runs").click()
    dialog.get_by_test_id("dialog-confirm").click()
    expect(page.get_by_test_id("runs-said")).to_have_text("Deleted to-delete.")
    expect(row(page, "to-delete")).to_be_hidden()
    assert api.get("/runs/to-delete").status_code == 404


def test_what_others_do_is_seen_without_a_reload(page: Page, api: httpx.Client) -> None:
    page.goto("/#/?project=few")
    expect(page.get_by_test_id("live-state")).to_contain_text("live")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/run-list?" in request.url else None)
    start(api, "from-elsewhere")
    expect(row(page, "from-elsewhere")).to_be_visible()
    api.patch("/runs/from-elsewhere/about", json={"name": "of another name"}).raise_for_status()
    expect(row(page, "from-elsewhere").get_by_role("link")).to_have_text("of another name")
    api.delete("/runs/from-elsewhere").raise_for_status()
    expect(row(page, "from-elsewhere")).to_be_hidden()
    # One run's news asks for that run alone.
    assert asked
    assert all("run=from-elsewhere" in url for url in asked)


def test_a_list_that_cannot_be_loaded_says_so_and_heals(
    browser: Browser, service: Service, scored: str
) -> None:
    context = browser.new_context(base_url=service.url)
    page = context.new_page()
    refuse = {
        "status": 503,
        "json": {"error": {"code": "not_ready", "message": "the database does not answer"}},
    }
    page.route("**/api/v1/run-list?*", lambda route: route.fulfill(**refuse))
    page.goto("/#/?project=few")
    expect(page.get_by_role("alert")).to_contain_text("the database does not answer")
    expect(page.get_by_test_id("empty-state")).to_be_hidden()
    page.unroute("**/api/v1/run-list?*")
    page.get_by_test_id("retry").click()
    expect(row(page, scored)).to_be_visible()
    expect(page.get_by_role("alert")).to_be_hidden()
    context.close()


def test_a_project_without_runs_says_how_to_begin(page: Page) -> None:
    page.goto("/#/?project=nobody")
    expect(page.get_by_test_id("empty-state")).to_contain_text("No run in nobody yet")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_list_fits_its_screen_in_both_themes(
    browser: Browser, service: Service, many: str, scored: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    views = {"few": "/#/?project=few", "many": "/#/?project=many&group=config.lr&sort=name"}
    for name, path in views.items():
        page.goto(path)
        expect(page.get_by_test_id("run-row").first).to_be_visible()
        if name == "few":
            expect(page.locator("svg.sparkline").first).to_be_visible()
        clipped = page.locator("[data-testid=run-row]").evaluate_all(
            "rows => rows.filter((row) => row.scrollHeight > row.clientHeight + 1).length"
        )
        assert clipped == 0
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        page.screenshot(path=SHOTS / f"runs-{name}-{theme}-{width}.png")
    page.get_by_test_id("edit-run").first.click()
    expect(page.get_by_test_id("run-dialog")).to_be_visible()
    page.screenshot(path=SHOTS / f"runs-dialog-{theme}-{width}.png")
    context.close()
