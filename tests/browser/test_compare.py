"""Several runs laid over one another, in Chromium on a real service."""

import csv
import io
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.integration.service import Service

pytestmark = pytest.mark.browser
SHOTS = Path(__file__).parents[2] / "build" / "screenshots"
STARTED = 1_700_000_000.0
NUM_STEPS = 16
HOSTILE = "<img src=x onerror='window.owned=1'>"


class Trainers:
    """Sends runs as trainers do."""

    def __init__(self, service: Service) -> None:
        self._service = service
        headers = {"Authorization": f"Bearer {service.local_key()}"}
        self._http = httpx.Client(base_url=f"{service.url}/api/v1", headers=headers, timeout=60)

    def post(self, path: str, body: dict[str, Any]) -> None:
        self._http.post(path, json=body).raise_for_status()

    def close(self) -> None:
        self._http.close()

    def start(self, run_id: str, name: str = "", **config: Any) -> str:
        """A run with values of its trainer; those with a larger seed are slower and take more tokens."""
        seed = config.setdefault("seed", 1)
        self.post("/runs", {"run_id": run_id, "project": "sweep", "name": name or run_id, "config": config})
        self.log(run_id, range(NUM_STEPS), seed)
        return run_id

    def log(self, run_id: str, steps: Iterable[int], seed: int = 1, success: float = 0.5) -> None:
        points = [
            {
                "step": step,
                "values": {
                    "success": success + step / 100,
                    "kl": 0.01 * step,
                    "num_tokens": 1000.0 * (step + 1) * seed,
                },
                "logged_at": STARTED + 60 * step * seed,
            }
            for step in steps
        ]
        self.post(f"/runs/{run_id}/scalars", {"points": points})

    def finish(self, run_id: str) -> None:
        """A run that is over never stalls."""
        self._http.patch(f"/runs/{run_id}", json={"state": "finished"}).raise_for_status()

    def score(self, run_id: str, skill: float) -> None:
        """Batches with the trainer's own matrix, of which a share `skill` fits its prompt best."""
        draw = random.Random(run_id)
        for step in range(NUM_STEPS):
            self.post(f"/runs/{run_id}/batches", batch(step, skill, draw))
        self._service.wait_until_scored(run_id, NUM_STEPS)


def batch(step: int, skill: float, draw: random.Random) -> dict[str, Any]:
    """Eight prompts of four rollouts with their cross log-probs."""
    rollouts, rows = [], []
    for prompt in range(8):
        for _ in range(4):
            turn = {"prompt": f"prompt {prompt} <think>", "response": f"reason {prompt}</think>act"}
            rollouts.append({"group_id": f"g{prompt}", "reward": draw.random(), "turns": [turn]})
            best = prompt if draw.random() < skill else draw.randrange(8)
            rows.append([-10.0 if column == best else -14.0 + draw.random() for column in range(8)])
    matrix = {
        "column_group_ids": [f"g{prompt}" for prompt in range(8)],
        "rollout_indices": list(range(32)),
        "log_probs": rows,
        "token_counts": [8] * 32,
    }
    return {
        "batch_id": f"b{step}",
        "step": step,
        "rollouts": rollouts,
        "cross_log_probs": matrix,
        "logged_at": STARTED + 60 * step,
    }


@pytest.fixture(scope="module")
def trainers(service: Service) -> Iterator[Trainers]:
    opened = Trainers(service)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def seeds(trainers: Trainers) -> list[str]:
    """Two seeds each of two settings: one stays healthy, the other never depended on its input."""
    runs = []
    for lr, skill in ((1e-6, 0.9), (5e-6, 0.1)):
        for seed in (1, 2):
            run_id = f"lr{lr:g}-s{seed}"
            config: dict[str, Any] = {
                "optimizer": {"lr": lr},
                "output_dir": f"/runs/{run_id}",
                "batch_size": 32,
            }
            runs.append(trainers.start(run_id, seed=seed, **config))
            trainers.score(run_id, skill)
            trainers.finish(run_id)
    return runs


def open_comparison(page: Page, runs: Iterable[str], more: str = "") -> None:
    page.goto(f"/#/compare?runs={','.join(runs)}{more}")
    expect(page.get_by_test_id("compare-page")).to_be_visible()


def lines_of(page: Page, figure: str) -> Locator:
    """The lines that are drawn in a figure."""
    return page.locator(f"[data-testid=figure-compare-{figure}] .scatterlayer .trace path.js-line")


