"""Which folds are behind, as rows. Whoever changes them holds the run; see `runs.lock`."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.repositories import clock
from collapsewatch_server.tables import LateFold


class Behind(NamedTuple):
    """One scope of a run that has to be folded again."""

    run_pk: int
    scope: str
    noted_at: float
    has_begun: bool


def note(
    session: Session, run_pk: int, scope: str, from_steps: Mapping[int, int], *, begun: bool = False
) -> None:
    """Notes the first step to fold of each attempt: in the next pass, or, if `begun`, in one that goes on."""
    for attempt_pk, step in from_steps.items():
        row = session.get(LateFold, (run_pk, scope, attempt_pk))
        if row is None:
            row = LateFold(run_pk=run_pk, scope=scope, attempt_pk=attempt_pk, noted_at=clock.read(session))
            session.add(row)
        if begun:
            row.next_step = step if row.next_step is None else min(row.next_step, step)
        else:
            row.from_step = step if row.from_step is None else min(row.from_step, step)
    session.flush()


def behind(session: Session) -> list[Behind]:
    """Every scope of every run that is behind, longest first."""
    first = func.min(LateFold.noted_at)
    statement = select(LateFold.run_pk, LateFold.scope, first, func.count(LateFold.next_step))
    statement = statement.group_by(LateFold.run_pk, LateFold.scope).order_by(first)
    return [Behind(run_pk, scope, at, num > 0) for run_pk, scope, at, num in session.execute(statement)]


def is_behind(session: Session, run_pk: int, scope: str) -> bool:
    """Whether any attempt of the run has to be folded again."""
    return session.scalar(select(LateFold.attempt_pk).where(*_of(run_pk, scope)).limit(1)) is not None


def steps(session: Session, run_pk: int, scope: str) -> dict[int, int]:
    """First step of each attempt that waits for the next pass."""
    statement = select(LateFold.attempt_pk, LateFold.from_step).where(*_of(run_pk, scope))
    rows = session.execute(statement)
    return {attempt_pk: step for attempt_pk, step in rows if step is not None}


def progress(session: Session, run_pk: int, scope: str) -> dict[int, int]:
    """Next step of each attempt in the pass that goes on; empty when there is none."""
    statement = select(LateFold.attempt_pk, LateFold.next_step).where(*_of(run_pk, scope))
    rows = session.execute(statement)
    return {attempt_pk: step for attempt_pk, step in rows if step is not None}


def begin(session: Session, run_pk: int, scope: str) -> None:
    """Begins a pass over all that waits for one."""
    statement = update(LateFold).where(*_of(run_pk, scope), LateFold.from_step.is_not(None))
    session.execute(statement.values(next_step=LateFold.from_step, from_step=None))


def proceed(session: Session, run_pk: int, scope: str, attempt_pk: int, next_step: int | None) -> None:
    """Notes how far the pass has come in the attempt; none when it has come to the end."""
    row = session.get_one(LateFold, (run_pk, scope, attempt_pk), populate_existing=True)
    if next_step is None and row.from_step is None:
        session.delete(row)
    else:
        row.next_step = next_step
        if next_step is None:
            row.noted_at = clock.read(session)
    session.flush()


def _of(run_pk: int, scope: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return LateFold.run_pk == run_pk, LateFold.scope == scope
