"""Signing in and joining by an OpenID provider, from the page there and back."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.team import first_token, somebody, start_guarded
from tests.integration.service import Service, base_environment
from tests.server.openid import CLIENT_ID, CLIENT_SECRET, OpenId, open_id

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def openid() -> Iterator[OpenId]:
    with open_id() as provider:
        yield provider


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory, openid: OpenId) -> Iterator[Service]:
    """A service that knows the provider, and in which nobody has an account."""
    home = tmp_path_factory.mktemp("federated")
    environment = base_environment(home, home) | {
        "COLLAPSEWATCH_OIDC_ISSUER": openid.url,
        "COLLAPSEWATCH_OIDC_CLIENT_ID": CLIENT_ID,
        "COLLAPSEWATCH_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "COLLAPSEWATCH_OIDC_NAME": "Example",
    }
    running = Service(home, environment, scaled_out=False)
    try:
        start_guarded(running)
        yield running
    finally:
        running.stop()


def test_somebody_joins_by_a_link_and_comes_again(
    browser: Browser, federated: Service, openid: OpenId
) -> None:
    openid.person = {"sub": "u1", "email": "ada@x.org", "email_verified": True}
    with somebody(browser, federated) as page:
        page.goto("/#/alerts?status=all")
        page.get_by_test_id("provider").click()
        # Nobody has invited this address.
        fault = page.get_by_test_id("provider-fault")
        expect(fault).to_contain_text("Signing in with Example did not work. It knows you, but nobody")
        expect(page.get_by_test_id("sign-in")).to_be_visible()
        assert page.url.endswith("/#/")
        page.goto(f"/#/join/{first_token(federated)}")
        page.get_by_test_id("provider").click()
        page.get_by_role("button", name="Accept").click()
        expect(page.get_by_test_id("me")).to_be_visible()
    with somebody(browser, federated) as page:
        page.goto("/#/alerts?status=all")
        page.get_by_test_id("provider").click()
        # On at the address that was asked for.
        expect(page.get_by_test_id("inbox-page")).to_be_visible()
        page.get_by_test_id("me").click()
        expect(page.get_by_test_id("me-name")).to_have_text("ada@x.org")
        expect(page.get_by_test_id("me-roles")).to_contain_text("Operator")
