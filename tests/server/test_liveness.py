"""Runs and workers that go silent are seen, and those that come back are seen as well."""

import threading
from typing import Any

import pytest
from sqlalchemy import text

from collapsewatch.contracts.runs import RunState
from collapsewatch_server.repositories import writers
from tests.conftest import WaitUntil
from tests.server.live import Json, LiveServer

LATE = {"X-Collapsewatch-Late": "1"}
QUICK: Json = {
    "watch_seconds": 0.05,
    "worker_seconds": 0.2,
    "stall_seconds": 0.5,
    "crash_seconds": 600.0,
    "reconcile_seconds": 0.1,
}


PATIENT = {"stall_seconds": 3600.0, "crash_seconds": 7200.0}
"""What is alive again stays alive, however long the machine stands still."""


def start(live: LiveServer, run_id: str, writer_id: str, attempt: str = "a1", at: float = 100.0) -> None:
    body = {
        "run_id": run_id,
        "project": "p",
        "name": "n",
        "writer_id": writer_id,
        "attempt": {"attempt_id": attempt, "started_at": at},
    }
    assert live.ingest("POST", "/runs", json=body).status_code in (200, 201)


def end(live: LiveServer, run_id: str, writer_id: str, state: str = "finished", **options: Any) -> None:
    body = {"state": state, "writer_id": writer_id}
    assert live.ingest("PATCH", f"/runs/{run_id}", json=body, **options).status_code == 200


def beat(live: LiveServer, run_id: str, writer_id: str = "w1", **more: Any) -> str:
    response = live.ingest("POST", f"/runs/{run_id}/heartbeat", json={"writer_id": writer_id, **more})
    assert response.status_code == 200, response.text
    return str(response.json()["state"])


def worker_beat(live: LiveServer, name: str = "gpu-1", **more: Any) -> None:
    body = {"worker": name, "host": "h", "device": "cpu", "version": "1", "started_at": 100.0, **more}
    response = live.worker("/heartbeat", body)
    assert response.status_code == 204, response.text


def state(live: LiveServer, run_id: str) -> str:
    return str(live.get(f"/runs/{run_id}")["state"])


def alerts(live: LiveServer, run_id: str, status: str = "open") -> dict[str, Json]:
    return {
        one["rule"]: one for one in live.get(f"/runs/{run_id}/alerts")["alerts"] if one["status"] == status
    }


def service_alerts(live: LiveServer) -> dict[str, Json]:
    return {one["rule"]: one for one in live.get("/service")["alerts"]}


