"""Who comes in, by which door, and what is seen before."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.team import (
    OPERATOR,
    PASSWORD,
    first_token,
    join,
    sign_in,
    somebody,
    start_guarded,
)
from tests.integration.service import Service, base_environment

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Service]:
    """A service in which the first person has joined by the link that it printed."""
    home = tmp_path_factory.mktemp("guarded")
    running = Service(home, base_environment(home, home), scaled_out=False)
    try:
        start_guarded(running)
        token = first_token(running)
        with somebody(browser, running) as page:
            join(page, token, OPERATOR)
            assert token not in page.url
        yield running
    finally:
        running.stop()


@pytest.fixture
def visitor(browser: Browser, guarded: Service) -> Iterator[Page]:
    with somebody(browser, guarded) as page:
        yield page


def test_nothing_of_the_page_is_there_before_somebody_signs_in(visitor: Page) -> None:
    visitor.goto("/#/alerts?status=all")
    expect(visitor.get_by_test_id("sign-in")).to_be_visible()
    expect(visitor.get_by_role("navigation", name="Main")).to_have_count(0)
    expect(visitor.get_by_test_id("sign-in-name")).to_be_focused()
    hints = [
        visitor.get_by_test_id(f"sign-in-{name}").get_attribute("autocomplete")
        for name in ("name", "password")
    ]
    assert hints == ["username", "current-password"]
    sign_in(visitor, OPERATOR, "a wrong password")
    expect(visitor.get_by_test_id("door-fault")).to_have_text("The name or the password is wrong.")
    expect(visitor.get_by_test_id("sign-in-password")).to_have_value("")
    sign_in(visitor, OPERATOR)
    # And on at the address that was asked for.
    expect(visitor.get_by_test_id("inbox-page")).to_be_visible()
    assert visitor.url.endswith("#/alerts?status=all")


def test_who_is_in_sees_it_and_leaves(visitor: Page) -> None:
    visitor.goto("/")
    sign_in(visitor, OPERATOR)
    visitor.get_by_test_id("me").click()
    expect(visitor.get_by_test_id("me-name")).to_have_text(OPERATOR)
    expect(visitor.get_by_test_id("me-roles")).to_contain_text("Operator")
    visitor.get_by_test_id("sign-out").click()
    expect(visitor.get_by_test_id("sign-in")).to_be_visible()
    visitor.goto("/#/settings")
    expect(visitor.get_by_test_id("sign-in")).to_be_visible()
    assert visitor.request.get("/api/v1/runs").status == 401


def test_a_session_that_ends_while_the_page_is_open_shows_the_door(visitor: Page) -> None:
    visitor.goto("/#/settings")
    sign_in(visitor, OPERATOR)
    expect(visitor.get_by_test_id("settings-page")).to_be_visible()
    expect(visitor.get_by_test_id("live-state")).to_have_text("live")
    visitor.context.clear_cookies()
    # The next thing that the page asks for is refused; nothing has to be pressed.
    expect(visitor.get_by_test_id("sign-in")).to_contain_text("Your session has ended")
    expect(visitor.get_by_test_id("settings-page")).to_have_count(0)
    sign_in(visitor, OPERATOR)
    expect(visitor.get_by_test_id("settings-page")).to_be_visible()


def test_signing_out_in_one_tab_empties_the_others(visitor: Page) -> None:
    visitor.goto("/#/alerts/rules")
    sign_in(visitor, OPERATOR)
    expect(visitor.get_by_test_id("rules-page")).to_be_visible()
    other = visitor.context.new_page()
    other.goto("/")
    other.get_by_test_id("me").click()
    other.get_by_test_id("sign-out").click()
    expect(visitor.get_by_test_id("sign-in")).to_be_visible(timeout=15_000)
    expect(visitor.get_by_test_id("rules-page")).to_have_count(0)
    expect(other.get_by_test_id("sign-in")).to_be_visible()


def test_a_link_that_was_used_says_what_to_do(visitor: Page, guarded: Service) -> None:
    visitor.goto(f"/#/join/{first_token(guarded)}")
    expect(visitor.get_by_test_id("join-ended")).to_contain_text("Ask whoever sent it for another")
    assert visitor.url.endswith("/#/")
    visitor.get_by_test_id("join-go-on").click()
    expect(visitor.get_by_test_id("sign-in")).to_be_visible()


def test_a_password_is_changed(visitor: Page) -> None:
    visitor.goto("/")
    sign_in(visitor, OPERATOR)

    def change(old: str, new: str) -> None:
        visitor.get_by_test_id("old-password").fill(old)
        visitor.get_by_test_id("new-password").fill(new)
        visitor.get_by_test_id("dialog-confirm").click()

    visitor.get_by_test_id("me").click()
    visitor.get_by_test_id("change-password").click()
    change(PASSWORD, "short")
    dialog = visitor.get_by_test_id("password-dialog")
    expect(dialog).to_contain_text("at least 10 characters")
    change("not the password", "another fine password")
    expect(dialog).to_contain_text("This is not your password")
    change(PASSWORD, "another fine password")
    expect(visitor.get_by_test_id("note")).to_contain_text("The password is changed")
    visitor.reload()
    expect(visitor.get_by_test_id("me")).to_be_visible()
    visitor.get_by_test_id("me").click()
    visitor.get_by_test_id("change-password").click()
    change("another fine password", PASSWORD)
    expect(dialog).to_have_count(0)
