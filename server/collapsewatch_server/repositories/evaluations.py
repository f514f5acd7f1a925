"""Evaluations as rows: what was measured, and what the fold in step order made of it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Select, Table, bindparam, func, select, update
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_server.attempts import Segment
from collapsewatch_server.tables import Batch, BatchResult, EvaluationRow, Json, Run

NOT_FOLDED: Json = {
    "fold_state": None,
    "fold_output": None,
    "alert_moves": None,
    "regime": None,
    "reason": None,
}
"""What a fold fills, of an evaluation that no fold has reached."""

# Every worker says what it scored. What was imported may say nothing at all, in 100,000 evaluations.
_LOOK_BACK = 100


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
    superseded: bool
    scorer: Json
    result: Json
    batch_metrics: Json
    fold_output: Json | None
    alert_moves: list[Json] | None


class AlertMoves(NamedTuple):
    """What the alert rules said at one step of one attempt."""

    attempt_pk: int
    step: int
    moves: list[Json]


def add(
    session: Session,
    batch: Batch,
    scope: str,
    scorer: Json,
    result: Json,
    *,
    sampling: Json | None,
    current: bool,
    superseded: bool,
) -> None:
    """Stores one evaluation; `current` says whether its batch stands for the step in its attempt."""
    session.add(
        EvaluationRow(
            run_pk=batch.run_pk,
            attempt_pk=batch.attempt_pk,
            batch_pk=batch.id,
            step=batch.step,
            scope=scope,
            current=current,
            superseded=superseded,
            scorer=scorer,
            sampling=sampling,
            result=result,
        )
    )
    session.flush()


def stand_down(session: Session, batch: Batch) -> set[str]:
    """The scopes in which other batches stood for this batch's step; none of them does any more."""
    statement = update(EvaluationRow).where(
        EvaluationRow.run_pk == batch.run_pk,
        EvaluationRow.attempt_pk == batch.attempt_pk,
        EvaluationRow.step == batch.step,
        EvaluationRow.batch_pk != batch.id,
        EvaluationRow.current,
    )
    statement = statement.values(current=False, **NOT_FOLDED)
    return set(session.scalars(statement.returning(EvaluationRow.scope)))


def supersede(session: Session, run_pk: int, segment: Segment, *, superseded: bool) -> None:
    """Says of the attempt's evaluations in these steps whether a later attempt replayed them."""
    statement = update(EvaluationRow).where(
        EvaluationRow.run_pk == run_pk,
        EvaluationRow.attempt_pk == segment.attempt_pk,
        EvaluationRow.step >= segment.from_step,
        EvaluationRow.superseded.is_not(superseded),
    )
    if segment.until_step is not None:
        statement = statement.where(EvaluationRow.step < segment.until_step)
    session.execute(statement.values(superseded=superseded))


def scopes(session: Session, run_pk: int) -> list[str]:
    """The scopes in which anything of the run was evaluated."""
    statement = select(EvaluationRow.scope).where(EvaluationRow.run_pk == run_pk).distinct()
    return list(session.scalars(statement.order_by(EvaluationRow.scope)))


def state_before(session: Session, run_pk: int, scope: str, lineage: Iterable[Segment]) -> Json | None:
    """Fold state after the lineage's last evaluation that was folded; none without one.

    The lineage is handed in backwards.
    """
    for segment in lineage:
        statement = select(EvaluationRow.fold_state).where(
            *_current(run_pk, scope, segment.attempt_pk),
            EvaluationRow.step >= segment.from_step,
            EvaluationRow.fold_state.is_not(None),
        )
        if segment.until_step is not None:
            statement = statement.where(EvaluationRow.step < segment.until_step)
        row = session.execute(statement.order_by(EvaluationRow.step.desc()).limit(1)).first()
        if row is not None:
            return row[0]
    return None


