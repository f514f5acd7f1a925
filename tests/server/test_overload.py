"""A run that produces faster than workers score: newest first, nothing silently lost, nobody else delayed."""

from typing import Any

import pytest
import redis

from collapsewatch_server.queue.feed import QUEUE_KEY
from collapsewatch_server.repositories import events
from collapsewatch_server.repositories.jobs import DEFERRED
from tests.server.live import Json, LiveServer, result_body


@pytest.fixture
def small(start_server: Any) -> LiveServer:
    """A server that lets three batches of a run wait and defers two more."""
    live: LiveServer = start_server(
        lease_seconds=60, reconcile_seconds=0.05, max_waiting_batches=3, max_deferred_batches=2
    )
    return live


def detail(live: LiveServer, run_id: str) -> Json:
    found: Json = live.get(f"/runs/{run_id}")
    return found


def all_steps(live: LiveServer) -> list[int]:
    steps = []
    while (job := live.try_claim()) is not None:
        steps.append(job["step"])
    return steps


def test_the_newest_keep_their_place_and_the_oldest_are_scored_last(start_server: Any) -> None:
    live = start_server(lease_seconds=60, max_waiting_batches=3)
    run_id = live.start_run()
    for step in range(8):
        live.send_batch(run_id, step)
    found = detail(live, run_id)
    assert (found["jobs"]["queued"], found["num_deferred"]) == (8, 5)
    assert all_steps(live) == [5, 6, 7, 0, 1, 2, 3, 4]
    assert detail(live, run_id)["num_deferred"] == 0


def test_beyond_the_deferred_the_oldest_are_laid_aside_with_the_reason(small: LiveServer) -> None:
    run_id = small.start_run()
    for step in range(8):
        small.send_batch(run_id, step)
    found = detail(small, run_id)
    assert found["jobs"] == {"queued": 5, "leased": 0, "done": 0, "dead": 0, "thinned": 3}
    assert found["num_deferred"] == 2
    thinned = small.get(f"/runs/{run_id}/jobs", status="thinned")["jobs"]
    assert [job["step"] for job in thinned] == [2, 1, 0]
    assert "laid aside unscored" in thinned[0]["error"]
    assert all_steps(small) == [5, 6, 7, 3, 4]


def test_what_is_laid_aside_raises_an_alert_until_it_is_queued_again(
    start_server: Any, wait_until: Any
) -> None:
    live = start_server(
        lease_seconds=60,
        reconcile_seconds=0.05,
        max_waiting_batches=3,
        max_deferred_batches=2,
        watch_seconds=0.05,
        worker_seconds=0.1,
    )
    run_id = live.start_run()
    for step in range(6):
        live.send_batch(run_id, step)

    def alerts() -> list[str]:
        found = live.get("/service")["alerts"]
        return [alert["message"] for alert in found if alert["rule"] == "batches_thinned"]

    wait_until(lambda: alerts(), "an alert")
    assert alerts()[0].startswith("1 batches")
    with live.services.database.read_session() as session:
        told = [event.data for event in events.after(session, 0, run_id, 1000) if event.kind == "job"]
    assert [(data["status"], data["num_jobs"]) for data in told] == [("thinned", 1)]
    assert len(all_steps(live)) == 5
    (job,) = live.get(f"/runs/{run_id}/jobs", status="thinned")["jobs"]
    assert live.call("POST", f"/runs/{run_id}/jobs/{job['job_id']}/retry").status_code == 200
    wait_until(lambda: not alerts(), "it is resolved")


def test_a_thinned_batch_can_be_queued_again(small: LiveServer) -> None:
    run_id = small.start_run()
    for step in range(7):
        small.send_batch(run_id, step)
    assert all_steps(small) == [4, 5, 6, 2, 3]
    newer, older = small.get(f"/runs/{run_id}/jobs", status="thinned")["jobs"]
    retry = f"/runs/{run_id}/jobs/{older['job_id']}/retry"
    assert small.call("POST", retry).json() == {"status": "queued"}
    assert small.call("POST", retry).status_code == 409
    job = small.claim()
    assert (job["step"], job["start"]) == (0, 1)
    assert small.done(job["job_id"], result_body())
    assert detail(small, run_id)["jobs"]["thinned"] == 1
    # One that no worker has claimed is nobody's to answer.
    answer = small.worker(f"/jobs/{newer['job_id']}/done", result_body())
    assert answer.status_code == 409


