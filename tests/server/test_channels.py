"""Channels over the API: made, changed, tried and removed, and never saying what they were told to keep."""

import json
from pathlib import Path
from typing import Any

import pytest

from collapsewatch_server.notify import signing
from tests.conftest import WaitUntil
from tests.server.live import Json, LiveServer, result_body
from tests.server.outbox import add_alert, tell
from tests.server.receivers import Answer, HttpReceiver, http_receiver
from tests.server.test_liveness import QUICK, service_alerts

SECRET = "sixteen letters or more"
PATH = "/hook/path-token"


@pytest.fixture
def server(start_server: Any) -> LiveServer:
    live: LiveServer = start_server(allow_private_channels=True, notify_seconds=0.05)
    return live


def make(live: LiveServer, url: str, **changes: Any) -> Json:
    body = {"name": "on call", "kind": "webhook", "url": url, **changes}
    response = live.call("POST", "/channels", json=body)
    assert response.status_code == 201, response.text
    receipt: Json = response.json()
    return receipt


def test_a_channel_is_made_tried_told_changed_and_removed(
    server: LiveServer, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    receipt = make(server, receiver.url(PATH))
    channel, secret = receipt["channel"], receipt["secret"]
    assert secret.startswith("cw_hook_")
    assert (channel["kind"], channel["target"]) == ("webhook", f"http://127.0.0.1:{receiver.port}/…")
    path = f"/channels/{channel['channel_id']}"
    tried = server.call("POST", f"{path}/test").json()
    assert (tried["kind"], tried["status"], tried["status_code"]) == ("test", "sent", 200)
    got = receiver.got[0]
    assert got.headers["x-collapsewatch-signature"] == signing.signature(
        secret, got.headers["x-collapsewatch-timestamp"], got.body
    )
    change_id = tell(server.services.database, add_alert(server.services.database))
    wait_until(lambda: len(receiver.got) == 2)
    assert json.loads(receiver.got[1].body)["changes"][0]["change_id"] == change_id
    wait_until(lambda: server.get(path)["last_sent_at"] is not None)
    log = server.get(f"{path}/deliveries")
    assert [one["kind"] for one in log["deliveries"]] == ["change", "test"]
    changed = server.call("PATCH", path, json={"name": "nobody", "new_secret": True}).json()
    assert changed["channel"]["name"] == "nobody"
    assert changed["channel"]["target"] == channel["target"]
    assert changed["secret"] not in (None, secret)
    assert server.call("POST", f"{path}/test").json()["status"] == "sent"
    got = receiver.got[2]
    assert got.path == PATH
    assert got.headers["x-collapsewatch-signature"] == signing.signature(
        changed["secret"], got.headers["x-collapsewatch-timestamp"], got.body
    )
    assert server.call("DELETE", path).json() == {"deleted": True}
    assert server.call("GET", path).status_code == 404
    assert server.get("/channels") == {"channels": []}


def test_no_answer_and_no_log_holds_an_address_or_a_secret(
    server: LiveServer, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture, wait_until: WaitUntil
) -> None:
    caplog.set_level("DEBUG")
    receiver.answer = lambda got: Answer(500, got.path.encode() + b" " + SECRET.encode())
    mail = f"mailto://someone:hunter2-password@127.0.0.1:{receiver.port}?smtp=127.0.0.1&to=me@example.org"
    answers = [
        json.dumps(make(server, receiver.url(PATH), secret=SECRET)),
        json.dumps(make(server, mail, kind="apprise", name="mail")),
        server.call("POST", "/channels", json={"name": "x", "kind": "webhook", "url": PATH + SECRET}).text,
        server.call("POST", "/channels", json={"kind": "webhook", "url": PATH, "secret": SECRET}).text,
        server.call("POST", "/channels", json={"name": "x", "kind": "webhook", "url": [PATH, SECRET]}).text,
        server.call("POST", "/channels", json={"name": "x", "kind": "a", "url": "u", "unheard": SECRET}).text,
        server.call(
            "POST", "/channels", content=b'{"url": "/hook/path-token", "secret": "' + SECRET.encode()
        ).text,
        server.call("PATCH", "/channels/1", json={"url": f"file://{PATH}", "secret": SECRET}).text,
        server.call("PATCH", "/channels/1", json={"secret": "hunter2"}).text,
        server.call("POST", "/channels/1/test").text,
        server.call("POST", "/channels/2/test").text,
    ]
    tell(server.services.database, add_alert(server.services.database))
    wait_until(lambda: server.get("/channels/1/deliveries")["deliveries"][0]["attempts"] > 0)
    answers += [
        server.call("GET", path).text for path in ("/channels", "/channels/1", "/channels/1/deliveries")
    ]
    for answer in [*answers, caplog.text]:
        for secret in ("path-token", SECRET, "hunter2"):
            assert secret not in answer, answer


def test_a_channel_may_not_be_aimed_at_the_own_network(
    start_sqlite_server: Any, receiver: HttpReceiver
) -> None:
    live = start_sqlite_server(channel_hosts="mail.lan, [::1]:25")
    for kind, url in (
        ("webhook", receiver.url()),
        ("webhook", receiver.url(host="localhost")),
        ("webhook", receiver.url(host="2130706433")),
        ("webhook", "http://169.254.169.254/latest/meta-data"),
        ("webhook", "file:///etc/passwd"),
        ("apprise", f"json://127.0.0.1:{receiver.port}"),
        ("apprise", "syslog://"),
        ("apprise", "slack://a/b/c/?template=/etc/passwd"),
    ):
        response = live.call("POST", "/channels", json={"name": "x", "kind": kind, "url": url})
        assert (response.status_code, response.json()["error"]["code"]) == (422, "channel_refused"), url
    assert live.get("/channels")["channels"] == []
    assert receiver.got == []


def test_another_origin_may_not_change_channels(server: LiveServer, receiver: HttpReceiver) -> None:
    channel_id = make(server, receiver.url())["channel"]["channel_id"]
    calls = [
        ("POST", "/channels", {"name": "x", "kind": "webhook", "url": receiver.url()}),
        ("PATCH", f"/channels/{channel_id}", {"enabled": False}),
        ("POST", f"/channels/{channel_id}/test", None),
        ("DELETE", f"/channels/{channel_id}", None),
    ]
    for method, path, body in calls:
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            response = server.call(method, path, json=body, headers=headers)
            assert (response.status_code, response.json()["error"]["code"]) == (403, "cross_site")
    assert receiver.got == []
    assert server.get(f"/channels/{channel_id}")["enabled"] is True


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"name": "on call"}, 409, "channel_conflict"),
        ({"name": ""}, 422, "invalid_body"),
        ({"name": " padded"}, 422, "invalid_body"),
        ({"min_severity": "loud"}, 422, "invalid_body"),
        ({"changes": ["closed"]}, 422, "invalid_body"),
        ({"digest_after": 0}, 422, "invalid_body"),
        ({"window_seconds": -1}, 422, "invalid_body"),
        ({"secret": "short"}, 422, "channel_refused"),
        ({"kind": "apprise", "url": "slack://a/b/c", "secret": SECRET}, 422, "channel_refused"),
        ({"unheard": 1}, 422, "invalid_body"),
    ],
)
def test_a_draft_that_is_wrong_makes_no_channel(
    server: LiveServer, receiver: HttpReceiver, change: Json, status: int, code: str
) -> None:
    make(server, receiver.url())
    body = {"name": "other", "kind": "webhook", "url": receiver.url(), **change}
    response = server.call("POST", "/channels", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert len(server.get("/channels")["channels"]) == 1


def test_what_is_not_there_is_not_found(server: LiveServer) -> None:
    for method, path in (
        ("GET", "/channels/7"),
        ("PATCH", "/channels/7"),
        ("DELETE", "/channels/7"),
        ("POST", "/channels/7/test"),
        ("GET", "/channels/7/deliveries"),
    ):
        response = server.call(method, path, json={} if method == "PATCH" else None)
        assert (response.status_code, response.json()["error"]["code"]) == (404, "channel_not_found"), path


def test_the_log_is_read_page_by_page(server: LiveServer, receiver: HttpReceiver) -> None:
    path = f"/channels/{make(server, receiver.url())['channel']['channel_id']}"
    ids = [server.call("POST", f"{path}/test").json()["delivery_id"] for _ in range(5)]
    found: list[str] = []
    before: int | None = None
    while True:
        query = {"limit": 2} if before is None else {"limit": 2, "before": before}
        page = server.get(f"{path}/deliveries", **query)
        found += [one["delivery_id"] for one in page["deliveries"]]
        before = page["next_before"]
        if before is None:
            break
    assert found == ids[::-1]


def test_a_channel_that_does_not_work_raises_an_alert_that_it_is_not_told_of_itself(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(**QUICK | {"allow_private_channels": True, "notify_seconds": 0.05})
    with http_receiver() as broken, http_receiver() as working:
        broken.answer = lambda got: Answer(403, b"revoked")
        first = make(live, broken.url(), name="broken")["channel"]["channel_id"]
        make(live, working.url(), name="working", min_severity="info")
        tell(live.services.database, add_alert(live.services.database))
        wait_until(lambda: "channel_failing" in service_alerts(live))
        alert = service_alerts(live)["channel_failing"]
        assert (alert["severity"], alert["scope"]) == ("warning", f"channel/{first}")
        assert "HTTP 403: revoked" in alert["message"]

        def rules(receiver: HttpReceiver) -> list[str]:
            bodies = [json.loads(got.body) for got in receiver.got]
            return [change["rule"] for body in bodies for change in body["changes"]]

        wait_until(lambda: "channel_failing" in rules(working))
        assert "channel_failing" not in rules(broken)
        broken.answer = lambda got: Answer()
        assert live.call("POST", f"/channels/{first}/test").json()["status"] == "sent"
        wait_until(lambda: "channel_failing" not in service_alerts(live))


def test_the_snippet_of_the_documentation_verifies_signatures() -> None:
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
    snippet = text.split("```python", 1)[1].split("```", 1)[0]
    names: dict[str, Any] = {}
    exec(snippet, names)  # noqa: S102 (our own documentation)
    verify = names["verify"]
    body = b'{"kind":"test"}'
    headers = signing.headers(SECRET, 1000, body, "d1")
    assert verify(SECRET, headers, body, now=1010.0)
    assert verify(SECRET, {name.lower(): value for name, value in headers.items()}, body, now=1010.0)
    assert not verify(SECRET, headers, body + b" ", now=1010.0)
    assert not verify(SECRET + "x", headers, body, now=1010.0)
    assert not verify(SECRET, headers, body, now=1000.0 + 301)
    assert not verify(SECRET, headers, body, now=1000.0 - 301)
    assert not verify(SECRET, {**headers, signing.TIMESTAMP_HEADER: "1001"}, body, now=1010.0)
    assert not verify(SECRET, {}, body, now=1010.0)
    assert not verify(SECRET, {**headers, signing.TIMESTAMP_HEADER: "soon"}, body, now=1010.0)
    assert not verify(SECRET, {**headers, signing.SIGNATURE_HEADER: "v1=é"}, body, now=1010.0)


def test_a_collapse_is_told_once_however_often_its_steps_are_folded(
    server: LiveServer, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    make(server, receiver.url(), project="p", changes=["opened", "escalated"], digest_after=1000)
    run_id = server.start_run()
    for step in [*range(0, 40, 2), *range(1, 40, 2)]:
        # Every second step comes late, and all that came after it is folded again.
        server.score(run_id, step, result_body(0.6 if step < 20 else 0.0))
    found = [
        one for one in server.get(f"/runs/{run_id}/alerts")["alerts"] if one["rule"] == "input_dependence"
    ]
    assert found

    def told() -> list[Json]:
        return [change for got in receiver.got for change in json.loads(got.body)["changes"]]

    wait_until(
        lambda: any(one["rule"] == "input_dependence" and one["severity"] == "critical" for one in told())
    )
    wait_until(lambda: server.get("/channels")["channels"][0]["num_waiting"] == 0)
    changes = [(one["thread_id"], one["change"], one["severity"]) for one in told()]
    assert len(set(changes)) == len(changes)
    assert all(one["run_id"] == run_id and one["opened_step"] is not None for one in told())
