"""What the watch looks at, and its alerts.

These queries run every few seconds: they read what is not finished, and never a run's data.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Text, cast, func, or_, select, text, update
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch_server.alerts.watch import Dropped, QueueFacts, RunFacts, Snapshot, WorkerFacts
from collapsewatch_server.db import is_postgresql, now
from collapsewatch_server.repositories import clock, workers
from collapsewatch_server.repositories.jobs import DEFERRED
from collapsewatch_server.tables import (
    AlertRow,
    Attempt,
    Batch,
    JobRow,
    Json,
    MetricPoint,
    Project,
    Run,
    Writer,
)

_LOCK_ID = 7_788_003
_STEPS_FOR_INTERVAL = 20


class Backlog(NamedTuple):
    """What waits on the trainers' disks of one run, and what they dropped, over all its writers."""

    num_writers: int = 0
    spool_records: int = 0
    spool_bytes: int = 0
    spool_oldest_seconds: float = 0.0
    dropped: Mapping[str, int] = {}


class WatchAlert(NamedTuple):
    """An open alert of the watch, with its run."""

    alert: AlertRow
    run_id: str | None
    run_name: str | None
    project: str | None


def lock(session: Session) -> None:
    """Holds the watch until the end of the transaction: of several servers one alone opens an alert."""
    if is_postgresql(session):
        session.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_ID})"))


def snapshot(session: Session, *, quiet_seconds: float) -> Snapshot:
    """Everything that the rules look at, now.

    Args:
        quiet_seconds: the usual time between steps is looked up for runs without data for longer.
    """
    moment = clock.read(session)
    return Snapshot(
        now=moment,
        runs=_runs(session, moment, quiet_seconds),
        workers=[
            WorkerFacts(row.name, row.host, row.device, row.started_at, row.last_seen_at, row.is_stopping)
            for row in workers.all_rows(session)
        ],
        queue=queue(session, moment),
    )


def queue(session: Session, moment: float) -> QueueFacts:
    """The queue as a whole. A job's place is the time at which it was queued, or a little later."""
    statement = select(func.count(), func.min(JobRow.score)).where(JobRow.status == "queued")
    num_direct, first = session.execute(statement.where(JobRow.score < DEFERRED)).one()
    num_deferred, first_deferred = session.execute(statement.where(JobRow.score >= DEFERRED)).one()
    held = select(func.count()).where(JobRow.status == "leased", JobRow.lease_until >= now())
    return QueueFacts(
        num_waiting=num_direct + num_deferred,
        oldest_seconds=0.0 if first is None else max(0.0, moment - first),
        oldest_deferred_seconds=0.0
        if first_deferred is None
        else max(0.0, moment + DEFERRED - first_deferred),
        num_held=session.execute(held).scalar_one(),
    )


def queue_counts(session: Session) -> dict[str, int]:
    """Number of jobs that are not done, by status; `deferred` ones are not among the `queued`."""
    statement = (
        select(JobRow.status, JobRow.deferred, func.count())
        .where(JobRow.status.in_(("queued", "leased", "thinned", "dead")))
        .group_by(JobRow.status, JobRow.deferred)
    )
    found: dict[str, int] = dict.fromkeys(("queued", "leased", "deferred", "thinned", "dead"), 0)
    for status, is_deferred, count in session.execute(statement):
        found["deferred" if status == "queued" and is_deferred else status] += count
    return found


def run_states(session: Session) -> dict[str, int]:
    """Number of runs by state."""
    statement = select(Run.state, func.count()).group_by(Run.state)
    return {row[0]: row[1] for row in session.execute(statement)}


