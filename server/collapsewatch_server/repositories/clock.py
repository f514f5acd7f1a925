"""The time by the database's clock."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch_server.db import now


def read(session: Session) -> float:
    """Seconds since 1970."""
    return session.execute(select(now())).scalar_one()
