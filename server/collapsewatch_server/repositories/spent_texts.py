"""Batches whose text is not to be kept any longer, and what else of their text lies in rows.

A batch without a blob key is one whose text was removed; its numbers are all there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, delete, exists, func, select, text, tuple_, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import now
from collapsewatch_server.tables import Batch, BatchResult, BatchTokens, EvaluationRow, JobRow, Json, Run

_DAY = 86_400.0
_WAITING = ("queued", "leased")


class SpentText(NamedTuple):
    """A batch whose text is due."""

    batch_pk: int
    created_at: float
    blob_key: str
    tokens_key: str | None
    """Where the log-probs of its tokens lie, which hold the reasoning's text as well."""


class Cursor(NamedTuple):
    """The batch to go on after, by when it was accepted; at first before all of them."""

    created_at: float = 0.0
    batch_pk: int = 0


class TextInRows(NamedTuple):
    """What of a batch's text stands in rows, without that text."""

    evidence: dict[int, Json]
    """Of each batch what its reasonings share, without the phrases."""
    results: dict[int, Json]
    """Of each evaluation its result, without the starts of the prompts."""


def runs_with_due(session: Session, project_id: int, days: float) -> list[int]:
    """Row ids of the project's runs that have text to be removed, the first one first."""
    due = select(Batch.id).where(Batch.run_pk == Run.id, *_due(days))
    statement = select(Run.id).where(Run.project_id == project_id, Run.deleted_at.is_(None), exists(due))
    return list(session.scalars(statement.order_by(Run.id)))


def due(session: Session, run_pk: int, days: float, *, after: Cursor, limit: int) -> list[SpentText]:
    """Some of the run's batches whose text is due, the oldest first."""
    statement = (
        select(Batch.id, Batch.created_at, Batch.blob_key, BatchTokens.blob_key)
        .outerjoin(BatchTokens, BatchTokens.batch_pk == Batch.id)
        .where(Batch.run_pk == run_pk, tuple_(Batch.created_at, Batch.id) > after, *_due(days))
        .order_by(Batch.created_at, Batch.id)
        .limit(limit)
    )
    rows: Any = session.execute(statement)
    return [SpentText(*row) for row in rows]


def num_due(session: Session, project_id: int, *, days: float, limit: int) -> int:
    """How many of the project's batches have text that is due; no more than `limit` are counted."""
    runs = select(Run.id).where(Run.project_id == project_id, Run.deleted_at.is_(None))
    found = select(Batch.id).where(Batch.run_pk.in_(runs), *_due(days)).limit(limit).subquery()
    return session.execute(select(func.count()).select_from(found)).scalar_one()


def text_in_rows(session: Session, batch_pks: Sequence[int]) -> TextInRows:
    """What has to be written instead of rows that hold text of these batches."""
    evidence = session.execute(
        select(BatchResult.batch_pk, BatchResult.template_evidence).where(
            BatchResult.batch_pk.in_(batch_pks), BatchResult.template_evidence.is_not(None)
        )
    )
    results = session.execute(
        select(EvaluationRow.id, EvaluationRow.result).where(EvaluationRow.batch_pk.in_(batch_pks))
    )
    return TextInRows(
        {
            pk: {**found, "phrases": [], "phrases_removed": True}
            for pk, found in evidence
            if found and found.get("phrases")
        },
        {pk: _without_previews(found) for pk, found in results if _has_previews(found)},
    )


def remove(session: Session, batch_pks: Sequence[int], instead: TextInRows) -> int:
    """How many of the batches had their text until now; the rows know of none any more."""
    for batch_pk, evidence in instead.evidence.items():
        statement = update(BatchResult).where(BatchResult.batch_pk == batch_pk)
        session.execute(statement.values(template_evidence=evidence))
    for evaluation_pk, result in instead.results.items():
        session.execute(update(EvaluationRow).where(EvaluationRow.id == evaluation_pk).values(result=result))
    session.execute(delete(BatchTokens).where(BatchTokens.batch_pk.in_(batch_pks)))
    removed = update(Batch).where(Batch.id.in_(batch_pks), Batch.blob_key != "")
    return len(session.execute(removed.values(blob_key="").returning(Batch.id)).all())


def removed_step(session: Session, job_id: int, run_pk: int) -> int | None:
    """Step of the run's job when its text was removed; none when it is there, or there is no such job."""
    statement = select(Batch.step).join(JobRow, JobRow.batch_pk == Batch.id)
    return session.scalar(statement.where(JobRow.id == job_id, JobRow.run_pk == run_pk, Batch.blob_key == ""))


def _due(days: float) -> tuple[ColumnElement[bool], ...]:
    # What waits for its other shards has no job yet.
    waits = select(JobRow.id).where(JobRow.id == Batch.job_pk, JobRow.status.in_(_WAITING))
    return (
        # As the index says it, which SQLite takes for nothing but the same words.
        text("batches.blob_key <> ''"),  # type: ignore[return-value]
        Batch.created_at < now() - days * _DAY,
        Batch.job_pk.is_not(None),
        ~exists(waits),
    )


def _has_previews(result: Json) -> bool:
    return any(prompt.get("preview") for prompt in result.get("prompts", []))


def _without_previews(result: Json) -> Json:
    return {**result, "prompts": [{**prompt, "preview": ""} for prompt in result["prompts"]]}
