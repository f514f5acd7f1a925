"""No password, key or token is stored, logged, answered again or put where others read it."""

import hmac
import logging
from contextlib import closing
from typing import Any

import httpx
import pytest

from collapsewatch_server.auth import Purpose
from tests.server.guarded import PASSWORD, newcomer, stranger
from tests.server.live import LiveServer
from tests.server.test_fuzz import contents

SECRET_WORDS = "a secret that nobody may see"
# These log what the test itself sends.
_OF_THE_TEST = ("httpx", "httpcore")


@pytest.fixture(scope="module")
def run_id(guarded: LiveServer) -> str:
    return guarded.start_run()


def made(guarded: LiveServer, run_id: str) -> dict[str, str]:
    """Every kind of secret that the service hands out or is told, just made and used once."""
    live = guarded
    invited = live.call("POST", "/invitations", json={"label": "Ida", "makes_operator": False}).json()["url"]
    token = invited.rpartition("/")[2]
    with stranger(live) as browser:
        browser.post("/session/link", json={"token": token})
        joined = browser.post(
            "/session/join", json={"token": token, "name": f"ida{token[:5].lower()}", "password": PASSWORD}
        )
        assert joined.is_success, joined.text
        session = dict(browser.cookies)["collapsewatch_session"]
        browser.get("/projects")
    account_id = live.get("/accounts")["accounts"][-1]["id"]
    reset = live.call("POST", f"/accounts/{account_id}/reset").json()["url"].rpartition("/")[2]
    keys = {
        purpose: live.call("POST", "/keys", json={"purpose": purpose, "label": "x", "days": 1}).json()["key"]
        for purpose in ("ingest", "worker", "read")
    }
    live.call("GET", "/projects", key=keys["read"])
    live.call("POST", "/runs", key=keys["ingest"], json={"run_id": "k", "project": "p", "name": "n"})
    share = live.call("POST", "/shares", json={"title": "x", "kind": "run", "run_ids": [run_id]}).json()
    live.call("GET", f"/shared/{share['token']}")
    draft = {"name": "hook", "kind": "webhook", "url": f"http://127.0.0.1:9/{SECRET_WORDS}".replace(" ", "-")}
    channel = live.call("POST", "/channels", json={**draft, "enabled": False}).json()
    live.call("DELETE", f"/channels/{channel['channel']['channel_id']}")
    return {
        "password": PASSWORD,
        "invitation": token,
        "reset": reset,
        "session": session,
        "share": share["token"],
        "webhook": channel["secret"],
        "address": SECRET_WORDS.replace(" ", "-"),
        **keys,
    }


def test_no_secret_is_in_the_database_the_log_the_audit_or_the_meters(
    guarded: LiveServer, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        secrets = made(guarded, run_id)
        refused(guarded, secrets)
    ours = [record for record in caplog.records if not record.name.startswith(_OF_THE_TEST)]
    places = {
        "database": str(contents(guarded)),
        "log": "\n".join(f"{record.getMessage()} {vars(record)}" for record in ours),
        "audit": guarded.call("GET", "/audit").text + guarded.call("GET", "/audit/export.csv").text,
        "meters": guarded.http.get("/metrics").text,
        "lists": "".join(
            guarded.call("GET", path).text
            for path in ("/keys", "/invitations", "/shares", "/accounts", "/channels")
        ),
    }
    assert all(len(text) > 100 for text in places.values())
    found = [(name, place) for place, text in places.items() for name, one in secrets.items() if one in text]
    assert found == []


def refused(guarded: LiveServer, secrets: dict[str, str]) -> None:
    """Uses the secrets where they are no good, so that refusals are logged and audited, too."""
    guarded.call("POST", "/worker/claim", key=secrets["read"], json={"worker": "w"})
    guarded.call("GET", "/projects", key=secrets["worker"])
    with stranger(guarded) as browser:
        browser.post(
            "/session/join", json={"token": secrets["invitation"], "name": "x", "password": PASSWORD}
        )
        browser.post("/session", json={"name": "olga", "password": secrets["read"]})
        browser.post("/session", json={"name": secrets["reset"], "password": "x"})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/session", {"name": "olga", "password": [SECRET_WORDS]}),
        ("/session", {"name": "olga", "password": SECRET_WORDS * 100}),
        ("/session/join", {"token": SECRET_WORDS, "name": "ida", "password": SECRET_WORDS}),
        ("/session/link", {"token": SECRET_WORDS}),
        ("/session/password", {"old": {"x": SECRET_WORDS}, "new": SECRET_WORDS * 100}),
        ("/session/accept", {"token": SECRET_WORDS}),
    ],
)
def test_a_refused_form_does_not_repeat_what_was_secret_in_it(
    guarded: LiveServer, path: str, body: dict[str, Any]
) -> None:
    # As a browser does, which could show it, or keep it in a log of its own.
    answer = guarded.call("POST", path, json=body)
    assert answer.status_code == 422, answer.text
    assert SECRET_WORDS[:8] not in answer.text
    cut = guarded.call("POST", path, content=f'{{"password": "{SECRET_WORDS}'.encode())
    assert cut.status_code == 400
    assert SECRET_WORDS[:8] not in cut.text


