"""Series of several runs at once, cut down by the database: what a comparison draws never leaves it whole.

To send 20 runs of 10,000 steps through the driver takes seconds. Each stretch of steps asks the clustered
index for its smallest and largest value instead, and only those rows come back.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    CTE,
    ColumnElement,
    case,
    func,
    literal,
    literal_column,
    null,
    select,
    union,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from collapsewatch_server.repositories import stretches
from collapsewatch_server.repositories.stretches import Rows, Window
from collapsewatch_server.tables import Batch, MetricPoint, Run


class CurvePoint(NamedTuple):
    """One value of one run."""

    run_pk: int
    metric: str
    step: int
    value: float
    low: float | None
    high: float | None


class StretchValue(NamedTuple):
    """What one stretch of a run's series comes to."""

    run_pk: int
    metric: str
    stretch: int
    """Its number, from 0."""
    value: float


def spans(
    session: Session, run_pks: Sequence[int], scope: str, metrics: Sequence[str]
) -> dict[int, tuple[int, int]]:
    """First and last step of each run over the metrics; runs without any of them are left out."""
    pair = stretches.pairs(run_pks, metrics)

    def end(order: ColumnElement[Any]) -> Any:
        point = select(MetricPoint.step).where(
            MetricPoint.run_pk == pair.c.run_pk,
            MetricPoint.scope == scope,
            MetricPoint.metric == pair.c.metric,
            ~MetricPoint.superseded,
        )
        return point.order_by(order).limit(1).correlate(pair).scalar_subquery()

    statement = select(pair.c.run_pk, end(MetricPoint.step.asc()), end(MetricPoint.step.desc()))
    found: dict[int, tuple[int, int]] = {}
    for run_pk, first, last in session.execute(statement):
        if first is not None:
            low, high = found.get(run_pk, (first, last))
            found[run_pk] = (min(low, first), max(high, last))
    return found


def drawn(
    session: Session,
    windows: Sequence[Window],
    scope: str,
    metrics: Sequence[str],
    *,
    with_limits: bool = True,
) -> list[CurvePoint]:
    """What has to be drawn of each series, in order.

    Every point where a stretch is one step; else the smallest and the largest value of each stretch, and the
    first and the last point of the window.

    Args:
        with_limits: whether intervals are wanted; without them they are None.
    """
    whole = [window for window in windows if window.width == 1]
    cut = [window for window in windows if window.width > 1]
    points: list[CurvePoint] = []
    if whole and metrics:
        points += _every_point(session, whole, scope, metrics, with_limits)
    if cut and metrics:
        statement = _extremes(cut, scope, metrics, with_limits)
        points += map(CurvePoint._make, session.execute(statement))
    return sorted(points)


def stretch_means(
    session: Session, windows: Sequence[Window], scope: str, metrics: Sequence[str]
) -> list[StretchValue]:
    """Mean of each stretch that holds a value, in order."""
    return _of_stretches(session, windows, scope, metrics, func.avg(MetricPoint.value))


def stretch_sums(
    session: Session, windows: Sequence[Window], scope: str, metrics: Sequence[str]
) -> list[StretchValue]:
    """Sum of each stretch that holds a value, in order."""
    return _of_stretches(session, windows, scope, metrics, func.sum(MetricPoint.value))


