"""The list of runs as rows. Each look-up goes by an index to the end of a series, however long a run is."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Integer, and_, case, func, literal, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import now
from collapsewatch_server.tables import Json, MetricPoint, Project, Run


class ListedRun(NamedTuple):
    """A run as far as its line tells of it."""

    run_pk: int
    run_id: str
    project: str
    name: str
    given_name: str
    state: str
    tags: list[Any]
    notes: str
    archived_at: float | None
    created_at: float
    updated_at: float
    last_seen_at: float | None
    last_step: int | None


_COLUMNS = (
    Run.id,
    Run.run_id,
    Project.name,
    Run.name,
    Run.given_name,
    Run.state,
    Run.tags,
    Run.notes,
    Run.archived_at,
    Run.created_at,
    Run.updated_at,
    Run.last_seen_at,
    Run.last_step,
)


def page(
    session: Session, project: str | None, *, archived: bool, run_ids: Sequence[str], limit: int
) -> list[ListedRun]:
    """Runs of the project, or of all, newest first; only the named ones when any are named."""
    statement = select(*_COLUMNS).join(Project).where(Run.deleted_at.is_(None), _is_archived(archived))
    if project is not None:
        statement = statement.where(Project.name == project)
    if run_ids:
        statement = statement.where(Run.run_id.in_(run_ids))
    rows: Any = session.execute(statement.order_by(Run.id.desc()).limit(limit))
    return [ListedRun(*row) for row in rows]


def longest_lived(session: Session, least_step: int, limit: int) -> list[tuple[int, int]]:
    """Key and last step of runs that have come this far, the one that sent data last first."""
    heard_at = func.coalesce(Run.last_data_at, Run.created_at)
    statement = (
        select(Run.id, Run.last_step)
        .where(Run.deleted_at.is_(None), _is_archived(False), Run.last_step >= least_step)
        .order_by(heard_at.desc())
        .limit(limit)
    )
    return [(run_pk, last_step or 0) for run_pk, last_step in session.execute(statement)]


def counts(session: Session, project: str | None) -> tuple[int, int]:
    """Number of runs that are not archived, and of those that are."""
    archived = func.count(case((Run.archived_at.is_not(None), 1)))
    statement = select(func.count(), archived).select_from(Run).where(Run.deleted_at.is_(None))
    if project is not None:
        statement = statement.join(Project).where(Project.name == project)
    num, num_archived = session.execute(statement).one()
    return num - num_archived, num_archived


def configs(session: Session, run_pks: Sequence[int]) -> dict[int, Json]:
    """Config of each run."""
    statement = select(Run.id, Run.config).where(Run.id.in_(run_pks))
    return {row[0]: row[1] for row in session.execute(statement)}


def pks(session: Session, run_ids: Sequence[str]) -> dict[int, str]:
    """Id of each of these runs that is there, by its row id."""
    statement = select(Run.id, Run.run_id).where(Run.run_id.in_(run_ids), Run.deleted_at.is_(None))
    return {row[0]: row[1] for row in session.execute(statement)}


def change(session: Session, run_pk: int, values: Json) -> None:
    """Sets what people say of the run. It is no news of its training, so its age stays."""
    values = dict(values)
    if (archived := values.pop("archived", None)) is not None:
        # Who archives it again has changed nothing.
        values["archived_at"] = func.coalesce(Run.archived_at, now()) if archived else None
    if values:
        session.execute(update(Run).where(Run.id == run_pk).values(**values))


def sparklines(
    session: Session, run_pks: Sequence[int], scope: str, metric: str, max_points: int
) -> dict[int, list[tuple[int, float]]]:
    """Points of one metric of each run in step order: its first, its newest, and some between them.

    For each of `max_points` steps at equal distances the last point up to it, each found by the index: the
    rest of a long run is not read.
    """
    first, last = (_end(scope, metric, order) for order in (MetricPoint.step, MetricPoint.step.desc()))
    ends = select(Run.id.label("run_pk"), first.label("first"), last.label("last"))
    ends_of = ends.where(Run.id.in_(run_pks)).cte("ends")
    ticks = select(literal(0, Integer).label("k")).cte("ticks", recursive=True)
    ticks = ticks.union_all(select(ticks.c.k + 1).where(ticks.c.k < max_points - 1))
    target = ends_of.c.first + (ends_of.c.last - ends_of.c.first) * ticks.c.k // (max_points - 1)
    upto = (
        select(MetricPoint.step)
        .where(*_own(ends_of.c.run_pk, scope, metric), MetricPoint.step <= target)
        .order_by(MetricPoint.step.desc())
        .limit(1)
        .correlate(ends_of, ticks)
        .scalar_subquery()
    )
    chosen = (
        select(ends_of.c.run_pk, upto.label("step"))
        .select_from(ends_of.join(ticks, literal(True)))
        .where(ends_of.c.first.is_not(None))
        .distinct()
        .cte("chosen")
    )
    statement = (
        select(chosen.c.run_pk, chosen.c.step, MetricPoint.value)
        .join(MetricPoint, (MetricPoint.step == chosen.c.step) & and_(*_own(chosen.c.run_pk, scope, metric)))
        .order_by(chosen.c.run_pk, chosen.c.step)
    )
    found: dict[int, list[tuple[int, float]]] = {run_pk: [] for run_pk in run_pks}
    for run_pk, step, value in session.execute(statement):
        found[run_pk].append((step, value))
    return found


def _end(scope: str, metric: str, order: Any) -> Any:
    statement = select(MetricPoint.step).where(*_own(Run.id, scope, metric)).order_by(order).limit(1)
    return statement.correlate(Run).scalar_subquery()


def _own(run_pk: Any, scope: str, metric: str) -> list[ColumnElement[bool]]:
    return [
        MetricPoint.run_pk == run_pk,
        MetricPoint.scope == scope,
        MetricPoint.metric == metric,
        ~MetricPoint.superseded,
    ]


def _is_archived(archived: bool) -> ColumnElement[bool]:
    return Run.archived_at.is_not(None) if archived else Run.archived_at.is_(None)