def test_seeds_are_averaged_and_the_address_says_so(page: Page, seeds: list[str]) -> None:
    open_comparison(page, seeds)
    expect(page.get_by_test_id("compare-head")).to_have_count(4)
    expect(page.get_by_test_id("legend-chip")).to_have_count(4)
    # Four lines, and the interval of each.
    expect(lines_of(page, "retrieval")).to_have_count(8)
    page.get_by_test_id("compare-group").select_option("*")
    rows = page.get_by_test_id("compare-group-row")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("optimizer.lr = 1e-06")
    expect(rows.nth(0)).to_contain_text("mean of 2 runs")
    expect(page.get_by_test_id("legend-chip")).to_have_count(2)
    assert "group=*" in page.url
    page.reload()
    expect(page.get_by_test_id("compare-group-row")).to_have_count(2)
    expect(page.get_by_test_id("compare-group")).to_have_value("*")
    page.get_by_test_id("compare-group").select_option("optimizer.lr")
    expect(rows.nth(1)).to_contain_text("optimizer.lr = 5e-06")


def test_runs_are_aligned_by_time_and_by_tokens(page: Page, seeds: list[str]) -> None:
    open_comparison(page, seeds)
    ticks = page.locator("[data-testid=figure-compare-success] .xaxislayer-above")
    expect(ticks).to_contain_text("step 0")
    page.get_by_test_id("compare-axis-time").click()
    expect(ticks).to_contain_text("min")
    page.get_by_test_id("compare-axis-tokens").click()
    expect(ticks).to_contain_text("tokens")
    expect(page.get_by_test_id("compare-axis-tokens")).to_have_attribute("aria-pressed", "true")
    assert "x=tokens" in page.url


def test_an_axis_that_no_run_has_says_what_to_log(page: Page, trainers: Trainers) -> None:
    trainers.post("/runs", {"run_id": "no-tokens", "project": "sweep", "name": "no tokens"})
    trainers.post("/runs/no-tokens/scalars", {"points": [{"step": 1, "values": {"kl": 1.0}}]})
    open_comparison(page, ["no-tokens"])
    tokens = page.get_by_test_id("compare-axis-tokens")
    expect(tokens).to_be_disabled()
    expect(tokens).to_have_attribute("title", re.compile("num_tokens"))


def test_a_run_is_hidden_and_shown_again(page: Page, seeds: list[str]) -> None:
    open_comparison(page, seeds)
    expect(lines_of(page, "success")).to_have_count(4)
    chip = page.get_by_test_id("legend-chip").nth(1)
    chip.click()
    expect(chip).to_have_attribute("aria-pressed", "false")
    expect(lines_of(page, "success")).to_have_count(3)
    assert f"hide={seeds[1]}" in page.url
    chip.focus()
    page.keyboard.press("Enter")
    expect(lines_of(page, "success")).to_have_count(4)


def test_runs_are_picked_added_sorted_and_taken_out(page: Page, seeds: list[str]) -> None:
    page.goto("/#/compare")
    go = page.get_by_test_id("picker-go")
    expect(go).to_be_disabled()
    page.get_by_test_id("picker-search").fill("lr1e")
    for run_id in seeds[:2]:
        page.locator(f'[data-testid=picker-run][data-run-id="{run_id}"]').check()
    go.click()
    rows = page.get_by_test_id("compare-head")
    expect(rows).to_have_count(2)
    page.get_by_test_id("compare-more").click()
    page.locator(f'[data-testid=picker-run][data-run-id="{seeds[3]}"]').check()
    page.get_by_test_id("picker-go").click()
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="Retrieval skill", exact=True).click()
    expect(rows.nth(0)).to_have_attribute("data-run-id", seeds[3])
    assert "sort=" in page.url
    rows.nth(0).get_by_test_id("compare-remove").click()
    expect(rows).to_have_count(2)
    assert seeds[3] not in page.url


def test_twenty_runs_are_compared_and_more_are_told(page: Page, trainers: Trainers, seeds: list[str]) -> None:
    more = [trainers.start(f"many-{number}", seed=number + 1) for number in range(17)]
    for run_id in more:
        trainers.finish(run_id)
    open_comparison(page, [*seeds, *more, "gone"])
    notices = page.get_by_test_id("compare-notices")
    expect(notices).to_contain_text("At most 20 runs")
    expect(notices).to_contain_text("2 runs of the address are left out")
    expect(page.get_by_test_id("compare-head")).to_have_count(20)
    expect(lines_of(page, "success")).to_have_count(20)
    open_comparison(page, [seeds[0], "gone"])
    expect(notices).to_contain_text("1 run of the address is not there any more: gone")
    expect(page.get_by_test_id("compare-head")).to_have_count(1)


