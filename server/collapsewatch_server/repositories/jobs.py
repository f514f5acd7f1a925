"""Jobs as rows: every move of the queue is one conditional UPDATE."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Numeric, Select, case, cast, func, literal, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import is_postgresql, now
from collapsewatch_server.repositories.job_claims import was_claimed_with
from collapsewatch_server.tables import Batch, JobRow, Project, Run

SPACING_SECONDS = 1.0
"""Distance in the queue between jobs of one run: a run that sends many at once leaves room for others."""
_SHORT_SPACING_SECONDS = 0.001
DEFERRED = 1e12
"""What is added to the place of a deferred job: more than any time, so that it comes behind all others."""
_LARGEST_ID = 2**63 - 1
# Fewer than the parameters that either database takes; the next look goes on where this one ended.
_MOST_AT_ONCE = 10_000
_GIVEN_BACK: dict[str, Any] = {
    "status": "queued",
    "starts": JobRow.starts - 1,
    "owner": None,
    "lease_until": None,
}


def add(session: Session, *, batch_pk: int, run_pk: int, max_waiting: int) -> tuple[int, float]:
    """The new job's id and its place in the queue, behind all of its run that are not deferred."""
    current, score = _last_place(session, run_pk, max_waiting)
    job = JobRow(
        batch_pk=batch_pk,
        run_pk=run_pk,
        status="queued",
        score=score,
        starts=0,
        created_at=current,
        queued_at=current,
    )
    session.add(job)
    session.flush()
    return job.id, score


def take_over(session: Session, job_id: int, *, batch_pk: int) -> float | None:
    """Place of the job, which now stands for this batch; none unless it waits and nobody ever started it."""
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.status == "queued", JobRow.starts == 0)
    return session.scalar(statement.values(batch_pk=batch_pk).returning(JobRow.score))


def yield_batch(session: Session, job_id: int, *, batch_pk: int, to: int) -> None:
    """Has the job stand for the batch `to`, if it stood for `batch_pk`."""
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.batch_pk == batch_pk)
    session.execute(statement.values(batch_pk=to))


def defer(session: Session, run_pk: int, max_waiting: int) -> list[tuple[int, float]]:
    """Ids and new places of the run's oldest waiting jobs, those beyond `max_waiting`: behind all others."""
    beyond = _beyond(session, run_pk, max_waiting, JobRow.score < DEFERRED)
    if not beyond:
        return []
    statement = update(JobRow).where(JobRow.id.in_(beyond), JobRow.status == "queued")
    statement = statement.values(deferred=True, score=JobRow.score + DEFERRED)
    rows = session.execute(statement.returning(JobRow.id, JobRow.score))
    return [(job_id, score) for job_id, score in rows]


def thin(session: Session, run_pk: int, max_deferred: int) -> list[int]:
    """Ids of the run's deferred jobs beyond `max_deferred`, now laid aside unscored.

    Those of steps that the scorer leaves out by choice go first, then the oldest of the others.
    """
    beyond = _beyond(session, run_pk, max_deferred, JobRow.score >= DEFERRED, first=_is_due())
    if not beyond:
        return []
    statement = update(JobRow).where(JobRow.id.in_(beyond), JobRow.status == "queued")
    error = f"laid aside unscored: more than {max_deferred} other batches of the run were deferred"
    values = {"status": "thinned", "finished_at": now(), "error": error}
    return list(session.scalars(statement.values(values).returning(JobRow.id)))


def crowded(session: Session, max_waiting: int) -> list[int]:
    """Runs with more than `max_waiting` jobs that wait and are not deferred."""
    statement = (
        select(JobRow.run_pk)
        .where(JobRow.status == "queued", JobRow.score < DEFERRED)
        .group_by(JobRow.run_pk)
        .having(func.count() > max_waiting)
    )
    return list(session.scalars(statement))


def claimable(session: Session, job_id: int | None = None) -> bool:
    """Whether there is a queued job, or whether this one is queued."""
    statement = select(JobRow.id).where(JobRow.status == "queued")
    if job_id is not None:
        statement = statement.where(JobRow.id == _in_range(job_id))
    return session.scalar(statement.limit(1)) is not None


def claim(session: Session, *, owner: str, lease_seconds: float, job_id: int | None = None) -> JobRow | None:
    """The job in front, or that very job, now leased; none when there is none.

    Claims that meet on PostgreSQL pass over each other's rows, so that nobody waits or comes away empty.
    """
    candidate = select(JobRow.id).where(JobRow.status == "queued")
    if job_id is None:
        candidate = candidate.order_by(JobRow.score, JobRow.id).limit(1)
    else:
        candidate = candidate.where(JobRow.id == _in_range(job_id))
    candidate = _skip_locked(session, candidate)
    statement = update(JobRow).where(JobRow.id == candidate.scalar_subquery(), JobRow.status == "queued")
    values = {
        "status": "leased",
        "starts": JobRow.starts + 1,
        "owner": owner,
        "lease_until": now() + lease_seconds,
    }
    return session.scalar(statement.values(values).returning(JobRow))


