"""Every change reaches every channel that wants it, once, whatever dies in between."""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from collapsewatch_server.db import Database
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.notify.desk import ChannelDesk
from collapsewatch_server.notify.guard import OutgoingGuard
from collapsewatch_server.notify.notifier import Notifier
from collapsewatch_server.notify.pacing import Retries
from collapsewatch_server.notify.sending import Sender
from collapsewatch_server.notify.vault import Vault
from collapsewatch_server.notify.views import ChannelDraft, ChannelUpdate, DeliveryView
from collapsewatch_server.settings import ServerSettings
from tests.conftest import WaitUntil
from tests.server.outbox import add_alert, add_run, tell
from tests.server.receivers import Answer, Got, HttpReceiver, http_receiver, mailbox

SECRET = "a secret of the test"
QUICK = Retries(max_attempts=4, first_seconds=0.02, longest_seconds=0.05, longest_asked_seconds=0.4)


@dataclass
class House:
    """A database, channels on it, and servers that send."""

    database: Database
    home: Path
    guard: OutgoingGuard = field(default_factory=lambda: OutgoingGuard(allow_private=True))
    notifiers: list[Notifier] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def vault(self) -> Vault:
        return Vault(self.home, None)

    @property
    def desk(self) -> ChannelDesk:
        return ChannelDesk(self.database, self.guard, self.vault, Sender(self.guard, self.vault))

    def server(self, retries: Retries = QUICK, **options: Any) -> Notifier:
        notifier = Notifier(self.database, Sender(self.guard, self.vault), retries=retries, **options)
        self.notifiers.append(notifier)
        return notifier

    def channel(self, url: str, kind: Any = "webhook", **changes: Any) -> int:
        given = {"name": f"channel {next(self._numbers)}", "kind": kind, "url": SecretStr(url), **changes}
        if kind == "webhook":
            given.setdefault("secret", SecretStr(SECRET))
        return self.desk.create(ChannelDraft(**given)).channel.channel_id

    def log(self, channel_id: int) -> list[DeliveryView]:
        """Oldest first."""
        return self.desk.deliveries(channel_id, None, 1000).deliveries[::-1]


@pytest.fixture
def house(deployment: Any) -> Iterator[House]:
    settings = ServerSettings(**deployment.settings())
    database = Database(settings.effective_database_url)
    upgrade(database.engine)
    house = House(database, settings.home)
    yield house
    for notifier in house.notifiers:
        notifier.close()
    database.close()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as one:
        yield one


def told(receiver: HttpReceiver) -> list[list[int]]:
    """Changes of each message that was taken, in order."""
    return [[change["change_id"] for change in json.loads(got.body)["changes"]] for got in receiver.got]


def until(wait_until: WaitUntil, notifier: Notifier, condition: Callable[[], object]) -> None:
    def look() -> object:
        notifier.look()
        return condition()

    wait_until(look)


