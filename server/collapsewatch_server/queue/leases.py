"""The queue: leases in the database, and a feed that only says which job next."""

import logging
from collections.abc import Callable
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from collapsewatch.contracts.scoring import ClaimRequest, Job, JobFailure, ScorerConfig
from collapsewatch_server.db import Database
from collapsewatch_server.errors import JobConflict, JobNotFound, TextRemoved
from collapsewatch_server.queue.admission import Admission, Changes
from collapsewatch_server.queue.feed import Feed
from collapsewatch_server.repositories import clock, events, job_claims, jobs, runs, shards, spent_texts
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Batch, JobRow, Run

log = logging.getLogger(__name__)

_MAX_PUSHED = 10_000
_MAX_OVERDUE = 100


class Hearing(Protocol):
    """Since when workers could be heard; see `liveness.earshot.Earshot`."""

    def lost(self) -> None: ...

    def since(self, now: float) -> float: ...


class JobQueue:
    """Every move of a job but its good end, which belongs to the results."""

    def __init__(
        self,
        database: Database,
        feed: Feed,
        ring: Callable[[], None],
        admission: Admission,
        hearing: Hearing,
        *,
        lease_seconds: float,
        max_starts: int,
        shard_wait_seconds: float,
    ) -> None:
        self._database = database
        self._feed = feed
        self._ring = ring
        self._admission = admission
        self._hearing = hearing
        self._lease_seconds = lease_seconds
        self._max_starts = max_starts
        self._shard_wait_seconds = shard_wait_seconds

    def claim(self, request: ClaimRequest, key_id: int | None = None) -> Job | None:
        """The job that `request.worker` now holds; none when there is none to have. Does not wait.

        Args:
            key_id: the key that it holds it by. Only calls that come with a key of their own bring one.
        """
        with self._database.read_session() as session:
            # Waiting workers ask often, and on SQLite every write waits for every other.
            is_held = jobs.holds_job(session, request.worker, key_id)
            if not is_held and not jobs.claimable(session, request.job_id):
                return None
        with self._database.write_session() as session:
            owner, lease_seconds = request.worker, self._lease_seconds
            # A worker has one job at a time. Whatever it holds was leased by a call whose answer it never
            # read, and would otherwise cost the job its lease time and one of its few starts.
            row = jobs.claim_again(session, owner=owner, key_id=key_id, lease_seconds=lease_seconds)
            if row is None:
                row = jobs.claim(session, owner=owner, lease_seconds=lease_seconds, job_id=request.job_id)
            if row is None:
                return None
            if key_id is not None:
                job_claims.note(session, row.id, key_id)
            job, batch, run, _ = _known(jobs.with_batch(session, row.id), row.id)
            leased = Job(
                job_id=job.id,
                run_id=run.run_id,
                batch_id=batch.batch_id,
                step=batch.step,
                # Read once the lease is taken: a shard that came before it is part of the job.
                blob_keys=shards.blob_keys(session, batch),
                scorer=ScorerConfig.model_validate(batch.scorer or {}),
                start=job.starts,
                lease_seconds=self._lease_seconds,
            )
        log.info("job started", extra={"job": leased.job_id, "run": leased.run_id, "start": leased.start})
        return leased

    def beat(self, job_id: int, worker: str, key_id: int | None = None) -> bool:
        """Whether the worker still holds the job by this key; its lease begins anew."""
        try:
            with self._database.write_session() as session:
                held = jobs.beat(
                    session, job_id, owner=worker, key_id=key_id, lease_seconds=self._lease_seconds
                )
                if not held and jobs.status_of(session, job_id) is None:
                    raise JobNotFound(job_id)
        except SQLAlchemyError:
            self._hearing.lost()
            raise
        return held

    def missed(self) -> None:
        """Notes that a worker said that it has its job, and was turned away."""
        self._hearing.lost()

    def fail(self, job_id: int, failure: JobFailure, key_id: int | None = None) -> str:
        """Status of the job after the failure; a worker that does not hold it by this key changes nothing.

        Raises:
            JobNotFound: there is no such job.
        """
        with self._database.write_session() as session:
            row = jobs.fail(
                session,
                job_id,
                owner=failure.worker,
                key_id=key_id,
                error=_storable(failure.error),
                traceback=_storable(failure.traceback),
                retry=failure.retry,
                counts=not failure.given_back,
                max_starts=self._max_starts,
            )
            if row is None:
                status = jobs.status_of(session, job_id)
                if status is None:
                    raise JobNotFound(job_id)
                return status
            self._tell(session, row)
        self._after_failure([row])
        return row.status

    def retry(self, run: Run, job_id: int) -> None:
        """Queues a dead or thinned job again, with all its starts before it.

        Raises:
            JobNotFound: the run has no such job.
            JobConflict: it is neither.
            TextRemoved: there is nothing left to score.
        """
        with self._database.write_session() as session:
            runs.lock(session, run.id)
            removed = spent_texts.removed_step(session, job_id, run.id)
            if removed is not None:
                raise TextRemoved(removed)
            row = jobs.retry(session, job_id, run.id, max_waiting=self._admission.max_waiting)
            if row is None:
                found = jobs.with_batch(session, job_id)
                if found is None or found[2].id != run.id:
                    raise JobNotFound(job_id)
                status = found[0].status
                raise JobConflict(f"only a dead or thinned job can be retried, and job {job_id} is {status}")
            changes = Changes({row.id: row.score}) | self._admission.relieve(session, run.id)
            self._tell(session, row)
            _tell_thinned(session, run.id, changes)
        # A suggestion is only ever moved back, and one of a thinned job may still stand far behind.
        self._feed.forget([job_id])
        changes.tell(self._feed)
        self._ring()

    def reconcile(self) -> None:
        """Puts right what time or a lost message left behind; see the methods it calls."""
        self._take_back_leases()
        self._queue_incomplete_steps()
        self._relieve_runs()
        self._feed.remind(self._queued)

    def _take_back_leases(self) -> None:
        """An expired lease is a failed start, if its worker could be heard for as long as a lease lasts.

        Nobody can keep a lease while this server, or the database, is away.
        """
        try:
            with self._database.read_session() as session:
                moment = clock.read(session)
                is_any = jobs.any_expired(session)
        except SQLAlchemyError:
            self._hearing.lost()
            raise
        if moment - self._hearing.since(moment) < self._lease_seconds or not is_any:
            return
        with self._database.write_session() as session:
            rows = list(jobs.expire(session, max_starts=self._max_starts))
            for row in rows:
                self._tell(session, row)
        self._after_failure(rows)

    def _queue_incomplete_steps(self) -> None:
        """A step whose other shards do not come is scored without them."""
        with self._database.read_session() as session:
            found = shards.overdue(session, self._shard_wait_seconds, _MAX_OVERDUE)
        for batch in found:
            with self._database.write_session() as session:
                runs.lock(session, batch.run_pk)
                # Meanwhile the last shard, or another server, may have queued it.
                if not shards.waits(session, batch):
                    continue
                changes = self._admission.admit(session, batch, is_due=True)
                _tell_thinned(session, batch.run_pk, changes)
            changes.tell(self._feed)
            log.warning("step queued without all its shards", extra={"run": batch.run_pk, "step": batch.step})

    def _relieve_runs(self) -> None:
        """Jobs that came back from workers may have made a run's line too long."""
        with self._database.read_session() as session:
            crowded = jobs.crowded(session, self._admission.max_waiting)
        for run_pk in crowded:
            with self._database.write_session() as session:
                runs.lock(session, run_pk)
                changes = self._admission.relieve(session, run_pk)
                _tell_thinned(session, run_pk, changes)
            changes.tell(self._feed)

    def _queued(self) -> list[tuple[int, float]]:
        with self._database.read_session() as session:
            return jobs.queued(session, _MAX_PUSHED)

    def _tell(self, session: Session, row: JobRow) -> None:
        job, batch, run, project = _known(jobs.with_batch(session, row.id), row.id)
        data = {
            "run_id": run.run_id,
            "project": project,
            "step": batch.step,
            "job_id": job.id,
            "status": job.status,
        }
        events.add(session, run.id, [Event("job", data)])

    def _after_failure(self, rows: list[JobRow]) -> None:
        for row in rows:
            facts = {"job": row.id, "starts": row.starts, "error": (row.error or "")[:200]}
            if row.status == "dead":
                log.error("job is dead", extra=facts)
            else:
                log.warning("job failed and is queued again", extra=facts)
        self._feed.push((row.id, row.score) for row in rows if row.status == "queued")
        self._ring()


def _tell_thinned(session: Session, run_pk: int, changes: Changes) -> None:
    if changes.thinned:
        run, project = runs.named(session, run_pk)
        events.add(session, run_pk, changes.events(run.run_id, project))


def _known(found: tuple[JobRow, Batch, Run, str] | None, job_id: int) -> tuple[JobRow, Batch, Run, str]:
    if found is None:
        raise JobNotFound(job_id)
    return found


def _storable(text: str) -> str:
    # PostgreSQL's text holds every character but this one.
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
