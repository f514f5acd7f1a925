"""A database that is locked, away, or killed: the client is told to come again, and nothing is lost."""

import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError, InterfaceError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from collapsewatch_server import db
from collapsewatch_server.db import Database, is_away
from collapsewatch_server.tables import Batch, JobRow
from tests.conftest import WaitUntil
from tests.server.live import LiveServer, batch_body
from tests.servers import MissingProgram, PostgresServer

_HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked_by_another_process(path: Path) -> Iterator[None]:
    """SQLite's write lock in the hands of a process that does not let go."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdout, process.stdin:
        assert process.stdout.readline() == b"held\n"
        yield
        process.stdin.close()
        process.wait(10)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same waits, but shorter."""
    monkeypatch.setattr(db, "_TURN_SECONDS", 1.0)
    monkeypatch.setattr(db, "_BUSY_MILLISECONDS", 200)


def _file_of(live: LiveServer) -> Path:
    return live.services.settings.home / "collapsewatch.db"


@pytest.mark.usefixtures("impatient")
def test_a_lock_of_another_process_is_a_503_and_never_its_message(start_sqlite_server: Any) -> None:
    live: LiveServer = start_sqlite_server()
    run_id = live.start_run()
    assert live.send_batch(run_id, 1).status_code == 202
    answers: list[httpx.Response] = []

    def send(step: int) -> None:
        headers = {"Authorization": f"Bearer {live.ingest_key}"}
        path = f"{live.url}/api/v1/runs/{run_id}/batches"
        body = batch_body(step)
        answers.append(httpx.post(path, headers=headers, json=body, timeout=20, trust_env=False))

    with locked_by_another_process(_file_of(live)):
        threads = [threading.Thread(target=send, args=(step,)) for step in range(2, 32)]
        for thread in threads:
            thread.start()
        # Who only reads does not notice.
        assert live.get(f"/runs/{run_id}")["last_step"] == 1
        assert live.worker("/claim", {"worker": "w"}).status_code == 503
        for thread in threads:
            thread.join()
    assert {answer.status_code for answer in answers} <= {503, 429}
    assert {answer.json()["error"]["code"] for answer in answers} <= {"not_ready", "too_busy"}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert not any("locked" in answer.text or "sqlite" in answer.text.lower() for answer in answers)
    assert live.send_batch(run_id, 2).status_code == 202


@pytest.mark.usefixtures("impatient")
def test_a_new_connection_to_a_locked_file_reads(start_sqlite_server: Any) -> None:
    live: LiveServer = start_sqlite_server()
    run_id = live.start_run()
    with locked_by_another_process(_file_of(live)):
        live.services.database.engine.dispose()
        assert live.get(f"/runs/{run_id}")["last_step"] is None
        assert live.send_batch(run_id, 1).status_code == 503


def test_a_command_beside_a_busy_server_waits_for_its_turn(start_sqlite_server: Any) -> None:
    live: LiveServer = start_sqlite_server()
    run_id = live.start_run()
    codes: list[int] = []
    stopping = threading.Event()

    def send() -> None:
        with httpx.Client(base_url=live.url, timeout=30, trust_env=False) as client:
            while not stopping.is_set():
                headers = {"Authorization": f"Bearer {live.ingest_key}"}
                body = batch_body(1, batch_id=uuid.uuid4().hex)
                path = f"/api/v1/runs/{run_id}/batches"
                codes.append(client.post(path, headers=headers, json=body).status_code)

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    command = [sys.executable, "-m", "collapsewatch", "keys", "create"]
    home = str(live.services.settings.home)
    made = [
        subprocess.run([*command, "--home", home], capture_output=True, text=True, timeout=60, check=False)
        for _ in range(2)
    ]
    stopping.set()
    for thread in threads:
        thread.join()
    assert [(run.returncode, run.stdout[:10]) for run in made] == [(0, "cw_ingest_")] * 2
    assert set(codes) == {202}