def settle(notifier: Notifier, seconds: float = 0.3) -> None:
    """Looks again and again, so that what must not happen had its chance."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        notifier.look()
        time.sleep(0.02)


def test_a_change_is_told_once_signed_and_with_all_it_is_about(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    channel_id = house.channel(receiver.url("/hook?key=k"), name="on call")
    run_pk = add_run(house.database)
    change_id = tell(house.database, add_alert(house.database, run_pk, opened_step=96))
    notifier = house.server(public_url="https://watch.example/")
    until(wait_until, notifier, lambda: receiver.got)
    settle(notifier)
    (got,) = receiver.got
    signed = got.headers["x-collapsewatch-timestamp"].encode() + b"." + got.body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert got.headers["x-collapsewatch-signature"] == f"v1={expected}"
    assert abs(time.time() - int(got.headers["x-collapsewatch-timestamp"])) < 30
    assert got.path == "/hook?key=k"
    message = json.loads(got.body)
    assert message["delivery_id"] == got.headers["x-collapsewatch-delivery"]
    assert (message["kind"], message["channel"], message["num_changes"]) == ("change", "on call", 1)
    (change,) = message["changes"]
    assert change["change_id"] == change_id
    assert (change["change"], change["severity"], change["rule"]) == (
        "opened",
        "critical",
        "input_dependence",
    )
    assert (change["project"], change["run_name"], change["opened_step"]) == ("sokoban", "grpo-7b", 96)
    assert change["url"] == f"https://watch.example/#/alerts/{change['alert_id']}"
    (kept,) = house.log(channel_id)
    assert (kept.status, kept.attempts, kept.status_code, kept.answer) == ("sent", 1, 200, "ok")
    assert kept.delivery_id == message["delivery_id"]


def test_channels_hear_what_they_asked_for(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    house.channel(receiver.url("/all"), min_severity="info")
    house.channel(receiver.url("/usual"))
    house.channel(receiver.url("/critical"), min_severity="critical")
    house.channel(receiver.url("/sokoban"), min_severity="info", project="sokoban")
    house.channel(receiver.url("/ends"), min_severity="info", changes=["resolved"])
    house.channel(receiver.url("/off"), min_severity="info", enabled=False)
    sokoban, other = add_run(house.database), add_run(house.database, project="other")
    critical = add_alert(house.database, sokoban)
    first = tell(house.database, critical)
    second = tell(house.database, add_alert(house.database, other, severity="info"))
    third = tell(house.database, add_alert(house.database, None, severity="warning", rule="queue_lag"))
    fourth = tell(house.database, critical, "resolved", reason="rule")
    expected = {
        "/all": [first, second, third, fourth],
        "/usual": [first, third, fourth],
        "/critical": [first, fourth],
        "/sokoban": [first, fourth],
        "/ends": [fourth],
    }
    notifier = house.server()
    until(wait_until, notifier, lambda: len(receiver.got) >= 12)
    settle(notifier)
    found: dict[str, list[int]] = {}
    for got, (change_id,) in zip(receiver.got, told(receiver), strict=True):
        found.setdefault(got.path, []).append(change_id)
    assert found == expected


def test_a_channel_that_is_made_later_is_not_told_what_was_before(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    alert_id = add_alert(house.database)
    tell(house.database, alert_id)
    notifier = house.server()
    notifier.look()
    house.channel(receiver.url())
    later = tell(house.database, alert_id, "acknowledged", by="Ada")
    until(wait_until, notifier, lambda: receiver.got)
    settle(notifier)
    assert told(receiver) == [[later]]


def test_failures_are_tried_again_with_the_same_id_and_body_until_one_is_taken(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    answers = iter(
        [Answer(500, b"broken"), Answer(429, b"slow down", {"Retry-After": "0"}), Answer(204, b"")]
    )
    receiver.answer = lambda got: next(answers)
    channel_id = house.channel(receiver.url())
    tell(house.database, add_alert(house.database))
    until(wait_until, house.server(), lambda: _last(house, channel_id) == "sent")
    assert len(receiver.got) == 3
    assert len({got.body for got in receiver.got}) == 1
    assert len({got.headers["x-collapsewatch-delivery"] for got in receiver.got}) == 1
    (kept,) = house.log(channel_id)
    assert (kept.attempts, kept.status_code) == (3, 204)
    assert house.desk.one(channel_id).failed_at is None


def test_a_receiver_that_asks_for_time_is_given_it(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    came: list[float] = []

    def answer(got: Got) -> Answer:
        came.append(time.monotonic())
        return Answer(429, b"", {"Retry-After": "3600"}) if len(came) == 1 else Answer()

    receiver.answer = answer
    channel_id = house.channel(receiver.url())
    tell(house.database, add_alert(house.database))
    until(wait_until, house.server(), lambda: len(came) == 2)
    # An hour was asked for, and the bound of these retries is 0.4 s; without it the wait is 0.02 s.
    assert 0.35 < came[1] - came[0] < 5
    wait_until(lambda: _last(house, channel_id) == "sent")


def test_what_cannot_succeed_is_given_up_at_once_and_the_channel_says_so(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    receiver.answer = lambda got: Answer(403, b"no such token")
    channel_id = house.channel(receiver.url())
    alert_id = add_alert(house.database)
    tell(house.database, alert_id)
    notifier = house.server()
    until(wait_until, notifier, lambda: _last(house, channel_id) == "failed")
    view = house.desk.one(channel_id)
    assert view.failed_at is not None
    assert view.problem == "HTTP 403: no such token"
    assert (len(receiver.got), house.log(channel_id)[0].attempts) == (1, 1)
    # The next one that gets through takes it back.
    receiver.answer = lambda got: Answer()
    tell(house.database, alert_id, "acknowledged", by="Ada")
    until(wait_until, notifier, lambda: _last(house, channel_id) == "sent")
    assert house.desk.one(channel_id).failed_at is None


def test_a_receiver_that_stays_dead_is_given_up_after_the_bound(house: House, wait_until: WaitUntil) -> None:
    with http_receiver() as gone:
        channel_id = house.channel(gone.url())
    tell(house.database, add_alert(house.database))
    until(wait_until, house.server(), lambda: _last(house, channel_id) == "failed")
    (kept,) = house.log(channel_id)
    assert kept.attempts == QUICK.max_attempts
    assert "no answer" in kept.answer
    assert house.desk.one(channel_id).failed_at is not None


def test_a_receiver_that_was_killed_gets_everything_once_it_is_back(
    house: House, wait_until: WaitUntil
) -> None:
    first = HttpReceiver()
    channel_id = house.channel(first.url(), digest_after=100)
    alert_id = add_alert(house.database)
    before = tell(house.database, alert_id)
    notifier = house.server(Retries(max_attempts=1000, first_seconds=0.02, longest_seconds=0.05))
    until(wait_until, notifier, lambda: _last(house, channel_id) == "sent")
    first.stop()
    missed = [tell(house.database, alert_id, "acknowledged", by="Ada") for _ in range(4)]
    until(
        wait_until,
        notifier,
        lambda: house.log(channel_id)[-1].attempts >= 2 and len(house.log(channel_id)) == 2,
    )
    with http_receiver(port=first.port) as second:
        until(wait_until, notifier, lambda: len(second.got) == 4)
        settle(notifier)
        assert told(first) == [[before]]
        assert told(second) == [[one] for one in missed]


def test_a_slow_receiver_makes_no_other_wait(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    released = threading.Event()

    def hang(got: Got) -> Answer:
        released.wait(8)
        return Answer()

    with http_receiver() as slow:
        slow.answer = hang
        house.channel(slow.url())
        house.channel(receiver.url())
        tell(house.database, add_alert(house.database))
        notifier = house.server()
        until(wait_until, notifier, lambda: receiver.got and slow.got)
        released.set()
        settle(notifier)
        assert (len(slow.got), len(receiver.got)) == (1, 1)


def test_several_servers_on_one_database_send_everything_once(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    for _ in range(3):
        house.channel(receiver.url(), digest_after=1000)
    servers = [house.server() for _ in range(4)]
    alert_id = add_alert(house.database)
    stopping = threading.Event()

    def work(notifier: Notifier) -> None:
        while not stopping.is_set():
            notifier.look()

    threads = [threading.Thread(target=work, args=(one,)) for one in servers]
    for thread in threads:
        thread.start()
    changes = [tell(house.database, alert_id, "acknowledged", by="Ada") for _ in range(12)]
    try:
        wait_until(lambda: len(receiver.got) >= 36, timeout_seconds=60)
    finally:
        stopping.set()
        for thread in threads:
            thread.join(20)
    for notifier in servers:
        notifier.close()
    assert sorted(told(receiver)) == sorted([[one] for one in changes] * 3)


def test_what_a_dead_server_had_in_hand_is_sent_by_another_with_the_same_id(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    released = threading.Event()
    ids: list[str] = []

    def answer(got: Got) -> Answer:
        ids.append(got.headers["x-collapsewatch-delivery"])
        if len(ids) == 1:
            released.wait(8)
        return Answer()

    receiver.answer = answer
    channel_id = house.channel(receiver.url())
    tell(house.database, add_alert(house.database))
    dead, living = house.server(), house.server()
    until(wait_until, dead, lambda: ids)
    # It holds the channel while it waits for the answer.
    settle(living)
    assert len(ids) == 1
    with house.database.write_session() as session:
        session.execute(text("UPDATE channels SET lease_until = lease_until - 1000"))
    until(wait_until, living, lambda: len(ids) == 2)
    assert ids[0] == ids[1]
    wait_until(lambda: _last(house, channel_id) == "sent")
    released.set()
    settle(living)
    assert len(ids) == 2
    assert len(house.log(channel_id)) == 1


def test_a_flood_is_told_in_one_message(house: House, receiver: HttpReceiver, wait_until: WaitUntil) -> None:
    house.channel(receiver.url(), digest_after=5, window_seconds=4.0)
    run_pk = add_run(house.database)
    alerts = [add_alert(house.database, run_pk, scope=f"turn/{i}") for i in range(60)]
    changes = [tell(house.database, one) for one in alerts]
    notifier = house.server()
    until(wait_until, notifier, lambda: receiver.got)
    message = json.loads(receiver.got[0].body)
    assert (message["kind"], message["num_changes"], message["num_left_out"]) == ("digest", 60, 10)
    assert [one["change_id"] for one in message["changes"]] == changes[:50]
    # A trickle after it: a few by themselves, then the rest of the window in one.
    later = []
    for one in alerts[:9]:
        later.append(tell(house.database, one, "acknowledged", by="Ada"))
        settle(notifier, 0.05)
    until(wait_until, notifier, lambda: sum(map(len, told(receiver)[1:])) == 9)
    singles, rest = told(receiver)[1:-1], told(receiver)[-1]
    assert len(receiver.got) <= 7
    assert len(rest) > 1
    assert [*(one for (one,) in singles), *rest] == later


def test_switching_a_channel_off_drops_what_waits_for_it(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    receiver.answer = lambda got: Answer(500)
    channel_id = house.channel(receiver.url())
    alert_id = add_alert(house.database)
    tell(house.database, alert_id)
    tell(house.database, alert_id, "acknowledged", by="Ada")
    notifier = house.server(Retries(max_attempts=1000, first_seconds=0.02, longest_seconds=0.05))
    until(wait_until, notifier, lambda: receiver.got)
    assert house.desk.one(channel_id).num_waiting == 2
    house.desk.update(channel_id, ChannelUpdate(enabled=False))
    tell(house.database, alert_id, "reopened", by="Ada")
    settle(notifier)
    receiver.answer = lambda got: Answer()
    taken = len(receiver.got)
    house.desk.update(channel_id, ChannelUpdate(enabled=True))
    settle(notifier)
    assert len(receiver.got) == taken
    assert house.desk.one(channel_id).num_waiting == 0
    assert house.log(channel_id)[0].answer == "the channel was switched off"


def test_a_channel_that_is_removed_while_it_is_served_leaves_nothing_behind(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    released = threading.Event()

    def answer(got: Got) -> Answer:
        released.wait(8)
        return Answer()

    receiver.answer = answer
    channel_id = house.channel(receiver.url())
    alert_id = add_alert(house.database)
    for _ in range(3):
        tell(house.database, alert_id, "acknowledged", by="Ada")
    notifier = house.server()
    until(wait_until, notifier, lambda: receiver.got)
    house.desk.remove(channel_id)
    released.set()
    notifier.close()
    assert len(receiver.got) == 1
    with house.database.read_session() as session:
        for table in ("channels", "deliveries", "planned_changes"):
            assert session.scalar(text(f"SELECT count(*) FROM {table}")) == 0  # noqa: S608


def test_channels_are_changed_and_removed_while_they_are_served(
    house: House, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the change nor the look nor the sending fails for it."""
    stopping = threading.Event()
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            while not stopping.is_set():
                work()
        except Exception as error:  # noqa: BLE001 (whatever it is, the test shows it)
            errors.append(error)

    def edit() -> None:
        alert_id = add_alert(house.database)
        channel_id = house.channel(receiver.url(), digest_after=1)
        tell(house.database, alert_id, "acknowledged", by="Ada")
        house.desk.update(channel_id, ChannelUpdate(enabled=False))
        house.desk.update(channel_id, ChannelUpdate(enabled=True))
        tell(house.database, alert_id, "acknowledged", by="Ada")
        time.sleep(0.05)
        house.desk.remove(channel_id)

    servers = [house.server() for _ in range(2)]
    work = [edit, edit, *(server.look for server in servers)]
    threads = [threading.Thread(target=guarded, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    time.sleep(3)
    stopping.set()
    for thread in threads:
        thread.join(20)
    assert errors == []
    assert receiver.got
    assert "could not be served" not in caplog.text


def test_people_are_told_by_mail(house: House, wait_until: WaitUntil) -> None:
    with mailbox() as box:
        house.channel(box.url(), "apprise")
        run_pk = add_run(house.database, name="line\nbreak: x")
        alert_id = add_alert(house.database, run_pk, opened_step=96)
        tell(house.database, alert_id)
        tell(house.database, alert_id, "resolved", reason="hand", by="Ada")
        until(wait_until, house.server(public_url="https://watch.example"), lambda: len(box.mails) == 2)
        first, second = box.mails
        assert first["Subject"] == "[critical] Opened: Input dependence fell – line break: x (sokoban)"
        body = first.get_body(("plain",))
        assert body is not None
        assert "Retrieval skill fell to 0.05; its baseline is 0.62." in body.get_content()
        assert "Since step 96, scope first_turn." in body.get_content()
        assert f"https://watch.example/#/alerts/{alert_id}" in body.get_content()
        assert second["Subject"].startswith("[critical] Resolved:")
        body = second.get_body(("plain",))
        assert body is not None
        assert "Resolved by Ada." in body.get_content()


def test_a_database_without_its_key_keeps_the_secrets_and_the_channel_says_so(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    channel_id = house.channel(receiver.url("/hook-with-token"))
    with house.database.read_session() as session:
        stored = str(session.execute(text("SELECT * FROM channels")).all())
    assert SECRET not in stored
    assert "hook-with-token" not in stored
    key = house.home / "secret.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    tell(house.database, add_alert(house.database))
    until(wait_until, house.server(), lambda: _last(house, channel_id) == "failed")
    assert receiver.got == []
    assert "COLLAPSEWATCH_SECRET_KEY" in house.desk.one(channel_id).problem
    # Entered anew, it works with the new key.
    given = ChannelUpdate(url=SecretStr(receiver.url()), secret=SecretStr(SECRET))
    house.desk.update(channel_id, given)
    assert house.desk.test(channel_id).status == "sent"


def test_old_messages_are_forgotten_and_never_sent_again(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    from collapsewatch_server.repositories import deliveries

    channel_id = house.channel(receiver.url())
    tell(house.database, add_alert(house.database))
    notifier = house.server()
    until(wait_until, notifier, lambda: _last(house, channel_id) == "sent")
    with house.database.write_session() as session:
        session.execute(text("UPDATE deliveries SET finished_at = finished_at - 100"))
        deliveries.forget(session, 50.0)
    assert house.log(channel_id) == []
    settle(notifier)
    assert len(receiver.got) == 1


def _last(house: House, channel_id: int) -> str:
    """Status of the channel's newest message; empty without any."""
    return next((one.status for one in house.log(channel_id)[-1:]), "")
