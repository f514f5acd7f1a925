"""How a run stands in the end: its state, its attempts, what the watch said, what the page was told."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.tables import Attempt, Batch, BatchResult, EventRow, JobRow, Run
from tests.faults.account import Sent


def problems(session: Session, run_id: str, sent: Sent) -> list[str]:
    """What is wrong with the run, in words."""
    run = session.scalar(select(Run).where(Run.run_id == run_id))
    if run is None:
        return ["there is no such run"]
    events = list(session.scalars(select(EventRow).where(EventRow.run_pk == run.id).order_by(EventRow.id)))
    found = [] if run.state == sent.state else [f"the run is {run.state}, and should be {sent.state}"]
    num_attempts = len(session.scalars(select(Attempt.id).where(Attempt.run_pk == run.id)).all())
    if num_attempts != sent.num_attempts:
        found.append(f"{num_attempts} attempts, started were {sent.num_attempts}")
    found += _watch_alerts(session, run, sent)
    found += _states_told(run, events, sent)
    found += _batches_told(session, run, events)
    found += _results_told(session, run, events, sent)
    found += _deaths_told(session, run, events)
    found += _alerts_told(session, run, events)
    return found


def open_about_service(session: Session) -> list[str]:
    """Rules with an open alert that is about no run."""
    rows = session.scalars(select(AlertRow).where(AlertRow.run_pk.is_(None), AlertRow.status == "open"))
    return [f"{row.rule} {row.scope}" for row in rows]


def _watch_alerts(session: Session, run: Run, sent: Sent) -> Iterable[str]:
    statement = select(AlertRow).where(AlertRow.run_pk == run.id, AlertRow.opened_step.is_(None))
    for row in session.scalars(statement):
        if row.rule not in sent.opened | sent.still_open:
            yield f"the watch opened {row.rule}: {row.message}"
        elif row.status == "open" and row.rule not in sent.still_open:
            yield f"{row.rule} is still open: {row.message}"
    known = {row.rule for row in session.scalars(statement)}
    for rule in sorted(sent.still_open - known):
        yield f"the watch never opened {rule}"


def _states_told(run: Run, events: Iterable[EventRow], sent: Sent) -> Iterable[str]:
    states = [str(event.data["state"]) for event in events if event.kind == "run"]
    if not states or states[-1] != run.state:
        yield f"the run is {run.state}, and was last told to be {states[-1] if states else 'nothing'}"
    changes = [state for before, state in zip(["", *states], states, strict=False) if state != before]
    if changes.count(run.state) > sent.num_attempts:
        yield f"the run's state flapped: {' '.join(changes)}"


def _batches_told(session: Session, run: Run, events: Iterable[EventRow]) -> Iterable[str]:
    stored = Counter(session.scalars(select(Batch.batch_id).where(Batch.run_pk == run.id)))
    told = Counter(str(event.data["batch_id"]) for event in events if event.kind == "batch")
    yield from _unlike("batch", stored, told)


def _results_told(session: Session, run: Run, events: Iterable[EventRow], sent: Sent) -> Iterable[str]:
    # Every batch here is the only one of its step and attempt, so each of its results stands at once.
    stored = Counter(session.scalars(select(BatchResult.step).where(BatchResult.run_pk == run.id)))
    told = Counter(
        int(event.data["step"])
        for event in events
        if event.kind == "metrics" and event.data["scope"] == BATCH_SCOPE
    )
    if sent.num_attempts > 1:
        # A step that changes its owner is told again.
        told = Counter({step: min(count, stored[step]) for step, count in told.items()})
    yield from _unlike("result of step", stored, told)


def _deaths_told(session: Session, run: Run, events: Iterable[EventRow]) -> Iterable[str]:
    last = {event.data["job_id"]: event.data["status"] for event in events if event.kind == "job"}
    for row in session.scalars(select(JobRow).where(JobRow.run_pk == run.id, JobRow.status == "dead")):
        if last.get(row.id) != "dead":
            yield f"nobody was told that job {row.id} is dead"


def _alerts_told(session: Session, run: Run, events: Iterable[EventRow]) -> Iterable[str]:
    """An alert may be told again when late steps change it; the last word has to be true."""
    told: dict[int, list[EventRow]] = defaultdict(list)
    for event in events:
        if event.kind == "alert":
            told[int(event.data["alert_id"])].append(event)
    rows = {row.id: row for row in session.scalars(select(AlertRow).where(AlertRow.run_pk == run.id))}
    for alert_id in sorted(set(rows) - set(told)):
        yield f"nobody was told of the alert {rows[alert_id].rule} {alert_id}"
    for alert_id, about in told.items():
        last, row = about[-1].data["status"], rows.get(alert_id)
        true = "withdrawn" if row is None or row.withdrawn else "superseded" if row.superseded else row.status
        if last != true:
            yield f"alert {alert_id} is {true}, and was last told to be {last}"
        if row is not None and row.opened_step is None and len(about) > 2:
            yield f"the watch told of its alert {row.rule} {len(about)} times"


def _unlike(what: str, stored: Counter[Any], told: Counter[Any]) -> Iterable[str]:
    for key in sorted(set(stored) | set(told), key=str):
        if stored[key] != told[key]:
            yield f"{what} {key}: {stored[key]} stored, {told[key]} told"
