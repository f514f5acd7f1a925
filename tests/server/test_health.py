"""What `readyz` says is found out by using what it speaks of."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests import servers
from tests.conftest import WaitUntil
from tests.server.live import LiveServer
from tests.server.test_liveness import alerts, beat, state, worker_beat
from tests.server.test_prometheus import one, scrape
from tests.servers import MissingProgram, PostgresServer


def test_a_server_with_all_it_needs_is_ready(start_server: Any, deployment: Any) -> None:
    live = start_server()
    worker_beat(live)
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "ready")
    expected = (
        {"database", "blobs", "worker"}
        | {one.name for one in live.services.repeated}
        | ({"redis"} if deployment.redis_url else set())
    )
    assert set(response.json()["checks"]) == expected
    assert live.http.get("/healthz").json()["status"] == "ok"


def test_a_server_without_its_blobs_or_tables_is_not_ready_and_says_why(start_server: Any) -> None:
    live = start_server()
    blobs: Path = live.services.settings.home / "blobs"
    blobs.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(blobs)
    blobs.write_text("no folder")
    with live.services.database.write_session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "not_ready")
    checks = response.json()["checks"]
    assert not checks["blobs"]["ok"]
    assert "0000" in checks["database"]["message"]
    assert live.http.get("/healthz").status_code == 200


def test_a_server_whose_folder_is_gone_is_not_ready(start_sqlite_server: Any, tmp_path: Path) -> None:
    live: LiveServer = start_sqlite_server(home=tmp_path / "home")
    shutil.rmtree(tmp_path / "home")
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "not_ready")
    # What is written to a file that was removed is lost with the process, though SQLite takes it.
    assert not response.json()["checks"]["database"]["ok"]


def test_a_watch_that_does_not_get_on_degrades_the_service(
    start_sqlite_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live: LiveServer = start_sqlite_server()
    worker_beat(live)
    assert live.http.get("/readyz").json()["status"] == "ready"
    (watch,) = [one for one in live.services.repeated if one.name == "watch"]
    monkeypatch.setattr(watch, "problem", lambda: "its last look that succeeded was 100 s ago")
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert not response.json()["checks"]["watch"]["ok"]


def test_an_absent_redis_is_a_delay_and_not_an_end(start_server: Any) -> None:
    live = start_server(redis_url="redis://127.0.0.1:1/0")
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["checks"]["redis"]["message"]


def test_without_a_worker_the_service_is_degraded_and_says_so(start_server: Any) -> None:
    live = start_server(worker_seconds=600.0)
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert "no worker" in response.json()["checks"]["worker"]["message"]
    worker_beat(live)
    assert live.http.get("/readyz").json()["status"] == "ready"
    worker_beat(live, is_stopping=True)
    assert live.http.get("/readyz").json()["status"] == "degraded"


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """One that the test may stop."""
    folder = Path(tempfile.mkdtemp(prefix="cw-postgres-"))
    try:
        server = PostgresServer(folder)
    except MissingProgram as missing:
        pytest.skip(str(missing))
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.integration
def test_a_stopped_database_is_told_and_its_return_makes_no_run_look_dead(
    own_postgres: PostgresServer, start_sqlite_server: Any, wait_until: WaitUntil
) -> None:
    live: LiveServer = start_sqlite_server(
        database_url=own_postgres.new_database(), watch_seconds=0.05, worker_seconds=0.2, stall_seconds=600.0
    )
    run_id = live.start_run()
    assert beat(live, run_id) == "running"
    own_postgres.stop()
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "not_ready")
    assert not response.json()["checks"]["database"]["ok"]
    assert live.http.get("/healthz").status_code == 200
    assert one(scrape(live), "database_up") == 0
    assert live.ingest("POST", f"/runs/{run_id}/heartbeat", json={"writer_id": "w1"}).status_code == 503
    own_postgres.start()
    with live.services.database.write_session() as session:
        # It was away for an hour.
        session.execute(text("UPDATE runs SET last_seen_at = last_seen_at - 3600"))
    wait_until(lambda: live.http.get("/readyz").status_code == 200)
    live.services.watch.look()
    assert (state(live, run_id), alerts(live, run_id)) == ("running", {})
    # It does not come back, and so its time runs out in the end.
    live.watch_with(stall_seconds=0.5)
    wait_until(lambda: state(live, run_id) == "stalled")


@pytest.mark.integration
def test_a_redis_that_is_killed_degrades_the_service(start_sqlite_server: Any, tmp_path: Path) -> None:
    port = servers.free_port()
    try:
        process = servers.start_redis(port, tmp_path)
    except MissingProgram as missing:
        pytest.skip(str(missing))
    live: LiveServer = start_sqlite_server(redis_url=f"redis://127.0.0.1:{port}/0")
    worker_beat(live)
    try:
        assert live.http.get("/readyz").json()["status"] == "ready"
    finally:
        servers.end_process(process, signal.SIGKILL)
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert not response.json()["checks"]["redis"]["ok"]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 32 MiB."""
    folder = Path(tempfile.mkdtemp(prefix="cw-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(folder)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("mounting a file system is not permitted")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


@pytest.mark.integration
def test_a_full_disk_is_told(start_sqlite_server: Any, small_disk: Path, wait_until: WaitUntil) -> None:
    live: LiveServer = start_sqlite_server(home=small_disk)
    worker_beat(live)
    assert live.http.get("/readyz").json()["status"] == "ready"
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                file.write(bytes(2**16))
                file.flush()
        except OSError:
            pass
    response = live.http.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (503, "not_ready")
    checks = response.json()["checks"]
    assert not checks["database"]["ok"]
    assert "No space left" in checks["blobs"]["message"]
    filler.unlink()
    wait_until(lambda: live.http.get("/readyz").json()["status"] == "ready")


def test_a_database_that_can_only_be_read_is_not_ready(start_sqlite_server: Any, tmp_path: Path) -> None:
    live: LiveServer = start_sqlite_server()
    holder = live.services.database.engine.connect()
    with holder, holder.begin():
        # Somebody else holds the one write lock, and reading goes on.
        holder.execute(text("UPDATE alembic_version SET version_num = version_num"))
        assert live.get("/runs")["runs"] == []
        response = live.http.get("/readyz")
    assert response.status_code == 503
    assert "cannot be written" in response.json()["checks"]["database"]["message"]