def test_a_dead_run_stalls_then_crashes_and_a_sign_of_life_revives_it(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(**QUICK)
    run_id = live.start_run()
    assert beat(live, run_id) == "running"
    wait_until(lambda: state(live, run_id) == "stalled")
    wait_until(lambda: "run_stalled" in alerts(live, run_id))
    live.watch_with(crash_seconds=1.0)
    wait_until(lambda: state(live, run_id) == "crashed")
    wait_until(lambda: set(alerts(live, run_id)) == {"run_crashed"})
    assert alerts(live, run_id)["run_crashed"]["severity"] == "critical"
    assert live.get(f"/runs/{run_id}")["open_alerts"] == {"critical": 1, "warning": 0, "info": 0}
    live.watch_with(**PATIENT)
    assert beat(live, run_id) == "running"
    wait_until(lambda: "run_crashed" in alerts(live, run_id, "resolved"))
    assert {"run_stalled", "run_crashed"} <= set(alerts(live, run_id, "resolved"))
    assert alerts(live, run_id, "resolved")["run_crashed"]["opened_step"] is None


def test_data_is_a_sign_of_life_unless_a_dead_process_left_it_behind(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(**QUICK)
    run_id = live.start_run()
    wait_until(lambda: state(live, run_id) == "stalled")
    live.watch_with(**PATIENT)
    assert live.send_batch(run_id, 0).status_code == 202
    assert state(live, run_id) == "running"
    live.watch_with(stall_seconds=0.5)
    wait_until(lambda: state(live, run_id) == "stalled")
    live.watch_with(**PATIENT)
    scalars = {"points": [{"step": 1, "values": {"kl": 0.1}}]}
    late = live.ingest("POST", f"/runs/{run_id}/scalars", json=scalars, headers=LATE)
    assert late.status_code == 200
    assert beat(live, run_id, is_alive=False, spool_records=3) == "stalled"
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json=scalars).status_code == 200
    assert state(live, run_id) == "running"


def test_a_finished_run_never_stalls(start_server: Any, wait_until: WaitUntil) -> None:
    live = start_server(**QUICK)
    finished, silent = live.start_run(), live.start_run()
    beat(live, finished)
    assert live.ingest("PATCH", f"/runs/{finished}", json={"state": "finished"}).status_code == 200
    wait_until(lambda: state(live, silent) == "stalled")
    assert state(live, finished) == "finished"
    assert beat(live, finished) == "finished"
    assert alerts(live, finished) == {}


def test_a_run_ends_with_the_last_writer_of_its_newest_attempt(live: LiveServer) -> None:
    run_id = "r1"
    for writer in ("w1", "w2"):
        start(live, run_id, writer)
    end(live, run_id, "w1")
    assert state(live, run_id) == "running"
    # A start that is sent again must not bring a writer back that has ended.
    start(live, run_id, "w1")
    end(live, run_id, "w2", "failed")
    assert state(live, run_id) == "failed"
    start(live, run_id, "w3", "a2", 200.0)
    assert state(live, run_id) == "running"
    # An old attempt's writer says nothing about the new one.
    end(live, run_id, "w2", "finished")
    assert state(live, run_id) == "running"
    end(live, run_id, "w3", headers=LATE)
    assert state(live, run_id) == "finished"


def test_a_writer_that_comes_after_the_others_have_ended_makes_the_run_run(live: LiveServer) -> None:
    start(live, "r1", "w1")
    end(live, "r1", "w1")
    assert state(live, "r1") == "finished"
    assert beat(live, "r1", "w2", attempt_id="a1", rank=1) == "running"
    start(live, "r1", "w2")
    end(live, "r1", "w2")
    assert state(live, "r1") == "finished"


def test_a_heartbeat_says_what_waits_and_what_was_lost(start_server: Any, wait_until: WaitUntil) -> None:
    live = start_server(**QUICK | {"stall_seconds": 3600.0, "lag_seconds": 300.0, "quiet_seconds": 3600.0})
    run_id = live.start_run()
    waiting = {"spool_records": 3, "spool_bytes": 900, "spool_oldest_seconds": 400.0}
    beat(live, run_id, "w1", host="gpu-07", rank=0, **waiting, dropped={"budget": 2})
    beat(live, run_id, "w2", rank=1, spool_records=1, spool_bytes=100, dropped={"budget": 1, "invalid": 4})
    detail = live.get(f"/runs/{run_id}")
    assert (detail["num_writers"], detail["spool_records"], detail["spool_bytes"]) == (2, 4, 1000)
    assert detail["spool_oldest_seconds"] >= 400
    assert detail["dropped"] == {"budget": 3, "invalid": 4}
    assert detail["last_seen_at"] is not None
    wait_until(lambda: {"spool_backlog", "data_dropped"} <= set(alerts(live, run_id)))
    wait_until(lambda: alerts(live, run_id)["data_dropped"]["evidence"]["num_dropped"] == 7)
    # What is lost later is told in the same alert.
    beat(live, run_id, "w1", dropped={"budget": 9})
    wait_until(lambda: alerts(live, run_id)["data_dropped"]["evidence"]["num_dropped"] == 14)
    wait_until(lambda: "spool_backlog" not in alerts(live, run_id))
    with live.services.database.write_session() as session:
        session.execute(text("UPDATE writers SET dropped = '{}'"))
    wait_until(lambda: "data_dropped" not in alerts(live, run_id))


def test_a_dead_spool_ages_until_it_is_shipped(live: LiveServer) -> None:
    run_id = live.start_run()
    beat(live, run_id, spool_records=2, spool_oldest_seconds=1.0)
    live.age("writers", "last_seen_at", 100.0)
    assert 101 <= live.get(f"/runs/{run_id}")["spool_oldest_seconds"] < 130
    # The process that ships it reads the same age from the disk.
    beat(live, run_id, is_alive=False, spool_records=2, spool_oldest_seconds=102.0)
    assert 102 <= live.get(f"/runs/{run_id}")["spool_oldest_seconds"] < 130
    beat(live, run_id, is_alive=False)
    assert live.get(f"/runs/{run_id}")["spool_records"] == 0


def test_a_heartbeat_that_says_nothing_new_is_not_written(live: LiveServer) -> None:
    def written() -> list[float]:
        with live.services.database.read_session() as session:
            return list(session.scalars(text("SELECT last_seen_at FROM writers ORDER BY writer_id")))

    run_id = live.start_run()
    for _ in range(2):
        beat(live, run_id, "w1", host="h", rank=0)
    before = written()
    # Of ranks that beat together one is enough, and SQLite has one writer.
    assert beat(live, run_id, "w1", host="h", rank=0) == "running"
    assert written() == before
    beat(live, run_id, "w1", spool_records=1)
    assert written() > before
    live.age("runs", "last_seen_at", 10.0)
    beat(live, run_id, "w1")
    with live.services.database.read_session() as session:
        assert session.scalar(text("SELECT min(last_seen_at) FROM runs")) > before[0]


def test_a_trainer_that_hangs_is_told_by_its_missing_steps(start_server: Any, wait_until: WaitUntil) -> None:
    live = start_server(**QUICK | {"stall_seconds": 3600.0, "quiet_seconds": 0.5})
    run_id = live.start_run()
    points = [{"step": step, "values": {"kl": 0.1}, "logged_at": 100.0 + step / 1000} for step in range(5)]
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points}).status_code == 200
    wait_until(lambda: "no_new_steps" in alerts(live, run_id))
    assert alerts(live, run_id)["no_new_steps"]["evidence"]["interval_seconds"] == pytest.approx(0.001)
    assert state(live, run_id) == "running"
    live.watch_with(quiet_seconds=3600.0)
    assert live.send_batch(run_id, 5).status_code == 202
    wait_until(lambda: "no_new_steps" in alerts(live, run_id, "resolved"))