def to_fold(
    session: Session, run_pk: int, scope: str, attempt_pk: int, from_step: int, limit: int
) -> list[FoldInput]:
    """The first evaluations of the attempt that stand for their steps, from `from_step` on, in step order."""
    statement = (
        select(
            EvaluationRow.id,
            EvaluationRow.step,
            EvaluationRow.superseded,
            EvaluationRow.scorer,
            EvaluationRow.result,
            BatchResult.metrics,
            EvaluationRow.fold_output,
            EvaluationRow.alert_moves,
        )
        .join(BatchResult, BatchResult.batch_pk == EvaluationRow.batch_pk)
        .where(*_current(run_pk, scope, attempt_pk), EvaluationRow.step >= from_step)
        .order_by(EvaluationRow.step)
        .limit(limit)
    )
    return [FoldInput(*row) for row in session.execute(statement)]


def num_from(session: Session, run_pk: int, scope: str, attempt_pk: int, from_step: int, limit: int) -> int:
    """How many evaluations `to_fold` would give, at most `limit`."""
    found = select(EvaluationRow.id).where(
        *_current(run_pk, scope, attempt_pk), EvaluationRow.step >= from_step
    )
    return session.execute(select(func.count()).select_from(found.limit(limit).subquery())).scalar_one()


def save_folds(session: Session, folds: Sequence[Json]) -> None:
    """Stores what the fold made of evaluations: `row_id`, and the columns that it fills."""
    if folds:
        table = EvaluationRow.__table__
        columns: Json = {name: bindparam(name) for name in folds[0] if name != "row_id"}
        statement = update(cast(Table, table)).where(table.c.id == bindparam("row_id")).values(columns)
        session.execute(statement, folds)


def folded_before(
    session: Session, run_pk: int, scope: str, attempt_pk: int, step: int
) -> list[tuple[int, int, bool, Json]]:
    """Id, step, whether superseded, and fold output of the attempt's evaluations before `step`."""
    statement = select(
        EvaluationRow.id, EvaluationRow.step, EvaluationRow.superseded, EvaluationRow.fold_output
    ).where(*_current(run_pk, scope, attempt_pk), EvaluationRow.step < step)
    rows: list[Any] = list(session.execute(statement.where(EvaluationRow.fold_output.is_not(None))))
    return [(row_id, at, superseded, output) for row_id, at, superseded, output in rows]


def alert_moves(session: Session, run_pk: int, scope: str) -> list[AlertMoves]:
    """All that the alert rules said in any attempt, in step order."""
    statement = (
        select(EvaluationRow.attempt_pk, EvaluationRow.step, EvaluationRow.alert_moves)
        .where(
            EvaluationRow.run_pk == run_pk,
            EvaluationRow.scope == scope,
            EvaluationRow.alert_moves.is_not(None),
        )
        .order_by(EvaluationRow.step)
    )
    rows: list[Any] = list(session.execute(statement))
    return [AlertMoves(*row) for row in rows]


def of_step(
    session: Session, run_pk: int, scope: str, step: int, attempt_pk: int | None = None
) -> EvaluationRow | None:
    """The evaluation that stands for the step: in the run's own series, or in one attempt."""
    statement = select(EvaluationRow).where(*_shown(run_pk, scope, attempt_pk), EvaluationRow.step == step)
    return session.scalar(statement)


def newest(session: Session, run_pk: int, scope: str, attempt_pk: int | None = None) -> EvaluationRow | None:
    """The scope's evaluation of the last step: of the run's own series, or of one attempt."""
    statement = select(EvaluationRow).where(*_shown(run_pk, scope, attempt_pk))
    return session.scalar(statement.order_by(EvaluationRow.step.desc()).limit(1))


def last_step(session: Session, run_pk: int, scope: str) -> int | None:
    """The last step of the run's own series that was scored in the scope."""
    statement = select(func.max(EvaluationRow.step)).where(*_shown(run_pk, scope, None))
    return session.scalar(statement)


def standings(session: Session, run_pks: Sequence[int]) -> dict[int, Standing]:
    """The newest evaluation of each run, of its first turns if there are any."""
    # Asked of each run, not of each evaluation: by the index it reads one row of the scope, however many
    # there are. Only a run without first turns has its evaluations sorted.
    newest_of_runs = (
        select(func.coalesce(_newest_id(EvaluationRow.scope == FIRST_TURN_SCOPE), _newest_id()).label("id"))
        .where(Run.id.in_(run_pks))
        .cte("newest")
    )
    statement = select(
        EvaluationRow.run_pk,
        EvaluationRow.scope,
        EvaluationRow.step,
        EvaluationRow.regime,
        EvaluationRow.reason,
        EvaluationRow.scorer,
    ).join(newest_of_runs, newest_of_runs.c.id == EvaluationRow.id)
    return {row.run_pk: Standing(*row) for row in session.execute(statement)}


