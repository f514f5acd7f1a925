"""What the watch reads is right, and read by an index."""

import re
from typing import Any

import pytest
from sqlalchemy import event, text

from collapsewatch_server.repositories import clock, watch
from tests.server.live import LiveServer


def test_the_first_in_line_has_waited_since_it_was_queued(start_server: Any) -> None:
    live: LiveServer = start_server(lease_seconds=600)
    run_id = live.start_run()
    for step in range(10):
        live.send_batch(run_id, step)
    for number in range(9):
        live.claim(f"w{number}")
    # Its place is nine seconds ahead, because its run sent ten at once.
    assert 0 < live.get("/service")["queue"]["oldest_seconds"] < 600


def test_deferred_jobs_have_waited_since_they_were_queued_and_a_retry_begins_anew(start_server: Any) -> None:
    live: LiveServer = start_server(lease_seconds=600, max_waiting_batches=1, max_starts=1)
    run_id = live.start_run()
    for step in range(3):
        live.send_batch(run_id, step)
    with live.services.database.write_session() as session:
        session.execute(text("UPDATE jobs SET queued_at = queued_at - 1000"))
    with live.services.database.read_session() as session:
        found = watch.queue(session, clock.read(session))
    assert found.oldest_seconds >= 1000
    assert found.oldest_deferred_seconds >= 1000
    for _ in range(3):
        job = live.claim("w1")
        live.worker(f"/jobs/{job['job_id']}/fail", {"worker": "w1", "error": "x"})
    assert live.call("POST", f"/runs/{run_id}/jobs/{job['job_id']}/retry").status_code == 200
    assert live.get("/service")["queue"]["oldest_seconds"] < 1000


def test_the_usual_interval_is_that_of_the_last_steps_of_any_of_its_metrics(live: LiveServer) -> None:
    run_id = live.start_run()
    points = [{"step": step, "values": {"loss": 0.1}, "logged_at": 1000.0 + 3 * step} for step in range(60)]
    # One that is logged rarely, and comes first by name.
    points += [
        {"step": step, "values": {"accuracy": 0.1}, "logged_at": 1000.0 + 3 * step} for step in (0, 30, 59)
    ]
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points}).status_code == 200
    run_pk = live.services.reading.find_run(run_id).id
    with live.services.database.read_session() as session:
        assert watch._interval(session, run_pk) == pytest.approx(3.0)


def test_what_the_watch_looks_for_has_an_index(start_sqlite_server: Any) -> None:
    live: LiveServer = start_sqlite_server()
    statements: list[tuple[str, Any]] = []
    engine = live.services.database.engine

    def note(connection: Any, cursor: Any, statement: str, parameters: Any, *rest: Any) -> None:
        statements.append((statement, parameters))

    plans: list[str] = []
    with live.services.database.read_session() as session:
        event.listen(engine, "before_cursor_execute", note)
        try:
            watch.snapshot(session, quiet_seconds=60.0)
            watch._interval(session, 1)
        finally:
            event.remove(engine, "before_cursor_execute", note)
        for statement, parameters in statements:
            rows = session.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans += [row[3] for row in rows]
    # Scanning the index of the few rows in question is no scan of the table.
    scans = [plan for plan in plans if re.match("SCAN (alerts|writers|jobs|metric_points|batches)", plan)]
    assert [plan for plan in scans if not re.search("ix_writers_backlog|ix_alerts_dropped", plan)] == []
    assert len(plans) > 10
