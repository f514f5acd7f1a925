"""What is known of some runs, copied into a SQLite file of its own with the same tables."""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import JSON, ColumnElement, Table, Text, null, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.db import is_postgresql
from collapsewatch_server.tables import Base, BatchResult, EvaluationRow, MetricPoint, Project, Run

Thin = Callable[[Sequence[int], Sequence[float]], Iterable[int]]
"""Which points of one series, given its steps and values, a snapshot keeps."""
_ROWS_AT_ONCE = 2_000
# How the service runs the trainings, what people did about alerts, and the links themselves are nobody's
# business but the server's.
_NOT_COPIED = ("writers", "jobs", "events", "late_folds", "share_runs", "alert_rule_starts")
# Only the fold reads its own state, and it is as large as all the rest of an evaluation.
_LEFT_EMPTY = {("evaluations", "fold_state"), ("evaluations", "alert_moves"), ("runs", "scorer")}


def hold(session: Session) -> None:
    """Lets all that the session reads from here on be of one moment; SQLite does so anyway."""
    if is_postgresql(session):
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})


def scored_steps(session: Session, run_pk: int) -> list[int]:
    """Steps of the run that were scored, in order, whichever attempt they belong to."""
    statement = select(BatchResult.step).where(BatchResult.run_pk == run_pk).distinct()
    return list(session.scalars(statement.order_by(BatchResult.step)))


def alert_steps(session: Session, run_pk: int) -> set[int]:
    """Steps at which alerts on the run were opened or resolved."""
    statement = select(AlertRow.opened_step, AlertRow.resolved_step).where(AlertRow.run_pk == run_pk)
    return {step for row in session.execute(statement) for step in row if step is not None}


def newest_of_scopes(session: Session, run_pk: int) -> set[int]:
    """The newest step of each scope: where the run stands."""
    statement = (
        select(EvaluationRow.scope, EvaluationRow.step)
        .where(EvaluationRow.run_pk == run_pk, EvaluationRow.current, ~EvaluationRow.superseded)
        .order_by(EvaluationRow.scope, EvaluationRow.step.desc())
        .distinct()
    )
    return {next(rows)[1] for _, rows in groupby(session.execute(statement), key=lambda row: row[0])}


def copy_run(
    session: Session, target: sqlite3.Connection, run_pk: int, steps: Collection[int] | None, thin: Thin
) -> None:
    """Copies the run's rows into the target, whose tables are there and hold none of the run.

    Args:
        steps: those of which everything is kept; of others only what is in the series. All when absent.
        thin: applied to each series.
    """
    for table in Base.metadata.sorted_tables:
        if table.name in _NOT_COPIED:
            continue
        if table.name == Run.__tablename__:
            _copy(session, target, table, [table.c.id == run_pk])
        elif table.name == Project.__tablename__:
            project_id = select(Run.project_id).where(Run.id == run_pk).scalar_subquery()
            _copy(session, target, table, [table.c.id == project_id])
        elif table.name == MetricPoint.__tablename__:
            _copy_series(session, target, run_pk, thin)
        elif "run_pk" in table.c:
            _copy_table(session, target, table, run_pk, steps)


def keep_only(target: sqlite3.Connection, run_pks: Collection[int]) -> None:
    """Removes all other runs from a snapshot, and gives their place in the file back."""
    places = ", ".join("?" for _ in run_pks)
    kept = tuple(run_pks)
    for table in reversed(Base.metadata.sorted_tables):
        column = "id" if table.name == Run.__tablename__ else "run_pk"
        if column in table.c and (column == "run_pk" or table.name == Run.__tablename__):
            # The names are our own tables'.
            target.execute(f'DELETE FROM "{table.name}" WHERE {column} NOT IN ({places})', kept)  # noqa: S608
    target.execute("DELETE FROM projects WHERE id NOT IN (SELECT project_id FROM runs)")
    target.commit()
    target.execute("VACUUM")


def _copy_table(
    session: Session, target: sqlite3.Connection, table: Table, run_pk: int, steps: Collection[int] | None
) -> None:
    of_run = table.c.run_pk == run_pk
    if steps is None or "step" not in table.c:
        _copy(session, target, table, [of_run])
        return
    kept = sorted(steps)
    for start in range(0, len(kept), _ROWS_AT_ONCE):
        _copy(session, target, table, [of_run, table.c.step.in_(kept[start : start + _ROWS_AT_ONCE])])


def _copy(
    session: Session, target: sqlite3.Connection, table: Table, where: list[ColumnElement[bool]]
) -> None:
    columns = [_as_stored(table, column) for column in table.c]
    rows = session.execute(select(*columns).where(*where).execution_options(yield_per=_ROWS_AT_ONCE))
    _insert(target, table, rows)


def _as_stored(table: Table, column: Any) -> Any:
    """The column as SQLite holds it: JSON is not taken apart on its way."""
    if (table.name, column.name) in _LEFT_EMPTY:
        return null().label(column.name)
    return sql_cast(column, Text) if isinstance(column.type, JSON) else column


def _copy_series(session: Session, target: sqlite3.Connection, run_pk: int, thin: Thin) -> None:
    table = cast(Table, MetricPoint.__table__)
    attempt, step, value = (list(table.c).index(table.c[name]) for name in ("attempt_pk", "step", "value"))
    names = select(table.c.scope, table.c.metric).where(table.c.run_pk == run_pk).distinct()
    for scope, metric in session.execute(names).all():
        statement = select(table).where(
            table.c.run_pk == run_pk, table.c.scope == scope, table.c.metric == metric
        )
        result = session.connection().execute(statement.order_by(table.c.attempt_pk, table.c.step))
        # The driver's own tuples: there may be a million of them, and nothing in them needs a second look.
        assert result.cursor is not None
        found = result.cursor.fetchall()
        result.close()
        for _, points in groupby(found, key=itemgetter(attempt)):
            rows = list(points)
            kept = thin([row[step] for row in rows], [row[value] for row in rows])
            _insert(target, table, (rows[position] for position in kept))


def _insert(target: sqlite3.Connection, table: Table, rows: Iterable[Sequence[Any]]) -> None:
    names = ", ".join(f'"{column.name}"' for column in table.c)
    places = ", ".join("?" for _ in table.c)
    # A project that several of the runs belong to is met once for each. The names are our own tables'.
    statement = f'INSERT OR IGNORE INTO "{table.name}" ({names}) VALUES ({places})'  # noqa: S608
    target.executemany(statement, _tuples(rows))


def _tuples(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    return (tuple(row) for row in rows)
