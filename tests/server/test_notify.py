"""Every change reaches every channel that wants it, once, whatever dies in between."""

import hashlib
import hmac
import json
import threading
import time

from sqlalchemy import text

from collapsewatch_server.notify.notifier import Notifier
from collapsewatch_server.notify.pacing import Retries
from tests.conftest import WaitUntil
from tests.server.notifying import QUICK, SECRET, House, last_status, settle, told, until
from tests.server.outbox import add_alert, add_run, tell
from tests.server.receivers import Answer, Got, HttpReceiver, http_receiver


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
    until(wait_until, house.server(), lambda: last_status(house, channel_id) == "sent")
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
    assert 0.35 < came[1] - came[0] < 60
    wait_until(lambda: last_status(house, channel_id) == "sent")


def test_what_cannot_succeed_is_given_up_at_once_and_the_channel_says_so(
    house: House, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    receiver.answer = lambda got: Answer(403, b"no such token")
    channel_id = house.channel(receiver.url())
    alert_id = add_alert(house.database)
    tell(house.database, alert_id)
    notifier = house.server()
    until(wait_until, notifier, lambda: last_status(house, channel_id) == "failed")
    view = house.desk.one(channel_id)
    assert view.failed_at is not None
    assert view.problem == "HTTP 403: no such token"
    assert (len(receiver.got), house.log(channel_id)[0].attempts) == (1, 1)
    # The next one that gets through takes it back.
    receiver.answer = lambda got: Answer()
    tell(house.database, alert_id, "acknowledged", by="Ada")
    until(wait_until, notifier, lambda: last_status(house, channel_id) == "sent")
    assert house.desk.one(channel_id).failed_at is None


def test_a_receiver_that_stays_dead_is_given_up_after_the_bound(house: House, wait_until: WaitUntil) -> None:
    with http_receiver() as gone:
        channel_id = house.channel(gone.url())
    tell(house.database, add_alert(house.database))
    until(wait_until, house.server(), lambda: last_status(house, channel_id) == "failed")
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
    until(wait_until, notifier, lambda: last_status(house, channel_id) == "sent")
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
        released.wait(60)
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
        wait_until(lambda: len(receiver.got) >= 36)
    finally:
        stopping.set()
        for thread in threads:
            thread.join(60)
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
            released.wait(60)
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
    wait_until(lambda: last_status(house, channel_id) == "sent")
    released.set()
    settle(living)
    assert len(ids) == 2
    assert len(house.log(channel_id)) == 1