def test_links_for_people_carry_their_token_where_no_server_and_no_referer_sees_it(
    guarded: LiveServer,
) -> None:
    url = guarded.call("POST", "/invitations", json={"label": "x", "makes_operator": False}).json()["url"]
    parsed = httpx.URL(url)
    assert (parsed.path, parsed.query) == ("/", b"")
    assert len(parsed.fragment.rpartition("/")[2]) >= 43
    assert guarded.http.get("/").headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "header", ["Host", "X-Forwarded-Host", "X-Forwarded-For", "Forwarded", "X-Original-URL"]
)
def test_a_header_of_somebody_else_names_no_other_host_in_a_link(guarded: LiveServer, header: str) -> None:
    if header == "Host":
        # The browser of an operator sends the host that it speaks to; another one is not its page's origin.
        answer = guarded.call(
            "POST",
            "/invitations",
            json={"label": "x", "makes_operator": False},
            headers={"Host": "evil.example"},
        )
        assert answer.json()["error"]["code"] == "cross_site"
        return
    value = "host=evil.example" if header == "Forwarded" else "evil.example"
    answer = guarded.call(
        "POST", "/invitations", json={"label": "x", "makes_operator": False}, headers={header: value}
    )
    assert "evil" not in answer.text
    assert answer.json()["url"].startswith(guarded.url)


def test_keys_are_compared_in_constant_time_after_a_look_up_by_their_public_part(
    guarded: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[str, str]] = []
    constant_time = hmac.compare_digest

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return constant_time(one, other)

    monkeypatch.setattr("collapsewatch_server.auth.hmac.compare_digest", compare)
    keyring = guarded.services.keyring
    key = keyring.create(Purpose.read, project=None, label="x")
    assert keyring.is_good(key, Purpose.read)
    assert not keyring.is_good(key[:-1] + ("A" if key[-1] != "A" else "B"), Purpose.read)
    assert [one == other for one, other in compared] == [True, False]
    # Hashes: neither the key nor a part of it.
    assert all(len(one) == len(other) == 64 for one, other in compared)


def test_what_cannot_be_done_is_not_explained_by_the_inside(guarded: LiveServer) -> None:
    with closing(newcomer(guarded, "vera", p="viewer")) as vera:
        answers = [
            vera.get("/accounts"),
            vera.get("/runs/nobody"),
            vera.post("/shares", json={}),
            vera.get("/runs", params={"project": "'; DROP TABLE runs; --"}),
            vera.get("/projects", headers={"Authorization": "Bearer \x7f'--"}),
        ]
    for answer in answers:
        text = answer.text.lower()
        assert answer.status_code < 500
        assert not [
            word for word in ("traceback", "sqlalchemy", "sqlite", ".py", "select ") if word in text
        ], text
        assert "server" not in answer.headers
