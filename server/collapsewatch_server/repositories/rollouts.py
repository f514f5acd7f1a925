"""Where the rollouts of a run's steps lie: the batches that stand for them, as rows.

A lineage says which attempt counts at which step: the run's own, or one attempt from step 0 on.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, case, false, func, or_, select
from sqlalchemy.orm import Session

from collapsewatch_server.attempts import Segment
from collapsewatch_server.db import insert
from collapsewatch_server.tables import Batch, BatchResult, BatchTokens, Json


class Part(NamedTuple):
    """One accepted batch, or one shard of it, as far as its rollouts are to be found."""

    pk: int
    step: int
    attempt_pk: int | None
    batch_id: str
    logged_at: float
    shard_index: int
    num_shards: int
    blob_key: str
    num_rollouts: int
    policy_version: str | None


class Steps(NamedTuple):
    """The steps around one that have rollouts."""

    first: int | None
    previous: int | None
    next: int | None
    last: int | None


class Told(NamedTuple):
    """What a worker said of a step."""

    batch_pk: int
    scorer: Json
    template_evidence: Json | None
    absent: Json
    tokens_key: str | None
    """Where the log-probs of single tokens lie."""


def of_step(session: Session, run_pk: int, lineage: Sequence[Segment], step: int) -> list[Part]:
    """The parts of the batch that stands for the step, in their order; none when it has no batch."""
    return of_steps(session, run_pk, lineage, [step]).get(step, [])


def of_steps(
    session: Session, run_pk: int, lineage: Sequence[Segment], steps: Sequence[int]
) -> dict[int, list[Part]]:
    """The same for several steps."""
    statement = (
        select(
            Batch.id,
            Batch.step,
            Batch.attempt_pk,
            Batch.batch_id,
            Batch.logged_at,
            Batch.shard_index,
            Batch.num_shards,
            Batch.blob_key,
            Batch.num_rollouts,
            Batch.policy_version,
        )
        .where(*_shown(run_pk, lineage), Batch.step.in_(steps))
        .order_by(Batch.step)
    )
    rows: list[Any] = list(session.execute(statement))
    parts = [Part(*row) for row in rows]
    return {step: _standing(found) for step, found in groupby(parts, key=lambda part: part.step)}


def around(session: Session, run_pk: int, lineage: Sequence[Segment], step: int) -> Steps:
    """First, previous, next and last step that have rollouts."""
    shown = _shown(run_pk, lineage)
    return Steps(
        session.scalar(select(func.min(Batch.step)).where(*shown)),
        session.scalar(select(func.max(Batch.step)).where(*shown, Batch.step < step)),
        session.scalar(select(func.min(Batch.step)).where(*shown, Batch.step > step)),
        last_step(session, run_pk, lineage),
    )


def last_step(session: Session, run_pk: int, lineage: Sequence[Segment]) -> int | None:
    """The last step that has rollouts."""
    return session.scalar(select(func.max(Batch.step)).where(*_shown(run_pk, lineage)))


def steps_down(
    session: Session, run_pk: int, lineage: Sequence[Segment], from_step: int, limit: int
) -> list[int]:
    """The first steps from `from_step` down that have rollouts, the last first."""
    statement = select(Batch.step).where(*_shown(run_pk, lineage), Batch.step <= from_step).distinct()
    return list(session.scalars(statement.order_by(Batch.step.desc()).limit(limit)))


def spread_steps(session: Session, run_pk: int, lineage: Sequence[Segment], most: int) -> list[int]:
    """At most `most` steps that have rollouts, evenly spread over the run, the first and the last of all."""
    distinct = select(Batch.step).where(*_shown(run_pk, lineage)).distinct().subquery()
    numbered = select(
        distinct.c.step,
        func.row_number().over(order_by=distinct.c.step).label("position"),
        func.count().over().label("total"),
    ).subquery()
    # The smallest stride with which the last step, which it may not meet, still has its place.
    stride = case((numbered.c.total > 1, (numbered.c.total + (most - 3)) // (most - 1)), else_=1)
    chosen = or_((numbered.c.position - 1) % stride == 0, numbered.c.position == numbered.c.total)
    return list(session.scalars(select(numbered.c.step).where(chosen).order_by(numbered.c.step)))


def told_of(session: Session, parts: Iterable[Part]) -> Told | None:
    """What was found out about the batch of these parts; none before it was scored."""
    statement = (
        select(
            BatchResult.batch_pk,
            BatchResult.scorer,
            BatchResult.template_evidence,
            BatchResult.absent,
            BatchTokens.blob_key,
        )
        .outerjoin(BatchTokens, BatchTokens.batch_pk == BatchResult.batch_pk)
        .where(BatchResult.batch_pk.in_([part.pk for part in parts]))
    )
    row = session.execute(statement).first()
    return None if row is None else Told(*row)


def set_tokens_key(session: Session, batch: Batch, blob_key: str) -> None:
    """Notes where the log-probs of the batch's single tokens lie."""
    statement = insert(session, BatchTokens).values(batch_pk=batch.id, run_pk=batch.run_pk, blob_key=blob_key)
    session.execute(statement.on_conflict_do_update(index_elements=["batch_pk"], set_={"blob_key": blob_key}))


def _standing(parts: Iterable[Part]) -> list[Part]:
    """Of the batches of one step in one attempt the one logged last, with the shards that belong to it."""
    in_order = sorted(parts, key=lambda part: (part.logged_at, part.batch_id))
    newest = in_order[-1]
    if newest.num_shards == 1:
        return [newest]
    by_index = {part.shard_index: part for part in in_order if part.num_shards == newest.num_shards}
    return [by_index[index] for index in sorted(by_index)]


def _shown(run_pk: int, lineage: Sequence[Segment]) -> list[ColumnElement[bool]]:
    owned = [
        and_(
            Batch.attempt_pk == segment.attempt_pk,
            Batch.step >= segment.from_step,
            *([] if segment.until_step is None else [Batch.step < segment.until_step]),
        )
        for segment in lineage
    ]
    return [Batch.run_pk == run_pk, or_(*owned) if owned else false()]
