"""The steps of a run as rows: when they were, which policy wrote them, what filters kept of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch_server.attempts import Segment
from collapsewatch_server.tables import Batch, BatchResult, MetricPoint


class Moment(NamedTuple):
    """When a step was logged, by the trainer's clock, in seconds since 1970."""

    step: int
    logged_at: float


class Version(NamedTuple):
    """A policy, and the first step that it wrote."""

    policy_version: str
    step: int


class KeptStep(NamedTuple):
    """What was seen at a step, and what each rule would have kept of it."""

    step: int
    groups: list[dict[str, Any]]
    filters: list[dict[str, Any]]


def batch_moments(
    session: Session, run_pk: int, lineage: Sequence[Segment], max_moments: int
) -> list[Moment]:
    """When the run's own batches were logged: the first of each stretch of steps, and the last of all."""
    own = [Batch.run_pk == run_pk, Batch.logged_at > 0, _within(Batch.step, Batch.attempt_pk, lineage)]
    return _moments(session, Batch.step, Batch.logged_at, own, max_moments)


def scalar_moments(session: Session, run_pk: int, max_moments: int) -> list[Moment]:
    """The same by the first of the trainer's own values, for a run without batches."""
    of_trainer = [
        MetricPoint.run_pk == run_pk,
        MetricPoint.scope == TRAINER_SCOPE,
        ~MetricPoint.superseded,
    ]
    metric = session.scalar(select(func.min(MetricPoint.metric)).where(*of_trainer))
    if metric is None:
        return []
    own = [*of_trainer, MetricPoint.metric == metric, MetricPoint.logged_at > 0]
    return _moments(session, MetricPoint.step, MetricPoint.logged_at, own, max_moments)


def versions(session: Session, run_pk: int, lineage: Sequence[Segment], limit: int) -> list[Version]:
    """The policies that wrote the run's own batches, by the first step of each; at most `limit` of them."""
    first = func.min(Batch.step)
    statement = (
        select(Batch.policy_version, first)
        .where(
            Batch.run_pk == run_pk,
            Batch.policy_version.is_not(None),
            _within(Batch.step, Batch.attempt_pk, lineage),
        )
        .group_by(Batch.policy_version)
        .order_by(first, Batch.policy_version)
        .limit(limit)
    )
    return [Version(version or "", step) for version, step in session.execute(statement)]


def kept_until(session: Session, run_pk: int, step: int, limit: int) -> list[KeptStep]:
    """The last scored steps of the run's own series up to `step`, the last first."""
    statement = (
        select(BatchResult.step, BatchResult.groups, BatchResult.filters)
        .where(
            BatchResult.run_pk == run_pk,
            BatchResult.current,
            ~BatchResult.superseded,
            BatchResult.step <= step,
        )
        .order_by(BatchResult.step.desc())
        .limit(limit)
    )
    return [KeptStep(*row) for row in session.execute(statement)]


def _moments(
    session: Session,
    step: InstrumentedAttribute[int],
    logged_at: InstrumentedAttribute[float],
    own: list[ColumnElement[bool]],
    max_moments: int,
) -> list[Moment]:
    ends: Any = session.execute(select(func.min(step), func.max(step)).where(*own)).one()
    first, last = ends
    if first is None:
        return []
    width = (last - first) // max_moments + 1
    stretch = (step - first) // width
    statement = select(func.min(step), func.min(logged_at)).where(*own).group_by(stretch).order_by(stretch)
    found = [Moment(*row) for row in session.execute(statement)]
    if found[-1].step < last:
        end = session.execute(select(func.max(logged_at)).where(*own, step == last)).scalar_one()
        found.append(Moment(last, end))
    return found


def _within(
    step: InstrumentedAttribute[int],
    attempt_pk: InstrumentedAttribute[int | None],
    lineage: Sequence[Segment],
) -> ColumnElement[bool]:
    """Whether a row belongs to the steps that its attempt owns."""
    owned = [
        and_(
            attempt_pk == segment.attempt_pk,
            step >= segment.from_step,
            *([] if segment.until_step is None else [step < segment.until_step]),
        )
        for segment in lineage
    ]
    return or_(*owned) if owned else step < 0
