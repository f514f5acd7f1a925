"""The version of the schema that the database has."""

from sqlalchemy import text
from sqlalchemy.orm import Session


def revision(session: Session) -> str | None:
    """Id of the last migration; none when there was none."""
    found: str | None = session.scalar(text("SELECT version_num FROM alembic_version"))
    return found
