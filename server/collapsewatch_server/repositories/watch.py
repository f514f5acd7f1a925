"""What the watch looks at, and its alerts.

These queries run every few seconds: each reads by an index what is not finished, or the end of a series.
"""

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, literal_column, or_, select, text, update
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch_server.alert_tables import AlertRow, AlertThread
from collapsewatch_server.alerts.watch import (
    ChannelFacts,
    Dropped,
    QueueFacts,
    RunFacts,
    Snapshot,
    WorkerFacts,
)
from collapsewatch_server.db import is_postgresql, now
from collapsewatch_server.repositories import channels, clock, workers
from collapsewatch_server.repositories.jobs import DEFERRED
from collapsewatch_server.tables import Attempt, Batch, JobRow, Json, MetricPoint, Project, Run, Writer

_LOCK_ID = 7_788_003
_STEPS_FOR_INTERVAL = 20
_METRICS_FOR_INTERVAL = 20


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
        channels=[ChannelFacts(*one) for one in channels.failing(session)],
    )


def queue(session: Session, moment: float) -> QueueFacts:
    """The queue as a whole."""
    num_direct, queued_at = _line(session, JobRow.score < DEFERRED)
    num_deferred, deferred_queued_at = _line(session, JobRow.score >= DEFERRED)
    held = select(func.count()).where(JobRow.status == "leased", JobRow.lease_until >= now())
    return QueueFacts(
        num_waiting=num_direct + num_deferred,
        oldest_seconds=_age(moment, queued_at),
        oldest_deferred_seconds=_age(moment, deferred_queued_at),
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
    statement = select(Run.state, func.count()).where(Run.deleted_at.is_(None)).group_by(Run.state)
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
        statement = statement.where(Writer.run_pk.in_(select(Writer.run_pk).where(Writer.has_backlog)))
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
    """(rule, severity, number) of all items of the inbox that are not resolved."""
    statement = (
        select(AlertThread.rule, AlertThread.severity, func.count())
        .where(AlertThread.state != "resolved")
        .group_by(AlertThread.rule, AlertThread.severity)
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


def _line(session: Session, where: ColumnElement[bool]) -> tuple[int, float | None]:
    """Number of such jobs that wait, and since when the first in line does.

    Its place does not say that: jobs of one run stand apart, and so some stand in the future.
    """
    is_waiting = (JobRow.status == "queued") & where
    first = select(JobRow.queued_at).where(is_waiting).order_by(JobRow.score, JobRow.id).limit(1)
    count = select(func.count()).where(is_waiting)
    return session.execute(count).scalar_one(), session.scalar(first)


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
    with_backlog = select(Writer.run_pk).where(Writer.has_backlog)
    thinned = _thinned(session, moment - quiet_seconds)
    with_jobs = select(JobRow.run_pk).where(_needs_a_look())
    statement = statement.where(
        Run.deleted_at.is_(None),
        or_(
            Run.state.in_(("running", "stalled")),
            *(Run.id.in_(found) for found in (with_alert, with_backlog, with_jobs, thinned.keys())),
        ),
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
                num_thinned=thinned.get(run_pk, 0),
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


def _thinned(session: Session, since: float) -> dict[int, int]:
    """Number of jobs that were laid aside since then, by run."""
    # Written out, or SQLite would not know the index of just these.
    is_thinned = JobRow.status == literal_column("'thinned'")
    statement = select(JobRow.run_pk, func.count()).where(is_thinned, JobRow.finished_at > since)
    return {row[0]: row[1] for row in session.execute(statement.group_by(JobRow.run_pk))}


def _last_drops(session: Session) -> dict[int, Dropped]:
    newest = (
        select(func.max(AlertRow.id))
        # Written out, or SQLite would not know the index of just these.
        .where(AlertRow.rule == literal_column("'data_dropped'"), AlertRow.opened_step.is_(None))
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
    batches = batches.group_by(Batch.step).order_by(Batch.step.desc()).limit(_STEPS_FOR_INTERVAL)
    rollout_times = {row[0]: row[1] for row in session.execute(batches)}
    intervals = []
    for time_of in (rollout_times, _times_of_values(session, run_pk)):
        times = sorted(time_of.values())
        gaps = [after - before for before, after in pairwise(times)]
        if len(gaps) >= 2:
            intervals.append(statistics.median(gaps))
    return min(intervals, default=None)


def _times_of_values(session: Session, run_pk: int) -> dict[int, float]:
    """When the run's own values of its last steps were logged, by step.

    Of a few metrics, each read from its end: a long run has millions of values.
    """
    own = (MetricPoint.run_pk == run_pk) & (MetricPoint.scope == TRAINER_SCOPE)
    found: dict[int, float] = {}
    metric: str | None = ""
    for _ in range(_METRICS_FOR_INTERVAL):
        metric = session.scalar(select(func.min(MetricPoint.metric)).where(own, MetricPoint.metric > metric))
        if metric is None:
            break
        last = select(MetricPoint.step, MetricPoint.logged_at).where(own, MetricPoint.metric == metric)
        for step, logged_at in session.execute(
            last.order_by(MetricPoint.step.desc()).limit(_STEPS_FOR_INTERVAL)
        ):
            found[step] = min(found.get(step, logged_at), logged_at)
    return {step: found[step] for step in sorted(found)[-_STEPS_FOR_INTERVAL:]}


def _sum(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {key: counts.get(key, 0) + more.get(key, 0) for key in [*counts, *(more.keys() - counts.keys())]}


def _age(moment: float, since: float | None) -> float:
    return 0.0 if since is None else max(0.0, moment - since)
