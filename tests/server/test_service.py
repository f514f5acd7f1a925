"""What the service says about itself."""

from typing import Any

from tests.server.live import Json, LiveServer, result_body
from tests.server.test_liveness import beat, worker_beat


def test_an_idle_service_has_nothing_to_tell(live: LiveServer) -> None:
    found = live.get("/service")
    assert found["queue"] == {
        "queued": 0,
        "leased": 0,
        "deferred": 0,
        "thinned": 0,
        "dead": 0,
        "oldest_seconds": None,
    }
    assert (found["workers"], found["runs_with_backlog"], found["alerts"]) == ([], [], [])
    # Whether the folder of the batches is there yet is up to the first of them.
    assert found["disk_free_bytes"] is None or 0 < found["disk_free_bytes"] <= found["disk_total_bytes"]


def test_the_queue_and_the_worker_that_holds_a_job_are_shown(live: LiveServer) -> None:
    run_id = live.start_run()
    for step in range(3):
        assert live.send_batch(run_id, step).status_code == 202
    worker_beat(live, "gpu-1", num_done=7)
    (idle,) = live.get("/service")["workers"]
    assert (idle["state"], idle["num_done"], idle["job"]) == ("idle", 7, None)
    job = live.claim("gpu-1")
    worker_beat(live, "gpu-1", num_done=7, job_id=job["job_id"])
    found = live.get("/service")
    (working,) = found["workers"]
    assert working["state"] == "working"
    assert working["job"] == {"run_id": run_id, "run_name": "n", "step": 0}
    assert (found["queue"]["queued"], found["queue"]["leased"]) == (2, 1)
    assert found["queue"]["oldest_seconds"] >= 0
    assert live.done(job["job_id"], result_body())
    # Its next heartbeat is to come, but the lease is over.
    assert live.get("/service")["workers"][0]["state"] == "idle"
    worker_beat(live, "gpu-1", is_stopping=True)
    assert live.get("/service")["workers"][0]["state"] == "stopping"


def test_runs_with_something_left_behind_are_listed(start_server: Any) -> None:
    live = start_server(max_waiting_batches=1, max_deferred_batches=1)
    plain, spooled, flooding = (live.start_run(name=name) for name in ("plain", "spooled", "flooding"))
    assert live.send_batch(plain, 0).status_code == 202
    waiting: Json = {
        "spool_records": 2,
        "spool_bytes": 10,
        "spool_oldest_seconds": 3.0,
        "dropped": {"budget": 1},
    }
    beat(live, spooled, **waiting)
    for step in range(3):
        assert live.send_batch(flooding, step).status_code == 202
    found = live.get("/service")
    backlog: dict[str, Json] = {one["name"]: one for one in found["runs_with_backlog"]}
    assert set(backlog) == {"spooled", "flooding"}
    assert backlog["spooled"]["run_id"] == spooled
    assert backlog["spooled"]["dropped"] == {"budget": 1}
    assert backlog["spooled"]["spool_oldest_seconds"] >= 3.0
    assert (backlog["spooled"]["num_writers"], backlog["spooled"]["num_deferred"]) == (1, 0)
    assert (backlog["flooding"]["num_deferred"], backlog["flooding"]["spool_records"]) == (1, 0)
    queue = found["queue"]
    assert (queue["queued"], queue["deferred"], queue["thinned"]) == (2, 1, 1)
