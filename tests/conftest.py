"""Real servers for the tests: PostgreSQL and Redis on free loopback ports, stopped by their process ids."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

from tests import servers
from tests.servers import MissingProgram, PostgresServer

# Tests of a checkout without PostgreSQL or Redis run with SQLite alone, unless this asks for all of them.
_REQUIRED = os.environ.get("COLLAPSEWATCH_TEST_SERVERS") == "required"


class WaitUntil(Protocol):
    """Waits for a condition instead of sleeping."""

    def __call__(
        self, condition: Callable[[], object], claim: str = "", *, timeout_seconds: float = 60.0
    ) -> None: ...


@dataclass(frozen=True)
class Deployment:
    """One of the two forms in which the service runs."""

    name: str
    home: Path
    database_url: str | None
    redis_url: str | None

    def settings(self, **changes: Any) -> dict[str, Any]:
        """Arguments for `ServerSettings`."""
        given = {
            "home": self.home,
            "database_url": self.database_url,
            "redis_url": self.redis_url,
            "embedded_worker": False,
            "port": 0,
        }
        return {**given, **changes}


_SERVER_FIXTURES = {"deployment", "live", "postgres_url", "redis_url", "start_server"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start real servers count as integration, so that `make check` stays short."""
    for item in items:
        if _SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("integration")


@pytest.fixture(scope="session")
def wait_until() -> WaitUntil:
    """`wait_until(condition, claim)`: comes back once the condition holds, fails when it does not in time."""
    return servers.wait_until


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of its own, with nothing in it and no durability to pay for."""
    folder = Path(tempfile.mkdtemp(prefix="cw-postgres-"))
    try:
        server = PostgresServer(folder)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    except MissingProgram as missing:
        _without(missing)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """A database that the whole session shares."""
    return postgres_server.new_database()


@pytest.fixture
def fresh_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database for one test."""
    url = postgres_server.new_database()
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[int]:
    """Port of a Redis of its own."""
    port = servers.free_port()
    with tempfile.TemporaryDirectory(prefix="cw-redis-") as folder:
        try:
            process = servers.start_redis(port, Path(folder))
        except MissingProgram as missing:
            _without(missing)
        try:
            yield port
        finally:
            servers.end_process(process, signal.SIGTERM)


@pytest.fixture(scope="session")
def redis_url(redis_server: int) -> str:
    """A Redis database that the whole session shares."""
    return f"redis://127.0.0.1:{redis_server}/0"


@pytest.fixture
def fresh_redis_url(redis_server: int) -> str:
    """An empty Redis database for one test."""
    subprocess.run(
        ["redis-cli", "-p", str(redis_server), "-n", "1", "flushdb"], check=True, capture_output=True
    )
    return f"redis://127.0.0.1:{redis_server}/1"


@pytest.fixture(params=["embedded", "scaled_out"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Deployment:
    """SQLite without Redis, then PostgreSQL with Redis; each with nothing in it."""
    home = tmp_path / "home"
    if request.param == "embedded":
        return Deployment(request.param, home, None, None)
    postgres = request.getfixturevalue("fresh_postgres_url")
    return Deployment(request.param, home, postgres, request.getfixturevalue("fresh_redis_url"))


def _without(missing: MissingProgram) -> NoReturn:
    if _REQUIRED:
        pytest.fail(str(missing))
    pytest.skip(str(missing))
