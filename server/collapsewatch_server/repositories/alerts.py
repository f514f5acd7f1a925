"""Alerts as rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.tables import AlertRow, Attempt


def of_scope(session: Session, run_pk: int, scope: str) -> Sequence[AlertRow]:
    """Alerts of the scope's folds in all attempts, oldest first."""
    statement = select(AlertRow).where(
        AlertRow.run_pk == run_pk, AlertRow.scope == scope, AlertRow.opened_step.is_not(None)
    )
    return session.scalars(statement.order_by(AlertRow.opened_step, AlertRow.id)).all()


def add(session: Session, **values: Any) -> int:
    """Id of the new alert."""
    row = AlertRow(**values)
    session.add(row)
    session.flush()
    return row.id


def change(session: Session, alert_id: int, **values: Any) -> None:
    """Sets the given columns."""
    session.execute(update(AlertRow).where(AlertRow.id == alert_id).values(**values))


def remove(session: Session, alert_id: int) -> None:
    """Removes an alert that, seen in step order, never was."""
    session.execute(delete(AlertRow).where(AlertRow.id == alert_id))


def of_run(session: Session, run_pk: int, limit: int) -> list[tuple[AlertRow, str | None]]:
    """The run's alerts with the id of the attempt that they belong to; those of a later step first.

    Those without a step, which are about the run as it is now, come before all others.
    """
    statement = (
        select(AlertRow, Attempt.attempt_id)
        .outerjoin(Attempt, Attempt.id == AlertRow.attempt_pk)
        .where(AlertRow.run_pk == run_pk)
        .order_by(AlertRow.opened_step.desc().nulls_first(), AlertRow.id.desc())
        .limit(limit)
    )
    return [(row, attempt_id) for row, attempt_id in session.execute(statement)]


def open_counts(session: Session, run_pks: Sequence[int]) -> dict[int, dict[str, int]]:
    """Number of open alerts of each run by severity."""
    statement = (
        select(AlertRow.run_pk, AlertRow.severity, func.count())
        .where(AlertRow.run_pk.in_(run_pks), AlertRow.status == "open", ~AlertRow.superseded)
        .group_by(AlertRow.run_pk, AlertRow.severity)
    )
    found: dict[int, dict[str, int]] = {
        run_pk: {"critical": 0, "warning": 0, "info": 0} for run_pk in run_pks
    }
    for run_pk, severity, count in session.execute(statement):
        assert run_pk is not None
        found[run_pk][severity] = count
    return found