def backlogs(session: Session, run_pks: Sequence[int] | None, moment: float) -> dict[int, Backlog]:
    """By run, of these or of all; of all only the runs that have something to tell."""
    statement = select(
        Writer.run_pk,
        Writer.last_seen_at,
        Writer.spool_records,
        Writer.spool_bytes,
        Writer.spool_oldest_seconds,
        Writer.dropped,
    )
    if run_pks is None:
        statement = statement.where(Writer.run_pk.in_(select(Writer.run_pk).where(_has_backlog())))
    else:
        statement = statement.where(Writer.run_pk.in_(run_pks))
    found: dict[int, Backlog] = {}
    for run_pk, seen_at, records, num_bytes, oldest_seconds, dropped in session.execute(statement):
        so_far = found.get(run_pk, Backlog())
        waited = 0.0
        if records:
            # What waited when the writer was last heard of has waited ever since.
            waited = oldest_seconds + max(0.0, moment - (moment if seen_at is None else seen_at))
        found[run_pk] = Backlog(
            so_far.num_writers + 1,
            so_far.spool_records + records,
            so_far.spool_bytes + num_bytes,
            max(so_far.spool_oldest_seconds, waited),
            _sum(so_far.dropped, dropped),
        )
    return found


def runs_named(session: Session, run_pks: Sequence[int]) -> list[tuple[Run, str]]:
    """The runs with their project's name, newest first."""
    statement = select(Run, Project.name).join(Project).where(Run.id.in_(run_pks))
    return [(run, name) for run, name in session.execute(statement.order_by(Run.id.desc()))]


def deferred_counts(session: Session) -> dict[int, int]:
    """Number of deferred jobs by run."""
    statement = select(JobRow.run_pk, func.count()).where(JobRow.status == "queued", JobRow.score >= DEFERRED)
    return {row[0]: row[1] for row in session.execute(statement.group_by(JobRow.run_pk))}


def open_alerts(session: Session) -> list[WatchAlert]:
    """The watch's open alerts, newest first."""
    statement = (
        select(AlertRow, Run.run_id, Run.name, Project.name)
        .outerjoin(Run, Run.id == AlertRow.run_pk)
        .outerjoin(Project, Project.id == Run.project_id)
        .where(AlertRow.status == "open", AlertRow.opened_step.is_(None))
        .order_by(AlertRow.id.desc())
    )
    return [WatchAlert(*row) for row in session.execute(statement)]


def open_alert_counts(session: Session) -> list[tuple[str, str, int]]:
    """(rule, severity, number) of all open alerts, those of the folds as well."""
    statement = (
        select(AlertRow.rule, AlertRow.severity, func.count())
        .where(AlertRow.status == "open", ~AlertRow.superseded)
        .group_by(AlertRow.rule, AlertRow.severity)
    )
    return [(rule, severity, count) for rule, severity, count in session.execute(statement)]


def open_alert(session: Session, **values: Any) -> AlertRow:
    """The new alert."""
    row = AlertRow(status="open", superseded=False, opened_at=clock.read(session), **values)
    session.add(row)
    session.flush()
    return row


def refresh_alert(session: Session, alert_id: int, message: str, evidence: Json) -> None:
    """Sets what an open alert says by now."""
    statement = update(AlertRow).where(AlertRow.id == alert_id)
    session.execute(statement.values(message=message, evidence=evidence))


def resolve_alert(session: Session, alert_id: int) -> None:
    """Resolves the alert now."""
    statement = update(AlertRow).where(AlertRow.id == alert_id, AlertRow.status == "open")
    session.execute(statement.values(status="resolved", resolved_at=now()))


def silence_run(session: Session, run: RunFacts, state: str) -> bool:
    """Whether the run has this state now; not when there was a sign of life meanwhile."""
    unseen = func.coalesce(Run.last_seen_at, Run.created_at) <= run.seen_at
    statement = update(Run).where(Run.id == run.run_pk, Run.state == run.state, unseen)
    return session.scalar(statement.values(state=state, updated_at=now()).returning(Run.id)) is not None


