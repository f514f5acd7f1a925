"""Messages through Apprise: sent by real plugins to real receivers, and fenced in."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from collapsewatch_server.notify import apprise_sender, apprise_urls
from collapsewatch_server.notify.guard import OutgoingGuard, Refused
from collapsewatch_server.notify.messages import Text
from tests.server.receivers import Answer, dripping_receiver, http_receiver, mailbox

CLOSED = OutgoingGuard()
OPEN = OutgoingGuard(allow_private=True)
TEXT = Text("[critical] Opened: Input dependence fell – grpo-7b (sokoban)", "Skill fell to 0.05.", "failure")


def test_mail_arrives_at_a_real_mail_server() -> None:
    with mailbox() as box:
        outcome = apprise_sender.send(OPEN, url=box.url(), text=TEXT)
        assert outcome.is_sent, outcome
        (mail,) = box.mails
        assert mail["Subject"] == TEXT.title
        assert mail["To"] == "me@example.org"
        body = mail.get_body(("plain",))
        assert body is not None
        assert body.get_content().strip() == TEXT.body


def test_a_mail_server_that_refuses_or_is_gone_is_a_failure_that_may_pass() -> None:
    with mailbox() as box:
        box.refusal = "451 later"
        outcome = apprise_sender.send(OPEN, url=box.url(), text=TEXT)
        assert (outcome.is_sent, outcome.may_retry) == (False, True)
        assert box.mails == []
        gone = box.url()
    outcome = apprise_sender.send(OPEN, url=gone, text=TEXT)
    assert (outcome.is_sent, outcome.may_retry) == (False, True)


def test_a_service_over_http_is_told_title_body_and_kind() -> None:
    with http_receiver() as receiver:
        url = f"json://user:hunter2secret@127.0.0.1:{receiver.port}/a/path"
        outcome = apprise_sender.send(OPEN, url=url, text=TEXT)
        assert outcome.is_sent, outcome
        told = json.loads(receiver.got[0].body)
        assert (told["title"], told["message"], told["type"]) == (TEXT.title, TEXT.body, "failure")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "127.1"])
def test_the_own_machine_is_refused_whatever_it_is_called(host: str) -> None:
    with http_receiver() as receiver, mailbox() as box:
        for url in (f"json://{host}:{receiver.port}/", box.url(host)):
            with pytest.raises(Refused):
                apprise_sender.check_url(url, CLOSED)
            outcome = apprise_sender.send(CLOSED, url=url, text=TEXT)
            assert (outcome.is_sent, outcome.may_retry) == (False, False), url
            assert "loopback" in outcome.answer
        assert receiver.got == []
        assert box.mails == []


def test_a_plugin_that_connects_elsewhere_than_its_url_says_is_stopped_where_it_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a name would that means another address by then: what was checked before says nothing."""
    monkeypatch.setattr(apprise_urls, "host_of", lambda url: None)
    with http_receiver() as receiver, mailbox() as box:
        for url in (f"json://localhost:{receiver.port}/", box.url(), f"ntfy://localhost:{receiver.port}/t"):
            outcome = apprise_sender.send(CLOSED, url=url, text=TEXT)
            assert (outcome.is_sent, outcome.may_retry) == (False, False), url
            assert "loopback" in outcome.answer
        assert receiver.got == []
        assert box.mails == []


def test_hosts_that_the_operator_names_are_reached_and_no_others() -> None:
    with http_receiver() as named, http_receiver() as other:
        guard = OutgoingGuard(hosts=[f"localhost:{named.port}"])
        for receiver, is_sent in ((named, True), (other, False)):
            outcome = apprise_sender.send(guard, url=f"json://localhost:{receiver.port}/", text=TEXT)
            assert outcome.is_sent is is_sent, outcome
        assert (len(named.got), len(other.got)) == (1, 0)


