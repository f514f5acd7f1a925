"""The worker's parent process: finds jobs, leases them, has its child score them, hands the results in.

It imports no torch: it starts at once, stays small, and its heartbeat goes on while the child is inside a
long call that holds the interpreter lock.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from collapsewatch.contracts.scoring import Job, JobFailure, ScoringResult
from collapsewatch_worker.loop.feed import FeedAnswer
from collapsewatch_worker.loop.messages import Failed, Message, Ready, Scored
from collapsewatch_worker.loop.progress import Progress
from collapsewatch_worker.loop.scoring_process import ScoringProcessGone
from collapsewatch_worker.loop.server_api import RequestRefused, ServerApiError, ServerUnreachable, WorkerApi

log = logging.getLogger(__name__)

_SLICE_SECONDS = 0.25
_START_SECONDS = 120.0
_BEATS_PER_LEASE = 4
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0


class Feed(Protocol):
    """Suggests which job to claim."""

    def next_job_id(self) -> int | FeedAnswer:
        """A job id, or why there is none."""


class Child(Protocol):
    """The scoring process as the parent uses it; see `scoring_process.ScoringProcess`."""

    def is_alive(self) -> bool: ...

    def send(self, job: Job) -> None: ...

    def receive(self, timeout_seconds: float) -> Message | None: ...

    def stop(self) -> None: ...


class Parent:
    """Runs until `stop` is set. Neither an absent server nor a dying child ends it."""

    def __init__(
        self,
        *,
        worker: str,
        api: WorkerApi,
        start_child: Callable[[], Child],
        stop: threading.Event,
        feed: Feed | None = None,
        claim_wait_seconds: float = 1.0,
        max_job_seconds: float = 3600.0,
        shutdown_seconds: float = 10.0,
        progress: Progress | None = None,
    ) -> None:
        self._worker = worker
        self._api = api
        self._feed = feed
        self._start_child = start_child
        self._stop = stop
        self._claim_wait_seconds = claim_wait_seconds
        self._max_job_seconds = max_job_seconds
        self._shutdown_seconds = shutdown_seconds
        self._progress = progress or Progress()
        self._child: Child | None = None
        self._pause = _Pause(stop)

    def run(self) -> None:
        """Scores jobs, one at a time, until `stop` is set."""
        try:
            while not self._stop.is_set():
                # A job is claimed only for a child that can take it: an installation without its
                # libraries must not use up the starts of every job in the queue.
                if self._ready_child() is None:
                    continue
                job = self._next_job()
                if job is not None:
                    self._progress.job_id = job.job_id
                    self._hand_in(job, self._outcome(job))
                    self._progress.job_id = None
        finally:
            self._drop_child()

    def _ready_child(self) -> Child | None:
        if self._child is not None and self._child.is_alive():
            return self._child
        self._drop_child()
        try:
            self._child = self._start_child()
            deadline = time.monotonic() + _START_SECONDS
            while not self._stop.is_set() and time.monotonic() < deadline:
                if isinstance(self._child.receive(_SLICE_SECONDS), Ready):
                    self._pause.reset()
                    return self._child
            reason = f"not ready after {_START_SECONDS:.0f} s"
        except ScoringProcessGone as gone:
            reason = str(gone)
        self._drop_child()
        if not self._stop.is_set():
            log.error("the scoring process does not start", extra={"error": reason})
            self._pause.wait()
        return None

    def _drop_child(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None

    def _next_job(self) -> Job | None:
        started = time.monotonic()
        hint = self._feed.next_job_id() if self._feed is not None else FeedAnswer.unavailable
        if self._stop.is_set():
            return None
        wait_seconds = self._claim_wait_seconds if hint is FeedAnswer.unavailable else 0.0
        try:
            job = self._api.claim(wait_seconds=wait_seconds, job_id=hint if isinstance(hint, int) else None)
        except ServerApiError as error:
            self._report(error)
            self._pause.wait()
            return None
        self._pause.reset()
        if job is None and hint is FeedAnswer.unavailable:
            # A server that answers before the time is up would otherwise be asked without a pause.
            self._stop.wait(max(0.0, self._claim_wait_seconds / 2 - (time.monotonic() - started)))
        return job

    def _report(self, error: ServerApiError) -> None:
        # Each outage is told once at full volume; what repeats while it lasts is for debugging.
        first = logging.WARNING if isinstance(error, ServerUnreachable) else logging.ERROR
        level = logging.DEBUG if self._pause.num_waits else first
        log.log(level, "the server gives no answer, trying again", extra={"error": str(error)})

    def _outcome(self, job: Job) -> ScoringResult | JobFailure:
        try:
            message = self._score(job)
        except ScoringProcessGone as gone:
            self._drop_child()
            return self._failure(str(gone))
        if message is None:
            self._drop_child()
            return self._given_back() if self._stop.is_set() else self._failure("the job took too long")
        if isinstance(message, Scored):
            return message.result
        if message.worn_out:
            self._drop_child()
        return message.failure

    def _score(self, job: Job) -> Scored | Failed | None:
        """The child's answer, or None when the job ran out of its time or the worker is stopping."""
        # It may have died while the claim call waited; that is no fault of the job.
        child = self._ready_child()
        if child is None:
            if self._stop.is_set():
                return None
            raise ScoringProcessGone("the scoring process does not start")
        child.send(job)
        beat_seconds = job.lease_seconds / _BEATS_PER_LEASE
        started = time.monotonic()
        next_beat, deadline = started + beat_seconds, started + self._max_job_seconds
        stopping = False
        while (now := time.monotonic()) < deadline:
            if self._stop.is_set() and not stopping:
                stopping = True
                deadline = min(deadline, now + self._shutdown_seconds)
            message = child.receive(min(_SLICE_SECONDS, next_beat - now, deadline - now))
            if isinstance(message, Scored | Failed):
                return message
            if time.monotonic() >= next_beat:
                self._beat(job)
                next_beat = time.monotonic() + beat_seconds
        return None

    def _beat(self, job: Job, is_over: Callable[[], bool] = lambda: False) -> None:
        try:
            held = self._api.beat(job.job_id)
        except ServerApiError as error:
            level = logging.DEBUG if self._pause.num_waits else logging.WARNING
            log.log(level, "heartbeat failed", extra={"job_id": job.job_id, "error": str(error)})
            return
        if not held and not is_over():
            # The first good result counts, whoever holds the lease: dropping the work would only repeat it.
            log.warning("lease lost, the work goes on", extra={"job_id": job.job_id})

    def _failure(self, error: str) -> JobFailure:
        return JobFailure(worker=self._worker, error=error[:2000])

    def _given_back(self) -> JobFailure:
        # No fault of the job: a few restarts of the service in its time must not make it a dead one.
        return self._failure("the worker was stopped").model_copy(update={"given_back": True})

    @contextmanager
    def _lease_kept(self, job: Job) -> Iterator[None]:
        """Beats for the length of the block, from a thread of its own."""
        is_over = threading.Event()

        def beat_on() -> None:
            while not is_over.wait(job.lease_seconds / _BEATS_PER_LEASE):
                self._beat(job, is_over.is_set)

        thread = threading.Thread(target=beat_on, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _hand_in(self, job: Job, outcome: ScoringResult | JobFailure) -> None:
        """Tells the server, however long it is away: the work is worth more than the wait.

        Once the server is back it hears the beats before the result, and gives the job to nobody else.
        """
        with self._lease_kept(job):
            self._try_to_hand_in(job, outcome)

    def _try_to_hand_in(self, job: Job, outcome: ScoringResult | JobFailure) -> None:
        while True:
            try:
                self._tell(job, outcome)
                self._pause.reset()
                return
            except RequestRefused as refusal:
                if not refusal.is_about_the_key:
                    if isinstance(outcome, JobFailure):
                        log.error("failure refused", extra={"job_id": job.job_id, "error": str(refusal)})
                        return
                    outcome = self._failure(f"the server refused the result: {refusal}").model_copy(
                        update={"retry": False}
                    )
                    continue
                self._report(refusal)
            except ServerUnreachable as error:
                self._report(error)
            if self._stop.is_set():
                log.warning("stopped before the job could be handed in", extra={"job_id": job.job_id})
                return
            self._pause.wait()

    def _tell(self, job: Job, outcome: ScoringResult | JobFailure) -> None:
        facts = {"job_id": job.job_id, "run": job.run_id, "step": job.step, "start": job.start}
        if isinstance(outcome, JobFailure):
            status = self._api.fail(job.job_id, outcome)
            self._progress.num_failed += not outcome.given_back
            log.warning("job failed", extra={**facts, "status": status, "error": outcome.error})
            return
        accepted = self._api.done(job.job_id, outcome)
        self._progress.num_done += 1
        facts["num_rows"] = sum(evaluation.num_rows for evaluation in outcome.evaluations)
        log.info(
            "batch scored",
            extra={
                **facts,
                "scorer": outcome.scorer.label,
                "seconds": outcome.seconds,
                "accepted": accepted,
            },
        )


class _Pause:
    """Waits longer each time, with jitter, until it is reset; a stop ends every wait."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.num_waits = 0

    def wait(self) -> None:
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**self.num_waits)
        self.num_waits = min(self.num_waits + 1, 10)
        # Workers that lost the same server must not come back in step.
        self._stop.wait(longest * random.uniform(0.5, 1.0))

    def reset(self) -> None:
        self.num_waits = 0
