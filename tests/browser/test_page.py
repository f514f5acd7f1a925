"""The page in Chromium, on a real service fed with a recorded collapse, live."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

import collapsewatch
from tests.browser.recording import log_step, recorded_steps
from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
SAMPLED = "32 of 128 reasonings, seed 3 · every 2nd step · probe set of 6 prompts"
HOSTILE = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"


@pytest.fixture(scope="module")
def sampled_run(service: Service) -> str:
    """Of every second step a part is scored; the last one is left out."""
    steps = recorded_steps()
    probes = [f"g{number}" for number in range(6)]
    with collapsewatch.init("recorded", "sampled", url=service.url, api_key=service.local_key()) as run:
        run.set_scorer("lexical", num_samples=32, seed=3, every_steps=2, probe_group_ids=probes)
        for step in range(4):
            # The recording names its groups by step; the groups of a probe set keep their names.
            log_step(run, step, [{**one, "group": f"g{one['group'][-1]}"} for one in steps[step]])
    service.wait_until_scored(run.id, 4)
    return run.id


@pytest.fixture(scope="module")
def resumed_run(service: Service) -> str:
    """Went wrong, was started again from step 6, and stayed healthy."""
    steps = recorded_steps()
    init = partial(
        collapsewatch.init,
        "recorded",
        "resumed",
        url=service.url,
        api_key=service.local_key(),
        run_id="resumed-run",
    )
    with init() as run:
        for step in range(10):
            log_step(run, step, steps[40 + step])
            run.log({"success": 0.1}, step=step)
    service.wait_until_scored(run.id, 10)
    with init(from_step=6, resume="must") as run:
        for step in range(6, 12):
            log_step(run, step, steps[step])
    service.wait_until_scored(run.id, 16)
    return run.id


def test_a_run_is_watched_live_without_a_reload(page: Page, service: Service) -> None:
    page.goto("/")
    expect(page.get_by_test_id("live-state")).to_contain_text("live")
    steps = recorded_steps()
    with collapsewatch.init("recorded", "watched", url=service.url, api_key=service.local_key()) as run:
        row = page.locator(f'[data-testid=run-row][data-run-id="{run.id}"]')
        expect(row).to_be_visible()
        row.get_by_role("link").first.click()
        for step in range(3):
            log_step(run, step, steps[step])
        expect(page.get_by_test_id("run-step")).to_contain_text("step 2")
        expect(page.locator("[data-testid=figure-retrieval] .js-plotly-plot")).to_be_visible()
        log_step(run, 3, steps[3])
        expect(page.get_by_test_id("run-step")).to_contain_text("step 3")
    expect(page.get_by_test_id("run-page")).to_contain_text(re.compile("finished", re.IGNORECASE))


def test_an_alert_is_announced_while_the_page_is_open(page: Page, service: Service) -> None:
    steps = recorded_steps()
    with collapsewatch.init("recorded", "alarming", url=service.url, api_key=service.local_key()) as run:
        for step in range(20):
            log_step(run, step, steps[step])
        service.wait_until_scored(run.id, 20)
        page.goto(f"/#/runs/{run.id}")
        expect(page.get_by_test_id("run-step")).to_contain_text("step 19")
        for step in range(20, 50):
            log_step(run, step, steps[step])
        toast = page.locator('[data-testid=toast][data-severity="critical"]')
        expect(toast).to_be_visible(timeout=60_000)
    expect(page.locator('[data-testid=alert][data-severity="critical"]').first).to_contain_text(
        "nput dependence"
    )


def test_what_is_wrong_with_a_collapsed_run_is_seen_at_a_glance(page: Page, collapsed_run: str) -> None:
    page.goto(f"/#/runs/{collapsed_run}")
    alert = page.locator('[data-testid=alerts-open] [data-testid=alert][data-severity="critical"]')
    expect(alert).to_contain_text("retrieval accuracy")
    expect(alert).to_be_in_viewport()
    expect(page.get_by_test_id("fact-retrieval")).to_contain_text("chance")
    expect(page.get_by_test_id("scorer")).to_contain_text("lexical")
    expect(page.locator("[data-testid=figure-quadrant] .js-plotly-plot")).to_be_visible()
    # Further down: what its reasonings share, and how its groups' rewards vary.
    expect(page.get_by_test_id("shared-phrases")).to_contain_text("by the worker")
    expect(page.get_by_test_id("variance-buckets")).to_contain_text("Q6")
    expect(page.get_by_test_id("figure-gradients")).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_their_screen_in_both_themes(
    browser: Browser, service: Service, collapsed_run: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    for name, path in (("runs", "/"), ("run", f"/#/runs/{collapsed_run}"), ("settings", "/#/settings")):
        page.goto(path)
        shown = "queue-queued" if name == "settings" else "regime-badge"
        expect(page.get_by_test_id(shown).first).to_be_visible()
        if name == "run":
            expect(page.locator("[data-testid=figure-retrieval] .js-plotly-plot")).to_be_visible()
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0
        page.screenshot(path=SHOTS / f"{name}-{theme}-{width}.png", full_page=True)
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_comparison_shows_who_scored_what_and_where_it_differs(
    page: Page, collapsed_run: str, sampled_run: str, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"/#/compare?runs={collapsed_run},{sampled_run}")
    scorers = page.get_by_test_id("compare-scorer")
    expect(scorers).to_have_count(2)
    expect(scorers.nth(0)).to_contain_text("lexical group centroid")
    expect(scorers.nth(0)).to_contain_text(re.compile(r"all \d+ reasonings"))
    expect(scorers.nth(1)).to_contain_text(SAMPLED)
    expect(page.get_by_test_id("scored-differently")).to_contain_text("not scored alike (part scored)")
    row = page.get_by_test_id("scoring-diff").get_by_role("row").nth(1)
    expect(row).to_contain_text("every reasoning")
    expect(row).to_contain_text("at most 32 reasonings")
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.screenshot(path=SHOTS / f"compare-scored-{width}.png", full_page=True)

    page.goto(f"/#/compare?runs={collapsed_run}")
    expect(page.get_by_test_id("compare-scorer")).to_have_count(1)
    expect(page.get_by_test_id("scoring-diff")).to_be_hidden()
    expect(page.get_by_test_id("scored-differently")).to_be_empty()


def test_a_run_whose_steps_are_never_taken_says_so(page: Page, service: Service) -> None:
    steps = recorded_steps()
    with collapsewatch.init("recorded", "never due", url=service.url, api_key=service.local_key()) as run:
        run.set_scorer("lexical", every_steps=2)
        for step in (1, 3, 5):
            log_step(run, step, steps[step])
    service.wait_until_scored(run.id, 3)
    page.goto(f"/#/runs/{run.id}")
    expect(page.get_by_test_id("run-unscored")).to_have_text("new batches are not scored")
    expect(page.get_by_test_id("backlog-unscored")).to_contain_text("newest 3 steps (1, 3, 5) is scored")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_what_part_was_scored_stands_beside_the_scorer(
    browser: Browser, service: Service, sampled_run: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    page.goto(f"/#/runs/{sampled_run}")
    told = page.get_by_test_id("scorer").get_by_test_id("sampling")
    expect(told).to_have_text(SAMPLED)
    expect(told).to_be_in_viewport()
    expect(page.get_by_test_id("run-step")).to_contain_text("step 3")
    expect(page.get_by_role("heading", name="Newest scored batch: step 2")).to_be_visible()
    expect(page.get_by_test_id("run-queue")).to_be_empty()
    box = told.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    page.screenshot(path=SHOTS / f"sampled-{theme}-{width}.png")
    context.close()


def test_both_attempts_of_a_resumed_run_are_seen(page: Page, resumed_run: str) -> None:
    page.goto(f"/#/runs/{resumed_run}")
    attempts = page.get_by_test_id("attempts")
    expect(attempts).to_contain_text("2 attempts; resumed at step 6")
    attempts.locator("summary").click()
    expect(attempts).to_contain_text("steps 0–9, superseded from step 6")
    accuracy = page.get_by_test_id("figure-retrieval")
    superseded = accuracy.get_by_text("earlier attempt, superseded")
    expect(superseded).to_be_visible()
    dotted = accuracy.locator(".js-plotly-plot .scatterlayer path.js-line[style*='stroke-dasharray: 3px']")
    expect(dotted).to_have_count(1)
    toggle = page.get_by_test_id("earlier-toggle")
    expect(toggle).to_be_checked()
    toggle.click()
    expect(superseded).to_have_count(0)
    expect(dotted).to_have_count(0)
    assert "earlier=hidden" in page.url


def test_the_settings_show_workers_and_an_empty_queue(page: Page, collapsed_run: str) -> None:
    page.goto("/")
    page.get_by_role("link", name="Settings").click()
    worker = page.get_by_test_id("workers-row")
    expect(worker).to_contain_text(re.compile("Idle|Working"))
    expect(page.get_by_test_id("queue-queued")).to_contain_text("0")
    expect(page.get_by_test_id("no-backlog")).to_be_visible()
    expect(page.get_by_test_id("disk")).to_contain_text("free")
    expect(page.get_by_role("link", name="Settings")).to_have_attribute("aria-current", "page")


def test_a_service_without_a_worker_says_so_on_every_page(page: Page, unattended: Service) -> None:
    key = unattended.local_key()
    with collapsewatch.init("recorded", "unscored", url=unattended.url, api_key=key) as run:
        log_step(run, 0, recorded_steps()[0])
    page.goto(unattended.url)
    banner = page.get_by_test_id("service-banner")
    expect(banner).to_be_visible(timeout=60_000)
    banner.get_by_role("link").click()
    expect(page.get_by_test_id("service-alert")).to_contain_text("Critical")
    expect(page.get_by_test_id("no-workers")).to_be_visible()
    expect(page.get_by_test_id("queue-queued")).to_contain_text("1")
    expect(banner).to_be_hidden()


def test_a_run_that_went_silent_is_seen_to_have_stalled(page: Page, unattended: Service) -> None:
    start = {"run_id": "silent", "project": "recorded", "name": "silent"}
    headers = {"Authorization": f"Bearer {unattended.local_key()}"}
    httpx.post(f"{unattended.url}/api/v1/runs", json=start, headers=headers, timeout=60).raise_for_status()
    page.goto(unattended.url)
    row = page.locator('[data-testid=run-row][data-run-id="silent"]')
    expect(row.get_by_test_id("run-state")).to_have_text("Stalled")
    expect(row).to_contain_text("last seen")
    row.get_by_role("link").first.click()
    expect(page.get_by_test_id("run-last-seen")).to_contain_text("ago")
    expect(page.get_by_test_id("alerts-open")).not_to_contain_text("at step")


def test_text_of_a_rollout_never_becomes_markup(page: Page, service: Service) -> None:
    with collapsewatch.init(
        HOSTILE, HOSTILE, config={HOSTILE: HOSTILE}, url=service.url, api_key=service.local_key()
    ) as run:
        groups = range(4)
        run.log_rollouts(
            0,
            prompts=[f"{HOSTILE} {group} <think>" for group in groups for _ in range(2)],
            responses=[f"{HOSTILE} {group} {k} </think> {HOSTILE}" for group in groups for k in range(2)],
            rewards=[float(k) for _ in groups for k in range(2)],
        )
        run.log({HOSTILE: 1.0}, step=0)
    service.wait_until_scored(run.id, 1)
    page.goto("/")
    expect(page.get_by_test_id("run-list")).to_contain_text("<script>")
    page.goto(f"/#/runs/{run.id}")
    expect(page.get_by_test_id("run-name")).to_contain_text("<script>")
    expect(page.get_by_test_id("prompt-table")).to_contain_text("<script>")
    expect(page.get_by_test_id("shared-phrases")).to_contain_text("onerror")
    page.wait_for_timeout(300)
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0


def test_the_page_is_reachable_by_keyboard(page: Page, collapsed_run: str) -> None:
    page.goto("/")
    row = page.locator(f'[data-testid=run-row][data-run-id="{collapsed_run}"]')
    expect(row).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate("document.activeElement.getAttribute('href') || ''")
        if collapsed_run in focused:
            break
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("run-name")).to_have_text("collapsing")


def test_of_many_alerts_at_once_the_newest_stay_and_the_others_are_counted(page: Page) -> None:
    page.goto("/")
    show = """async () => {
      const app = document.querySelector('script[src$="/js/app.js"]').src;
      const { showToast } = await import(app.replace('app.js', 'views/toasts.js'));
      for (let number = 1; number <= 7; number += 1) {
        const alert = { alert_id: number, severity: 'warning', title: `Alert ${number}`, message: 'Words.' };
        showToast({ ...alert, opened_step: 3 }, { runId: 'r', runName: 'r', onScreen: false });
      }
    }"""
    page.evaluate(show)
    toasts = page.get_by_test_id("toast")
    expect(toasts).to_have_count(4)
    expect(toasts.last).to_contain_text("Alert 7")
    expect(page.get_by_test_id("toast-more")).to_have_text("3 earlier alerts in the inbox")
    page.get_by_test_id("toast-more").get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"#/alerts$"))
