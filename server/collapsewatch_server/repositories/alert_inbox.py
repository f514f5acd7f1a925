"""The inbox of alerts: threads with their newest alert, filtered and page by page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertChange, AlertRow, AlertThread
from collapsewatch_server.repositories.metrics import Point
from collapsewatch_server.tables import EvaluationRow, MetricPoint, Project, Run


@dataclass(frozen=True)
class Filters:
    """What is looked for; empty means all."""

    states: Sequence[str] = ()
    severities: Sequence[str] = ()
    project: str | None = None
    run_id: str | None = None
    rule: str | None = None
    text: str | None = None
    """In the words of the newest alert, and in the run's name."""


class Item(NamedTuple):
    """A thread with its newest alert and its run."""

    thread: AlertThread
    alert: AlertRow
    run_id: str | None
    run_name: str | None
    project: str | None


class Span(NamedTuple):
    """How long a thread goes back, and when it last changed."""

    num_alerts: int
    opened_at: float
    changed_at: float


def page(session: Session, filters: Filters, before: int | None, limit: int) -> list[Item]:
    """Items, newest first.

    Args:
        before: id of the newest alert of the last item that is known already.
    """
    columns = select(*_COLUMNS)
    statement = _filtered(columns, filters, with_states=True)
    if before is not None:
        statement = statement.where(AlertThread.alert_id < before)
    statement = statement.order_by(AlertThread.alert_id.desc()).limit(limit)
    return [Item(*row) for row in session.execute(statement)]


def items(session: Session, thread_pks: Sequence[int]) -> list[Item]:
    """These items, newest first."""
    columns = select(*_COLUMNS)
    statement = _joined(columns).where(AlertThread.id.in_(thread_pks))
    return [Item(*row) for row in session.execute(statement.order_by(AlertThread.alert_id.desc()))]


def counts(session: Session, filters: Filters) -> dict[str, int]:
    """Number of items by state, whatever states are looked for."""
    columns = select(AlertThread.state, func.count())
    statement = _filtered(columns, filters, with_states=False)
    return {row[0]: row[1] for row in session.execute(statement.group_by(AlertThread.state))}


def rules(session: Session) -> list[str]:
    """Every rule that has an item."""
    statement = select(AlertThread.rule).where(_IS_SHOWN).distinct().order_by(AlertThread.rule)
    return list(session.scalars(statement))


def spans(session: Session, thread_pks: Sequence[int]) -> dict[int, Span]:
    """By thread."""
    alerts = select(
        AlertRow.thread_pk,
        func.count(),
        func.min(AlertRow.opened_at),
        func.max(func.coalesce(AlertRow.resolved_at, AlertRow.opened_at)),
    ).where(AlertRow.thread_pk.in_(thread_pks))
    changes = select(AlertChange.thread_pk, func.max(AlertChange.at)).where(
        AlertChange.thread_pk.in_(thread_pks)
    )
    last = {row[0]: row[1] for row in session.execute(changes.group_by(AlertChange.thread_pk))}
    return {
        pk: Span(num, opened_at, last.get(pk, changed_at))
        for pk, num, opened_at, changed_at in session.execute(alerts.group_by(AlertRow.thread_pk))
        if pk is not None
    }


def points_around(
    session: Session,
    run_pk: int,
    scope: str,
    metrics: Sequence[str],
    step: int,
    num: int,
    attempt_pk: int | None,
) -> dict[str, list[Point]]:
    """Of each metric the last points up to the step and the first after it, `num` each, in step order.

    They are the run's own, or those of one attempt, whether another has replayed them or not.
    """
    return {
        metric: points
        for metric in metrics
        if (points := _around(session, run_pk, scope, metric, step, num, attempt_pk))
    }


def prompts_of_baseline(
    session: Session, run_pk: int, scope: str, first_step: int, last_step: int, limit: int
) -> list[list[Any]]:
    """What each evaluation within these steps says of its prompts; at most `limit` evaluations."""
    statement = (
        select(EvaluationRow.result["prompts"])
        .where(
            EvaluationRow.run_pk == run_pk,
            EvaluationRow.scope == scope,
            EvaluationRow.current,
            EvaluationRow.step.between(first_step, last_step),
        )
        .order_by(EvaluationRow.step)
        .limit(limit)
    )
    return [row for row in session.scalars(statement) if row]


def _around(
    session: Session, run_pk: int, scope: str, metric: str, step: int, num: int, attempt_pk: int | None
) -> list[Point]:
    columns = select(MetricPoint.step, MetricPoint.value, MetricPoint.low, MetricPoint.high).where(
        MetricPoint.run_pk == run_pk,
        MetricPoint.scope == scope,
        MetricPoint.metric == metric,
        ~MetricPoint.superseded if attempt_pk is None else MetricPoint.attempt_pk == attempt_pk,
    )
    upto = columns.where(MetricPoint.step <= step).order_by(MetricPoint.step.desc()).limit(num + 1)
    after = columns.where(MetricPoint.step > step).order_by(MetricPoint.step).limit(num)
    earlier = [Point(*row) for row in session.execute(upto)]
    return earlier[::-1] + [Point(*row) for row in session.execute(after)]


_COLUMNS = (AlertThread, AlertRow, Run.run_id, Run.name, Project.name)
# What was over, in one of these ways, before anybody heard of it is nobody's concern.
_IS_SHOWN = or_(
    AlertThread.told_state.is_not(None),
    AlertThread.ended.is_(None),
    AlertThread.ended.not_in(("withdrawn", "switched_off", "superseded")),
)


def _joined(statement: Select[*tuple[Any, ...]]) -> Select[*tuple[Any, ...]]:
    return (
        statement.select_from(AlertThread)
        .join(AlertRow, AlertRow.id == AlertThread.alert_id)
        .outerjoin(Run, Run.id == AlertThread.run_pk)
        .outerjoin(Project, Project.id == Run.project_id)
    )


def _filtered(
    statement: Select[*tuple[Any, ...]], filters: Filters, *, with_states: bool
) -> Select[*tuple[Any, ...]]:
    wanted: list[Any] = [_IS_SHOWN]
    if with_states and filters.states:
        wanted.append(AlertThread.state.in_(filters.states))
    if filters.severities:
        wanted.append(AlertThread.severity.in_(filters.severities))
    if filters.project is not None:
        wanted.append(Project.name == filters.project)
    if filters.run_id is not None:
        wanted.append(Run.run_id == filters.run_id)
    if filters.rule is not None:
        wanted.append(AlertThread.rule == filters.rule)
    for word in (filters.text or "").split():
        columns = (AlertRow.title, AlertRow.message, AlertRow.rule, AlertRow.scope, Run.name)
        wanted.append(or_(*(column.icontains(word, autoescape=True) for column in columns)))
    return _joined(statement).where(and_(*wanted))