def test_redirects_are_not_followed() -> None:
    with http_receiver() as target, http_receiver() as receiver:
        receiver.answer = lambda got: Answer(302, b"", {"Location": target.url()})
        for scheme in ("json", "ntfy", "gotify"):
            url = f"{scheme}://127.0.0.1:{receiver.port}/abcdefghijklmno"
            assert not apprise_sender.send(OPEN, url=url, text=TEXT).is_sent
        assert receiver.got
        assert target.got == []


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url",
        "file:///etc/passwd",
        "syslog://",
        "macosx://",
        "windows://",
        "dbus://",
        "gnome://",
        "glib://",
        "kde://",
        "vapid://a@b.example",
        "fcm://project@key/?keyfile=/etc/passwd",
        "rsyslog://127.0.0.1",
        "mqtt://127.0.0.1",
        "irc://127.0.0.1",
        "blink1://",
        "apprise:///etc",
        "slack://a/b/c?template=/etc/passwd",
        "discord://id/token?TEMPLATE=/etc/passwd",
        "workflows://h.example/a/b?%74emplate=/etc/passwd",
        "json://h.example/?redirect=yes",
        "json://h.example/?retry=9",
        "mailto://u:p@example.org?pgp=yes",
        "json://h.example/\n",
        "json://" + "a" * 3000,
    ],
)
def test_what_reads_files_runs_programs_or_is_unknown_is_refused(url: str) -> None:
    if url == "apprise:///etc":
        outcome = apprise_sender.send(CLOSED, url=url, text=TEXT)
        assert (outcome.is_sent, outcome.may_retry) == (False, False)
        return
    with pytest.raises(ValueError, match=r"Apprise|services|option"):
        apprise_urls.check(url)
    assert not apprise_sender.send(OPEN, url=url, text=TEXT).is_sent


def test_a_file_of_the_server_is_out_of_reach_even_past_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"text": "the server\'s own"}')
    monkeypatch.setattr(apprise_urls, "_REFUSED_OPTIONS", frozenset())
    with http_receiver() as receiver:
        url = f"workflow://127.0.0.1:{receiver.port}/workflow-id/signature123?template={secret}"
        outcome = apprise_sender.send(OPEN, url=url, text=TEXT)
        assert not outcome.is_sent
        assert "files of the server" in outcome.answer
        assert receiver.got == []


def test_the_url_is_in_no_answer_and_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    secrets = ("hunter2secret", "tokentoken", "pathpath")
    with http_receiver() as receiver:
        receiver.answer = lambda got: Answer(500, got.path.encode())
        url = f"json://someone:hunter2secret@127.0.0.1:{receiver.port}/pathpath/?-key=tokentoken"
        outcome = apprise_sender.send(OPEN, url=url, text=TEXT)
        assert not outcome.is_sent
        assert outcome.answer
        for text in (outcome.answer, caplog.text, apprise_urls.masked(url)):
            assert not [secret for secret in secrets if secret in text], text
        assert apprise_urls.masked(url) == "json://127.0.0.1…"


def test_a_service_that_never_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with dripping_receiver(b"HTTP/1.1 200 OK\r\nX: ", b"y", 0.05) as port:
        monkeypatch.setattr(apprise_sender, "_SPARE_SECONDS", 0.5)
        url = f"json://127.0.0.1:{port}/"
        outcome = apprise_sender.send(OPEN, url=url, text=TEXT, seconds=1.5)
        assert (outcome.is_sent, outcome.may_retry) == (False, True)


def test_every_service_that_is_allowed_is_one_of_apprise() -> None:
    # In a process of its own: some plugins import modules that warn, and warnings are errors here.
    program = (
        "import apprise, json\n"
        "found = apprise.Apprise().details()['schemas']\n"
        "print(json.dumps([[*(s['protocols'] or ()), *(s['secure_protocols'] or ())] for s in found]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    known = {scheme for schemes in json.loads(done.stdout) for scheme in schemes}
    assert known >= apprise_urls.SCHEMES
