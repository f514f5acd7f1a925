"""Markup in every text that somebody can write stays text on every screen."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

import collapsewatch
from tests.browser.team import OPERATOR, first_token, join, somebody, start_guarded
from tests.integration.service import Service, base_environment
from tests.servers import wait_until

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.owned=1'><script>window.owned=1</script>"
RUN = "hostile-run"
TURN = ("<think>", "</think>")
# Also what stands in fields.
SHOWN = """() => [
    document.body.innerText,
    ...[...document.querySelectorAll("input, textarea, option")].map((one) => one.value),
].join(" ")"""
# Where the text has to be seen, so that nothing passes because nothing is shown.
SCREENS = {
    "/": True,
    f"/runs/{RUN}": True,
    f"/runs/{RUN}/rollouts": True,
    f"/compare?runs={RUN}": True,
    "/alerts": False,
    "/alerts/rules": True,
    "/settings": False,
    "/settings/channels": True,
    "/settings/shares": True,
    "/settings/people": True,
    "/settings/keys": True,
    "/settings/retention": False,
    "/settings/audit": True,
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("hostile")
    running = Service(home, base_environment(home, home), scaled_out=False)
    try:
        start_guarded(running)
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def operator(browser: Browser, guarded: Service) -> Iterator[Page]:
    with somebody(browser, guarded) as page:
        join(page, first_token(guarded), OPERATOR)
        send_run(guarded)
        cookies = {one["name"]: one["value"] for one in page.context.cookies()}
        with httpx.Client(
            base_url=f"{guarded.url}/api/v1",
            cookies=cookies,
            headers={"Origin": guarded.url},
            timeout=60,
            trust_env=False,
        ) as client:
            write_everywhere(client)
        yield page


def send_run(service: Service) -> None:
    before, after = TURN
    with collapsewatch.init(
        HOSTILE,
        HOSTILE,
        run_id=RUN,
        config={HOSTILE: HOSTILE},
        tags=[HOSTILE],
        url=service.url,
        api_key=service.local_key(),
    ) as run:
        run.log_rollouts(
            0,
            prompts=[f"{HOSTILE} {group} {before}" for group in range(4) for _ in range(2)],
            responses=[f"{HOSTILE} {group} {k} {after} {HOSTILE}" for group in range(4) for k in range(2)],
            rewards=[float(k) for _ in range(4) for k in range(2)],
        )
        run.log({HOSTILE: 1.0}, step=0)


def write_everywhere(client: httpx.Client) -> None:
    """The text as a note, and as the name of a tag, a rule, a channel, a link, a key and an invitation."""
    rule = {"name": HOSTILE, "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 0.1}
    channel = {"name": HOSTILE, "kind": "webhook", "url": "https://93.184.215.14/", "enabled": False}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", f"/runs/{RUN}/about", {"notes": HOSTILE, "tags": [HOSTILE]}),
        ("POST", "/alert-rules", rule),
        ("POST", "/channels", channel),
        ("POST", "/shares", {"title": HOSTILE, "kind": "run", "run_ids": [RUN]}),
        ("POST", "/keys", {"purpose": "read", "label": HOSTILE, "days": 1}),
        ("POST", "/invitations", {"label": HOSTILE, "makes_operator": False}),
    ]
    for method, path, body in calls:
        answer = client.request(method, path, json=body)
        assert answer.is_success, (path, answer.text)


@pytest.mark.parametrize("screen", SCREENS)
def test_it_is_text_on_every_screen(operator: Page, screen: str) -> None:
    operator.goto(f"/#{screen}")
    expect(operator.locator("#main h1, #main h2").first).to_be_visible()
    if SCREENS[screen]:
        wait_until(
            lambda: "onerror" in operator.evaluate(SHOWN),
            f"{screen}: " + operator.evaluate(SHOWN)[:600],
            timeout_seconds=60,
        )
    operator.wait_for_timeout(200)
    assert operator.evaluate("window.owned") is None
    assert operator.locator("img[src=x]").count() == 0
    assert operator.locator("#main script").count() == 0
