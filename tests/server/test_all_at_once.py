"""Trainers, resumes, workers and the server's own looks, all at the same moment and in no order.

Whatever they do to each other, no transaction is lost to a deadlock, and in the end all that is derived is
what the same evaluations give when they are folded from the start, in order.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import func, select

from collapsewatch.contracts.rollouts import RolloutBatch, ScalarBatch
from collapsewatch.contracts.runs import Heartbeat, RunStart, RunState, RunUpdate
from collapsewatch.contracts.scoring import ClaimRequest, JobFailure, ScoringResult
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.errors import AttemptNotFound, BatchConflict, JobConflict, JobNotFound
from collapsewatch_server.repositories import attempts, late_folds
from collapsewatch_server.results import ownership
from collapsewatch_server.results.folding import ScopeOfRun, refold
from collapsewatch_server.results.late import fold_or_put_off
from collapsewatch_server.retention import Retention
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import Batch, EvaluationRow, JobRow, MetricPoint, Run
from tests.server.live import batch_body, result_body

CALLER = Caller(1, Purpose.ingest, None)
RUNS = ("r0", "r1")
SECONDS = 5.0
NUM_THREADS = 6
NUM_ATTEMPTS = 5
NUM_STEPS = 40
COLLAPSE_AT = 20
# Batches name attempts that nobody has opened yet, and repeat ids with other content.
EXPECTED = (AttemptNotFound, BatchConflict, JobConflict, JobNotFound)


@pytest.fixture
def services(deployment: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    def few_at_once(*arguments: Any, **options: Any) -> Any:
        return fold_or_put_off(*arguments, **{"most_at_once": 3, **options})

    monkeypatch.setattr(ownership, "fold_or_put_off", few_at_once)
    limits = {"lease_seconds": 0.5, "shard_wait_seconds": 0.5, "max_starts": 2}
    few = {"max_waiting_batches": 5, "max_deferred_batches": 20}
    made = build_services(ServerSettings(**deployment.settings(**limits, **few)))
    made.prepare()
    monkeypatch.setattr(made.results, "_most_folded_at_once", 3)
    monkeypatch.setattr(made.results.late, "_patience_seconds", 0.5)
    for run_id in RUNS:
        open_attempt(made, run_id, 0, None)
    # Of a run with alerts it shows whether they are those that they should be.
    run, project = made.runs.open_run(CALLER, RUNS[0])
    for step in range(NUM_STEPS):
        batch = batch_body(step, batch_id=f"a0-{step}", attempt_id="a0", logged_at=900.0)
        made.batches.add(run, project, RolloutBatch.model_validate(batch))
        job = made.queue.claim(ClaimRequest(worker="first"))
        assert job is not None
        hand_in(made, job.job_id, job.step)
    assert derived(made)[2]
    yield made
    made.close()


def open_attempt(services: Services, run_id: str, number: int, from_step: int | None) -> None:
    attempt = {"attempt_id": f"a{number}", "started_at": 100.0 + number, "from_step": from_step}
    about = {"run_id": run_id, "project": "p", "name": "n", "writer_id": f"w{number}"}
    services.runs.start_run(CALLER, RunStart.model_validate({**about, "attempt": attempt}))


class Someone:
    """Does one thing after the other, by chance."""

    def __init__(self, services: Services, number: int) -> None:
        self._services = services
        self._random = random.Random(number)
        self._name = f"worker{number}"
        self._retention = Retention(services.database, max_kept=50, most_at_once=20)
        self._deeds: dict[Callable[[], None], int] = {
            self._resume: 5,
            self._send_batch: 30,
            self._send_scalars: 10,
            self._beat: 5,
            self._end: 2,
            self._work: 40,
            self._retry: 2,
            services.queue.reconcile: 3,
            services.results.late.look: 4,
            services.watch.look: 2,
            self._retention.look: 2,
        }

    def act(self) -> None:
        (deed,) = self._random.choices(list(self._deeds), list(self._deeds.values()))
        deed()

    def _run(self) -> tuple[Run, str]:
        return self._services.runs.open_run(CALLER, self._random.choice(RUNS))

    def _number(self) -> int:
        return self._random.randrange(NUM_ATTEMPTS)

    def _step(self) -> int:
        return self._random.randrange(NUM_STEPS)

    def _resume(self) -> None:
        from_step = self._random.choice([None, self._step()])
        open_attempt(self._services, self._random.choice(RUNS), self._number(), from_step)

    def _send_batch(self) -> None:
        number, step = self._number(), self._step()
        about: dict[str, Any] = {"attempt_id": f"a{number}", "logged_at": 1000.0 + self._random.randrange(5)}
        if self._random.random() < 0.3:
            about["shard"] = {"index": self._random.randrange(2), "count": 2}
        batch = batch_body(step, batch_id=f"a{number}-{step}-{self._random.randrange(3)}", **about)
        run, project = self._run()
        self._services.batches.add(run, project, RolloutBatch.model_validate(batch))

    def _send_scalars(self) -> None:
        points = [
            {"step": self._step(), "values": {"x": 1.0, "y": 2.0}, "logged_at": 1000.0} for _ in range(20)
        ]
        body = {"attempt_id": f"a{self._number()}", "points": points}
        run, project = self._run()
        self._services.scalars.add(run, project, ScalarBatch.model_validate(body))

    def _beat(self) -> None:
        beat = Heartbeat(writer_id=f"w{self._number()}", spool_records=self._random.randrange(3))
        self._services.heartbeats.of_writer(self._run()[0], beat)

    def _end(self) -> None:
        update = RunUpdate(state=RunState.finished, writer_id=f"w{self._number()}")
        run, project = self._run()
        self._services.runs.update_run(run, project, update)

    def _work(self) -> None:
        job = self._services.queue.claim(ClaimRequest(worker=self._name))
        luck = self._random.random()
        if job is not None and luck < 0.1:
            failure = JobFailure(worker=self._name, error="e", traceback="t")
            self._services.queue.fail(job.job_id, failure)
        elif job is not None and luck < 0.95:
            hand_in(self._services, job.job_id, job.step)

    def _retry(self) -> None:
        with self._services.database.read_session() as session:
            laid_aside = select(JobRow.id).where(JobRow.status.in_(("dead", "thinned")))
            job_ids = list(session.scalars(laid_aside))
        if job_ids:
            self._services.queue.retry(self._run()[0], self._random.choice(job_ids))


def hand_in(services: Services, job_id: int, step: int) -> None:
    result = result_body(0.6 if step < COLLAPSE_AT else 0.01)
    services.results.accept(job_id, ScoringResult.model_validate(result))


def finish(services: Services) -> None:
    """Scores what waits and folds what was put off."""
    waiting = select(func.count()).where(JobRow.status.in_(("queued", "leased")))
    without_job = select(func.count()).where(Batch.job_pk.is_(None))
    while True:
        services.queue.reconcile()
        job = services.queue.claim(ClaimRequest(worker="last"))
        if job is not None:
            hand_in(services, job.job_id, job.step)
            continue
        with services.database.read_session() as session:
            if not session.scalar(waiting) and not session.scalar(without_job):
                break
        time.sleep(0.1)
    while behind(services):
        services.results.late.look()


def behind(services: Services) -> list[late_folds.Behind]:
    with services.database.read_session() as session:
        return late_folds.behind(session)


def derived(services: Services) -> list[list[tuple[Any, ...]]]:
    folds = select(
        EvaluationRow.id, EvaluationRow.fold_state, EvaluationRow.fold_output, EvaluationRow.alert_moves
    ).order_by(EvaluationRow.id)
    place = (MetricPoint.run_pk, MetricPoint.scope, MetricPoint.metric, MetricPoint.step)
    points = select(*place, MetricPoint.attempt_pk, MetricPoint.value, MetricPoint.superseded)
    alert = (AlertRow.run_pk, AlertRow.attempt_pk, AlertRow.rule, AlertRow.opened_step)
    alerts = select(*alert, AlertRow.resolved_step, AlertRow.superseded).where(
        AlertRow.opened_step.is_not(None), ~AlertRow.withdrawn
    )
    queries = (folds, points.order_by(*place, MetricPoint.attempt_pk), alerts.order_by(*alert))
    with services.database.read_session() as session:
        return [[tuple(row) for row in session.execute(query)] for query in queries]


def fold_all(services: Services, run_pk: int, run_id: str) -> None:
    """The slow second way: all from the start, in order, in one transaction."""
    with services.database.write_session() as session:
        lineages = attempts.of_run(session, run_pk)
        target = ScopeOfRun(run_pk, run_id, "p", "first_turn", lineages)
        refold(session, target, {one.pk: 0 for one in lineages.attempts}, alerts_changed=True)
        marks = [
            *session.execute(select(EvaluationRow.attempt_pk, EvaluationRow.step, EvaluationRow.superseded)),
            *session.execute(select(MetricPoint.attempt_pk, MetricPoint.step, MetricPoint.superseded)),
        ]
    for attempt_pk, step, superseded in marks:
        if attempt_pk in lineages:
            assert superseded == lineages.is_superseded(attempt_pk, step)


def test_whatever_happens_at_once_what_is_derived_is_that_of_an_arrival_in_order(services: Services) -> None:
    until = time.monotonic() + SECONDS
    unexpected = Counter[str]()

    def act(number: int) -> None:
        someone = Someone(services, number)
        while time.monotonic() < until:
            try:
                someone.act()
            except EXPECTED:
                pass
            except Exception as error:  # noqa: BLE001 - whatever it is, the test fails by it
                unexpected[f"{type(error).__name__}: {error}"[:300]] += 1

    threads = [threading.Thread(target=act, args=(number,)) for number in range(NUM_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert unexpected == {}
    finish(services)
    found = derived(services)
    assert found[0]
    for run_pk, run_id in enumerate(RUNS, start=1):
        fold_all(services, run_pk, run_id)
    assert derived(services) == found
