"""Alerts as rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.tables import AlertRow


def touching(session: Session, run_pk: int, scope: str, step: int) -> Sequence[AlertRow]:
    """Alerts of the scope that are open, or were opened or resolved at `step` or later, oldest first."""
    statement = select(AlertRow).where(
        AlertRow.run_pk == run_pk,
        AlertRow.scope == scope,
        or_(AlertRow.opened_step >= step, AlertRow.resolved_step.is_(None), AlertRow.resolved_step >= step),
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


def of_run(session: Session, run_pk: int, limit: int) -> Sequence[AlertRow]:
    """The run's alerts, newest first."""
    statement = select(AlertRow).where(AlertRow.run_pk == run_pk)
    return session.scalars(
        statement.order_by(AlertRow.opened_step.desc(), AlertRow.id.desc()).limit(limit)
    ).all()


def open_counts(session: Session, run_pks: Sequence[int]) -> dict[int, dict[str, int]]:
    """Number of open alerts of each run by severity."""
    statement = (
        select(AlertRow.run_pk, AlertRow.severity, func.count())
        .where(AlertRow.run_pk.in_(run_pks), AlertRow.status == "open")
        .group_by(AlertRow.run_pk, AlertRow.severity)
    )
    found: dict[int, dict[str, int]] = {
        run_pk: {"critical": 0, "warning": 0, "info": 0} for run_pk in run_pks
    }
    for run_pk, severity, count in session.execute(statement):
        assert run_pk is not None
        found[run_pk][severity] = count
    return found
