"""Attempts as rows."""

from typing import Any

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from collapsewatch_server import attempts as lineage
from collapsewatch_server.attempts import Lineages
from collapsewatch_server.db import now
from collapsewatch_server.tables import Attempt


def of_run(session: Session, run_pk: int) -> Lineages:
    """All attempts of the run."""
    statement = select(
        Attempt.id,
        Attempt.attempt_id,
        Attempt.started_at,
        Attempt.from_step,
        Attempt.first_step,
        Attempt.last_step,
    ).where(Attempt.run_pk == run_pk)
    return Lineages(lineage.Attempt(*row) for row in session.execute(statement))


def add(
    session: Session, run_pk: int, *, attempt_id: str, started_at: float, from_step: int | None = None
) -> lineage.Attempt:
    """The new attempt; the caller holds the run, so nobody else adds it at the same time."""
    row = Attempt(
        run_pk=run_pk,
        attempt_id=attempt_id,
        started_at=started_at,
        from_step=from_step,
        first_step=from_step,
        created_at=now(),
    )
    session.add(row)
    session.flush()
    return lineage.Attempt(row.id, attempt_id, started_at, from_step, from_step)


def save(session: Session, attempt: lineage.Attempt) -> None:
    """Stores what is known of the attempt now."""
    values: dict[str, Any] = attempt._asdict()
    del values["pk"], values["attempt_id"]
    session.execute(update(Attempt).where(Attempt.id == attempt.pk).values(**values))
