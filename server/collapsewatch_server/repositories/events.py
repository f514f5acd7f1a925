"""Live events as rows: added with ids that become visible in order, and removed from the oldest on."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import delete, func, select, text
from sqlalchemy.orm import Session

from collapsewatch_server.access.visible import SEES_ALL
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


def changed_steps(session: Session, run_pk: int, event_id: int) -> Iterator[tuple[str | None, int | None]]:
    """Of each change of the run's series newer than `event_id` its scope and first step; None means any."""
    statement = select(EventRow.data).where(
        EventRow.run_pk == run_pk, EventRow.id > event_id, EventRow.kind == "metrics"
    )
    for data in session.scalars(statement):
        yield data.get("scope"), data.get("step")


def after_of_runs(session: Session, event_id: int, run_ids: Iterable[str], limit: int) -> list[StoredEvent]:
    """Events of these runs that are newer than `event_id`, oldest first."""
    statement = select(EventRow.id, EventRow.kind, EventRow.data).join(Run, Run.id == EventRow.run_pk)
    statement = statement.where(EventRow.id > event_id, Run.run_id.in_(list(run_ids)))
    return [StoredEvent(*row) for row in session.execute(statement.order_by(EventRow.id).limit(limit))]


def kept_ids(session: Session) -> tuple[int, int]:
    """Ids of the oldest and the newest event that are kept; (1, 0) when there never was one."""
    # Two look-ups: of both at once SQLite makes a walk through the whole table.
    ends = (select(end(EventRow.id)).scalar_subquery() for end in (func.min, func.max))
    # Of all, whoever asks: a place in the order, from which everybody follows what is his.
    oldest, newest = session.execute(select(*ends), execution_options=SEES_ALL).one()
    return (1, 0) if oldest is None else (oldest, newest)


def last_spare_id(session: Session, *, keep_seconds: float, max_kept: int, limit: int) -> int | None:
    """Id up to which events are too old, or too many; none when all are kept.

    The newest always stays: from it everybody can tell what they have missed.

    Args:
        limit: of so many ids at most is told at once.
    """
    oldest, newest = kept_ids(session)
    first = select(EventRow.id, EventRow.created_at).order_by(EventRow.id).limit(limit).subquery()
    too_old = session.scalar(select(func.max(first.c.id)).where(first.c.created_at < now() - keep_seconds))
    last = min(max(too_old or 0, newest - max_kept), oldest + limit - 1, newest - 1)
    return last if last >= oldest else None


def remove_up_to(session: Session, event_id: int) -> None:
    """Removes this event and all that are older."""
    session.execute(delete(EventRow).where(EventRow.id <= event_id))
