"""The watch: looks every few seconds, marks runs that went silent, opens and resolves its alerts."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.alerts.watch import Condition, Limits, RunFacts, Snapshot, conditions, next_state
from collapsewatch_server.db import Database
from collapsewatch_server.inbox.threads import settle
from collapsewatch_server.liveness.earshot import Earshot
from collapsewatch_server.repositories import alert_threads, events, watch, workers, writers
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.repositories.watch import WatchAlert

log = logging.getLogger(__name__)

_REMEMBERED_SECONDS = 86_400.0
# What grows with every look is written down again this rarely.
_REFRESH_SECONDS = 60.0
_SILENCES = ("run_stalled", "run_crashed")


@dataclass
class Plan:
    """What a look leads to."""

    states: list[tuple[RunFacts, str]] = field(default_factory=list)
    to_open: list[Condition] = field(default_factory=list)
    to_refresh: list[tuple[WatchAlert, Condition]] = field(default_factory=list)
    to_resolve: list[WatchAlert] = field(default_factory=list)
    forgets_workers: bool = False

    def is_empty(self) -> bool:
        """Whether nothing has to be written."""
        changes = (self.states, self.to_open, self.to_refresh, self.to_resolve)
        return not any(changes) and not self.forgets_workers


class Watch:
    """Any number of servers may watch one database; each change is made by one of them."""

    def __init__(
        self, database: Database, ring: Callable[[], None], earshot: Earshot, limits: Limits
    ) -> None:
        self._database = database
        self._ring = ring
        self._earshot = earshot
        self._limits = limits
        self._told_at: dict[int, float] = {}

    def look(self) -> None:
        """Looks once.

        Raises:
            SQLAlchemyError: the database does not answer; the next look begins a new time of grace.
        """
        try:
            self._look()
        except SQLAlchemyError:
            self._earshot.lost()
            raise

    def _look(self) -> None:
        with self._database.read_session() as session:
            seen = watch.snapshot(session, quiet_seconds=self._limits.quiet_seconds)
            known = watch.open_alerts(session)
        heard_since = self._earshot.since(seen.now)
        # Whoever is alive says so within this time; before, silence tells nothing, and neither do old
        # numbers of spools and workers.
        if seen.now - heard_since < self._limits.worker_seconds:
            return
        told_at = self._told_at
        if plan(seen, known, heard_since, self._limits, told_at).is_empty():
            return
        with self._database.write_session() as session:
            watch.lock(session)
            # Another server may have written since.
            seen = watch.snapshot(session, quiet_seconds=self._limits.quiet_seconds)
            known = watch.open_alerts(session)
            todo = plan(seen, known, heard_since, self._limits, told_at)
            _carry_out(session, seen, todo)
        told_now = dict.fromkeys((one.alert.id for one, _ in todo.to_refresh), seen.now)
        still_open = {one.alert.id for one in known}
        kept = {alert_id: moment for alert_id, moment in told_at.items() if alert_id in still_open}
        self._told_at = kept | told_now
        self._ring()


def plan(
    seen: Snapshot,
    known: Iterable[WatchAlert],
    heard_since: float,
    limits: Limits,
    told_at: Mapping[int, float],
) -> Plan:
    """What has to change so that states and open alerts say what is the case.

    Args:
        told_at: when the words of an alert, by its id, were last written down, unless at its opening.
    """
    found = Plan()
    runs = []
    for run in seen.runs:
        state = next_state(run, seen.now, heard_since, limits)
        if state != run.state:
            found.states.append((run, state))
        runs.append(replace(run, state=state))
    wrong = {one.key: one for one in conditions(replace(seen, runs=runs), heard_since, limits)}
    for one in known:
        condition = wrong.pop((one.alert.rule, one.alert.run_pk, one.alert.scope), None)
        if condition is None:
            found.to_resolve.append(one)
        elif _is_news(one.alert, condition, seen.now - told_at.get(one.alert.id, one.alert.opened_at)):
            found.to_refresh.append((one, condition))
    found.to_open = [one for one in wrong.values() if one.may_open]
    found.forgets_workers = any(seen.now - one.seen_at > _REMEMBERED_SECONDS for one in seen.workers)
    return found


def _is_news(alert: AlertRow, condition: Condition, told_seconds: float) -> bool:
    """Whether the words written down so long ago are to be replaced; no event tells of that."""
    if alert.evidence.get("num_dropped") != condition.evidence.get("num_dropped"):
        return True
    return told_seconds >= _REFRESH_SECONDS and alert.message != condition.message


def _carry_out(session: Session, seen: Snapshot, todo: Plan) -> None:
    runs = {run.run_pk: run for run in seen.runs}
    told: list[tuple[int | None, Event]] = []
    touched: set[int] = set()
    stalled: dict[int | None, int] = {}
    revived = set()
    # In one order everywhere, so that two transactions never wait for each other's runs.
    for run, state in sorted(todo.states, key=lambda change: change[0].run_pk):
        if watch.silence_run(session, run, state):
            log.warning("a run went silent", extra={"run": run.run_id, "state": state})
            told.append((run.run_pk, _run_event(run, state)))
        else:
            # It was heard of between the look and now.
            revived.add(run.run_pk)
    for one in todo.to_resolve:
        watch.resolve_alert(session, one.alert.id)
        if one.alert.thread_pk is not None:
            touched.add(one.alert.thread_pk)
            if one.alert.rule == "run_stalled":
                stalled[one.alert.run_pk] = one.alert.thread_pk
        log.info("alert resolved", extra={"rule": one.alert.rule, "run": one.run_id})
        told.append((one.alert.run_pk, _alert_event(one.alert, "resolved", one.run_id, one.project)))
        subject = runs.get(one.alert.run_pk or 0)
        if subject is not None and one.alert.rule in _SILENCES:
            state = writers.state_of_run(session, subject.run_pk)
            told.append((subject.run_pk, _run_event(subject, state)))
    for one, condition in todo.to_refresh:
        watch.refresh_alert(session, one.alert.id, condition.message, dict(condition.evidence))
    for condition in todo.to_open:
        if condition.rule not in _SILENCES or condition.run_pk not in revived:
            row, event = _open(session, condition, runs.get(condition.run_pk or 0))
            told.append((condition.run_pk, event))
            # A run that is silent for so long that it counts as crashed is the same matter still.
            before = stalled.get(condition.run_pk) if condition.rule == "run_crashed" else None
            touched.add(_threaded(session, row, before))
    told += settle(session, touched)
    if todo.forgets_workers:
        workers.forget(session, _REMEMBERED_SECONDS)
    # All at the end: on PostgreSQL they take a lock, behind which no row may be waited for.
    for run_pk, event in told:
        events.add(session, run_pk, [event])


def _threaded(session: Session, row: AlertRow, thread_pk: int | None) -> int:
    """The inbox's item of a new alert: this one, or a new one."""
    if thread_pk is None:
        return alert_threads.add(session, row)
    alert_threads.join(session, [row.id], thread_pk)
    return thread_pk


def _open(session: Session, condition: Condition, run: RunFacts | None) -> tuple[AlertRow, Event]:
    row = watch.open_alert(
        session,
        run_pk=condition.run_pk,
        rule=condition.rule,
        scope=condition.scope,
        severity=condition.severity,
        title=condition.title,
        message=condition.message,
        evidence=dict(condition.evidence),
    )
    run_id, project = (None, None) if run is None else (run.run_id, run.project)
    log.warning("alert opened", extra={"rule": condition.rule, "scope": condition.scope, "run": run_id})
    return row, _alert_event(row, "open", run_id, project)


def _run_event(run: RunFacts, state: str) -> Event:
    return Event("run", {"run_id": run.run_id, "project": run.project, "state": state})


def _alert_event(row: AlertRow, status: str, run_id: str | None, project: str | None) -> Event:
    data: dict[str, Any] = {
        "run_id": run_id,
        "project": project,
        "step": None,
        "scope": row.scope,
        "alert_id": row.id,
        "rule": row.rule,
        "severity": row.severity,
        "status": status,
        "title": row.title,
    }
    return Event("alert", data)