def holds_job(session: Session, owner: str, key_id: int | None) -> bool:
    """Whether a job is leased to `owner` by this key."""
    return session.scalar(_held(owner, key_id).limit(1)) is not None


def claim_again(session: Session, *, owner: str, key_id: int | None, lease_seconds: float) -> JobRow | None:
    """The job that `owner` holds, as if it had just claimed it; the start that it has counts once."""
    held = _held(owner, key_id)
    held = _skip_locked(session, held.order_by(JobRow.score, JobRow.id).limit(1))
    statement = update(JobRow).where(
        JobRow.id == held.scalar_subquery(), JobRow.status == "leased", JobRow.owner == owner
    )
    return session.scalar(statement.values(lease_until=now() + lease_seconds).returning(JobRow))


def beat(session: Session, job_id: int, *, owner: str, key_id: int | None, lease_seconds: float) -> bool:
    """Whether `owner` holds the lease by this key; it is now longer."""
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.status == "leased", JobRow.owner == owner)
    statement = statement.where(was_claimed_with(key_id))
    values = {"lease_until": now() + lease_seconds}
    return session.scalar(statement.values(values).returning(JobRow.id)) is not None


def finish(session: Session, job_id: int) -> bool:
    """Whether the job was not done before; now it is, whoever held it."""
    statement = update(JobRow).where(JobRow.id == job_id, JobRow.status != "done")
    values = {"status": "done", "owner": None, "lease_until": None, "error": None, "finished_at": now()}
    return session.scalar(statement.values(**values, traceback=None).returning(JobRow.id)) is not None


def fail(
    session: Session,
    job_id: int,
    *,
    owner: str,
    key_id: int | None,
    error: str,
    traceback: str,
    retry: bool,
    counts: bool,
    max_starts: int,
) -> JobRow | None:
    """The job after this failure, back at its old place or dead; none unless `owner` held it by this key.

    A start that does not `count` is taken back, and the job is queued whatever else is said.
    """
    values = _failed(retry, max_starts) if counts else _GIVEN_BACK
    return session.scalar(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.status == "leased", JobRow.owner == owner)
        .where(was_claimed_with(key_id))
        .values(**values, error=error, traceback=traceback)
        .returning(JobRow)
    )


def expire(session: Session, *, max_starts: int) -> Sequence[JobRow]:
    """The jobs whose lease had run out, back in the queue or dead."""
    lost = select(JobRow.id).where(JobRow.status == "leased", JobRow.lease_until < now())
    lost = _skip_locked(session, lost)
    message = "the worker stopped answering while it held the job: " + func.coalesce(JobRow.owner, "")
    values = {**_failed(True, max_starts), "error": message, "traceback": None}
    statement = update(JobRow).where(JobRow.id.in_(lost)).values(values)
    return session.scalars(statement.returning(JobRow)).all()


def any_expired(session: Session) -> bool:
    """Whether a lease has run out."""
    lost = select(JobRow.id).where(JobRow.status == "leased", JobRow.lease_until < now()).limit(1)
    return session.scalar(lost) is not None


def retry(session: Session, job_id: int, run_pk: int, *, max_waiting: int) -> JobRow | None:
    """The dead or thinned job, queued again at the end with all its starts; none unless it was one."""
    statement = update(JobRow).where(
        JobRow.id == job_id, JobRow.run_pk == run_pk, JobRow.status.in_(("dead", "thinned"))
    )
    current, score = _last_place(session, run_pk, max_waiting)
    # Why it was thinned is no longer true; the last failure of a dead job still happened.
    error = case((JobRow.status == "thinned", None), else_=JobRow.error)
    values = {
        "status": "queued",
        "starts": 0,
        "score": score,
        "queued_at": current,
        "deferred": False,
        "finished_at": None,
    }
    return session.scalar(statement.values(**values, error=error).returning(JobRow))


def any_open(session: Session, run_pk: int) -> bool:
    """Whether a job of the run waits or is being scored."""
    statement = select(JobRow.id).where(JobRow.run_pk == run_pk, JobRow.status.in_(("queued", "leased")))
    return session.scalar(statement.limit(1)) is not None


def queued(session: Session, limit: int) -> list[tuple[int, float]]:
    """Ids and places of the jobs in front."""
    statement = select(JobRow.id, JobRow.score).where(JobRow.status == "queued")
    rows = session.execute(statement.order_by(JobRow.score, JobRow.id).limit(limit))
    return [(job_id, score) for job_id, score in rows]


def status_of(session: Session, job_id: int) -> str | None:
    """Status of the job; none when there is no such job."""
    return session.scalar(select(JobRow.status).where(JobRow.id == job_id))


def run_of(session: Session, job_id: int) -> int | None:
    """Row id of the job's run; none when there is no such job."""
    return session.scalar(select(JobRow.run_pk).where(JobRow.id == job_id))