def test_a_result_for_a_job_that_was_laid_aside_meanwhile_is_welcome(small: LiveServer) -> None:
    run_id = small.start_run()
    small.send_batch(run_id, 0)
    job = small.claim()
    small.worker(f"/jobs/{job['job_id']}/fail", {"worker": "w1", "error": "told to stop", "given_back": True})
    for step in range(1, 6):
        small.send_batch(run_id, step)
    assert detail(small, run_id)["jobs"]["thinned"] == 1
    assert small.done(job["job_id"], result_body())
    assert detail(small, run_id)["jobs"]["thinned"] == 0


def test_jobs_that_come_back_make_older_ones_give_way(start_server: Any, wait_until: Any) -> None:
    live = start_server(lease_seconds=60, reconcile_seconds=0.05, max_waiting_batches=2)
    run_id = live.start_run()
    held = []
    for step in range(4):
        live.send_batch(run_id, step)
        held.append(live.claim(f"w{step}"))
    for step, job in enumerate(held):
        live.worker(f"/jobs/{job['job_id']}/fail", {"worker": f"w{step}", "error": "no luck"})
    wait_until(lambda: detail(live, run_id)["num_deferred"] == 2, "two were deferred")
    assert all_steps(live) == [2, 3, 0, 1]


def test_a_flood_of_one_run_does_not_delay_another(start_server: Any) -> None:
    live = start_server(lease_seconds=60, max_waiting_batches=10)
    flooding, modest = live.start_run(), live.start_run()
    for step in range(60):
        live.send_batch(flooding, step)
    live.send_batch(modest, 0)
    assert modest in [live.claim()["run_id"] for _ in range(3)]
    # And the other way round: the flooded run's line is no longer than what waits in it.
    live.send_batch(modest, 1)
    for step in range(2, 14):
        live.send_batch(modest, step)
    runs = [live.claim()["run_id"] for _ in range(22)]
    assert runs.count(flooding) >= 8


def test_redis_moves_a_deferred_job_back_and_forgets_a_thinned_one(
    start_server: Any, deployment: Any
) -> None:
    if deployment.redis_url is None:
        pytest.skip("there is no Redis in this deployment")
    # The reconciler stays away: what it read a moment before a job was laid aside it may suggest once more.
    small = start_server(
        lease_seconds=60, reconcile_seconds=60, max_waiting_batches=3, max_deferred_batches=2
    )
    run_id = small.start_run()
    for step in range(7):
        small.send_batch(run_id, step)
    jobs = {job["step"]: job["job_id"] for job in small.get(f"/runs/{run_id}/jobs")["jobs"]}
    with redis.Redis.from_url(deployment.redis_url) as client:

        def suggested() -> list[int]:
            return [int(member) for member in client.zrange(QUEUE_KEY, 0, -1)]

        in_order = [jobs[step] for step in (4, 5, 6, 2, 3)]
        assert suggested() == in_order
        # A job that a worker gives back is suggested at its old place.
        client.zrem(QUEUE_KEY, jobs[4])
        held = small.claim("w1", job_id=jobs[4])
        small.worker(f"/jobs/{held['job_id']}/fail", {"worker": "w1", "error": "no luck"})
        assert suggested() == in_order
        # Redis was away when it was laid aside.
        client.zadd(QUEUE_KEY, {str(jobs[0]): DEFERRED + 1.0})
        retry = f"/runs/{run_id}/jobs/{jobs[0]}/retry"
        assert small.call("POST", retry).status_code == 200
        # It is the newest in line now, and the oldest gives way to it.
        assert suggested() == [jobs[step] for step in (5, 6, 0, 3, 4)]
