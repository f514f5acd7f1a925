"""The rollouts of a run: read, moved through by keyboard, searched, their template and log-probs marked."""

import re
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
HOSTILE = "<img src=x onerror='window.owned=1'><b>bold</b>"


@pytest.fixture(scope="module")
def told_run(service: Service) -> str:
    """A run that went from many reasonings to one, in a few steps."""
    steps = recorded_steps()
    with collapsewatch.init("recorded", "told", url=service.url, api_key=service.local_key()) as run:
        for step, recorded in enumerate((0, 1, 40, 45, 49)):
            log_step(run, step, steps[recorded])
    service.wait_until_scored(run.id, 5)
    return run.id


def test_rollouts_are_reached_from_the_run_and_read_by_keyboard(page: Page, told_run: str) -> None:
    page.goto(f"/#/runs/{told_run}")
    page.get_by_test_id("rollouts-link").click()
    expect(page.get_by_test_id("rollouts-title")).to_have_text("Rollouts of step 4")
    expect(page).to_have_url(re.compile(r"step=4&rollout=0"))
    items = page.get_by_test_id("rollout-item")
    expect(items.first).to_have_attribute("aria-current", "true")
    expect(page.get_by_test_id("reader-title")).to_contain_text("Rollout #0")
    page.keyboard.press("j")
    expect(page.get_by_test_id("reader-title")).to_contain_text("Rollout #1")
    expect(items.nth(1)).to_have_attribute("aria-current", "true")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("k")
    expect(page.get_by_test_id("reader-title")).to_contain_text("Rollout #1")
    page.keyboard.press("[")
    expect(page.get_by_test_id("rollouts-title")).to_have_text("Rollouts of step 3")
    page.get_by_test_id("next-step").click()
    expect(page.get_by_test_id("rollouts-title")).to_have_text("Rollouts of step 4")
    expect(page.get_by_test_id("next-step")).to_be_disabled()
    # The address holds the whole view.
    page.get_by_test_id("rollout-order").select_option("-length")
    items.nth(2).click()
    title = page.get_by_test_id("reader-title")
    expect(page).to_have_url(re.compile("order=-length"))
    shown = title.inner_text()
    page.reload()
    expect(title).to_have_text(shown)
    expect(page.locator("[data-testid=rollout-item][aria-current]")).to_have_count(1)


