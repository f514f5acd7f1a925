"""A service that asks people to sign in, and the people who do."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, expect

from tests.browser.conftest import is_fault
from tests.integration.service import Service

OPERATOR, PASSWORD = "ada", "correct horse battery"
_LINK = re.compile(r"/#/join/([A-Za-z0-9_-]{20,})")
# Refusals that these tests are about; the browser's console tells of each.
_REFUSED = re.compile(r"status of (401|403|409|410|422|429)")


def start_guarded(service: Service) -> None:
    """Starts the server alone, in login mode: nothing is scored here."""
    service.spawn("server", "serve", "--port", str(service.port), "--no-worker", "--login")
    service.wait_until(service.is_ready, "the server is ready", timeout_seconds=120)
    service.wait_until(lambda: first_token(service) != "", "the first link is printed")


def first_token(service: Service) -> str:
    """The token of the link that the server printed when it started; empty before that."""
    found = _LINK.search(service.log("server").read_text())
    return "" if found is None else found[1]


@contextmanager
def somebody(browser: Browser, service: Service, **options: Any) -> Iterator[Page]:
    """The page of a person who has a browser of her own; nothing went wrong on it."""
    viewport: ViewportSize = options.pop("viewport", {"width": 1280, "height": 900})
    context = browser.new_context(viewport=viewport, base_url=service.url, **options)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if is_fault(message) else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    context.close()
    assert [text for text in problems if _REFUSED.search(text) is None] == []


def join(page: Page, token: str, name: str, password: str = PASSWORD) -> None:
    """Takes a link and comes back when the person is in."""
    page.goto(f"/#/join/{token}")
    page.get_by_test_id("join-name").fill(name)
    page.get_by_test_id("join-password").fill(password)
    page.get_by_test_id("door-submit").click()
    # Two pages are loaded on the way, and a password takes its time.
    expect(page.get_by_test_id("me")).to_be_visible()


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    """Fills in the form that is shown, and sends it."""
    page.get_by_test_id("sign-in-name").fill(name)
    page.get_by_test_id("sign-in-password").fill(password)
    page.get_by_test_id("door-submit").click()