def test_jobs_without_a_worker_raise_an_alert_that_goes_when_one_comes(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(**QUICK | {"stall_seconds": 3600.0, "lag_seconds": 1.0, "lease_seconds": 60.0})
    run_id = live.start_run()
    assert live.send_batch(run_id, 0).status_code == 202
    wait_until(lambda: {"no_worker", "queue_lag"} <= set(service_alerts(live)))
    assert service_alerts(live)["no_worker"]["run_id"] is None
    # Nothing of it is about the run.
    assert alerts(live, run_id) == {}
    job = live.claim("gpu-1")
    worker_beat(live, job_id=job["job_id"])
    wait_until(lambda: not {"no_worker", "queue_lag"} & set(service_alerts(live)))
    failure = {"worker": "gpu-1", "error": "E: broken", "retry": False}
    assert live.worker(f"/jobs/{job['job_id']}/fail", failure).status_code == 200
    wait_until(lambda: "batches_dead" in alerts(live, run_id))
    retried = live.call("POST", f"/runs/{run_id}/jobs/{job['job_id']}/retry")
    assert retried.status_code == 200
    wait_until(lambda: "batches_dead" not in alerts(live, run_id))


def test_a_worker_that_vanishes_is_missed_and_one_that_was_stopped_is_not(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(**QUICK)
    worker_beat(live, "killed")
    worker_beat(live, "stopped", device="cuda:0", is_stopping=True)
    wait_until(lambda: "worker_gone" in service_alerts(live))
    assert service_alerts(live)["worker_gone"]["scope"] == "killed"
    assert [one["name"] for one in live.get("/service")["workers"]] == ["killed"]
    # A day later nobody asks for it any more.
    live.age("workers", "last_seen_at", 86_500.0)
    wait_until(lambda: live.get("/service")["workers"] == [])
    wait_until(lambda: "worker_gone" not in service_alerts(live))


def test_two_servers_that_watch_one_database_open_each_alert_once(
    start_server: Any, wait_until: WaitUntil
) -> None:
    first, second = start_server(**QUICK), start_server(**QUICK)
    run_ids = [first.start_run() for _ in range(4)]
    for run_id in run_ids:
        wait_until(lambda run_id=run_id: "run_stalled" in alerts(second, run_id))  # type: ignore[misc]
    looks = [threading.Thread(target=one.services.watch.look) for one in (first, second) * 3]
    for look in looks:
        look.start()
    for look in looks:
        look.join()
    for run_id in run_ids:
        found = first.get(f"/runs/{run_id}/alerts")["alerts"]
        assert [one["rule"] for one in found] == ["run_stalled"]


def test_a_server_that_was_away_gives_every_run_its_full_time_again(start_server: Any) -> None:
    live = start_server(**QUICK | {"watch_seconds": 60.0, "stall_seconds": 30.0})
    run_id = live.start_run()
    beat(live, run_id)
    # Nobody could hear the run for a day; the next look comes late, as after a long absence.
    live.age("runs", "last_seen_at", 86_400.0)
    live.services.watch.look()
    assert state(live, run_id) == "running"
    assert alerts(live, run_id) == {}


def test_a_sign_of_life_that_comes_while_the_watch_decides_wins(live: LiveServer) -> None:
    from collapsewatch_server.repositories import watch

    run_id = live.start_run()
    beat(live, run_id)
    database = live.services.database
    with database.read_session() as session:
        (seen,) = watch.snapshot(session, quiet_seconds=60.0).runs
    with database.write_session() as session:
        writers.see_run(session, seen.run_pk, with_data=False)
    with database.write_session() as session:
        assert not watch.silence_run(session, seen, "stalled")
    assert state(live, run_id) == RunState.running


def test_states_and_alerts_of_the_watch_reach_open_pages(start_server: Any, wait_until: WaitUntil) -> None:
    live = start_server(**QUICK)
    run_id = live.start_run()
    wait_until(lambda: "run_stalled" in alerts(live, run_id))
    live.watch_with(**PATIENT)
    beat(live, run_id)
    wait_until(lambda: "run_stalled" in alerts(live, run_id, "resolved"))
    told = live.services.reading.events_after(0, run_id, 100)
    states = [event.data["state"] for event in told if event.kind == "run"]
    assert states[:3] == ["running", "stalled", "running"]
    moves = [(event.data["rule"], event.data["status"]) for event in told if event.kind == "alert"]
    assert moves[:2] == [("run_stalled", "open"), ("run_stalled", "resolved")]


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"attempt_id": "unheard-of"}, 404, "attempt_not_found"),
        ({"spool_records": -1}, 422, "invalid_body"),
        ({"dropped": {"budget": 1e308}}, 422, "invalid_body"),
    ],
)
def test_a_heartbeat_that_is_wrong_changes_nothing(
    live: LiveServer, change: Json, status: int, code: str
) -> None:
    run_id = live.start_run()
    response = live.ingest("POST", f"/runs/{run_id}/heartbeat", json={"writer_id": "w1", **change})
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert live.get(f"/runs/{run_id}")["num_writers"] == 0


def test_heartbeats_need_the_right_key_and_a_known_run(live: LiveServer) -> None:
    run_id = live.start_run()
    path, body = f"/runs/{run_id}/heartbeat", {"writer_id": "w1"}
    assert live.call("POST", path, json=body).status_code == 401
    assert live.call("POST", path, json=body, key=live.worker_key).status_code == 403
    assert live.ingest("POST", "/runs/unknown/heartbeat", json=body).status_code == 404
    worker = {"worker": "w", "host": "h", "device": "cpu", "version": "1", "started_at": 1.0}
    assert live.call("POST", "/worker/heartbeat", json=worker, key=live.ingest_key).status_code == 403
    # A job id that no database can hold is no job.
    assert live.worker("/heartbeat", {**worker, "job_id": 2**80}).status_code == 204