def test_the_template_is_marked_and_its_spread_is_shown(page: Page, told_run: str) -> None:
    page.goto(f"/#/runs/{told_run}/rollouts?step=4")
    rows = page.get_by_test_id("phrase-row")
    expect(rows.first).to_be_visible()
    phrase = rows.first.locator(".prompt-text").inner_text()
    reader = page.get_by_test_id("reader")
    marked = reader.locator("mark.shared")
    expect(marked.first).to_be_visible()
    shares = [
        int(text.split()[0]) for text in page.locator(".phrase-shares .bar-line .numeric").all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    line = rows.first.locator("svg.sparkline")
    expect(line).to_have_attribute("aria-label", re.compile(r"at step 0, .* at step 4\."))
    page.get_by_test_id("mark-none").click()
    expect(marked).to_have_count(0)
    expect(page).to_have_url(re.compile("mark=none"))
    # Which rollouts have the phrase is a search.
    rows.first.get_by_role("button").click()
    expect(page.get_by_test_id("rollout-list-said")).to_contain_text("have it.")
    first = phrase.split()[0]
    expect(page.locator(".rollout-excerpt mark.found").first).to_contain_text(
        re.compile(re.escape(first), re.IGNORECASE)
    )


def test_a_search_finds_rollouts_of_all_steps(page: Page, told_run: str) -> None:
    page.goto(f"/#/runs/{told_run}/rollouts")
    expect(page.get_by_test_id("rollout-item").first).to_be_visible()
    page.keyboard.press("/")
    search = page.get_by_test_id("rollout-search")
    expect(search).to_be_focused()
    # Letters that move between rollouts elsewhere are letters here.
    search.press_sequentially("JKM")
    expect(page.get_by_test_id("rollout-list-said")).to_contain_text("0 of 640 rollouts")
    expect(page.get_by_test_id("rollout-list-said")).to_contain_text("in 5 steps")
    search.fill("Goal")
    page.get_by_test_id("rollout-where").select_option("prompt")
    items = page.get_by_test_id("rollout-item")
    expect(items.first).to_contain_text("Step 4")
    expect(items).to_have_count(50)
    page.get_by_test_id("rollout-more").click()
    expect(items.nth(60)).to_be_visible()
    page.keyboard.press("Escape")
    items.nth(1).click()
    expect(page.locator(".reader-prompt mark.found").first).to_be_visible()


@pytest.fixture(scope="module")
def hostile_run(service: Service) -> str:
    """A run whose model writes markup, in two turns, with log-probs of its tokens."""
    turn: dict[str, Any] = {
        "prompt": f"{HOSTILE} where? <think>",
        "response": f"{HOSTILE} so</think>{HOSTILE}",
        "response_token_ids": [5, 6, 7],
        "response_log_probs": [-0.01, -1.0, -8.0],
    }
    later = {"prompt": turn["prompt"] + turn["response"] + "\nyou see <i>", "response": "on</think>go"}
    rollouts = [{"group_id": f"{HOSTILE[:40]}{at % 2}", "turns": [turn, later]} for at in range(8)]
    with collapsewatch.init("recorded", "hostile", url=service.url, api_key=service.local_key()) as run:
        run.log_rollouts(1, rollouts=[collapsewatch.Rollout.model_validate(one) for one in rollouts])
    service.wait_until_scored(run.id, 1)
    return run.id


def test_text_of_a_rollout_is_read_as_text_in_every_mode(page: Page, hostile_run: str) -> None:
    page.goto(f"/#/runs/{hostile_run}/rollouts")
    reader = page.get_by_test_id("reader")
    turns = reader.get_by_test_id("turn")
    expect(turns).to_have_count(2)
    expect(turns.first.locator(".reader-prompt")).to_have_text(f"{HOSTILE} where? <think>")
    expect(turns.first.locator(".reader-response")).to_contain_text("<b>bold</b> so")
    expect(turns.first.locator(".reader-action").first).to_have_text(HOSTILE)
    # What the turn before has shown is not shown again.
    expect(turns.nth(1).locator(".reader-prompt")).to_contain_text("as in the turn before)")
    expect(turns.nth(1).locator(".reader-prompt")).to_contain_text("you see <i>")
    page.get_by_test_id("mark-tokens").click()
    tokens = turns.first.locator(".token-cell")
    expect(tokens).to_have_count(3)
    expect(tokens.nth(2)).to_have_class(re.compile("shade-6"))
    expect(tokens.nth(1)).to_have_attribute("title", re.compile("token 6: log p −1.00"))
    expect(page.get_by_test_id("reader-note")).to_contain_text("Only what the trainer sent")
    page.get_by_test_id("rollout-search").fill("onerror")
    expect(page.locator(".rollout-excerpt mark.found").first).to_have_text("onerror")
    page.wait_for_timeout(200)
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.fixture(scope="module")
def shaded_run(unattended: Service) -> str:
    """A run of which a scorer told the log-probs of single tokens."""
    response = "<think>let me think so</think>go up"
    turn = {"prompt": "where?", "response": response}
    key = unattended.local_key()
    with collapsewatch.init("recorded", "shaded", url=unattended.url, api_key=key) as run:
        run.log_rollouts(0, rollouts=[{"group_id": f"g{at}", "turns": [turn]} for at in range(2)])
    api = httpx.Client(
        base_url=f"{unattended.url}/api/v1/worker",
        headers={"Authorization": f"Bearer {unattended.create_key('worker')}"},
        timeout=60,
    )
    claim = {"worker": "w", "wait_seconds": 20}
    job: dict[str, Any] = {}
    while job.get("run_id") != run.id:
        job = (
            api.post("/claim", json={**claim, "worker": f"w{job.get('job_id', 0)}"}).raise_for_status().json()
        )
    tokens = {
        "rollout": 0,
        "turn": 0,
        "log_probs": [-2, -30, -150, -900],
        "lengths": [3, 3, 6, 3],
        "start": 7,
    }
    result = {
        "worker": "w",
        "scorer": {"kind": "reference", "label": "reference: tiny"},
        "seconds": 0.1,
        "evaluations": [],
        "token_log_probs": [tokens],
    }
    api.post(f"/jobs/{job['job_id']}/done", json=result).raise_for_status()
    api.close()
    return run.id


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_tokens_are_shaded_by_how_little_they_were_expected(
    browser: Browser, unattended: Service, shaded_run: str, theme: Any, width: int
) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=unattended.url
    )
    page = context.new_page()
    page.goto(f"/#/runs/{shaded_run}/rollouts?mark=tokens")
    box = page.locator(".reader-tokens")
    expect(box).to_have_text("<think>let me think so</think>go up")
    tokens = box.locator(".token")
    assert tokens.all_inner_texts() == ["let", " me", " think", " so"]
    shades = [int(re.findall(r"shade-(\d)", node.get_attribute("class") or "")[0]) for node in tokens.all()]
    assert shades == [0, 1, 3, 6]
    expect(page.locator(".reader-turns")).to_contain_text("4 tokens by reference: tiny: mean log p −2.70")
    expect(page.get_by_test_id("shade-legend")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.screenshot(path=SHOTS / f"rollouts-tokens-{theme}-{width}.png")
    # Of the other rollout nothing was told.
    page.keyboard.press("j")
    expect(page.get_by_test_id("reader-note")).to_have_text(
        "No log-probs: the trainer sent none, and this reasoning was not scored."
    )
    context.close()


def test_a_run_without_rollouts_and_a_step_that_is_not_there_say_what_to_do(
    browser: Browser, service: Service, told_run: str
) -> None:
    with collapsewatch.init("recorded", "bare", url=service.url, api_key=service.local_key()) as run:
        run.log({"loss": 1.0}, step=0)
    service.wait_until(
        lambda: any(one["run_id"] == run.id for one in service.get("/runs")["runs"]), "it is there"
    )
    # The browser itself notes the refusals on the console.
    context = browser.new_context(base_url=service.url)
    page = context.new_page()
    page.goto(f"/#/runs/{run.id}/rollouts")
    expect(page.get_by_test_id("no-rollouts")).to_contain_text("run.log_rollouts")
    page.goto(f"/#/runs/{told_run}/rollouts?step=77")
    expect(page.get_by_test_id("rollouts-page")).to_contain_text("step 77 has no rollouts")
    page.get_by_role("link", name="Go to the last step").click()
    expect(page.get_by_test_id("rollouts-title")).to_have_text("Rollouts of step 4")
    page.goto("/#/runs/no-such-run/rollouts")
    expect(page.get_by_text("There is no run with the id")).to_be_visible()
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_rollouts_fit_their_screen(
    browser: Browser, service: Service, told_run: str, theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    page.goto(f"/#/runs/{told_run}/rollouts?step=4")
    expect(page.get_by_test_id("phrase-row").first).to_be_visible()
    expect(page.get_by_test_id("reader").locator("mark.shared").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.screenshot(path=SHOTS / f"rollouts-{theme}-{width}.png", full_page=True)
    page.get_by_test_id("rollout-search").fill("safe move")
    expect(page.get_by_test_id("rollout-list-said")).to_contain_text("have it.")
    page.screenshot(path=SHOTS / f"rollouts-search-{theme}-{width}.png")
    context.close()
