"""Answers what the model wrote when an alert opened, from the batches in the blob store."""

import threading
from dataclasses import dataclass

from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AlertNotFound, TooBusy
from collapsewatch_server.reading import alerts, traces
from collapsewatch_server.reading.alert_views import DrivingPrompt
from collapsewatch_server.reading.stored_batches import MAX_BYTES, StepSource, StoredBatches
from collapsewatch_server.reading.trace_views import AlertTraces
from collapsewatch_server.reading.traces import Moment
from collapsewatch_server.repositories import alert_inbox, alert_threads, batches, evaluations, shards
from collapsewatch_server.repositories.alert_inbox import Item
from collapsewatch_server.tables import EvaluationRow

_WAIT_SECONDS = 3.0


@dataclass(frozen=True)
class _Wanted:
    """What has to be read for an alert."""

    prompts: list[DrivingPrompt]
    scope: str
    at_alert: StepSource
    at_baseline: StepSource | None


class AlertTraceReading:
    """Reads traces, one alert's at a time, and changes nothing."""

    def __init__(self, database: Database, blobs: BlobStore, *, max_bytes: int = MAX_BYTES) -> None:
        self._database = database
        self._stored = StoredBatches(blobs, max_bytes=max_bytes)
        # Measured: the largest batch takes 150 MiB for 0.4 s, which many readers at once must not multiply.
        self._one_at_a_time = threading.Lock()

    def traces(self, alert_id: int) -> AlertTraces:
        """Traces of the prompts that drove the alert; any alert of the item leads to them.

        Raises:
            AlertNotFound: there is no such alert.
            TooBusy: other alerts' traces are being read.
        """
        with self._database.read_session() as session:
            pk = alert_threads.thread_of(session, alert_id)
            if pk is None:
                raise AlertNotFound(alert_id)
            (item,) = alert_inbox.items(session, [pk])
            wanted = _wanted(session, item)
        if isinstance(wanted, str):
            step = item.alert.opened_step
            return AlertTraces(step=step, baseline_step=None, prompts=[], reason=wanted, baseline_reason=None)
        if not self._one_at_a_time.acquire(timeout=_WAIT_SECONDS):
            raise TooBusy("the traces of other alerts are being read; try again", 2)
        try:
            return self._read(wanted)
        finally:
            self._one_at_a_time.release()

    def _read(self, wanted: _Wanted) -> AlertTraces:
        prompts, scope, source, baseline = wanted.prompts, wanted.scope, wanted.at_alert, wanted.at_baseline
        samples = traces.samples_of(self._stored.rollouts(source), prompts, scope)
        then: list[traces.Counterpart | None] = [None] * len(prompts)
        if baseline is not None and any(samples):
            then = traces.counterparts(self._stored.rollouts(baseline), prompts, samples, scope)
        shown = [
            traces.prompt_traces(prompt, own, source.moment, one, baseline.moment if baseline else None)
            for prompt, own, one in zip(prompts, samples, then, strict=True)
            if own
        ]
        reason = source.words()
        if not shown and reason is None:
            reason = f"no response to these prompts is stored as text for step {source.moment.step}"
        return AlertTraces(
            step=source.moment.step,
            baseline_step=None if baseline is None else baseline.moment.step,
            prompts=shown,
            reason=reason,
            baseline_reason=_NO_BASELINE if baseline is None else baseline.words(),
        )


_NO_BASELINE = "there is no baseline to compare with, or no batch of its last step"


def _wanted(session: Session, item: Item) -> _Wanted | str:
    """What to read, or why there is nothing to be read."""
    alert, run_pk = item.alert, item.thread.run_pk
    if alert.opened_step is None or run_pk is None:
        return "the alert is about how things stand, and about no step"
    row = alerts.evaluation_of(session, item)
    prompts = [] if row is None else traces.driven(alerts.prompts_of(session, item, row))
    if row is None or not prompts:
        return f"no prompt was scored at step {alert.opened_step}, so none is known to have driven the alert"
    names = alerts.attempt_names(session, run_pk)
    steps = alerts.baseline_steps(row, alert.evidence)
    before = None if steps is None else _baseline_row(session, row, steps[1])
    return _Wanted(
        prompts=prompts,
        scope=row.scope,
        at_alert=_source(session, row, names),
        at_baseline=None if before is None else _source(session, before, names),
    )


def _baseline_row(session: Session, row: EvaluationRow, step: int) -> EvaluationRow | None:
    """The baseline's last evaluation: of the alert's own attempt, else of the one that it resumed."""
    for attempt_pk in (row.attempt_pk, None):
        found = evaluations.of_step(session, row.run_pk, row.scope, step, attempt_pk)
        if found is not None:
            return found
    return None


def _source(session: Session, row: EvaluationRow, names: dict[int, str]) -> StepSource:
    keys = shards.blob_keys(session, batches.get(session, row.batch_pk))
    return StepSource(Moment(row.step, names.get(row.attempt_pk or 0, "")), keys)
