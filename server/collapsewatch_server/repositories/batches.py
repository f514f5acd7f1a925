"""Accepted batches and what workers found out about them, as rows."""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from collapsewatch.contracts.scoring import ScoringResult
from collapsewatch_server.attempts import Segment
from collapsewatch_server.db import insert, now
from collapsewatch_server.tables import Batch, BatchResult, EvaluationRow


def content_hash(session: Session, run_pk: int, batch_id: str) -> str | None:
    """Hash of the batch that was accepted under this id."""
    return session.scalar(
        select(Batch.content_hash).where(Batch.run_pk == run_pk, Batch.batch_id == batch_id)
    )


def add(session: Session, run_pk: int, **values: Any) -> int | None:
    """The new batch's row id; none when the run has a batch of this id."""
    statement = insert(session, Batch).values(run_pk=run_pk, created_at=now(), **values)
    statement = statement.on_conflict_do_nothing(index_elements=["run_pk", "batch_id"]).returning(Batch.id)
    added: int | None = session.execute(statement).scalar()
    return added


def get(session: Session, batch_pk: int) -> Batch:
    """The batch of that row id."""
    return session.execute(select(Batch).where(Batch.id == batch_pk)).scalar_one()


def add_result(session: Session, batch: Batch, result: ScoringResult, *, superseded: bool) -> bool:
    """Stores the batch's result; whether it stands for its step in its attempt.

    Of the scored batches of a step the one logged last stands, whichever is scored first.
    """
    stands = not _outranked(session, batch)
    if stands:
        statement = update(BatchResult).where(*_same_step(batch), BatchResult.current)
        session.execute(statement.values(current=False))
    document = result.model_dump(mode="json", exclude_none=True)
    session.execute(
        insert(session, BatchResult).values(
            batch_pk=batch.id,
            run_pk=batch.run_pk,
            attempt_pk=batch.attempt_pk,
            step=batch.step,
            current=stands,
            superseded=superseded,
            scorer=document["scorer"],
            metrics=document["batch_metrics"],
            absent=document["absent"],
            groups=document["groups"],
            filters=document["filters"],
            buckets=document["buckets"],
            template_evidence=document.get("template_evidence"),
            seconds=result.seconds,
            created_at=now(),
        )
    )
    return stands


def supersede(session: Session, run_pk: int, segment: Segment, *, superseded: bool) -> None:
    """Says of the attempt's results in these steps whether a later attempt replayed them."""
    statement = update(BatchResult).where(
        BatchResult.run_pk == run_pk,
        BatchResult.attempt_pk == segment.attempt_pk,
        BatchResult.step >= segment.from_step,
        BatchResult.superseded.is_not(superseded),
    )
    if segment.until_step is not None:
        statement = statement.where(BatchResult.step < segment.until_step)
    session.execute(statement.values(superseded=superseded))


def newest_result(session: Session, run_pk: int) -> BatchResult | None:
    """Result of the batch that stands for the last scored step of the run's own series."""
    statement = select(BatchResult).where(
        BatchResult.run_pk == run_pk, BatchResult.current, ~BatchResult.superseded
    )
    return session.scalar(statement.order_by(BatchResult.step.desc()).limit(1))


class LoggedStep(NamedTuple):
    """A batch, as far as it decides what is scored."""

    step: int
    scorer: dict[str, Any] | None
    is_evaluated: bool


class UnscoredResult(NamedTuple):
    """A result, as far as it says what was not scored."""

    absent: dict[str, str]
    is_evaluated: bool


def newest_steps(session: Session, run_pk: int, attempt_pk: int, limit: int) -> list[LoggedStep]:
    """The attempt's batches of its last steps, the last first; of shards the first of each step."""
    statement = select(Batch.step, Batch.scorer, _is_evaluated(Batch.id)).where(
        Batch.run_pk == run_pk, Batch.attempt_pk == attempt_pk, Batch.shard_index == 0
    )
    rows = session.execute(statement.order_by(Batch.step.desc()).limit(limit))
    return [LoggedStep(*row) for row in rows]


def newest_results(
    session: Session, run_pk: int, attempt_pk: int, every_steps: int, limit: int
) -> list[UnscoredResult]:
    """The attempt's results of its last steps that `every_steps` divides, the last first."""
    statement = select(BatchResult.absent, _is_evaluated(BatchResult.batch_pk)).where(
        BatchResult.run_pk == run_pk,
        BatchResult.attempt_pk == attempt_pk,
        BatchResult.current,
        BatchResult.step % every_steps == 0,
    )
    rows = session.execute(statement.order_by(BatchResult.step.desc()).limit(limit))
    return [UnscoredResult(*row) for row in rows]


def _is_evaluated(batch_pk: InstrumentedAttribute[int]) -> ColumnElement[bool]:
    return select(EvaluationRow.id).where(EvaluationRow.batch_pk == batch_pk).exists()


def result_of(session: Session, batch_pk: int) -> tuple[BatchResult, Batch]:
    """Result of one scored batch, and the batch."""
    statement = select(BatchResult, Batch).join(Batch, Batch.id == BatchResult.batch_pk)
    result, batch = session.execute(statement.where(BatchResult.batch_pk == batch_pk)).one()
    return result, batch


def _outranked(session: Session, batch: Batch) -> bool:
    statement = (
        select(Batch.logged_at, Batch.batch_id)
        .join(BatchResult, BatchResult.batch_pk == Batch.id)
        .where(*_same_step(batch))
    )
    mine = (batch.logged_at, batch.batch_id)
    return any((logged_at, batch_id) > mine for logged_at, batch_id in session.execute(statement))


def _same_step(batch: Batch) -> list[ColumnElement[bool]]:
    return [
        BatchResult.run_pk == batch.run_pk,
        BatchResult.step == batch.step,
        BatchResult.attempt_pk == batch.attempt_pk,
    ]
