"""Metric points as rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Select,
    and_,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.orm import Session, aliased

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.attempts import Segment
from collapsewatch_server.db import insert
from collapsewatch_server.tables import MetricPoint, Run

_KEY = ("run_pk", "scope", "metric", "step", "attempt_pk")


class Place(NamedTuple):
    """Where values belong."""

    run_pk: int
    scope: str
    step: int
    attempt_pk: int
    superseded: bool
    """Whether a later attempt replayed the step."""


class Scalar(NamedTuple):
    """One plain value that a trainer logged."""

    metric: str
    step: int
    value: float
    logged_at: float
    superseded: bool
    """Whether a later attempt replayed the step."""


class Point(NamedTuple):
    """One value of a series, with its interval where there is one."""

    step: int
    value: float
    low: float | None
    high: float | None


def put(session: Session, values_of: Mapping[Place, Mapping[str, MetricValue]]) -> None:
    """Stores values; a value that was there is replaced."""
    rows = [
        {
            **place._asdict(),
            "metric": metric,
            "value": value.value,
            "low": value.low,
            "high": value.high,
            "logged_at": 0.0,
        }
        for place, values in values_of.items()
        for metric, value in values.items()
    ]
    _put_rows(session, rows, keep_later=False)


def put_scalars(
    session: Session, run_pk: int, scope: str, attempt_pk: int, scalars: Iterable[Scalar]
) -> None:
    """Stores plain values of distinct (metric, step), unless the value that is there was logged later.

    Of two that were logged at the very same moment the larger stays, whichever comes first.
    """
    about = {"run_pk": run_pk, "scope": scope, "attempt_pk": attempt_pk, "low": None, "high": None}
    _put_rows(session, [{**about, **scalar._asdict()} for scalar in scalars], keep_later=True)


def replace(session: Session, place: Place, values: Mapping[str, MetricValue]) -> None:
    """Makes these the values of the place and removes all others."""
    remove(session, place)
    put(session, {place: values})


def remove(session: Session, place: Place, metrics: Iterable[str] | None = None) -> None:
    """Removes the values of the place, or those of the named metrics."""
    statement = delete(MetricPoint).where(
        MetricPoint.run_pk == place.run_pk,
        MetricPoint.scope == place.scope,
        MetricPoint.step == place.step,
        MetricPoint.attempt_pk == place.attempt_pk,
    )
    if metrics is not None:
        statement = statement.where(MetricPoint.metric.in_(list(metrics)))
    session.execute(statement)


def supersede(session: Session, run_pk: int, segment: Segment, *, superseded: bool) -> None:
    """Says of the attempt's values in these steps whether a later attempt replayed them."""
    statement = update(MetricPoint).where(
        MetricPoint.run_pk == run_pk,
        MetricPoint.attempt_pk == segment.attempt_pk,
        MetricPoint.step >= segment.from_step,
        MetricPoint.superseded.is_not(superseded),
    )
    if segment.until_step is not None:
        statement = statement.where(MetricPoint.step < segment.until_step)
    session.execute(statement.values(superseded=superseded))


def names(session: Session, run_pk: int, attempt_pk: int | None = None) -> dict[str, list[str]]:
    """Names of the metrics by scope, both sorted: of the run's own series, or of one attempt."""
    found: dict[str, list[str]] = {}
    rows = session.execute(_names(run_pk, attempt_pk))
    for scope, metric in sorted((scope, metric) for scope, metric in rows):
        found.setdefault(scope, []).append(metric)
    return found


def _names(run_pk: int, attempt_pk: int | None) -> Select[str, str]:
    # A few look-ups for each: a DISTINCT would walk through all points of the run, which may be millions.
    point = aliased(MetricPoint)
    of_run = point.run_pk == run_pk
    scope = select(func.min(point.scope).label("scope")).where(of_run).cte("scopes", recursive=True)
    next_scope = select(func.min(point.scope)).where(of_run, point.scope > scope.c.scope)
    scope = scope.union_all(select(next_scope.scalar_subquery()).where(scope.c.scope.is_not(None)))
    first = select(func.min(point.metric)).where(of_run, point.scope == scope.c.scope).scalar_subquery()
    start = select(scope.c.scope, first.label("metric")).where(scope.c.scope.is_not(None))
    name = start.cte("names", recursive=True)
    next_metric = select(func.min(point.metric)).where(
        of_run, point.scope == name.c.scope, point.metric > name.c.metric
    )
    after = select(name.c.scope, next_metric.scalar_subquery()).where(name.c.metric.is_not(None))
    name = name.union_all(after)
    shown = ~point.superseded if attempt_pk is None else point.attempt_pk == attempt_pk
    own = exists().where(of_run, point.scope == name.c.scope, point.metric == name.c.metric, shown)
    return select(name.c.scope, name.c.metric).where(name.c.metric.is_not(None), own)


def series(
    session: Session,
    run_pk: int,
    scope: str,
    metrics: Sequence[str],
    since_step: int,
    attempt_pk: int | None = None,
) -> dict[str, list[Point]]:
    """Points of each named metric in step order; of all the scope's metrics when none is named.

    They are the run's own, or those of one attempt, whether another has replayed them or not.
    """
    statement = (
        select(MetricPoint.metric, MetricPoint.step, MetricPoint.value, MetricPoint.low, MetricPoint.high)
        .where(MetricPoint.run_pk == run_pk, MetricPoint.scope == scope, MetricPoint.step >= since_step)
        .where(~MetricPoint.superseded if attempt_pk is None else MetricPoint.attempt_pk == attempt_pk)
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
            ~MetricPoint.superseded,
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


def _put_rows(session: Session, rows: list[dict[str, Any]], *, keep_later: bool) -> None:
    if not rows:
        return
    # Always in one order: on PostgreSQL two writers that lock the same rows in different orders deadlock.
    rows = sorted(rows, key=lambda row: tuple(row[name] for name in _KEY))
    # One statement for all rows and its values row by row: to compile the values of all into one statement
    # takes longer than to store them.
    statement = insert(session, MetricPoint.__table__)
    new = statement.excluded
    same_time = and_(new.logged_at == MetricPoint.logged_at, new.value > MetricPoint.value)
    statement = statement.on_conflict_do_update(
        index_elements=_KEY,
        set_={name: new[name] for name in ("value", "low", "high", "logged_at", "superseded")},
        where=or_(new.logged_at > MetricPoint.logged_at, same_time) if keep_later else None,
    )
    session.execute(statement, rows)
