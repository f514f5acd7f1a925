"""What is stored of a deleted run, table by table: found by the foreign keys, taken away in pieces.

Ids that people and workers hold are never given twice. PostgreSQL sees to that by itself; SQLite gives the
largest id of a table plus one, so there the row with the largest id stays until a later one is stored.
"""

from collections.abc import Collection
from functools import cache

from sqlalchemy import ColumnElement, Table, and_, delete, exists, func, literal, or_, select, tuple_, update
from sqlalchemy.orm import Session
from sqlalchemy.types import JSON

import collapsewatch_server.alert_tables
import collapsewatch_server.channel_tables  # noqa: F401 (tables that hold rows of runs)
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.db import is_postgresql, now
from collapsewatch_server.tables import Base, JobRow, Run

_HELD_OUTSIDE = ("alerts", "jobs", "runs")
_SHOWN_AT_ONCE = (
    "planned_changes",
    "alert_changes",
    "alert_actions",
    "alert_threads",
    "alerts",
    "alert_rule_starts",
    "late_folds",
    "writers",
)
"""What lists, alerts and the watch would go on telling of; little, so it goes with the run itself."""
_ROWS_AT_ONCE = 2_000
_DOCUMENTS_AT_ONCE = 100
# A request that found the run just before may take so long to bring its body, and must not find a new run
# in its place.
_UNDER_WAY_SECONDS = 600.0


def mark(session: Session, run_pk: int) -> None:
    """Takes the run out of sight: its id is free, nothing is left to score, and nothing tells of it.

    What the run said of itself goes now; the many rows go later.
    """
    statement = update(Run).where(Run.id == run_pk)
    session.execute(
        statement.values(
            # No client can name it so.
            run_id=f"~{run_pk}",
            name="",
            given_name="",
            config={},
            tags=[],
            notes="",
            scorer=None,
            state="finished",
            deleted_at=now(),
        )
    )
    jobs = update(JobRow).where(JobRow.run_pk == run_pk, JobRow.status != "done")
    # A worker that still scores one of them is told that it is done.
    done = {"status": "done", "owner": None, "lease_until": None, "error": None, "traceback": None}
    session.execute(jobs.values(**done, finished_at=now()))
    alerts = update(AlertRow).where(AlertRow.run_pk == run_pk)
    session.execute(alerts.values(status="resolved", withdrawn=True, title="", message="", evidence={}))
    for table in tables_of_runs():
        if table.name in _SHOWN_AT_ONCE:
            session.execute(delete(table).where(_removable(session, table, run_pk)))


def deleted(session: Session) -> list[int]:
    """Row ids of the runs that are going, the first one first."""
    statement = select(Run.id).where(Run.deleted_at.is_not(None)).order_by(Run.id)
    return list(session.scalars(statement))


@cache
def tables_of_runs() -> tuple[Table, ...]:
    """Every table whose rows belong to runs, those that name others first; `runs` is the last."""
    tables = [table for table in reversed(Base.metadata.sorted_tables) if _belonging(table, 0) is not None]
    return tuple(tables)


def any_left(session: Session, table: Table, run_pk: int) -> bool:
    """Whether the table has rows of the run that can go now."""
    return (
        session.execute(select(literal(1)).where(_removable(session, table, run_pk)).limit(1)).first()
        is not None
    )


def remove_some(session: Session, table: Table, run_pk: int) -> None:
    """Removes some of the run's rows that nothing names any more."""
    key = tuple_(*table.primary_key)
    first = select(*table.primary_key).where(_removable(session, table, run_pk)).limit(_at_once(table))
    session.execute(delete(table).where(key.in_(first)))


def some_blobs(session: Session, table: Table, run_pk: int) -> list[str]:
    """Keys of what lies in the blob store for some of the run's rows, also for those that stay for now."""
    if "blob_key" not in table.c:
        return []
    statement = select(table.c.blob_key).where(_of_run(table, run_pk), table.c.blob_key != "")
    return list(session.scalars(statement.limit(_at_once(table))))


def forget_blobs(session: Session, table: Table, run_pk: int, blob_keys: Collection[str]) -> None:
    """Notes that these are no longer in the blob store."""
    statement = update(table).where(_of_run(table, run_pk), table.c.blob_key.in_(blob_keys))
    session.execute(statement.values(blob_key=""))


def _at_once(table: Table) -> int:
    return _DOCUMENTS_AT_ONCE if any(isinstance(one.type, JSON) for one in table.c) else _ROWS_AT_ONCE


def _belonging(table: Table, run_pk: int) -> ColumnElement[bool] | None:
    """Whether a row is the run's, by itself or by what it names; none for tables that know no runs."""
    if table.name == "runs":
        return table.c.id == run_pk
    if "run_pk" in table.c:
        return table.c.run_pk == run_pk
    found = []
    for key in table.foreign_keys:
        parent = key.column.table
        if parent is not table and (condition := _belonging(parent, run_pk)) is not None:
            found.append(key.parent.in_(select(key.column).where(condition)))
    return or_(*found) if found else None


def _of_run(table: Table, run_pk: int) -> ColumnElement[bool]:
    """The same for a table that is known to hold rows of runs."""
    condition = _belonging(table, run_pk)
    assert condition is not None
    return condition


def _removable(session: Session, table: Table, run_pk: int) -> ColumnElement[bool]:
    """Whether a row is the run's and can go: nothing names it, and its id will not be given again."""
    conditions = [_of_run(table, run_pk)]
    for child in Base.metadata.sorted_tables:
        # An alias, for a table that names itself.
        named = child.alias()
        conditions += [
            ~exists(select(literal(1)).select_from(named).where(named.c[key.parent.name] == key.column))
            for key in child.foreign_keys
            if key.column.table is table
        ]
    if table.name in _HELD_OUTSIDE and not is_postgresql(session):
        others = table.alias()
        conditions.append(table.c.id < select(func.max(others.c.id)).scalar_subquery())
    if table.name == "runs":
        conditions.append(table.c.deleted_at < now() - _UNDER_WAY_SECONDS)
    return and_(*conditions)
