"""A browser on its way to an OpenID provider and back."""

from typing import Any

import httpx

from tests.server.openid import OpenId
from tests.server.team import Person

START, BACK = "/api/v1/session/provider", "/api/v1/session/provider/back"


def sent(browser: Person) -> str:
    """Where the service sends the browser."""
    response = browser.client.get(START, follow_redirects=False)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def returned(there: str) -> str:
    """Where the provider sends it."""
    response = httpx.get(there, follow_redirects=False, timeout=60, trust_env=False)
    assert response.status_code == 302, response.text
    return response.headers["location"]


def landed(browser: Person, back: str) -> str:
    """Where it ends."""
    response = browser.client.get(back, follow_redirects=False)
    assert response.status_code == 303, response.text
    return str(response.headers["location"])


def signed_in(browser: Person) -> str:
    return landed(browser, returned(sent(browser)))


def me(browser: Person) -> Any:
    return browser.ok("GET", "/session")


def arriving(openid: OpenId, sub: str, email: str, *, is_verified: object = True) -> None:
    openid.person = {"sub": sub, "email": email, "email_verified": is_verified}
