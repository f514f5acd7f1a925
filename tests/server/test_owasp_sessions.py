"""Sessions and the requests that carry them: cookies, fixation, other origins, odd methods, framing."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from collapsewatch_server.access.rules import RULES, Door
from collapsewatch_server.app import create_app
from tests.server.guarded import PASSWORD, newcomer, stranger
from tests.server.live import LiveServer
from tests.server.test_fuzz import contents, furnish

COOKIE = "collapsewatch_session"
ELSEWHERE = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://["},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none", "Origin": "https://evil.example"},
    {},
]
FORM_TYPES = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"]
NOTED = ("audit_log", "login_sessions", "accounts")
"""Tables in which it is noted who called what."""


@pytest.fixture(scope="module")
def known(guarded: LiveServer) -> dict[str, Any]:
    """What paths name: things that are there."""
    ids = dict.fromkeys(("project_id", "account_id", "invitation_id", "key_id"), 1)
    return {**ids, "picture_format": "svg", "index": 0, "rule": "no_worker", **furnish(guarded)}


@pytest.fixture
def browser(guarded: LiveServer) -> Iterator[httpx.Client]:
    with stranger(guarded) as one:
        yield one


def cookies_of(response: Any) -> list[str]:
    found: list[str] = response.headers.get_list("set-cookie")
    return found


def sign_in(browser: httpx.Client, name: str = "olga") -> httpx.Response:
    return browser.post("/session", json={"name": name, "password": PASSWORD})


def is_in(browser: httpx.Client) -> bool:
    return browser.get("/projects").status_code == 200


def test_no_script_and_no_other_site_gets_the_cookie(browser: httpx.Client) -> None:
    (cookie,) = cookies_of(sign_in(browser))
    name, *flags = [part.strip().lower() for part in cookie.split(";")]
    assert name.startswith(f"{COOKIE}=")
    assert {"httponly", "samesite=strict", "path=/"} <= set(flags)
    assert not any(flag.startswith("domain") for flag in flags)
    assert len(name.partition("=")[2]) >= 43


def test_behind_https_the_cookie_is_bound_to_it_and_to_this_host(guarded: LiveServer) -> None:
    url = "https://watch.example"
    app = create_app(guarded.services.settings, guarded.services)
    client = TestClient(app, base_url=url)
    body = {"name": "olga", "password": PASSWORD}
    (cookie,) = cookies_of(client.post("/api/v1/session", json=body, headers={"Origin": url}))
    name, *flags = [part.strip().lower() for part in cookie.split(";")]
    assert name.startswith(f"__host-{COOKIE}=")
    assert {"secure", "httponly", "samesite=strict", "path=/"} <= set(flags)
    # The one of plain HTTP, which anybody on the way can set, is nobody's here.
    other = TestClient(app, base_url=url, cookies={COOKIE: client.cookies[f"__Host-{COOKIE}"]})
    assert other.get("/api/v1/projects").status_code == 401


def test_a_token_that_somebody_else_chose_is_never_taken_up(
    guarded: LiveServer, browser: httpx.Client
) -> None:
    planted = "x" * 43
    browser.cookies.set(COOKIE, planted, domain="127.0.0.1")
    assert browser.get("/session").json()["name"] is None
    assert planted not in cookies_of(sign_in(browser))[0]
    with stranger(guarded) as thief:
        thief.cookies.set(COOKIE, planted, domain="127.0.0.1")
        assert not is_in(thief)


def test_signing_in_again_ends_the_session_that_the_browser_had(
    guarded: LiveServer, browser: httpx.Client
) -> None:
    sign_in(browser)
    with stranger(guarded) as copy:
        copy.cookies.update(browser.cookies)
        assert is_in(copy)
        sign_in(browser)
        assert is_in(browser)
        assert not is_in(copy)


def test_signing_out_ends_the_session_and_not_only_the_cookie(
    guarded: LiveServer, browser: httpx.Client
) -> None:
    sign_in(browser)
    with stranger(guarded) as copy:
        copy.cookies.update(browser.cookies)
        (gone,) = cookies_of(browser.delete("/session"))
        assert "max-age=0" in gone.lower()
        assert not is_in(copy)


def test_another_password_ends_every_session_but_the_one_that_set_it(guarded: LiveServer) -> None:
    with closing(newcomer(guarded, "pat")) as first, stranger(guarded) as second:
        sign_in(second, "pat")
        body = {"old": PASSWORD, "new": "other words nobody guesses"}
        assert first.post("/session/password", json=body).is_success
        assert is_in(first)
        assert not is_in(second)


def test_a_name_that_is_there_is_answered_like_one_that_is_not(browser: httpx.Client) -> None:
    answers = [
        browser.post("/session", json={"name": name, "password": "wrong words altogether"})
        for name in ("olga", "nobody")
    ]
    assert [answer.status_code for answer in answers] == [401, 401]
    assert answers[0].content == answers[1].content
    assert list(answers[0].headers) == list(answers[1].headers)


def test_no_page_of_another_origin_changes_anything_with_the_cookie(
    guarded: LiveServer, known: dict[str, Any]
) -> None:
    before = contents(guarded, without=NOTED)
    tried = 0
    with httpx.Client(
        base_url=guarded.url, cookies=guarded.http.cookies, timeout=60, trust_env=False
    ) as browser:
        for (method, template), rule in RULES.items():
            if method == "GET" or isinstance(rule, Door):
                continue
            # All of them at one route; the guard is the same for each.
            for headers in ELSEWHERE if template.endswith("/shares") else ELSEWHERE[-2:]:
                answer = browser.request(
                    method, template.format(**known), headers=headers, json={}, timeout=60
                )
                assert answer.status_code == 403, (method, template, headers, answer.text)
                assert answer.json()["error"]["code"] == "cross_site"
                tried += 1
    assert tried > 50
    assert contents(guarded, without=NOTED) == before


@pytest.mark.parametrize("path", ["/session", "/session/join", "/session/link"])
@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_no_page_of_another_origin_signs_a_browser_in(
    guarded: LiveServer, path: str, headers: dict[str, str]
) -> None:
    answer = httpx.post(f"{guarded.url}/api/v1{path}", headers=headers, json={}, timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
    assert not cookies_of(answer)


@pytest.mark.parametrize("content_type", FORM_TYPES)
def test_a_form_is_no_way_around_the_origin(
    guarded: LiveServer, known: dict[str, Any], content_type: str
) -> None:
    # These three a browser sends to any site without asking first.
    answer = httpx.post(
        f"{guarded.url}/api/v1/shares",
        content=f'{{"title": "x", "kind": "run", "run_ids": ["{known["run_id"]}"]}}'.encode(),
        headers={"Content-Type": content_type, "Origin": "https://evil.example"},
        cookies=guarded.http.cookies,
        timeout=60,
    )
    assert answer.json()["error"]["code"] == "cross_site"


def test_reading_changes_nothing(guarded: LiveServer, known: dict[str, Any]) -> None:
    before = contents(guarded, without=NOTED)
    for method, template in RULES:
        # Routes of links are others once more.
        if method == "GET" and not template.endswith("/stream") and "{token}" not in template:
            query = {"run": known["run_id"], "q": "a", "chart": "retrieval"}
            answer = guarded.http.get(template.format(**known), params=query)
            assert answer.status_code < 500, (template, answer.text)
    after = contents(guarded, without=NOTED)
    assert [name for name in after if after[name] != before.get(name)] == []


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_method_that_is_only_named_is_not_taken(
    guarded: LiveServer, known: dict[str, Any], method: str
) -> None:
    path = f"/api/v1/runs/{known['run_id']}"
    for header in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        guarded.http.request(method, path, headers={header: "DELETE"}, params={"_method": "DELETE"})
        guarded.http.request(method, path, data={"_method": "DELETE"})
    assert guarded.get(f"/runs/{known['run_id']}")["run_id"] == known["run_id"]


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PROPFIND", "GE"])
def test_odd_methods_get_nothing_out_of_any_route(
    guarded: LiveServer, known: dict[str, Any], method: str
) -> None:
    with httpx.Client(base_url=guarded.url, timeout=60, trust_env=False) as browser:
        for template in {template for _, template in RULES if "/api/" in template or template == "/metrics"}:
            path = template.format(**known)
            answer = browser.request(method, path)
            assert answer.status_code in (400, 401, 403, 404, 405), (method, path, answer.status_code)
            assert not answer.content or answer.json()["error"]["code"], (method, path, answer.text)


def test_no_other_origin_may_read_an_answer(guarded: LiveServer) -> None:
    foreign = {"Origin": "https://evil.example"}
    wish = {**foreign, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x-y"}
    for path in ("/", "/api/v1/projects", "/api/v1/session", "/static/js/app.js", "/openapi.json"):
        for answer in (guarded.http.get(path, headers=foreign), guarded.http.options(path, headers=wish)):
            assert not [name for name in answer.headers if name.startswith("access-control")], path
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_what_the_api_answers_is_kept_by_nobody(guarded: LiveServer) -> None:
    for path in ("/api/v1/projects", "/api/v1/session", "/api/v1/nothing"):
        assert guarded.http.get(path).headers["cache-control"] == "no-store", path


def test_no_page_of_the_service_is_framed_but_that_of_a_link(guarded: LiveServer) -> None:
    for path in ("/", "/docs", "/api/v1/projects", "/nothing"):
        headers = guarded.http.get(path).headers
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
