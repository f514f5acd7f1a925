"""What the database says about a run, held against what its trainer's ledger says was sent."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobNotFound, BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import late_folds
from collapsewatch_server.tables import Attempt, Batch, BatchResult, EvaluationRow, JobRow, Run
from tests.faults import derived, standing
from tests.faults.account import Account, Key, Sent

_MAX_SHOWN = 6


class Audit:
    """Reads one deployment's database and blobs, past the server."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def num_jobs(self, run_id: str | None = None) -> Counter[str]:
        """Jobs by status, of one run or of all."""
        statement = select(JobRow.status)
        if run_id is not None:
            statement = statement.join(Run, Run.id == JobRow.run_pk).where(Run.run_id == run_id)
        with self._database.read_session() as session:
            return Counter(session.scalars(statement))

    def jobs(self, run_id: str, status: str) -> list[JobRow]:
        """The run's jobs of this status."""
        statement = select(JobRow).join(Run, Run.id == JobRow.run_pk)
        with self._database.read_session() as session:
            return list(session.scalars(statement.where(Run.run_id == run_id, JobRow.status == status)))

    def has_tried_jobs(self, num_starts: int) -> bool:
        """Whether a job that is still to be scored was started so often."""
        tried = JobRow.status.in_(("queued", "leased")) & (JobRow.starts >= num_starts)
        with self._database.read_session() as session:
            return session.scalar(select(JobRow.id).where(tried).limit(1)) is not None

    def leased_pid(self) -> set[int]:
        """Process ids of the workers that hold a job; a worker's name ends in its process id and a word."""
        statement = select(JobRow.owner).where(JobRow.status == "leased")
        with self._database.read_session() as session:
            owners = [owner for owner in session.scalars(statement) if owner]
        return {int(owner.split("-")[-2]) for owner in owners}

    def batch(self, run_id: str, step: int) -> tuple[Batch, JobRow] | None:
        """A batch and its job."""
        with self._database.read_session() as session:
            found = _batches(session, _run_pk(session, run_id))
        return next(((batch, job) for _, batch, job in found if batch.step == step and job), None)

    def accepted(self, run_id: str) -> set[Key]:
        """What has arrived."""
        with self._database.read_session() as session:
            return {key for key, _, _ in _batches(session, _run_pk(session, run_id))}

    def is_settled(self, run_id: str, keys: Iterable[Key]) -> bool:
        """Whether every one of these batches was accepted, and nothing can happen to any any more.

        Steps that came late are folded a moment after they were stored.
        """
        with self._database.read_session() as session:
            run_pk = _run_pk(session, run_id)
            found = _batches(session, run_pk)
            if any(one.run_pk == run_pk for one in late_folds.behind(session)):
                return False
        ends = ("done", "dead", "thinned")
        has_all = {key for key, _, _ in found} >= set(keys)
        return has_all and all(job and job.status in ends for *_, job in found)

    def account(self, run_id: str, sent: Sent) -> Account:
        """What became of the batches that were sent."""
        with self._database.read_session() as session:
            run_pk = _run_pk(session, run_id)
            found = _batches(session, run_pk)
            results = {row.batch_pk: row for row in session.scalars(_of(BatchResult, run_pk))}
            standing_results = Counter(
                (row.attempt_pk, row.step) for row in results.values() if row.current
            ) + Counter(
                (row.attempt_pk, row.scope, row.step)
                for row in session.scalars(_of(EvaluationRow, run_pk).where(EvaluationRow.current))
            )
        accepted = Counter(key for key, _, _ in found)
        missing = sorted(sent.keys - set(accepted))
        dead = [batch for _, batch, job in found if job is not None and job.status == "dead"]
        unscored = [
            (key, "no job" if job is None else job.status)
            for key, batch, job in found
            if job is None or not (job.status == "dead" or _is_scored(job, results.get(batch.id)))
        ]
        account = Account(
            num_sent=len(sent.keys | set(accepted)),
            num_accepted=len(accepted),
            num_scored=len(accepted) - len({key for key, _ in unscored}) - len(dead),
            num_dead=len(dead),
            num_dropped=min(len(missing), sent.num_dropped),
            num_lost=max(0, len(missing) - sent.num_dropped),
            num_duplicated=_num_twice(accepted) + _num_twice(standing_results),
        )
        told = account.problems
        if account.num_lost:
            told.append(f"{run_id}: lost {_some(missing)}, {sent.num_dropped} were said to be dropped")
        if account.num_dropped != sent.num_dropped:
            told.append(f"{run_id}: {sent.num_dropped} said to be dropped, {len(missing)} did not arrive")
        if unscored:
            told.append(f"{run_id}: neither scored nor dead: {_some(unscored)}")
        steps = {batch.step for batch in dead}
        if steps != sent.dead:
            told.append(f"{run_id}: dead are the steps {sorted(steps)}, expected were {sorted(sent.dead)}")
        told += [
            f"{run_id}: dead without a reason: {key}"
            for key, _, job in found
            if job is not None and job.status == "dead" and not job.error
        ]
        told += [
            f"{run_id}: the rollouts of {key} cannot be read any more"
            for key, batch, _ in found
            if batch.step not in sent.dead and not self._is_readable(batch.blob_key)
        ]
        return account

    def problems(self, run_id: str, sent: Sent) -> list[str]:
        """What is wrong with the run itself: its state, its attempts, the watch's alerts, the events."""
        with self._database.read_session() as session:
            return [f"{run_id}: {problem}" for problem in standing.problems(session, run_id, sent)]

    def open_service_alerts(self) -> list[str]:
        """Rules that have an open alert about the service."""
        with self._database.read_session() as session:
            return standing.open_about_service(session)

    def derived(self, run_id: str) -> derived.Derived:
        """The run's own metrics, regimes and alerts."""
        with self._database.read_session() as session:
            return derived.derived(session, _run_pk(session, run_id))

    def _is_readable(self, key: str) -> bool:
        try:
            return len(self._blobs.read(key)) > 0
        except (BlobNotFound, OSError):
            return False


def _run_pk(session: Session, run_id: str) -> int | None:
    return session.scalar(select(Run.id).where(Run.run_id == run_id))


def _batches(session: Session, run_pk: int | None) -> list[tuple[Key, Batch, JobRow | None]]:
    names = {row.id: row.attempt_id for row in session.scalars(_of(Attempt, run_pk))}
    jobs = list(session.scalars(_of(JobRow, run_pk)))
    by_id, by_batch = {job.id: job for job in jobs}, {job.batch_pk: job for job in jobs}
    return [
        (
            (names.get(batch.attempt_pk or 0, ""), batch.step),
            batch,
            by_id.get(batch.job_pk) if batch.job_pk else by_batch.get(batch.id),
        )
        for batch in session.scalars(_of(Batch, run_pk).order_by(Batch.id))
    ]


def _of(table: Any, run_pk: int | None) -> Any:
    return select(table).where(table.run_pk == run_pk)


def _is_scored(job: JobRow, result: BatchResult | None) -> bool:
    return job.status == "done" and result is not None and bool(result.metrics)


def _num_twice(counted: Counter[Any]) -> int:
    return sum(count - 1 for count in counted.values())


def _some(things: list[Any]) -> str:
    rest = len(things) - _MAX_SHOWN
    return ", ".join(map(str, things[:_MAX_SHOWN])) + (f" and {rest} more" if rest > 0 else "")