def with_batch(session: Session, job_id: int) -> tuple[JobRow, Batch, Run, str] | None:
    """The job, its batch, its run, and the project's name."""
    statement = (
        select(JobRow, Batch, Run, Project.name)
        .join(Batch, Batch.id == JobRow.batch_pk)
        .join(Run, Run.id == JobRow.run_pk)
        .join(Project, Project.id == Run.project_id)
        .where(JobRow.id == job_id)
    )
    row = session.execute(statement).first()
    return None if row is None else (row[0], row[1], row[2], row[3])


def of_run(session: Session, run_pk: int, status: str | None, limit: int) -> list[tuple[JobRow, Batch]]:
    """The run's jobs with their batches, newest first."""
    statement = select(JobRow, Batch).join(Batch, Batch.id == JobRow.batch_pk).where(JobRow.run_pk == run_pk)
    if status is not None:
        statement = statement.where(JobRow.status == status)
    return [(job, batch) for job, batch in session.execute(statement.order_by(JobRow.id.desc()).limit(limit))]


def counts(session: Session, run_pk: int) -> dict[str, int]:
    """Number of the run's jobs by status."""
    statement = select(JobRow.status, func.count()).where(JobRow.run_pk == run_pk).group_by(JobRow.status)
    found: dict[str, int] = {}
    for status, count in session.execute(statement):
        found[status] = count
    return found


def num_deferred(session: Session, run_pk: int) -> int:
    """Number of the run's jobs that wait behind everything that is not deferred."""
    statement = select(func.count()).where(
        JobRow.run_pk == run_pk, JobRow.status == "queued", JobRow.score >= DEFERRED
    )
    return session.execute(statement).scalar_one()


def _last_place(session: Session, run_pk: int, max_waiting: int) -> tuple[float, float]:
    """The time, and the place behind all of the run's jobs that are not deferred.

    No place lies further ahead than `max_waiting` spaced jobs reach: of a flood only the newest stay in
    line, and they must not wait for the room that the deferred ones left.
    """
    last = select(func.max(JobRow.score)).where(
        JobRow.run_pk == run_pk, JobRow.status == "queued", JobRow.score < DEFERRED
    )
    current, last_score = session.execute(select(now(), last.scalar_subquery())).one()
    if last_score is None or last_score + SPACING_SECONDS <= current:
        return current, current
    is_far = last_score + SPACING_SECONDS > current + max_waiting * SPACING_SECONDS
    return current, last_score + (_SHORT_SPACING_SECONDS if is_far else SPACING_SECONDS)


def _beyond(
    session: Session,
    run_pk: int,
    limit: int,
    where: ColumnElement[bool],
    *,
    first: ColumnElement[bool] | None = None,
) -> Sequence[int]:
    """The run's queued jobs without the newest `limit` of them, or without those of which `first` is true.

    A statement of its own: within the UPDATE, SQLite would look at every queued job of every run.
    """
    waiting = select(JobRow.id).where(JobRow.run_pk == run_pk, JobRow.status == "queued", where)
    if first is not None:
        held = select(literal(1)).where(JobRow.run_pk == run_pk, JobRow.status == "queued", where)
        if session.scalar(held.limit(1).offset(limit)) is None:
            return []
        # The batches are looked up only once there are too many.
        waiting = waiting.join(Batch, Batch.id == JobRow.batch_pk).order_by(case((first, 0), else_=1))
    waiting = waiting.order_by(JobRow.score.desc(), JobRow.id.desc())
    return session.scalars(waiting.limit(_MOST_AT_ONCE).offset(limit)).all()


def _is_due() -> ColumnElement[bool]:
    """Whether the scorer of the batch takes its step."""
    # As text and then a number: PostgreSQL's integers are smaller than what a scorer may name.
    every_steps = cast(Batch.scorer["every_steps"].as_string(), Numeric(20, 0))
    return Batch.step % func.coalesce(every_steps, 1) == 0


def _failed(retry: bool, max_starts: int) -> dict[str, Any]:
    is_dead: ColumnElement[bool] = JobRow.starts >= (max_starts if retry else 0)
    return {
        "status": case((is_dead, "dead"), else_="queued"),
        "finished_at": case((is_dead, now()), else_=None),
        "owner": None,
        "lease_until": None,
    }


def _skip_locked(session: Session, statement: Select[int]) -> Select[int]:
    return statement.with_for_update(skip_locked=True) if is_postgresql(session) else statement


def _held(owner: str, key_id: int | None) -> Select[int]:
    held = select(JobRow.id).where(JobRow.status == "leased", JobRow.owner == owner)
    return held.where(was_claimed_with(key_id))


def _in_range(job_id: int) -> int:
    # No job has id 0, and a larger number than the column holds would be an error of the database.
    return job_id if 0 < job_id <= _LARGEST_ID else 0