def _runs(session: Session, moment: float, quiet_seconds: float) -> list[RunFacts]:
    waiting = _waiting(session)
    spooled = backlogs(session, None, moment)
    drops = _last_drops(session)
    statement = select(
        Run.id,
        Run.run_id,
        Project.name,
        Run.state,
        func.coalesce(Run.last_seen_at, Run.created_at),
        func.coalesce(Run.last_data_at, Run.created_at),
        _newest_start(),
        Run.last_step,
    ).join(Project)
    with_alert = select(AlertRow.run_pk).where(AlertRow.status == "open", AlertRow.opened_step.is_(None))
    with_backlog = select(Writer.run_pk).where(_has_backlog())
    with_jobs = select(JobRow.run_pk).where(_needs_a_look())
    statement = statement.where(
        or_(
            Run.state.in_(("running", "stalled")),
            *(Run.id.in_(found) for found in (with_alert, with_backlog, with_jobs)),
        )
    )
    facts = []
    for run_pk, run_id, project, state, seen_at, data_at, started_at, last_step in session.execute(statement):
        since = max(data_at, started_at or 0.0)
        is_quiet = state == "running" and moment - since > quiet_seconds
        backlog = spooled.get(run_pk, Backlog())
        num_dead, num_deferred = waiting.get(run_pk, (0, 0))
        facts.append(
            RunFacts(
                run_pk=run_pk,
                run_id=run_id,
                project=project,
                state=state,
                seen_at=seen_at,
                data_at=since,
                last_step=last_step,
                interval_seconds=_interval(session, run_pk) if is_quiet else None,
                num_dead=num_dead,
                num_deferred=num_deferred,
                spool_records=backlog.spool_records,
                spool_bytes=backlog.spool_bytes,
                spool_oldest_seconds=backlog.spool_oldest_seconds,
                dropped=backlog.dropped,
                known_drop=drops.get(run_pk),
            )
        )
    return facts


def _newest_start() -> ColumnElement[float | None]:
    newest = select(func.max(Attempt.created_at)).where(Attempt.run_pk == Run.id)
    return newest.correlate(Run).scalar_subquery()


def _needs_a_look() -> ColumnElement[bool]:
    return or_(JobRow.status == "dead", (JobRow.status == "queued") & (JobRow.score >= DEFERRED))


def _waiting(session: Session) -> dict[int, tuple[int, int]]:
    """(dead, deferred) jobs by run."""
    statement = select(JobRow.run_pk, JobRow.status, func.count()).where(_needs_a_look())
    found: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for run_pk, status, count in session.execute(statement.group_by(JobRow.run_pk, JobRow.status)):
        found[run_pk][0 if status == "dead" else 1] += count
    return {run_pk: (counts[0], counts[1]) for run_pk, counts in found.items()}


def _has_backlog() -> ColumnElement[bool]:
    return or_(Writer.spool_records > 0, cast(Writer.dropped, Text) != "{}")


def _last_drops(session: Session) -> dict[int, Dropped]:
    newest = (
        select(func.max(AlertRow.id))
        .where(AlertRow.rule == "data_dropped", AlertRow.opened_step.is_(None))
        .group_by(AlertRow.run_pk)
    )
    statement = select(AlertRow.run_pk, AlertRow.evidence).where(AlertRow.id.in_(newest))
    return {
        run_pk: Dropped(evidence["num_dropped"], evidence["dropped_at"])
        for run_pk, evidence in session.execute(statement)
        if run_pk is not None
    }


def _interval(session: Session, run_pk: int) -> float | None:
    """Median time between the run's last steps, of its rollouts or of its own values; none of under 3."""
    batches = select(Batch.step, func.min(Batch.logged_at)).where(Batch.run_pk == run_pk)
    points = select(MetricPoint.step, func.min(MetricPoint.logged_at)).where(
        MetricPoint.run_pk == run_pk, MetricPoint.scope == TRAINER_SCOPE
    )
    intervals = []
    for statement, step in ((batches, Batch.step), (points, MetricPoint.step)):
        rows = session.execute(statement.group_by(step).order_by(step.desc()).limit(_STEPS_FOR_INTERVAL))
        times = sorted(logged_at for _, logged_at in rows)
        gaps = [after - before for before, after in pairwise(times)]
        if len(gaps) >= 2:
            intervals.append(statistics.median(gaps))
    return min(intervals, default=None)


def _sum(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {key: counts.get(key, 0) + more.get(key, 0) for key in [*counts, *(more.keys() - counts.keys())]}


def _age(moment: float, place: float | None) -> float:
    return 0.0 if place is None else max(0.0, moment - place)
