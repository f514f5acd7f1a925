"""The schema's history, and how a database is brought to its newest form at start."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, inspect, text

# Any constant will do; two servers that start together must take the same lock.
_LOCK_ID = 7_788_001


class UnknownSchema(RuntimeError):
    """The database was written by a newer version of the program."""


def upgrade(engine: Engine) -> None:
    """Brings the database to the newest schema; one process at a time, all or nothing.

    Raises:
        UnknownSchema: the database's version is not known here.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # A migration takes as long as it takes, and so does waiting for another server's.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            # SQLite's BEGIN IMMEDIATE is this lock already.
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_ID})"))
        upgrade_within(connection, "head")


def upgrade_within(connection: Connection, revision: str) -> None:
    """Brings the database to a version of the schema, as a part of the connection's transaction.

    Args:
        revision: Id of the version, or `head` for the newest.

    Raises:
        UnknownSchema: the database's version, or `revision`, is not known here.
    """
    try:
        command.upgrade(_config(connection), revision)
    except CommandError as error:
        raise UnknownSchema(f"this version does not know the database's schema: {error}") from error


def stored_revision(connection: Connection) -> str | None:
    """Id of the version that the database has; none when it has no schema yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def newest_revision() -> str:
    """Id of the newest version of the schema."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None
    return head


def knows_revision(revision: str) -> bool:
    """Whether this program has that version of the schema, and so can bring it to the newest."""
    return any(
        known.revision == revision for known in ScriptDirectory.from_config(_config()).walk_revisions()
    )


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    folder = str(Path(__file__).resolve().parent)
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
