"""Sessions of SQLite and PostgreSQL, and the few things in which the two differ."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Insert, create_engine, event, make_url, text
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import Double, Text

from collapsewatch_server.turns import Turns

# The longest waits for a turn among the writers of this process, and for those of another one. Whoever has
# promised an answer sooner says so by `answer_by`.
_TURN_SECONDS = 10.0
_BUSY_MILLISECONDS = 5_000
# A statement that only reads ends as an error after so long, as PostgreSQL ends it by `statement_timeout`.
_READ_SECONDS = 15.0
_OPERATIONS_PER_LOOK = 100_000
_STATEMENT_END = "statement_end"
_IS_BOUNDED = "is_bounded"
_LOCK_MILLISECONDS = 10_000
# Reading routes run on at most 40 threads and the lanes of the gates on 41 more, of which few speak to the
# database at the same moment.
_POOL_SIZE = 10
_POOL_OVERFLOW = 60
_POOL_SECONDS = 10.0
# A PostgreSQL that hangs, or a network that swallows packets, ends as an error as well.
_POSTGRESQL_OPTIONS = (
    "-c statement_timeout=15000 "
    f"-c lock_timeout={_LOCK_MILLISECONDS} "
    "-c idle_in_transaction_session_timeout=30000"
)
_POSTGRESQL_ARGUMENTS = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


@contextmanager
def answer_by(deadline: float) -> Iterator[None]:
    """Within the block nobody waits for others' writes beyond `deadline`, which is a `time.monotonic()`."""
    outer = _deadline.get()
    token = _deadline.set(deadline if outer is None else min(outer, deadline))
    try:
        yield
    finally:
        _deadline.reset(token)


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


class json_text(FunctionElement[str]):  # noqa: N801 (a SQL function)
    """What a JSON object says under a name, as text; null where it says nothing."""

    type = Text()
    inherit_cache = True


@compiles(json_text, "sqlite")
def _sqlite_json_text(element: json_text, compiler: SQLCompiler, **options: Any) -> str:
    column, name = (compiler.process(one, **options) for one in element.clauses)
    return f"json_extract({column}, '$.' || {name})"


@compiles(json_text, "postgresql")
def _postgresql_json_text(element: json_text, compiler: SQLCompiler, **options: Any) -> str:
    column, name = (compiler.process(one, **options) for one in element.clauses)
    return f"json_extract_path_text({column}, {name})"


class SeenSession(Session):
    """A session whose queries `access.visible` narrows to what the request in hand can see."""


class Database:
    """Hands out sessions; a service never sees which database is behind them."""

    def __init__(self, url: str) -> None:
        self.url = _with_driver(make_url(url))
        self.engine = _create_engine(self.url)
        self._reader = self.engine.execution_options(begin="BEGIN", **{_IS_BOUNDED: True})
        self._turns = Turns() if self.url.drivername == "sqlite" else None

    @contextmanager
    def read_session(self) -> Iterator[Session]:
        """A session that sees one state of the database and changes nothing."""
        with SeenSession(self._reader, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def write_session(self) -> Iterator[Session]:
        """A transaction: committed at the end of the block, rolled back when the block raises.

        On SQLite it holds the one write lock from its start, so a cheap read should come before it; who
        comes first is served first.

        Raises:
            WriterBusy: others have held the lock for too long.
        """
        with (
            self._writers_turn(),
            SeenSession(self.engine, expire_on_commit=False) as session,
            session.begin(),
        ):
            if self._turns is None and (wait := _patience(_LOCK_MILLISECONDS)) < _LOCK_MILLISECONDS:
                session.execute(text(f"SET LOCAL lock_timeout = {max(1, wait)}"))
            yield session

    def close(self) -> None:
        """Gives all connections back."""
        self.engine.dispose()

    @contextmanager
    def _writers_turn(self) -> Iterator[None]:
        # Threads that all ask SQLite for its lock sleep and look again, and the luckiest gets it.
        if self._turns is None:
            yield
            return
        turn_seconds = _patience(int(_TURN_SECONDS * 1000)) / 1000
        with self._turns.take(turn_seconds) as mine:
            if not mine:
                raise WriterBusy(f"no turn to write within {turn_seconds:g} s")
            yield


class WriterBusy(SQLAlchemyError):
    """SQLite's one writer was busy for too long."""


def is_away(error: BaseException) -> bool:
    """Whether the database could not be reached or was busy, so that the same request may succeed later."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, OperationalError | InterfaceError | PoolTimeout | WriterBusy)


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
    pool: dict[str, Any] = {
        "pool_size": _POOL_SIZE,
        "max_overflow": _POOL_OVERFLOW,
        "pool_timeout": _POOL_SECONDS,
    }
    if url.drivername != "sqlite":
        return create_engine(url, pool_pre_ping=True, connect_args=_postgresql_arguments(url), **pool)
    assert url.database is not None
    Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, **pool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    event.listen(engine, "before_cursor_execute", _begin_statement)
    return engine


def _postgresql_arguments(url: URL) -> dict[str, Any]:
    # What the operator's URL says comes last in `options`, and so it counts.
    own = url.query.get("options", "")
    options = own if isinstance(own, str) else " ".join(own)
    defaults = {name: value for name, value in _POSTGRESQL_ARGUMENTS.items() if name not in url.query}
    return {**defaults, "options": f"{_POSTGRESQL_OPTIONS} {options}".strip()}


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # The driver would open transactions by its own rules, and none before a DDL statement.
    connection.isolation_level = None
    clock = record.info
    # A statement of SQLite knows no end of its own: this one is looked at every few milliseconds.
    connection.set_progress_handler(
        lambda: time.monotonic() > clock.get(_STATEMENT_END, math.inf), _OPERATIONS_PER_LOOK
    )
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_statement(connection: Connection, *about: Any) -> None:
    # Writes are left alone, since nobody else could finish their work; and so is what is read bit by bit,
    # such as a snapshot, whose reader takes its time.
    options = about[3].execution_options
    is_bounded = options.get(_IS_BOUNDED, False) and not options.get("yield_per")
    connection.info[_STATEMENT_END] = time.monotonic() + (_READ_SECONDS if is_bounded else math.inf)


def _patience(longest_milliseconds: int) -> int:
    """How long to wait now: so long, or what is left until an answer is due."""
    deadline = _deadline.get()
    if deadline is None:
        return longest_milliseconds
    return max(0, min(longest_milliseconds, int((deadline - time.monotonic()) * 1000)))


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {_patience(_BUSY_MILLISECONDS)}")
    # A transaction that begins as a reader cannot always become a writer, however long it waits.
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN IMMEDIATE"))
