"""Alerts as rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertRow, AlertThread
from collapsewatch_server.alerts.custom import OWN_PREFIX
from collapsewatch_server.tables import Attempt


def of_scope(session: Session, run_pk: int, scope: str) -> Sequence[AlertRow]:
    """Alerts of the scope's folds in all attempts, oldest first; withdrawn ones among them."""
    statement = select(AlertRow).where(
        AlertRow.run_pk == run_pk,
        AlertRow.scope == scope,
        AlertRow.opened_step.is_not(None),
        ~AlertRow.rule.startswith(OWN_PREFIX, autoescape=True),
    )
    return session.scalars(statement.order_by(AlertRow.opened_step, AlertRow.id)).all()


def of_rule(session: Session, run_pk: int, scope: str, rule: str) -> Sequence[AlertRow]:
    """Alerts of one rule in the scope, oldest first; withdrawn ones among them."""
    statement = select(AlertRow).where(
        AlertRow.run_pk == run_pk,
        AlertRow.scope == scope,
        AlertRow.opened_step.is_not(None),
        AlertRow.rule == rule,
    )
    return session.scalars(statement.order_by(AlertRow.opened_step, AlertRow.id)).all()


def row(session: Session, alert_id: int) -> AlertRow:
    """The alert of this id, which is there."""
    return session.execute(select(AlertRow).where(AlertRow.id == alert_id)).scalar_one()


def add(session: Session, **values: Any) -> int:
    """Id of the new alert."""
    row = AlertRow(**values)
    session.add(row)
    session.flush()
    return row.id


def change(session: Session, alert_id: int, **values: Any) -> None:
    """Sets the given columns."""
    session.execute(update(AlertRow).where(AlertRow.id == alert_id).values(**values))


def of_run(session: Session, run_pk: int, limit: int) -> list[tuple[AlertRow, str | None]]:
    """The run's alerts with the id of the attempt that they belong to; those of a later step first.

    Those without a step, which are about the run as it is now, come before all others.
    """
    statement = (
        select(AlertRow, Attempt.attempt_id)
        .outerjoin(Attempt, Attempt.id == AlertRow.attempt_pk)
        .where(AlertRow.run_pk == run_pk, ~AlertRow.withdrawn)
        .order_by(AlertRow.opened_step.desc().nulls_first(), AlertRow.id.desc())
        .limit(limit)
    )
    return [(row, attempt_id) for row, attempt_id in session.execute(statement)]


def open_counts(session: Session, run_pks: Sequence[int]) -> dict[int, dict[str, int]]:
    """Number of items of each run that are not resolved, by severity."""
    statement = (
        select(AlertThread.run_pk, AlertThread.severity, func.count())
        .where(AlertThread.run_pk.in_(run_pks), AlertThread.state != "resolved")
        .group_by(AlertThread.run_pk, AlertThread.severity)
    )
    found: dict[int, dict[str, int]] = {
        run_pk: {"critical": 0, "warning": 0, "info": 0} for run_pk in run_pks
    }
    for run_pk, severity, count in session.execute(statement):
        assert run_pk is not None
        found[run_pk][severity] = count
    return found
