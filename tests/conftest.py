"""Real servers for the tests: PostgreSQL and Redis on free loopback ports, stopped by their process ids."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

import pytest

_START_SECONDS = 30.0
# Tests of a checkout without PostgreSQL or Redis run with SQLite alone, unless this asks for all of them.
_REQUIRED = os.environ.get("COLLAPSEWATCH_TEST_SERVERS") == "required"


class WaitUntil(Protocol):
    """Waits for a condition instead of sleeping."""

    def __call__(
        self, condition: Callable[[], object], claim: str = "", *, timeout_seconds: float = 10.0
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


@dataclass
class PostgresServer:
    """A running PostgreSQL."""

    binaries: Path
    port: int
    databases: list[str] = field(default_factory=list)

    def new_database(self) -> str:
        """URL of an empty database."""
        name = f"cw_{uuid.uuid4().hex[:12]}"
        self.run_sql(f'CREATE DATABASE "{name}"')
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def drop(self, url: str) -> None:
        """Removes a database, whoever is still connected."""
        self.run_sql(f'DROP DATABASE "{url.rpartition("/")[2]}" WITH (FORCE)')

    def run_sql(self, statement: str) -> None:
        """Runs one statement as the superuser."""
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", "postgres"]
        command = [str(self.binaries / "psql"), *address, "-v", "ON_ERROR_STOP=1", "-qc", statement]
        subprocess.run(command, check=True, capture_output=True, timeout=_START_SECONDS)


_SERVER_FIXTURES = {"deployment", "live", "postgres_url", "redis_url", "start_server"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start real servers count as integration, so that `make check` stays short."""
    for item in items:
        if _SERVER_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("integration")


@pytest.fixture(scope="session")
def wait_until() -> WaitUntil:
    """`wait_until(condition, claim)`: comes back once the condition holds, fails when it does not in time."""
    return _wait_until


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL of its own, with nothing in it and no durability to pay for."""
    binaries = _postgres_binaries()
    folder = Path(tempfile.mkdtemp(prefix="cw-postgres-"))
    user = _postgres_user(folder)
    data = folder / "data"
    subprocess.run(
        [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8"],
        check=True,
        capture_output=True,
        cwd=folder,
        **user,
    )
    port = _free_port()
    options = {"fsync": "off", "max_connections": "200", "listen_addresses": "127.0.0.1"}
    options |= {"port": str(port), "unix_socket_directories": str(folder)}
    settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with (folder / "server.log").open("wb") as log:
        command = [str(binaries / "postgres"), "-D", str(data), *settings]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **user)
    try:
        ready = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
        _wait_until(
            lambda: subprocess.run(ready, check=False).returncode == 0,
            "PostgreSQL answers",
            timeout_seconds=_START_SECONDS,
        )
        yield PostgresServer(binaries, port)
    finally:
        _stop(process, signal.SIGINT)
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
    binary = shutil.which("redis-server")
    if binary is None:
        _missing("redis-server")
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="cw-redis-") as folder:
        process = start_redis(port, Path(folder))
        try:
            yield port
        finally:
            _stop(process, signal.SIGTERM)


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


def start_redis(port: int, folder: Path) -> subprocess.Popen[bytes]:
    """A Redis that answers on the port and keeps nothing."""
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen([*command, "--save", "", "--appendonly", "no"], stdout=log, stderr=log)
    ping = ["redis-cli", "-p", str(port), "ping"]
    _wait_until(
        lambda: subprocess.run(ping, check=False, capture_output=True).stdout.strip() == b"PONG",
        "Redis answers",
        timeout_seconds=_START_SECONDS,
    )
    return process


def _wait_until(condition: Callable[[], object], claim: str = "", *, timeout_seconds: float = 10.0) -> None:
    end = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_seconds} s: {claim or 'the condition'}")
        time.sleep(0.02)


def _stop(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _postgres_binaries() -> Path:
    """Debian keeps the programs of each major version in a folder of its own, off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    if program is None:
        _missing("postgresql")
    return Path(program).resolve().parent


def _postgres_user(folder: Path) -> dict[str, Any]:
    """How to run as somebody else: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("postgres")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _missing(package: str) -> NoReturn:
    message = f"{package} is not installed: apt-get install {package}"
    if _REQUIRED:
        pytest.fail(message)
    pytest.skip(message)
