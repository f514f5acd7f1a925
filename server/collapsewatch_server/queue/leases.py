"""The queue: leases in the database, and a feed that only says which job next."""

import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from collapsewatch.contracts.scoring import ClaimRequest, Job, JobFailure, ScorerConfig
from collapsewatch_server.db import Database
from collapsewatch_server.errors import JobConflict, JobNotFound
from collapsewatch_server.queue.feed import Feed
from collapsewatch_server.repositories import events, jobs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Batch, JobRow, Run

log = logging.getLogger(__name__)

_MAX_PUSHED = 10_000


class JobQueue:
    """Every move of a job but its good end, which belongs to the results."""

    def __init__(
        self,
        database: Database,
        feed: Feed,
        ring: Callable[[], None],
        *,
        lease_seconds: float,
        max_starts: int,
    ) -> None:
        self._database = database
        self._feed = feed
        self._ring = ring
        self._lease_seconds = lease_seconds
        self._max_starts = max_starts

    def claim(self, request: ClaimRequest) -> Job | None:
        """The job that `request.worker` now holds; none when there is none to have. Does not wait."""
        with self._database.read_session() as session:
            # Waiting workers ask often, and on SQLite every write waits for every other.
            if not jobs.claimable(session, request.job_id):
                return None
        with self._database.write_session() as session:
            row = jobs.claim(
                session, owner=request.worker, lease_seconds=self._lease_seconds, job_id=request.job_id
            )
            if row is None:
                return None
            job, batch, run, _ = _known(jobs.with_batch(session, row.id), row.id)
            leased = Job(
                job_id=job.id,
                run_id=run.run_id,
                batch_id=batch.batch_id,
                step=batch.step,
                blob_keys=[batch.blob_key],
                scorer=ScorerConfig.model_validate(batch.scorer or {}),
                start=job.starts,
                lease_seconds=self._lease_seconds,
            )
        log.info("job started", extra={"job": leased.job_id, "run": leased.run_id, "start": leased.start})
        return leased

    def beat(self, job_id: int, worker: str) -> bool:
        """Whether the worker still holds the job, whose lease begins anew."""
        with self._database.write_session() as session:
            held = jobs.beat(session, job_id, owner=worker, lease_seconds=self._lease_seconds)
            if not held and jobs.status_of(session, job_id) is None:
                raise JobNotFound(job_id)
        return held

    def fail(self, job_id: int, failure: JobFailure) -> str:
        """Status of the job after the failure; a worker that has lost its lease changes nothing.

        Raises:
            JobNotFound: there is no such job.
        """
        with self._database.write_session() as session:
            row = jobs.fail(
                session,
                job_id,
                owner=failure.worker,
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
        """Queues a dead job again, with all its starts before it.

        Raises:
            JobNotFound: the run has no such job.
            JobConflict: it is not dead.
        """
        with self._database.write_session() as session:
            row = jobs.retry(session, job_id, run.id)
            if row is None:
                found = jobs.with_batch(session, job_id)
                if found is None or found[2].id != run.id:
                    raise JobNotFound(job_id)
                raise JobConflict(f"only a dead job can be retried, and job {job_id} is {found[0].status}")
            self._tell(session, row)
        self._feed.push([(row.id, row.score)])
        self._ring()

    def reconcile(self) -> None:
        """Takes expired leases back and pushes all queued jobs again, so that a lost hint costs a moment."""
        with self._database.read_session() as session:
            any_expired = jobs.any_expired(session)
        if any_expired:
            with self._database.write_session() as session:
                rows = list(jobs.expire(session, max_starts=self._max_starts))
                for row in rows:
                    self._tell(session, row)
            self._after_failure(rows)
        with self._database.read_session() as session:
            queued = jobs.queued(session, _MAX_PUSHED)
        self._feed.push(queued)

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


def _known(found: tuple[JobRow, Batch, Run, str] | None, job_id: int) -> tuple[JobRow, Batch, Run, str]:
    if found is None:
        raise JobNotFound(job_id)
    return found


def _storable(text: str) -> str:
    # PostgreSQL's text holds every character but this one.
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
