"""The audit log as rows."""

from sqlalchemy.orm import Session

from collapsewatch_server.account_tables import AuditEntry
from collapsewatch_server.db import now


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
