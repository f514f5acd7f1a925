"""Real PostgreSQL and Redis servers on loopback ports, for whoever has to start, stop or kill one.

Every server belongs to the process that started it and is ended by its process id.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

START_SECONDS = 60.0


class MissingProgram(Exception):
    """A server's program is not installed; the message says how to install it."""

    def __init__(self, package: str) -> None:
        super().__init__(f"{package} is not installed: apt-get install {package}")


class PostgresServer:
    """One PostgreSQL with a data folder of its own. Started by `start`, and again after any end."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """Prepares an empty data folder.

        Args:
            durable: whether what was committed must outlive a `kill -9`; the tests that never kill it
                save themselves the wait.

        Raises:
            MissingProgram: PostgreSQL is not installed.
        """
        self.port = free_port()
        self._binaries = postgres_binaries()
        self._folder = folder
        self._durable = durable
        self._user = _postgres_user(folder)
        self._process: subprocess.Popen[bytes] | None = None
        command = [str(self._binaries / "initdb"), "-D", str(folder / "data"), "-U", "postgres"]
        subprocess.run(
            [*command, "-A", "trust", "-N", "-E", "UTF8"],
            check=True,
            capture_output=True,
            cwd=folder,
            **self._user,
        )

    def start(self) -> None:
        """Comes back once it answers."""
        options = {"fsync": "on" if self._durable else "off", "max_connections": "200"}
        options |= {"listen_addresses": "127.0.0.1", "port": str(self.port)}
        options |= {"unix_socket_directories": str(self._folder)}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._binaries / "postgres"), "-D", str(self._folder / "data"), *settings]
        ready = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]

        def answers() -> bool:
            # After a crash it refuses to start while the last backend of the old one is still there.
            if self._process is None or self._process.poll() is not None:
                with (self._folder / "server.log").open("ab") as log:
                    self._process = subprocess.Popen(
                        command, stdout=log, stderr=log, cwd=self._folder, **self._user
                    )
            return subprocess.run(ready, check=False).returncode == 0

        wait_until(answers, "PostgreSQL answers", timeout_seconds=START_SECONDS)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ends it: SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash."""
        if self._process is not None:
            end_process(self._process, number)

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

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
        command = [str(self._binaries / "psql"), *address, "-v", "ON_ERROR_STOP=1", "-qc", statement]
        subprocess.run(command, check=True, capture_output=True, timeout=START_SECONDS)


def start_redis(port: int, folder: Path) -> subprocess.Popen[bytes]:
    """A Redis that answers on the port and keeps nothing.

    Raises:
        MissingProgram: Redis is not installed.
    """
    if shutil.which("redis-server") is None:
        raise MissingProgram("redis-server")
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with (folder / "redis.log").open("ab") as log:
        process = subprocess.Popen([*command, "--save", "", "--appendonly", "no"], stdout=log, stderr=log)
    wait_until(lambda: ask_redis(port, "ping") == "PONG", "Redis answers", timeout_seconds=START_SECONDS)
    return process


def ask_redis(port: int, *words: str) -> str:
    """Redis's answer to one command; empty when it does not answer."""
    command = ["redis-cli", "-p", str(port), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


def wait_until(condition: Callable[[], object], claim: str = "", *, timeout_seconds: float = 60.0) -> None:
    """Comes back once the condition holds.

    Raises:
        AssertionError: it did not in time.
    """
    end = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout_seconds} s: {claim or 'the condition'}")
        time.sleep(0.02)


def end_process(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Sends the signal, waits, and kills what does not go."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def postgres_binaries() -> Path:
    """Folder of PostgreSQL's programs: Debian has one for each major version, off the PATH.

    Raises:
        MissingProgram: there is none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    if program is None:
        raise MissingProgram("postgresql")
    return Path(program).resolve().parent


def _postgres_user(folder: Path) -> dict[str, Any]:
    """How to run as somebody else: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("postgres")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
