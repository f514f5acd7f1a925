"""Workers as rows, by their own word."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, exists, select
from sqlalchemy.orm import Session

from collapsewatch_server.db import insert, now
from collapsewatch_server.tables import Batch, JobRow, Run, WorkerRow


class WorkerWithJob(NamedTuple):
    """A worker and what it has in hand."""

    worker: WorkerRow
    run_id: str | None
    run_name: str | None
    step: int | None
    is_busy: bool
    """Whether it has anything in hand, also of a run that the request in hand cannot see."""


def note(session: Session, name: str, **values: Any) -> None:
    """Notes a sign of life of the worker."""
    row = {**values, "last_seen_at": now()}
    statement = insert(session, WorkerRow).values(name=name, **row)
    session.execute(statement.on_conflict_do_update(index_elements=["name"], set_=row))


def all_rows(session: Session) -> Sequence[WorkerRow]:
    """Every worker that is remembered."""
    return session.scalars(select(WorkerRow).order_by(WorkerRow.name)).all()


def with_jobs(session: Session) -> list[WorkerWithJob]:
    """Every worker that is remembered, with its job while it holds the lease."""
    # Of the table itself, which is not narrowed.
    every = JobRow.__table__.alias("every_job").c
    busy = exists().where(every.id == WorkerRow.job_pk, *_held_by(every)).label("is_busy")
    statement = (
        select(WorkerRow, Run.run_id, Run.name, Batch.step, busy)
        .outerjoin(JobRow, and_(JobRow.id == WorkerRow.job_pk, *_held_by(JobRow)))
        .outerjoin(Batch, Batch.id == JobRow.batch_pk)
        .outerjoin(Run, Run.id == JobRow.run_pk)
        .order_by(WorkerRow.name)
    )
    return [WorkerWithJob(*row) for row in session.execute(statement)]


def _held_by(job: Any) -> tuple[Any, ...]:
    return (job.owner == WorkerRow.name, job.status == "leased")


def num_live(session: Session, within_seconds: float) -> int:
    """Number of workers that have shown a sign of life lately and are not stopping."""
    statement = select(WorkerRow.id).where(
        WorkerRow.last_seen_at >= now() - within_seconds, ~WorkerRow.is_stopping
    )
    return len(session.scalars(statement).all())


def forget(session: Session, silent_seconds: float) -> None:
    """Removes workers that have not been heard of for so long."""
    session.execute(delete(WorkerRow).where(WorkerRow.last_seen_at < now() - silent_seconds))
