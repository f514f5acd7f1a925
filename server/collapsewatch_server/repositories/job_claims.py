"""With which keys jobs that are not done were claimed, as rows."""

from sqlalchemy import ColumnElement, and_, delete, exists, or_, select, true
from sqlalchemy.orm import Session

from collapsewatch_server.db import insert
from collapsewatch_server.tables import JobClaim, JobRow


def note(session: Session, job_id: int, key_id: int) -> None:
    """Notes that the job was leased to whoever has this key."""
    statement = insert(session, JobClaim).values(job_id=job_id, key_id=key_id)
    session.execute(statement.on_conflict_do_nothing())


def forget(session: Session, job_id: int) -> None:
    """Removes what was noted of a job that is done."""
    session.execute(delete(JobClaim).where(JobClaim.job_id == job_id))


def may_answer(session: Session, job_id: int, key_id: int | None) -> bool:
    """Whether the job was ever leased to whoever has this key."""
    statement = select(JobRow.id).where(JobRow.id == job_id, was_claimed_with(key_id))
    return session.scalar(statement) is not None


def was_claimed_with(key_id: int | None) -> ColumnElement[bool]:
    """Condition of jobs that were ever leased to whoever has this key; of all for None."""
    if key_id is None:
        return true()
    mine = exists().where(JobClaim.job_id == JobRow.id, JobClaim.key_id == key_id)
    # A lease of a server of an earlier version, which noted nothing.
    is_unknown = and_(JobRow.status == "leased", ~exists().where(JobClaim.job_id == JobRow.id))
    return or_(mine, is_unknown)