def newest(
    session: Session, run_pks: Sequence[int], wanted: Sequence[tuple[str, str]], limit: int
) -> dict[tuple[int, str, str], list[CurvePoint]]:
    """The newest points of each wanted (scope, metric) of each run, at most `limit`, in step order."""
    if not wanted or not run_pks:
        return {}
    pair = union_all(
        *(select(literal(scope).label("scope"), literal(metric).label("metric")) for scope, metric in wanted)
    ).subquery()
    first, next_one = aliased(MetricPoint), aliased(MetricPoint)
    last_step = select(func.max(first.step)).where(
        first.run_pk == Run.id,
        first.scope == pair.c.scope,
        first.metric == pair.c.metric,
        ~first.superseded,
    )
    # From step to step: a condition on the tenth step from the end would have all points read.
    point = (
        select(
            Run.id.label("run_pk"),
            pair.c.scope,
            pair.c.metric,
            last_step.correlate(Run, pair).scalar_subquery().label("step"),
            literal_column("1").label("number"),
        )
        .select_from(Run)
        .join(pair, literal(True))
        .where(Run.id.in_(run_pks))
        .cte("newest", recursive=True)
    )
    before = select(func.max(next_one.step)).where(
        next_one.run_pk == point.c.run_pk,
        next_one.scope == point.c.scope,
        next_one.metric == point.c.metric,
        next_one.step < point.c.step,
        ~next_one.superseded,
    )
    point = point.union_all(
        select(
            point.c.run_pk, point.c.scope, point.c.metric, before.scalar_subquery(), point.c.number + 1
        ).where(point.c.number < limit, point.c.step.is_not(None))
    )
    found: dict[tuple[int, str, str], list[CurvePoint]] = {}
    statement = _looked_up(point, point.c.scope).add_columns(point.c.scope)
    for *fields, scope in session.execute(statement):
        one = CurvePoint._make(fields)
        found.setdefault((one.run_pk, scope, one.metric), []).append(one)
    return {key: sorted(points) for key, points in found.items()}


def logged_times(session: Session, windows: Sequence[Window]) -> dict[int, list[tuple[int, float]]]:
    """Step and time of the last batch of each stretch of each run, in step order."""
    if not windows:
        return {}
    window, number, begin = _all_stretches(windows)
    last = select(func.max(Batch.step)).where(
        Batch.run_pk == window.c.run_pk, Batch.step >= begin, Batch.step < begin + window.c.width
    )
    knot = _knots(window, number, begin, last)
    # A client that does not say when it logged a batch is taken to have sent it at once.
    logged_at = case((Batch.logged_at > 0, Batch.logged_at), else_=Batch.created_at)
    time = select(func.max(logged_at)).where(Batch.run_pk == knot.c.run_pk, Batch.step == knot.c.step)
    return _times(session, knot, time)


def scalar_times(
    session: Session, windows: Sequence[Window], scope: str, metric: str
) -> dict[int, list[tuple[int, float]]]:
    """Step and time of the last point of each stretch of one of the trainer's own series, in step order."""
    if not windows:
        return {}
    window, number, begin = _all_stretches(windows)
    last = select(func.max(MetricPoint.step)).where(
        *stretches.in_stretch(window, begin, scope, literal(metric)), MetricPoint.logged_at > 0
    )
    knot = _knots(window, number, begin, last)
    time = select(func.max(MetricPoint.logged_at)).where(
        MetricPoint.run_pk == knot.c.run_pk,
        MetricPoint.scope == scope,
        MetricPoint.metric == metric,
        MetricPoint.step == knot.c.step,
        ~MetricPoint.superseded,
    )
    return _times(session, knot, time)


def _all_stretches(windows: Sequence[Window]) -> tuple[CTE, CTE, ColumnElement[Any]]:
    window, number = stretches.as_table(windows), stretches.numbers(windows)
    return window, number, window.c.from_step + number.c.i * window.c.width


def _knots(window: CTE, number: CTE, begin: ColumnElement[Any], last: Rows) -> CTE:
    """The last step of each stretch that has one."""
    return (
        select(window.c.run_pk, last.correlate(window, number).scalar_subquery().label("step"))
        .select_from(window)
        .join(number, begin <= window.c.until_step)
        .cte("knots")
    )


def _times(session: Session, knot: CTE, time: Rows) -> dict[int, list[tuple[int, float]]]:
    statement = select(knot.c.run_pk, knot.c.step, time.correlate(knot).scalar_subquery())
    found: dict[int, list[tuple[int, float]]] = {}
    for run_pk, step, at in sorted(map(tuple, session.execute(statement.where(knot.c.step.is_not(None))))):
        found.setdefault(run_pk, []).append((step, at))
    return found


