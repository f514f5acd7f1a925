"""Runs that are not to be kept any longer, as rows."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from collapsewatch_server.db import now
from collapsewatch_server.tables import Run

_DAY = 86_400.0
_ENDED = ("finished", "failed", "crashed")


class SpentRun(NamedTuple):
    """A run that is due."""

    run_id: str
    name: str


def due(session: Session, project_id: int, days: float, limit: int) -> list[SpentRun]:
    """Some of the project's runs that are due, the first one first."""
    statement = select(Run.run_id, Run.name).where(Run.project_id == project_id, *_due(days))
    return [SpentRun(*row) for row in session.execute(statement.order_by(Run.id).limit(limit))]


def is_due(session: Session, run_pk: int, days: float) -> bool:
    """Whether the run is due as the transaction sees it now: its trainer may have come back."""
    return session.scalar(select(Run.id).where(Run.id == run_pk, *_due(days))) is not None


def num_due(session: Session, project_id: int, *, days: float, limit: int) -> int:
    """How many of the project's runs are due; no more than `limit` are counted."""
    found = select(Run.id).where(Run.project_id == project_id, *_due(days)).limit(limit).subquery()
    return session.execute(select(func.count()).select_from(found)).scalar_one()


def _due(days: float) -> tuple[ColumnElement[bool], ...]:
    before = now() - days * _DAY
    return (
        Run.state.in_(_ENDED),
        Run.deleted_at.is_(None),
        Run.created_at < before,
        or_(Run.last_seen_at.is_(None), Run.last_seen_at < before),
        # What a process that has ended left behind is no sign of life, and still somebody has just sent it.
        or_(Run.last_data_at.is_(None), Run.last_data_at < before),
    )
