"""The audit log as rows."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.orm import Session

from collapsewatch_server.account_tables import AuditEntry
from collapsewatch_server.db import now
from collapsewatch_server.tables import Project


class Entry(NamedTuple):
    """An entry, and the name of its project as it is now."""

    row: AuditEntry
    project: str | None


def add(
    session: Session,
    *,
    actor: str,
    action: str,
    target: str,
    project_id: int | None,
    address: str,
    outcome: str,
) -> None:
    """Adds an entry."""
    row = AuditEntry(
        at=now(),
        actor=actor,
        action=action,
        target=target,
        project_id=project_id,
        address=address,
        outcome=outcome,
    )
    session.add(row)


def page(
    session: Session, *, before_id: int | None, limit: int, project_id: int | None, action: str | None
) -> list[Entry]:
    """Entries that the session can see, newest first.

    Args:
        action: such as `run.delete`; `run` stands for all of that kind.
    """
    statement = select(AuditEntry, Project.name).outerjoin(Project, Project.id == AuditEntry.project_id)
    conditions: list[ColumnElement[bool]] = []
    if before_id is not None:
        conditions.append(AuditEntry.id < before_id)
    if project_id is not None:
        conditions.append(AuditEntry.project_id == project_id)
    if action is not None:
        kind = AuditEntry.action.startswith(f"{action}.", autoescape=True)
        conditions.append(or_(AuditEntry.action == action, kind))
    rows = session.execute(statement.where(*conditions).order_by(AuditEntry.id.desc()).limit(limit))
    return [Entry(row, project) for row, project in rows]


def last_spare_id(session: Session, *, keep_seconds: float, max_kept: int, limit: int) -> int | None:
    """Id up to which entries are too old, or too many; none when all are kept.

    Args:
        limit: of so many ids at most is told at once.
    """
    # Two look-ups: of both at once SQLite makes a walk through the whole table.
    oldest, newest = (session.scalar(select(end(AuditEntry.id))) for end in (func.min, func.max))
    if oldest is None or newest is None:
        return None
    first = select(AuditEntry.id, AuditEntry.at).order_by(AuditEntry.id).limit(limit).subquery()
    too_old = session.scalar(select(func.max(first.c.id)).where(first.c.at < now() - keep_seconds))
    # The newest stays: SQLite gives the id of the last row again, and pages are read by ids.
    last = min(max(too_old or 0, newest - max_kept), oldest + limit - 1, newest - 1)
    return last if last >= oldest else None


def remove_up_to(session: Session, entry_id: int) -> None:
    """Removes this entry and all that are older."""
    session.execute(delete(AuditEntry).where(AuditEntry.id <= entry_id))
