"""Metric points as rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import delete, func, literal, select, union_all
from sqlalchemy.orm import Session

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.db import insert
from collapsewatch_server.tables import MetricPoint, Run

# SQLite takes 32,766 parameters a statement, PostgreSQL 65,535; a row has seven.
_ROWS_PER_STATEMENT = 4000


class Point(NamedTuple):
    """One value of a series, with its interval where there is one."""

    step: int
    value: float
    low: float | None
    high: float | None


def put(session: Session, run_pk: int, scope: str, step: int, values: Mapping[str, MetricValue]) -> None:
    """Stores the step's values; a value that was there is replaced."""
    put_rows(
        session,
        [
            {"run_pk": run_pk, "scope": scope, "metric": metric, "step": step, **_columns(value)}
            for metric, value in values.items()
        ],
    )


def put_scalars(session: Session, run_pk: int, scope: str, points: Mapping[tuple[str, int], float]) -> None:
    """Stores plain values by (metric, step); a value that was there is replaced."""
    rows = [
        {
            "run_pk": run_pk,
            "scope": scope,
            "metric": metric,
            "step": step,
            "value": value,
            "low": None,
            "high": None,
        }
        for (metric, step), value in points.items()
    ]
    put_rows(session, rows)


def put_rows(session: Session, rows: Sequence[Mapping[str, object]]) -> None:
    """Upserts rows of distinct keys."""
    # Always in one order: on PostgreSQL two writers that lock the same rows in different orders deadlock.
    rows = sorted(rows, key=lambda row: (row["run_pk"], row["scope"], row["metric"], row["step"]))
    for start in range(0, len(rows), _ROWS_PER_STATEMENT):
        statement = insert(session, MetricPoint).values(rows[start : start + _ROWS_PER_STATEMENT])
        new = statement.excluded
        session.execute(
            statement.on_conflict_do_update(
                index_elements=["run_pk", "scope", "metric", "step", "attempt_pk"],
                set_={"value": new.value, "low": new.low, "high": new.high},
            )
        )


def replace(session: Session, run_pk: int, scope: str, step: int, values: Mapping[str, MetricValue]) -> None:
    """Makes these the step's values and removes all others."""
    remove(session, run_pk, scope, step)
    put(session, run_pk, scope, step, values)


def remove(
    session: Session, run_pk: int, scope: str, step: int, metrics: Iterable[str] | None = None
) -> None:
    """Removes the step's values, or those of the named metrics."""
    statement = delete(MetricPoint).where(
        MetricPoint.run_pk == run_pk, MetricPoint.scope == scope, MetricPoint.step == step
    )
    if metrics is not None:
        statement = statement.where(MetricPoint.metric.in_(list(metrics)))
    session.execute(statement)


def names(session: Session, run_pk: int) -> dict[str, list[str]]:
    """Names of the run's metrics by scope, both sorted."""
    statement = (
        select(MetricPoint.scope, MetricPoint.metric)
        .where(MetricPoint.run_pk == run_pk)
        .distinct()
        .order_by(MetricPoint.scope, MetricPoint.metric)
    )
    found: dict[str, list[str]] = {}
    for scope, metric in session.execute(statement):
        found.setdefault(scope, []).append(metric)
    return found


def series(
    session: Session, run_pk: int, scope: str, metrics: Sequence[str], since_step: int
) -> dict[str, list[Point]]:
    """Points of each named metric in step order; of all the scope's metrics when none is named."""
    statement = (
        select(MetricPoint.metric, MetricPoint.step, MetricPoint.value, MetricPoint.low, MetricPoint.high)
        .where(MetricPoint.run_pk == run_pk, MetricPoint.scope == scope, MetricPoint.step >= since_step)
        .order_by(MetricPoint.metric, MetricPoint.step)
    )
    if metrics:
        statement = statement.where(MetricPoint.metric.in_(metrics))
    found: dict[str, list[Point]] = {metric: [] for metric in metrics}
    for metric, step, value, low, high in session.execute(statement):
        found.setdefault(metric, []).append(Point(step, value, low, high))
    return found


def latest(
    session: Session, run_pks: Sequence[int], wanted: Sequence[tuple[str, str]]
) -> dict[int, dict[str, float]]:
    """Newest value of each wanted (scope, metric) of each run; a look-up each, not a scan."""
    pairs = union_all(
        *(select(literal(scope).label("scope"), literal(metric).label("metric")) for scope, metric in wanted)
    ).subquery()
    newest = (
        select(MetricPoint.value)
        .where(
            MetricPoint.run_pk == Run.id,
            MetricPoint.scope == pairs.c.scope,
            MetricPoint.metric == pairs.c.metric,
        )
        .order_by(MetricPoint.step.desc())
        .limit(1)
        .correlate(Run, pairs)
        .scalar_subquery()
    )
    statement = select(Run.id, pairs.c.metric, newest).select_from(Run).join(pairs, literal(True))
    found: dict[int, dict[str, float]] = {run_pk: {} for run_pk in run_pks}
    for run_pk, metric, value in session.execute(statement.where(Run.id.in_(run_pks))):
        if value is not None:
            found[run_pk].setdefault(metric, value)
    return found


def sparklines(
    session: Session, run_pks: Sequence[int], scope: str, metric: str, max_points: int
) -> dict[int, list[tuple[int, float]]]:
    """Evenly taken points of one metric of each run, its newest among them, in step order."""
    from_newest = func.row_number().over(partition_by=MetricPoint.run_pk, order_by=MetricPoint.step.desc())
    total = func.count().over(partition_by=MetricPoint.run_pk)
    numbered = (
        select(
            MetricPoint.run_pk,
            MetricPoint.step,
            MetricPoint.value,
            from_newest.label("position"),
            total.label("total"),
        )
        .where(MetricPoint.run_pk.in_(run_pks), MetricPoint.scope == scope, MetricPoint.metric == metric)
        .subquery()
    )
    stride = (numbered.c.total + (max_points - 1)) // max_points
    statement = (
        select(numbered.c.run_pk, numbered.c.step, numbered.c.value)
        .where((numbered.c.position - 1) % stride == 0)
        .order_by(numbered.c.run_pk, numbered.c.step)
    )
    found: dict[int, list[tuple[int, float]]] = {run_pk: [] for run_pk in run_pks}
    for run_pk, step, value in session.execute(statement):
        found[run_pk].append((step, value))
    return found


def _columns(value: MetricValue) -> dict[str, float | None]:
    return {"value": value.value, "low": value.low, "high": value.high}