def test_writers_of_one_process_wait_for_each_other_in_turn(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    with database.write_session() as session:
        session.execute(text("CREATE TABLE counts (n INTEGER)"))
        session.execute(text("INSERT INTO counts VALUES (0)"))

    def add() -> None:
        for _ in range(20):
            with database.write_session() as session:
                count = session.scalar(text("SELECT n FROM counts"))
                session.execute(text("UPDATE counts SET n = :n"), {"n": count + 1})

    threads = [threading.Thread(target=add) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read_session() as session:
        assert session.scalar(text("SELECT n FROM counts")) == 320
    database.close()


def test_what_may_pass_is_told_from_what_is_wrong() -> None:
    assert is_away(InterfaceError("SELECT 1", {}, Exception("the connection is closed")))
    assert is_away(PoolTimeout("no connection became free"))
    dropped = DBAPIError("SELECT 1", {}, Exception("gone"), connection_invalidated=True)
    assert is_away(dropped)
    assert not is_away(ProgrammingError("SELEC 1", {}, Exception("syntax")))
    assert not is_away(DBAPIError("SELECT 1", {}, Exception("something else")))


def test_a_query_of_postgresql_that_hangs_ends(fresh_postgres_url: str) -> None:
    # The last word on a limit is the operator's.
    own = "options=-c%20statement_timeout%3D100"
    database = Database(f"{fresh_postgres_url}?{own}")
    with pytest.raises(Exception, match="statement timeout") as caught, database.read_session() as session:
        session.execute(text("SELECT pg_sleep(60)"))
    assert is_away(caught.value)
    with database.read_session() as session:
        assert session.scalar(text("SHOW lock_timeout")) == "10s"
    database.close()


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A durable PostgreSQL for one test to kill."""
    with tempfile.TemporaryDirectory(prefix="cw-postgres-") as folder:
        try:
            server = PostgresServer(Path(folder), durable=True)
        except MissingProgram as missing:
            pytest.skip(str(missing))
        server.start()
        try:
            yield server
        finally:
            server.stop()


class Trainer:
    """Sends batches, each until it is acknowledged, and waits as long as it is told."""

    def __init__(self, live: LiveServer, run_id: str, stopping: threading.Event) -> None:
        self.acknowledged: list[str] = []
        self.codes: list[int] = []
        self._live = live
        self._run_id = run_id
        self._stopping = stopping
        self.thread = threading.Thread(target=self._send_all)

    def _send_all(self) -> None:
        with httpx.Client(base_url=self._live.url, timeout=30, trust_env=False) as client:
            while not self._stopping.is_set():
                batch_id = uuid.uuid4().hex
                while not self._is_taken(client, batch_id):
                    pass
                self.acknowledged.append(batch_id)

    def _is_taken(self, client: httpx.Client, batch_id: str) -> bool:
        headers = {"Authorization": f"Bearer {self._live.ingest_key}"}
        body = batch_body(len(self.acknowledged), batch_id=batch_id)
        answer = client.post(f"/api/v1/runs/{self._run_id}/batches", headers=headers, json=body)
        self.codes.append(answer.status_code)
        if answer.is_success:
            return True
        time.sleep(int(answer.headers["retry-after"]) / 10)
        return False


def test_a_killed_postgresql_costs_time_and_no_batch(
    start_sqlite_server: Any, own_postgres: PostgresServer, wait_until: WaitUntil
) -> None:
    live: LiveServer = start_sqlite_server(database_url=own_postgres.new_database())
    run_id = live.start_run()
    stopping = threading.Event()
    trainers = [Trainer(live, run_id, stopping) for _ in range(16)]
    for trainer in trainers:
        trainer.thread.start()

    def count(code: int) -> int:
        return sum(trainer.codes.count(code) for trainer in trainers)

    def num_acknowledged() -> int:
        return sum(len(trainer.acknowledged) for trainer in trainers)

    def wait_until_more(counted: Callable[[], int], number: int) -> None:
        before = counted()
        wait_until(lambda: counted() > before + number, timeout_seconds=60)

    for number in (signal.SIGKILL, signal.SIGQUIT, signal.SIGINT):
        wait_until_more(num_acknowledged, 50)
        own_postgres.stop(number)
        wait_until_more(lambda: count(503), 16)
        assert live.http.get("/healthz").status_code == 200
        own_postgres.start()
        wait_until(lambda: live.http.get("/readyz").status_code == 200, timeout_seconds=60)
    wait_until_more(num_acknowledged, 50)
    stopping.set()
    for trainer in trainers:
        trainer.thread.join(60)
        assert not trainer.thread.is_alive()
        assert set(trainer.codes) <= {200, 202, 503, 429}

    acknowledged = sorted(batch_id for trainer in trainers for batch_id in trainer.acknowledged)
    with live.services.database.read_session() as session:
        stored = sorted(session.scalars(select(Batch.batch_id)))
        jobs = session.scalar(select(func.count()).select_from(JobRow))
    assert stored == acknowledged
    assert jobs == len(acknowledged)