def _newest_id(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
    """Id of the newest evaluation of the run, correlated with it."""
    statement = select(EvaluationRow.id).where(
        EvaluationRow.run_pk == Run.id,
        EvaluationRow.current,
        ~EvaluationRow.superseded,
        *conditions,
    )
    statement = statement.order_by(EvaluationRow.step.desc(), EvaluationRow.id).limit(1)
    return statement.correlate(Run).scalar_subquery()


def samplings(session: Session, run_pk: int, scopes: Iterable[str]) -> dict[str, Json]:
    """What part of each scope was scored, by its newest evaluation that says so.

    Where none does, only the newest few are looked at: there may be very many.
    """
    found: dict[str, Json] = {}
    for scope in scopes:
        newest_first = (
            select(EvaluationRow.step, EvaluationRow.sampling)
            .where(*_shown(run_pk, scope, None))
            .order_by(EvaluationRow.step.desc())
            .limit(_LOOK_BACK)
            .subquery()
        )
        told = select(newest_first.c.sampling).where(newest_first.c.sampling.is_not(None))
        sampling = session.scalar(told.order_by(newest_first.c.step.desc()).limit(1))
        if sampling is not None:
            found[scope] = sampling
    return found


TrajectoryRow = tuple[int, Json, Json]
"""Step, scorer and fold output of one evaluation."""


def trajectory(
    session: Session,
    run_pk: int,
    scope: str,
    since_step: int,
    attempt_pk: int | None = None,
    *,
    until_step: int | None = None,
) -> list[TrajectoryRow]:
    """The evaluations from `since_step` on, up to `until_step` and with it, in step order.

    They are the run's own, or those of one attempt, whether another has replayed them or not.
    """
    statement = _trajectory(run_pk, scope, attempt_pk).where(EvaluationRow.step >= since_step)
    if until_step is not None:
        statement = statement.where(EvaluationRow.step <= until_step)
    return _folded(session, statement)


def trajectory_at(
    session: Session, run_pk: int, scope: str, steps: Sequence[int], attempt_pk: int | None = None
) -> list[TrajectoryRow]:
    """The same of these steps."""
    found: list[TrajectoryRow] = []
    for start in range(0, len(steps), _STEPS_AT_ONCE):
        some = EvaluationRow.step.in_(steps[start : start + _STEPS_AT_ONCE])
        found += _folded(session, _trajectory(run_pk, scope, attempt_pk).where(some))
    return found


_STEPS_AT_ONCE = 1000
"""Every database takes so many parameters."""


def _trajectory(
    run_pk: int, scope: str, attempt_pk: int | None
) -> Select[int, dict[str, Any], dict[str, Any] | None]:
    columns = (EvaluationRow.step, EvaluationRow.scorer, EvaluationRow.fold_output)
    return select(*columns).where(*_shown(run_pk, scope, attempt_pk)).order_by(EvaluationRow.step)


def _folded(session: Session, statement: Select[Any, Any, Any]) -> list[TrajectoryRow]:
    rows: list[Any] = list(session.execute(statement))
    return [(step, scorer, output) for step, scorer, output in rows if output is not None]


def _current(run_pk: int, scope: str, attempt_pk: int) -> list[ColumnElement[bool]]:
    return [
        EvaluationRow.run_pk == run_pk,
        EvaluationRow.scope == scope,
        EvaluationRow.attempt_pk == attempt_pk,
        EvaluationRow.current.is_(True),
    ]


def _shown(run_pk: int, scope: str, attempt_pk: int | None) -> list[ColumnElement[bool]]:
    if attempt_pk is not None:
        return _current(run_pk, scope, attempt_pk)
    return [
        EvaluationRow.run_pk == run_pk,
        EvaluationRow.scope == scope,
        EvaluationRow.current.is_(True),
        EvaluationRow.superseded.is_(False),
    ]
