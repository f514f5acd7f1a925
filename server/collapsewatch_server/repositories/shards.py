"""Steps that several ranks sent in parts, as rows.

Batches of one run, attempt and step that name the same number of shards belong together. Of a shard that was
sent twice, with different batch ids, the one logged last counts.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import now
from collapsewatch_server.tables import Batch, BatchResult, EvaluationRow, Run


def siblings(session: Session, batch: Batch) -> Sequence[Batch]:
    """All batches that belong together with this one, itself included, those logged last at the end."""
    statement = select(Batch).where(*_together(batch)).order_by(Batch.logged_at, Batch.batch_id)
    return session.scalars(statement).all()


def chosen(batches: Iterable[Batch]) -> list[Batch]:
    """The batch of each shard that is there, in the order of the shards, of `siblings`."""
    by_index = {batch.shard_index: batch for batch in batches}
    return [by_index[index] for index in sorted(by_index)]


def blob_keys(session: Session, batch: Batch) -> list[str]:
    """Where the parts of the step lie, in the order of the shards; one when the batch is no shard."""
    if batch.num_shards == 1:
        return [batch.blob_key]
    return [part.blob_key for part in chosen(siblings(session, batch))]


def set_job(session: Session, batch: Batch, job_id: int) -> None:
    """Has the job score the batch and all that belong together with it."""
    which = [Batch.id == batch.id] if batch.num_shards == 1 else _together(batch)
    statement = update(Batch).where(*which, Batch.job_pk.is_distinct_from(job_id)).values(job_pk=job_id)
    session.execute(statement, execution_options={"synchronize_session": False})


def overdue(session: Session, wait_seconds: float, limit: int) -> list[Batch]:
    """One batch of each step whose last shard came `wait_seconds` ago and which has no job yet."""
    newest = func.max(Batch.id)
    statement = (
        select(newest)
        .join(Run, Run.id == Batch.run_pk)
        .where(Batch.job_pk.is_(None), Run.deleted_at.is_(None))
        .group_by(Batch.run_pk, Batch.attempt_pk, Batch.step, Batch.num_shards)
        .having(func.max(Batch.created_at) < now() - wait_seconds)
        .order_by(newest)
        .limit(limit)
    )
    return list(session.scalars(select(Batch).where(Batch.id.in_(statement)).order_by(Batch.id)))


def waits(session: Session, batch: Batch) -> bool:
    """Whether the step of this batch has no job yet."""
    return session.scalar(select(Batch.job_pk).where(Batch.id == batch.id)) is None


def yield_result(session: Session, batch_pk: int, *, to: int) -> None:
    """Moves what was found out about an incomplete step from one of its batches to another."""
    for table in (BatchResult, EvaluationRow):
        statement = update(table).where(table.batch_pk == batch_pk).values(batch_pk=to)
        session.execute(statement, execution_options={"synchronize_session": False})


def _together(batch: Batch) -> list[ColumnElement[bool]]:
    return [
        Batch.run_pk == batch.run_pk,
        Batch.attempt_pk.is_not_distinct_from(batch.attempt_pk),
        Batch.step == batch.step,
        Batch.num_shards == batch.num_shards,
    ]
