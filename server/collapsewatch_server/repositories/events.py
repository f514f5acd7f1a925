"""Live events as rows. Rows are only ever added, and their ids become visible in order."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from collapsewatch_server.db import is_postgresql, now
from collapsewatch_server.tables import EventRow, Json, Run

_LOCK_ID = 7_788_002


class Event(NamedTuple):
    """Something that happened to a run."""

    kind: str
    """`run`, `batch`, `metrics`, `alert` or `job`."""
    data: Json


class StoredEvent(NamedTuple):
    """An event with its id."""

    event_id: int
    kind: str
    data: Json


def add(session: Session, run_pk: int | None, events: Iterable[Event]) -> None:
    """Adds events; the last thing a transaction does.

    PostgreSQL hands out ids when rows are written and shows them when transactions commit, so without the
    lock a reader could see id 8, remember it, and never be told of id 7.
    """
    events = list(events)
    if not events:
        return
    if is_postgresql(session):
        session.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_ID})"))
    session.flush()
    # One flush per row keeps the order of the ids that of the list.
    for event in events:
        session.add(EventRow(run_pk=run_pk, kind=event.kind, data=event.data, created_at=now()))
        session.flush()


def after(session: Session, event_id: int, run_id: str | None, limit: int) -> list[StoredEvent]:
    """Events of the run, or of all runs, that are newer than `event_id`, oldest first."""
    statement = select(EventRow.id, EventRow.kind, EventRow.data).where(EventRow.id > event_id)
    if run_id is not None:
        statement = statement.join(Run, Run.id == EventRow.run_pk).where(Run.run_id == run_id)
    return [StoredEvent(*row) for row in session.execute(statement.order_by(EventRow.id).limit(limit))]


def newest_id(session: Session) -> int:
    """Id of the newest event; 0 when there is none."""
    return session.scalar(select(func.max(EventRow.id))) or 0