def _every_point(
    session: Session, windows: Sequence[Window], scope: str, metrics: Sequence[str], with_limits: bool
) -> Iterator[CurvePoint]:
    limits: tuple[Any, ...] = (MetricPoint.low, MetricPoint.high) if with_limits else (null(), null())
    window_of = {window.run_pk: window for window in windows}
    statement = select(
        MetricPoint.run_pk,
        MetricPoint.metric,
        MetricPoint.step,
        MetricPoint.value,
        *limits,
    ).where(
        MetricPoint.run_pk.in_(window_of),
        MetricPoint.scope == scope,
        MetricPoint.metric.in_(metrics),
        MetricPoint.step >= min(window.from_step for window in windows),
        MetricPoint.step <= max(window.until_step for window in windows),
        ~MetricPoint.superseded,
    )
    for point in map(CurvePoint._make, session.execute(statement)):
        window = window_of[point.run_pk]
        if window.from_step <= point.step <= window.until_step:
            yield point


def _extremes(windows: Sequence[Window], scope: str, metrics: Sequence[str], with_limits: bool) -> Rows:
    stretch, begin = stretches.stretches(windows, metrics)

    def step_of(order: ColumnElement[Any]) -> Any:
        where = stretches.in_stretch(stretch, begin, scope, stretch.c.metric)
        statement = select(MetricPoint.step).where(*where).order_by(order, MetricPoint.step)
        return statement.limit(1).correlate(stretch).scalar_subquery()

    found = select(
        stretch.c.run_pk,
        stretch.c.metric,
        step_of(MetricPoint.value.asc()).label("lowest"),
        step_of(MetricPoint.value.desc()).label("highest"),
    ).cte("extremes")
    steps = union(
        select(found.c.run_pk, found.c.metric, found.c.lowest.label("step")),
        select(found.c.run_pk, found.c.metric, found.c.highest),
        *_ends(windows, scope, metrics),
    ).cte("steps")
    return _looked_up(steps, literal(scope), with_limits)


def _ends(windows: Sequence[Window], scope: str, metrics: Sequence[str]) -> Iterator[Rows]:
    """First and last step of each series within its window."""
    window = stretches.as_table(windows, name="outer_windows")
    metric = stretches.metric_table(metrics, name="outer_metrics")
    for order in (MetricPoint.step.asc(), MetricPoint.step.desc()):
        step = select(MetricPoint.step).where(
            MetricPoint.run_pk == window.c.run_pk,
            MetricPoint.scope == scope,
            MetricPoint.metric == metric.c.metric,
            MetricPoint.step >= window.c.from_step,
            MetricPoint.step <= window.c.until_step,
            ~MetricPoint.superseded,
        )
        end = step.order_by(order).limit(1).correlate(window, metric).scalar_subquery()
        yield select(window.c.run_pk, metric.c.metric, end).select_from(window).join(metric, literal(True))


def _looked_up(steps: CTE, scope: ColumnElement[Any], with_limits: bool = True) -> Rows:
    """The points at these steps (`run_pk`, `metric`, `step`), in the order of a `CurvePoint`."""

    def column(of: InstrumentedAttribute[Any]) -> Any:
        value = select(of).where(
            MetricPoint.run_pk == steps.c.run_pk,
            MetricPoint.scope == scope,
            MetricPoint.metric == steps.c.metric,
            MetricPoint.step == steps.c.step,
            ~MetricPoint.superseded,
        )
        return value.limit(1).correlate(steps).scalar_subquery()

    limits: tuple[Any, ...] = (null(), null())
    if with_limits:
        limits = (column(MetricPoint.low), column(MetricPoint.high))
    return select(steps.c.run_pk, steps.c.metric, steps.c.step, column(MetricPoint.value), *limits).where(
        steps.c.step.is_not(None)
    )


def _of_stretches(
    session: Session,
    windows: Sequence[Window],
    scope: str,
    metrics: Sequence[str],
    aggregate: ColumnElement[Any],
) -> list[StretchValue]:
    if not windows or not metrics:
        return []
    stretch, begin = stretches.stretches(windows, metrics)
    where = stretches.in_stretch(stretch, begin, scope, stretch.c.metric)
    value = select(aggregate).where(*where).correlate(stretch).scalar_subquery()
    found = select(stretch.c.run_pk, stretch.c.metric, stretch.c.i, value.label("value")).subquery()
    statement = select(found).where(found.c.value.is_not(None))
    return sorted(StretchValue(*row) for row in session.execute(statement))
