"""Accepted batches and what workers found out about them, as rows."""

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from collapsewatch.contracts.scoring import ScoringResult
from collapsewatch_server.db import insert, now
from collapsewatch_server.tables import Batch, BatchResult


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


def add_result(session: Session, batch: Batch, result: ScoringResult) -> bool:
    """Stores the batch's result; whether it stands for its step, being the batch accepted last."""
    document = result.model_dump(mode="json", exclude_none=True)
    session.execute(
        insert(session, BatchResult).values(
            batch_pk=batch.id,
            run_pk=batch.run_pk,
            step=batch.step,
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
    newest = select(func.max(BatchResult.batch_pk)).where(
        BatchResult.run_pk == batch.run_pk, BatchResult.step == batch.step
    )
    return session.scalar(newest) == batch.id


def newest_result(session: Session, run_pk: int, step: int | None = None) -> BatchResult | None:
    """Result of the batch that stands for `step`, or for the last scored step."""
    statement = select(BatchResult).where(BatchResult.run_pk == run_pk)
    if step is not None:
        statement = statement.where(BatchResult.step == step)
    return session.scalar(statement.order_by(BatchResult.step.desc(), BatchResult.batch_pk.desc()).limit(1))


def result_of(session: Session, batch_pk: int) -> BatchResult | None:
    """Result of one batch."""
    return session.scalar(select(BatchResult).where(BatchResult.batch_pk == batch_pk))
