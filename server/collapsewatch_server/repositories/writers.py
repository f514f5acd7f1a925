"""Processes that log to runs as rows, and what they say about the runs' lives."""

from typing import Any

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import insert, now
from collapsewatch_server.tables import Run, Writer

SILENT_STATES = ("stalled", "crashed")
"""States of a run that the next sign of life ends."""
NOTHING_SPOOLED: dict[str, Any] = {"spool_records": 0, "spool_bytes": 0, "spool_oldest_seconds": 0.0}


def find(session: Session, run_pk: int, writer_id: str) -> Writer | None:
    """The writer's row."""
    return session.scalar(select(Writer).where(Writer.run_pk == run_pk, Writer.writer_id == writer_id))


def add(session: Session, run_pk: int, writer_id: str, **values: Any) -> bool:
    """Whether the writer was unknown; it is known now. One that was known stays as it is."""
    row = {"state": "running", **NOTHING_SPOOLED, "dropped": {}, "has_backlog": False, **values}
    statement = insert(session, Writer).values(run_pk=run_pk, writer_id=writer_id, **row)
    statement = statement.on_conflict_do_nothing(index_elements=["run_pk", "writer_id"])
    return session.scalar(statement.returning(Writer.id)) is not None


def change(session: Session, run_pk: int, writer_id: str, **values: Any) -> None:
    """Sets the given columns of the writer; its backlog follows from them."""
    is_it = (Writer.run_pk == run_pk) & (Writer.writer_id == writer_id)
    if "spool_records" in values or "dropped" in values:
        known = session.execute(select(Writer.spool_records, Writer.dropped).where(is_it)).one_or_none()
        known_records, known_drops = known if known is not None else (0, {})
        values["has_backlog"] = bool(
            values.get("spool_records", known_records) or values.get("dropped", known_drops)
        )
    session.execute(update(Writer).where(is_it).values(**values))


def revive(session: Session, run_pk: int, writer_id: str, state: str) -> bool:
    """Whether the writer had this state; it is running now."""
    statement = update(Writer).where(Writer.run_pk == run_pk, Writer.writer_id == writer_id)
    statement = statement.where(Writer.state == state).values(state="running")
    return session.scalar(statement.returning(Writer.id)) is not None


def states(session: Session, run_pk: int, attempt_pk: int | None) -> set[str]:
    """What the attempt's writers said of themselves."""
    statement = select(Writer.state).where(Writer.run_pk == run_pk, Writer.attempt_pk == attempt_pk)
    return set(session.scalars(statement.distinct()))


def state_of_run(session: Session, run_pk: int) -> str:
    """The run's state as it is now, whatever the caller read before."""
    return session.execute(select(Run.state).where(Run.id == run_pk)).scalar_one()


def set_state_of_run(session: Session, run_pk: int, state: str) -> None:
    """Sets the run's state."""
    session.execute(update(Run).where(Run.id == run_pk).values(state=state, updated_at=now()))


def see_run(session: Session, run_pk: int, *, with_data: bool) -> None:
    """Notes a sign of life of the run, which is running if it had been silent: one UPDATE."""
    values: dict[str, Any] = {
        "last_seen_at": now(),
        "state": case((Run.state.in_(SILENT_STATES), "running"), else_=Run.state),
    }
    if with_data:
        values["last_data_at"] = now()
    session.execute(update(Run).where(Run.id == run_pk).values(values))
