"""Old events and audit entries go; a stream that would need the events says that it begins anew."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import select, update

from collapsewatch.contracts.runs import RunStart
from collapsewatch_server.account_tables import AuditEntry
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.db import now
from collapsewatch_server.repositories import audit, events
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.retention import Retention, audit_retention
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import EventRow
from tests.server.live import LiveServer
from tests.server.test_stream import Listener

_CALLER = Caller(1, Purpose.ingest, None)


@pytest.fixture
def services(deployment: Any) -> Iterator[Services]:
    made = build_services(ServerSettings(**deployment.settings()))
    made.prepare()
    yield made
    made.close()


def add_events(services: Services, num: int) -> None:
    with services.database.write_session() as session:
        events.add(session, None, [Event("job", {"number": number}) for number in range(num)])


def kept(services: Services) -> list[int]:
    with services.database.read_session() as session:
        return list(session.scalars(select(EventRow.id).order_by(EventRow.id)))


@pytest.fixture(autouse=True)
def _one_look_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine stands still in it."""
    monkeypatch.setattr("collapsewatch_server.retention._LOOK_SECONDS", 120.0)


def age(services: Services, event_ids: list[int], seconds: float) -> None:
    with services.database.write_session() as session:
        session.execute(update(EventRow).where(EventRow.id.in_(event_ids)).values(created_at=now() - seconds))


@pytest.mark.parametrize("most_at_once", [1, 2, 5, 100])
def test_what_is_too_old_goes_whatever_the_size_of_the_pieces(services: Services, most_at_once: int) -> None:
    add_events(services, 10)
    ids = kept(services)
    age(services, ids[:7], 100)
    Retention(services.database, keep_seconds=1000, most_at_once=most_at_once).look()
    assert kept(services) == ids
    Retention(services.database, keep_seconds=50, most_at_once=most_at_once).look()
    assert kept(services) == ids[7:]


@pytest.mark.parametrize("most_at_once", [1, 2, 100])
def test_of_too_many_the_oldest_go(services: Services, most_at_once: int) -> None:
    add_events(services, 10)
    ids = kept(services)
    Retention(services.database, max_kept=4, most_at_once=most_at_once).look()
    assert kept(services) == ids[6:]


def test_the_newest_stays_and_ids_go_on_behind_it(services: Services) -> None:
    Retention(services.database, keep_seconds=0).look()
    assert services.reading.kept_event_ids() == (1, 0)
    add_events(services, 3)
    ids = kept(services)
    age(services, ids, 100)
    Retention(services.database, keep_seconds=50).look()
    assert kept(services) == ids[2:]
    add_events(services, 1)
    assert kept(services)[-1] > ids[-1]
    assert services.reading.kept_event_ids() == (ids[2], kept(services)[-1])


@pytest.mark.parametrize("most_at_once", [1, 100])
def test_old_entries_of_the_audit_log_go_and_of_too_many_the_oldest(
    services: Services, most_at_once: int
) -> None:
    def left() -> list[str]:
        page = services.audit_reading.page(before_id=None, limit=99, project_id=None, action=None)
        return [entry.actor for entry in reversed(page.entries)]

    Retention(services.database, log=audit, keep_seconds=0).look()
    for number in range(8):
        services.audit.note("run.delete", actor=f"a{number}")
    with services.database.write_session() as session:
        old = AuditEntry.actor.in_(["a0", "a1"])
        session.execute(update(AuditEntry).where(old).values(at=now() - 366 * 86_400))
    audit_retention(services.database, days=367).look()
    assert left() == [f"a{number}" for number in range(8)]
    audit_retention(services.database, days=365).look()
    assert left() == [f"a{number}" for number in range(2, 8)]
    Retention(services.database, log=audit, max_kept=3, most_at_once=most_at_once).look()
    assert left() == ["a5", "a6", "a7"]


def test_a_stream_that_missed_what_is_gone_begins_anew(
    start_server: Callable[..., LiveServer], wait_until: Callable[..., None]
) -> None:
    live = start_server()
    run_id = live.start_run()
    for step in range(6):
        live.send_batch(run_id, step)
    ids = kept(live.services)
    Retention(live.services.database, max_kept=3).look()
    gone = Listener(live, headers={"Last-Event-ID": str(ids[-5])})
    whole = Listener(live, headers={"Last-Event-ID": str(ids[-4])})
    try:
        wait_until(lambda: gone.names() == ["hello"], "the page is told")
        assert gone.events[0].event_id == ids[-1]
        wait_until(lambda: len(whole.events) == 3, "nothing was missed")
        assert [event.event_id for event in whole.events] == ids[-3:]
    finally:
        live.server.handle_exit(15, None)
        gone.close()
        whole.close()


def test_the_server_looks_by_itself(
    start_server: Callable[..., LiveServer],
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
) -> None:
    monkeypatch.setattr("collapsewatch_server.services.SECONDS_BETWEEN_LOOKS", 0.05)
    live = start_server()
    live.services.runs.start_run(_CALLER, RunStart(run_id="r", project="p", name="n"))
    live.services.runs.start_run(_CALLER, RunStart(run_id="s", project="p", name="n"))
    ids = kept(live.services)
    age(live.services, ids, 90_000)
    wait_until(lambda: kept(live.services) == ids[-1:], "the old ones are gone")