def test_another_metric_is_drawn_and_saved_as_numbers(page: Page, seeds: list[str]) -> None:
    open_comparison(page, seeds[:2], "&x=time")
    page.get_by_test_id("compare-add").select_option("trainer:kl")
    card = page.get_by_test_id("figure-compare-added-trainer-kl")
    expect(card.locator(".js-plotly-plot")).to_be_visible()
    assert "add=trainer%3Akl" in page.url
    card.get_by_test_id("figure-menu").click()
    with page.expect_download() as download:
        card.get_by_test_id("figure-csv").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    assert len(rows) == 2 * NUM_STEPS
    assert list(rows[0]) == ["run", "step", "seconds", "value", "low", "high"]
    second = [row for row in rows if row["run"] == seeds[1]]
    # The second seed is half as fast.
    assert [float(row["seconds"]) for row in second[:3]] == [0.0, 120.0, 240.0]
    card.get_by_role("button", name="Remove this chart").click()
    expect(card).to_have_count(0)


def test_settings_that_differ_are_told_and_the_others_on_demand(page: Page, seeds: list[str]) -> None:
    open_comparison(page, seeds)
    settings = page.get_by_test_id("config-diff")
    expect(settings).to_contain_text("3 settings of 4 differ")
    expect(settings.get_by_role("row", name="optimizer.lr")).to_contain_text("0.000005")
    expect(settings).not_to_contain_text("batch_size")
    page.get_by_test_id("settings-all").check()
    expect(settings).to_contain_text("batch_size")
    assert "settings=all" in page.url


def test_what_is_logged_meanwhile_comes_without_a_reload(page: Page, trainers: Trainers) -> None:
    runs = [trainers.start("live-1"), trainers.start("live-2")]
    open_comparison(page, runs)
    row = page.locator('[data-testid=compare-head][data-run-id="live-2"]')
    expect(row).to_contain_text(str(NUM_STEPS - 1))
    trainers.log("live-2", [777], success=0.123 - 7.77)
    expect(row).to_contain_text("777")
    expect(row).to_contain_text("0.123")
    for run_id in runs:
        trainers.finish(run_id)


def test_a_part_of_the_axis_is_shown_in_all_charts_and_in_the_address(page: Page, seeds: list[str]) -> None:
    open_comparison(page, seeds, "&from=4&to=8")
    ticks = page.locator("[data-testid=figure-compare-success] .xaxislayer-above")
    expect(ticks).to_contain_text("step 4")
    expect(ticks).not_to_contain_text("12")
    page.get_by_test_id("chart-reset").click()
    expect(ticks).to_contain_text("step 0")
    assert "from=" not in page.url


def test_names_and_settings_never_become_markup(page: Page, trainers: Trainers) -> None:
    run = trainers.start("hostile", HOSTILE, **{HOSTILE: HOSTILE})
    other = trainers.start("harmless", "harmless")
    open_comparison(page, [run, other], f"&group={quote(HOSTILE)}")
    expect(page.get_by_test_id("compare-ends")).to_contain_text("<img")
    expect(page.get_by_test_id("compare-legend")).to_contain_text("<img")
    expect(page.get_by_test_id("config-diff")).to_contain_text("<img")
    page.get_by_test_id("compare-group").select_option("")
    expect(lines_of(page, "success")).to_have_count(2)
    page.locator("[data-testid=figure-compare-success] .nsewdrag").hover()
    page.wait_for_timeout(300)
    assert page.evaluate("window.owned") is None
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_screen_in_both_themes(
    browser: Browser, service: Service, seeds: list[str], theme: Any, width: int
) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, base_url=service.url
    )
    page = context.new_page()
    for name, more in (("runs", ""), ("groups", "&group=*")):
        open_comparison(page, seeds, more)
        expect(page.locator("[data-testid=figure-compare-quadrant] .js-plotly-plot")).to_be_visible()
        expect(page.get_by_test_id("compare-group-row")).to_have_count(0 if more == "" else 2)
        assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
        page.screenshot(path=SHOTS / f"compare-{name}-{theme}-{width}.png", full_page=True)
    page.goto("/#/compare")
    expect(page.get_by_test_id("picker-run").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    page.screenshot(path=SHOTS / f"compare-picker-{theme}-{width}.png")
    context.close()
