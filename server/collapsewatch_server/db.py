"""Sessions of SQLite and PostgreSQL, and the few things in which the two differ."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Insert, create_engine, event, make_url
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import Double

_BUSY_MILLISECONDS = 15_000
# Route functions run on at most 40 threads, so none ever waits for a connection.
_POOL_SIZE = 10
_POOL_OVERFLOW = 35


class now(FunctionElement[float]):  # noqa: N801 (a SQL function)
    """Seconds since 1970 by the database's clock, which is the same for all hosts."""

    type = Double()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: SQLCompiler, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: SQLCompiler, **options: Any) -> str:
    # now() stands still during a transaction, clock_timestamp() does not.
    return "(extract(epoch from clock_timestamp())::double precision)"


class Database:
    """Hands out sessions; a service never sees which database is behind them."""

    def __init__(self, url: str) -> None:
        self.url = _with_driver(make_url(url))
        self.engine = _create_engine(self.url)
        self._reader = self.engine.execution_options(begin="BEGIN")

    @contextmanager
    def read_session(self) -> Iterator[Session]:
        """A session that sees one state of the database and changes nothing."""
        with Session(self._reader, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write_session(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, rolled back when the block raises.

        On SQLite it holds the one write lock from its start, so a cheap read should come before it.
        """
        with Session(self.engine, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Gives all connections back."""
        self.engine.dispose()


def insert(session: Session, table: Any) -> Any:
    """An INSERT with `on_conflict_do_…`, which both dialects spell alike."""
    made: Insert = postgresql_insert(table) if is_postgresql(session) else sqlite_insert(table)
    return made


def is_postgresql(session: Session) -> bool:
    """Whether the session speaks to PostgreSQL; else it is SQLite."""
    return session.get_bind().dialect.name == "postgresql"


def _with_driver(url: URL) -> URL:
    if url.drivername in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise ValueError(f"the database is postgresql:// or sqlite:///, got {url.drivername}://")
    if url.drivername == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError("SQLite needs a file: sqlite:////absolute/path")
    return url


def _create_engine(url: URL) -> Engine:
    if url.drivername != "sqlite":
        return create_engine(url, pool_pre_ping=True, pool_size=_POOL_SIZE, max_overflow=_POOL_OVERFLOW)
    assert url.database is not None
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, pool_size=_POOL_SIZE, max_overflow=_POOL_OVERFLOW)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # The driver would open transactions by its own rules, and none before a DDL statement.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins as a reader cannot always become a writer, however long it waits.
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN IMMEDIATE"))
