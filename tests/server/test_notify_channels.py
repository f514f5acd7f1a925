"""Channels that are changed, flooded or removed while changes wait for them."""

import json
import threading
import time
from collections.abc import Callable

import pytest
from pydantic import SecretStr
from sqlalchemy import text

from collapsewatch_server.notify.pacing import Retries
from collapsewatch_server.notify.views import ChannelUpdate
from tests.conftest import WaitUntil
from tests.server.notifying import SECRET, House, last_status, settle, told, until
from tests.server.outbox import add_alert, add_run, tell
from tests.server.receivers import Answer, Got, HttpReceiver, mailbox


def test_a_flood_is_told_in_one_message(house: House, receiver: HttpReceiver, wait_until: WaitUntil) -> None:
    window_seconds = 3600.0
    house.channel(receiver.url(), digest_after=5, window_seconds=window_seconds)
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
    # The window goes by.
    with house.database.write_session() as session:
        session.execute(text(f"UPDATE deliveries SET created_at = created_at - {window_seconds}"))  # noqa: S608
        session.execute(text(f"UPDATE planned_changes SET planned_at = planned_at - {window_seconds}"))  # noqa: S608
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
        released.wait(60)
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
    house: House, receiver: HttpReceiver, caplog: pytest.LogCaptureFixture, wait_until: WaitUntil
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
    try:
        wait_until(lambda: receiver.got or errors, "somebody was told")
    finally:
        stopping.set()
    for thread in threads:
        thread.join(60)
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
    until(wait_until, house.server(), lambda: last_status(house, channel_id) == "failed")
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
    until(wait_until, notifier, lambda: last_status(house, channel_id) == "sent")
    with house.database.write_session() as session:
        session.execute(text("UPDATE deliveries SET finished_at = finished_at - 100"))
        deliveries.forget(session, 50.0)
    assert house.log(channel_id) == []
    settle(notifier)
    assert len(receiver.got) == 1
