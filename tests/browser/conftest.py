"""A real service and Chromium for the tests of the page; each module has a service of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

import collapsewatch
from tests.browser.recording import DATA, log_step, recorded_steps
from tests.integration.service import Service, base_environment

CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser"]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# A busy machine stands still for seconds, and pages of many figures take their time on it.
expect.set_options(timeout=30_000)


def is_fault(message: ConsoleMessage) -> bool:
    """Whether the console told of something that must not be; a refused form is no fault of the page."""
    return message.type == "error" and "the server responded with a status of 422" not in message.text


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("page")
    # A run that a test left open would stall in the middle of another one, which counts what the page asks.
    environment = base_environment(home, DATA) | {"COLLAPSEWATCH_STALL_SECONDS": "86400"}
    running = Service(home, environment, scaled_out=False)
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def unattended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that nobody scores for, and that calls a run stalled after two seconds."""
    home = tmp_path_factory.mktemp("unattended")
    environment = base_environment(home, DATA) | {"COLLAPSEWATCH_STALL_SECONDS": "2"}
    running = Service(home, environment, scaled_out=False)
    try:
        running.spawn("server", "serve", "--port", str(running.port), "--no-worker")
        running.wait_until(running.is_ready, "the server is ready", timeout_seconds=120)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = next((path for path in CHROMIUM if Path(path).exists()), None)
    assert executable, "chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Browser, service: Service) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, base_url=service.url)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda message: problems.append(message.text) if is_fault(message) else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert problems == []


@pytest.fixture(scope="module")
def collapsed_run(service: Service) -> str:
    steps = recorded_steps()
    with collapsewatch.init(
        "recorded", "collapsing", url=service.url, api_key=service.local_key(), scorer="lexical"
    ) as run:
        for step, rollouts in steps.items():
            log_step(run, step, rollouts)
    service.wait_until_scored(run.id, len(steps))
    return run.id
