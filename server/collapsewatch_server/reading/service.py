"""Answers about the service itself, for the page and for Prometheus."""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from sqlalchemy.orm import Session

from collapsewatch.contracts.runs import RunState
from collapsewatch_server.alerts.watch import Limits
from collapsewatch_server.db import Database
from collapsewatch_server.reading.service_views import (
    BacklogView,
    QueueView,
    ServiceView,
    WatchAlertView,
    WorkerJobView,
    WorkerView,
)
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import clock, watch, workers
from collapsewatch_server.repositories.watch import Backlog, WatchAlert
from collapsewatch_server.repositories.workers import WorkerWithJob
from collapsewatch_server.tables import WorkerRow


class Disk(NamedTuple):
    """Room for batches."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Standing:
    """Numbers of one moment, from the database."""

    jobs: dict[str, int]
    """By status; `deferred` ones are not among the `queued`."""
    oldest_seconds: float
    """How long the first in line has waited; 0 when nobody is."""
    workers: dict[str, int]
    """By state."""
    workers_seen_at: dict[tuple[str, str], float]
    """Time of the last sign of life by (name, host)."""
    runs: dict[str, int]
    """By state."""
    spooled: Backlog
    """Sums over all trainers."""
    alerts: list[tuple[str, str, int]]
    """(rule, severity, number) of the open ones."""


class ServiceReading:
    """Reads what the service has to say about itself, and changes nothing."""

    def __init__(self, database: Database, blob_url: str, limits: Limits) -> None:
        self._database = database
        self._folder = _folder(blob_url)
        self._limits = limits

    def service(self) -> ServiceView:
        """All of it, for the page."""
        with self._database.read_session() as session:
            moment = clock.read(session)
            view = ServiceView(
                queue=_queue(session, moment),
                workers=[_worker(one, state) for one, state in self._workers(session, moment)],
                runs_with_backlog=_backlogs(session, moment),
                alerts=[_alert(one) for one in watch.open_alerts(session)],
                disk_free_bytes=None,
                disk_total_bytes=None,
            )
        disk = self.disk()
        if disk is not None:
            view.disk_free_bytes, view.disk_total_bytes = disk
        return view

    def standing(self) -> Standing:
        """All of it as numbers, for Prometheus."""
        with self._database.read_session() as session:
            moment = clock.read(session)
            states = dict.fromkeys(("working", "idle", "stopping", "gone"), 0)
            seen_at = {}
            for one, state in self._workers(session, moment):
                states[state] += 1
                seen_at[one.worker.name, one.worker.host] = one.worker.last_seen_at
            backlogs = watch.backlogs(session, None, moment).values()
            return Standing(
                jobs=watch.queue_counts(session),
                oldest_seconds=watch.queue(session, moment).oldest_seconds,
                workers=states,
                workers_seen_at=seen_at,
                runs={state.value: 0 for state in RunState} | watch.run_states(session),
                spooled=_sum(backlogs),
                alerts=watch.open_alert_counts(session),
            )

    def num_live_workers(self) -> int:
        """Number of workers that can be expected to take jobs."""
        with self._database.read_session() as session:
            held = watch.queue(session, clock.read(session)).num_held
            return max(workers.num_live(session, self._limits.worker_seconds), held)

    def disk(self) -> Disk | None:
        """Room where the batches lie; none when that is no folder, or it is away."""
        if self._folder is None:
            return None
        try:
            usage = shutil.disk_usage(self._folder)
        except OSError:
            return None
        return Disk(usage.free, usage.total)

    def _workers(self, session: Session, moment: float) -> Iterable[tuple[WorkerWithJob, str]]:
        for one in workers.with_jobs(session):
            is_silent = moment - one.worker.last_seen_at > self._limits.worker_seconds
            if not (is_silent and one.worker.is_stopping):
                yield one, _state(one.worker, is_silent, one.is_busy)


def _state(worker: WorkerRow, is_silent: bool, has_job: bool) -> str:
    if worker.is_stopping:
        return "stopping"
    if is_silent:
        return "gone"
    return "working" if has_job else "idle"


def _queue(session: Session, moment: float) -> QueueView:
    facts = watch.queue(session, moment)
    oldest = max(facts.oldest_seconds, facts.oldest_deferred_seconds)
    return QueueView(
        **watch.queue_counts(session), oldest_seconds=round(oldest, 3) if facts.num_waiting else None
    )


def _worker(one: WorkerWithJob, state: str) -> WorkerView:
    row = one.worker
    job = None
    if one.run_id is not None and state in ("working", "stopping"):
        assert one.run_name is not None
        assert one.step is not None
        job = WorkerJobView(run_id=one.run_id, run_name=one.run_name, step=one.step)
    values: dict[str, Any] = {
        name: getattr(row, name) for name in ("name", "host", "device", "version", "num_done", "num_failed")
    }
    return WorkerView(**values, state=state, last_seen_at=iso(row.last_seen_at), job=job)


def _backlogs(session: Session, moment: float) -> list[BacklogView]:
    deferred = watch.deferred_counts(session)
    waiting = watch.backlogs(session, None, moment)
    run_pks = sorted(deferred.keys() | waiting.keys())
    waiting |= watch.backlogs(session, sorted(deferred.keys() - waiting.keys()), moment)
    return [
        BacklogView(
            run_id=run.run_id,
            project=project,
            name=run.name,
            state=RunState(run.state),
            num_deferred=deferred.get(run.id, 0),
            **waiting.get(run.id, Backlog())._asdict(),
        )
        for run, project in watch.runs_named(session, run_pks)
    ]


def _alert(one: WatchAlert) -> WatchAlertView:
    row = one.alert
    columns = ("rule", "scope", "severity", "status", "title", "message", "evidence")
    return WatchAlertView.model_validate(
        {
            "alert_id": row.id,
            "attempt_id": None,
            "superseded": False,
            "opened_step": None,
            "resolved_step": None,
            "opened_at": iso(row.opened_at),
            "resolved_at": None,
            "run_id": one.run_id,
            "run_name": one.run_name,
            "project": one.project,
            **{name: getattr(row, name) for name in columns},
        }
    )


def _sum(backlogs: Iterable[Backlog]) -> Backlog:
    every = list(backlogs)
    return Backlog(
        sum(one.num_writers for one in every),
        sum(one.spool_records for one in every),
        sum(one.spool_bytes for one in every),
        max((one.spool_oldest_seconds for one in every), default=0.0),
        {"all": sum(sum(one.dropped.values()) for one in every)},
    )


def _folder(blob_url: str) -> str | None:
    if "://" not in blob_url:
        return blob_url
    parts = urlsplit(blob_url)
    return unquote(parts.path) if parts.scheme == "file" else None
