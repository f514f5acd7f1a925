"""Signs of life, workers and readers have room of their own: none of them waits for another."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from collapsewatch_server.db import Database, WriterBusy, answer_by, is_postgresql
from collapsewatch_server.settings import ServerSettings
from tests.conftest import WaitUntil
from tests.server.live import LiveServer

NUM_CALLS = 60
"""More than the framework has threads for what is not sorted."""


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """What is waited for; set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


def _call_often(live: LiveServer, path: str, key: str, body: Any) -> list[threading.Thread]:
    def call() -> None:
        headers = {"Authorization": f"Bearer {key}"}
        httpx.post(f"{live.url}/api/v1{path}", headers=headers, json=body, timeout=60, trust_env=False)

    threads = [threading.Thread(target=call) for _ in range(NUM_CALLS)]
    for thread in threads:
        thread.start()
    return threads


def _hang(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, blocked: threading.Event) -> list[int]:
    begun: list[int] = []
    original: Callable[..., Any] = getattr(owner, name)

    def wait(*arguments: Any) -> Any:
        begun.append(1)
        blocked.wait(60)
        return original(*arguments)

    monkeypatch.setattr(owner, name, wait)
    return begun


def test_heartbeats_that_wait_for_the_database_hold_nobody_else_up(
    start_sqlite_server: Any,
    blocked: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: WaitUntil,
) -> None:
    live: LiveServer = start_sqlite_server()
    run_id = live.start_run()
    begun = _hang(monkeypatch, live.services.heartbeats, "of_writer", blocked)
    threads = _call_often(live, f"/runs/{run_id}/heartbeat", live.ingest_key, {"writer_id": "w"})
    wait_until(lambda: begun and live.services.beats.num_requests >= len(begun))
    assert live.get("/runs")["runs"][0]["run_id"] == run_id
    assert live.try_claim() is None
    assert live.send_batch(run_id, 0).status_code == 202
    blocked.set()
    for thread in threads:
        thread.join(60)


def test_workers_that_wait_for_the_database_hold_nobody_else_up(
    start_sqlite_server: Any,
    blocked: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: WaitUntil,
) -> None:
    live: LiveServer = start_sqlite_server()
    run_id = live.start_run()
    begun = _hang(monkeypatch, live.services.queue, "claim", blocked)
    threads = _call_often(live, "/worker/claim", live.worker_key, {"worker": "w"})
    wait_until(lambda: len(begun) > 0)
    assert live.get("/runs")["runs"][0]["run_id"] == run_id
    beat = live.ingest("POST", f"/runs/{run_id}/heartbeat", json={"writer_id": "w"})
    assert beat.status_code == 200
    assert live.send_batch(run_id, 0).status_code == 202
    blocked.set()
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("path", ["/heartbeat", "/claim", "/jobs/1/beat"])
def test_what_comes_every_few_seconds_is_small(start_sqlite_server: Any, path: str) -> None:
    live: LiveServer = start_sqlite_server()
    assert live.worker(path, {"worker": "w" * 70_000}).status_code == 413
    run_id = live.start_run()
    large = {"writer_id": "w", "host": "h" * 70_000}
    assert live.ingest("POST", f"/runs/{run_id}/heartbeat", json=large).status_code == 413


def test_signs_of_life_that_are_turned_away_make_nobody_look_dead(start_sqlite_server: Any) -> None:
    live: LiveServer = start_sqlite_server(watch_seconds=60.0, worker_seconds=0.001, stall_seconds=0.001)
    watch = live.services.watch
    # The first look begins the hearing; every other would find the run silent.
    watch.look()
    run_id = live.start_run()
    with ExitStack() as inside:
        for _ in range(512):
            inside.enter_context(live.services.beats.admit())
        beat = live.ingest("POST", f"/runs/{run_id}/heartbeat", json={"writer_id": "w"})
        assert (beat.status_code, int(beat.headers["retry-after"]) >= 1) == (429, True)
    watch.look()
    assert live.get(f"/runs/{run_id}")["state"] == "running"
    watch.look()
    assert live.get(f"/runs/{run_id}")["state"] == "stalled"


def test_nobody_waits_for_others_writes_beyond_the_answer_that_was_promised(deployment: Any) -> None:
    database = Database(ServerSettings(**deployment.settings()).effective_database_url)

    def patience() -> int:
        """Milliseconds for which the database itself waits for a lock."""
        with database.write_session() as session:
            if is_postgresql(session):
                shown = "SELECT setting FROM pg_settings WHERE name = 'lock_timeout'"
            else:
                shown = "PRAGMA busy_timeout"
            return int(session.scalar(text(shown)))

    usual = patience()
    limit = usual - 500
    with answer_by(time.monotonic() + limit / 1000):
        assert 0 < patience() <= limit
        # Who has promised more does not wait longer for it.
        with answer_by(time.monotonic() + 3600):
            assert 0 < patience() <= limit
    assert patience() == usual
    database.close()


def test_a_turn_is_waited_for_until_the_answer_is_due(tmp_path: Any) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    has_turn, release = threading.Event(), threading.Event()

    def hold() -> None:
        with database.write_session():
            has_turn.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_turn.wait(60)
    with pytest.raises(WriterBusy, match="within 0 s"), answer_by(0.0), database.write_session():
        pass
    release.set()
    thread.join()
    database.close()
