"""Evaluations as rows: what was measured, and what the fold in step order made of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import case, select, update
from sqlalchemy.orm import Session, aliased

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_server.tables import Batch, BatchResult, EvaluationRow, Json


class Standing(NamedTuple):
    """Where a run stands: its newest evaluation, without the large fields."""

    run_pk: int
    scope: str
    step: int
    regime: str | None
    reason: str | None
    scorer: Json


class FoldInput(NamedTuple):
    """What the fold takes of one evaluation, and what it made of it last time."""

    evaluation_id: int
    step: int
    scorer: Json
    result: Json
    batch_metrics: Json
    fold_output: Json | None


def add(session: Session, batch: Batch, scope: str, scorer: Json, result: Json, *, current: bool) -> None:
    """Stores one evaluation; `current` says whether its batch stands for the step."""
    session.add(
        EvaluationRow(
            run_pk=batch.run_pk,
            batch_pk=batch.id,
            step=batch.step,
            scope=scope,
            current=current,
            scorer=scorer,
            result=result,
        )
    )
    session.flush()


def supersede(session: Session, batch: Batch) -> set[str]:
    """The scopes in which other batches stood for this batch's step; none of them does any more."""
    others = select(Batch.id).where(
        Batch.run_pk == batch.run_pk, Batch.step == batch.step, Batch.id != batch.id
    )
    statement = update(EvaluationRow).where(EvaluationRow.batch_pk.in_(others), EvaluationRow.current)
    return set(session.scalars(statement.values(current=False).returning(EvaluationRow.scope)))


def state_before(session: Session, run_pk: int, scope: str, step: int) -> Json | None:
    """Fold state after the last evaluation before `step`; none when there is no such evaluation."""
    statement = (
        select(EvaluationRow.fold_state)
        .where(
            EvaluationRow.run_pk == run_pk,
            EvaluationRow.scope == scope,
            EvaluationRow.step < step,
            EvaluationRow.current,
        )
        .order_by(EvaluationRow.step.desc())
        .limit(1)
    )
    return session.scalar(statement)


def to_fold(session: Session, run_pk: int, scope: str, from_step: int) -> list[FoldInput]:
    """The evaluations that stand for their steps, from `from_step` on, in step order."""
    statement = (
        select(
            EvaluationRow.id,
            EvaluationRow.step,
            EvaluationRow.scorer,
            EvaluationRow.result,
            BatchResult.metrics,
            EvaluationRow.fold_output,
        )
        .join(BatchResult, BatchResult.batch_pk == EvaluationRow.batch_pk)
        .where(
            EvaluationRow.run_pk == run_pk,
            EvaluationRow.scope == scope,
            EvaluationRow.step >= from_step,
            EvaluationRow.current,
        )
        .order_by(EvaluationRow.step)
    )
    return [FoldInput(*row) for row in session.execute(statement)]


def save_fold(session: Session, evaluation_id: int, state: Json, output: Json) -> None:
    """Stores what the fold made of an evaluation."""
    session.execute(
        update(EvaluationRow)
        .where(EvaluationRow.id == evaluation_id)
        .values(fold_state=state, fold_output=output, regime=output["regime"], reason=output["reason"])
    )


def of_step(session: Session, run_pk: int, scope: str, step: int) -> EvaluationRow | None:
    """The evaluation that stands for the step."""
    return session.scalar(
        select(EvaluationRow).where(
            EvaluationRow.run_pk == run_pk,
            EvaluationRow.scope == scope,
            EvaluationRow.step == step,
            EvaluationRow.current,
        )
    )


def newest(session: Session, run_pk: int, scope: str) -> EvaluationRow | None:
    """The scope's evaluation of the last step."""
    statement = select(EvaluationRow).where(
        EvaluationRow.run_pk == run_pk, EvaluationRow.scope == scope, EvaluationRow.current
    )
    return session.scalar(statement.order_by(EvaluationRow.step.desc()).limit(1))


def standings(session: Session, run_pks: Sequence[int]) -> dict[int, Standing]:
    """The newest evaluation of each run, of its first turns if there are any."""
    other = aliased(EvaluationRow)
    best = (
        select(other.id)
        .where(other.run_pk == EvaluationRow.run_pk, other.current)
        .order_by(case((other.scope == FIRST_TURN_SCOPE, 0), else_=1), other.step.desc(), other.id)
        .limit(1)
        .correlate(EvaluationRow)
        .scalar_subquery()
    )
    statement = select(
        EvaluationRow.run_pk,
        EvaluationRow.scope,
        EvaluationRow.step,
        EvaluationRow.regime,
        EvaluationRow.reason,
        EvaluationRow.scorer,
    ).where(EvaluationRow.run_pk.in_(run_pks), EvaluationRow.id == best)
    return {row.run_pk: Standing(*row) for row in session.execute(statement)}


def trajectory(session: Session, run_pk: int, scope: str, since_step: int) -> list[tuple[int, Json, Json]]:
    """Step, scorer and fold output of the evaluations from `since_step` on, in step order."""
    statement = (
        select(EvaluationRow.step, EvaluationRow.scorer, EvaluationRow.fold_output)
        .where(
            EvaluationRow.run_pk == run_pk,
            EvaluationRow.scope == scope,
            EvaluationRow.step >= since_step,
            EvaluationRow.current,
        )
        .order_by(EvaluationRow.step)
    )
    rows: list[Any] = list(session.execute(statement))
    return [(step, scorer, output) for step, scorer, output in rows if output is not None]
