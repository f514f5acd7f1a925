"""The queue: one lease per job, taken back when it ends, dead after three starts, one result that counts."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from collapsewatch_server.queue.feed import QUEUE_KEY
from collapsewatch_server.tables import JobRow
from tests.server.live import LiveServer, LongHeard, result_body


def status_of(live: LiveServer, job_id: int) -> str:
    with live.services.database.read_session() as session:
        return str(session.scalars(select(JobRow.status).where(JobRow.id == job_id)).one())


def test_a_job_goes_to_one_of_many_claimers(live: LiveServer) -> None:
    run_id = live.start_run()
    for step in range(10):
        live.send_batch(run_id, step)
    claimed: list[int] = []
    lock = threading.Lock()

    def claim_all() -> None:
        while (job := live.try_claim()) is not None:
            with lock:
                claimed.append(job["step"])

    threads = [threading.Thread(target=claim_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed) == list(range(10))


def test_one_claimer_gets_the_steps_in_order(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    run_id = live.start_run()
    for step in (3, 1, 2):
        live.send_batch(run_id, step)
    jobs = [live.claim() for _ in range(3)]
    assert [(job["step"], job["start"]) for job in jobs] == [(3, 1), (1, 1), (2, 1)]
    assert live.try_claim() is None


def test_a_batch_keeps_the_scorer_it_was_accepted_with(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    run_id = live.start_run(scorer={"kind": "lexical", "lexical_method": "tfidf_prompt"})
    live.send_batch(run_id, 1)
    update = {"scorer": {"kind": "policy", "checkpoint": "/checkpoints/{policy_version}"}}
    assert live.ingest("PATCH", f"/runs/{run_id}", json=update).status_code == 200
    live.send_batch(run_id, 2)
    assert [live.claim()["scorer"]["kind"] for _ in range(2)] == ["lexical", "policy"]


def test_a_run_that_sends_many_batches_at_once_leaves_room_for_others(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    greedy, modest = live.start_run(), live.start_run()
    for step in range(20):
        live.send_batch(greedy, step)
    live.send_batch(modest, 0)
    # A place in line is a second: the more time the sending took, the more of them come first.
    first = [live.claim()["run_id"] for _ in range(12)]
    assert modest in first


def test_a_named_job_is_claimed_once(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    live.send_batch(run_id, 2)
    with live.services.database.read_session() as session:
        wanted = session.scalars(select(JobRow.id).order_by(JobRow.id.desc())).first()
    assert live.claim(job_id=wanted)["step"] == 2
    assert live.try_claim(job_id=wanted) is None
    for nobody in (0, -5, 10**6, 2**70):
        assert live.try_claim(job_id=nobody) is None


def test_a_claim_whose_answer_was_lost_brings_the_same_job_at_the_same_start(live: LiveServer) -> None:
    run_id = live.start_run()
    for step in range(2):
        assert live.send_batch(run_id, step).status_code == 202
    lost = live.claim("w1")
    again = live.claim("w1", repeats=True)
    assert (again["job_id"], again["start"]) == (lost["job_id"], 1)
    assert live.claim("w2")["job_id"] != lost["job_id"]
    # Nobody holds anything under this name: an ordinary claim.
    assert live.try_claim("w3", repeats=True) is None


def test_a_claim_that_arrives_after_its_repetition_leases_no_second_job(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    run_id = live.start_run()
    for step in range(2):
        assert live.send_batch(run_id, step).status_code == 202
    known = live.claim("w1", repeats=True)
    # The first try was on its way all the time, and nobody reads its answer.
    late = live.claim("w1")
    assert (late["job_id"], late["start"]) == (known["job_id"], 1)
    assert live.done(known["job_id"], result_body())
    # One that comes later still: the worker gets what it holds with its next claim.
    unread = live.claim("w1")
    assert live.claim("w1", job_id=known["job_id"]) == unread


def test_a_waiting_claim_is_woken_by_the_job(
    start_server: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = start_server(lease_seconds=30, poll_seconds=10)
    run_id = live.start_run()
    found: list[Any] = []
    waits: list[float] = []
    wait = live.services.claims.wait

    async def wait_for_ever(sequence: int, seconds: float) -> None:
        waits.append(seconds)
        await wait(sequence, 1000.0)

    # It would not look by itself: only the bell wakes it.
    monkeypatch.setattr(live.services.claims, "wait", wait_for_ever)
    waiting = threading.Thread(target=lambda: found.append(live.claim(wait_seconds=20)))
    waiting.start()
    wait_until(lambda: waits, "the claim waits")
    live.send_batch(run_id, 5)
    waiting.join(60)
    (job,) = found
    assert job["step"] == 5
    assert waits[0] == pytest.approx(10)


def test_a_waiting_claim_gives_up_in_time(live: LiveServer) -> None:
    start = time.monotonic()
    assert live.try_claim(wait_seconds=0.4) is None
    # Nobody waits for longer than 30 s: a claim that did not give up would wait until then.
    assert 0.35 < time.monotonic() - start < 20


def test_a_beat_keeps_the_lease_and_silence_loses_it(
    start_server: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = start_server(lease_seconds=60, reconcile_seconds=0.05)
    monkeypatch.setattr(live.services.queue, "_hearing", LongHeard())
    live.send_batch(live.start_run(), 1)
    job_id = live.claim("w1")["job_id"]
    path = f"/jobs/{job_id}/beat"
    for _ in range(4):
        live.age("jobs", "lease_until", 30)
        assert live.worker(path, {"worker": "w1"}).json() == {"held": True}
        live.services.queue.reconcile()
        assert status_of(live, job_id) == "leased"
    assert live.worker(path, {"worker": "w2"}).json() == {"held": False}
    live.age("jobs", "lease_until", 30)
    live.age("jobs", "lease_until", 30)
    wait_until(lambda: status_of(live, job_id) == "queued", "the lease ran out")
    assert live.worker(path, {"worker": "w1"}).json() == {"held": False}
    assert live.claim("w2")["start"] == 2


def run_out(live: LiveServer) -> None:
    """Ends every lease long ago."""
    with live.services.database.write_session() as session:
        session.execute(update(JobRow).where(JobRow.status == "leased").values(lease_until=1.0))


def test_a_lease_that_ran_out_while_the_server_was_away_can_still_be_kept(start_server: Any) -> None:
    # Long enough for a busy machine to start a server and ask it.
    options = {"lease_seconds": 60, "reconcile_seconds": 60}
    before = start_server(**options)
    run_id = before.start_run()
    before.send_batch(run_id, 1)
    job_id = before.claim("w1")["job_id"]
    for _ in range(4):
        run_out(before)
        # Its workers had nobody to tell that they live.
        after = start_server(**options)
        after.worker_key = before.worker_key
        after.services.queue.reconcile()
        assert status_of(after, job_id) == "leased"
        assert after.worker(f"/jobs/{job_id}/beat", {"worker": "w1"}).json() == {"held": True}
    run_out(after)
    # By now it would have heard any worker that lives.
    after.services.queue._hearing._since -= 60
    after.services.queue.reconcile()
    assert status_of(after, job_id) == "queued"


@pytest.mark.parametrize("what", ["reconcile", "beat"])
def test_after_the_database_was_away_leases_get_their_full_time_again(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    live = start_server(lease_seconds=60, reconcile_seconds=60)
    queue, database = live.services.queue, live.services.database
    live.send_batch(live.start_run(), 1)
    job_id = live.claim("w1")["job_id"]

    def away() -> None:
        raise OperationalError("", {}, Exception("away"))

    queue.reconcile()
    # So long ago that leases could be judged.
    queue._hearing._since -= 100
    run_out(live)
    look = {"reconcile": queue.reconcile, "beat": lambda: queue.beat(job_id, "w1")}[what]
    with monkeypatch.context() as patch:
        patch.setattr(database, "read_session" if what == "reconcile" else "write_session", away)
        with pytest.raises(OperationalError):
            look()
    queue.reconcile()
    assert status_of(live, job_id) == "leased"


@pytest.mark.parametrize("where", ["at the gate", "before the threads"])
def test_a_beat_that_was_turned_away_costs_no_lease(
    start_server: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    live = start_server(lease_seconds=60, reconcile_seconds=60)
    queue, work = live.services.queue, live.services.work
    live.send_batch(live.start_run(), 1)
    job_id = live.claim("w1")["job_id"]
    queue.reconcile()
    # So long ago that leases could be judged.
    queue._hearing._since -= 100
    run_out(live)
    with monkeypatch.context() as patch:
        if where == "at the gate":
            patch.setattr(work, "_max_requests", 0)
        else:
            patch.setattr(work.writing._places, "total_tokens", 0)
            patch.setattr(work, "answer_seconds", 0.2)
        assert live.worker(f"/jobs/{job_id}/beat", {"worker": "w1"}).status_code == 429
    queue.reconcile()
    assert status_of(live, job_id) == "leased"
    queue._hearing._since -= 100
    queue.reconcile()
    assert status_of(live, job_id) == "queued"


def test_a_poison_job_is_dead_after_three_starts_until_retried(start_server: Any, wait_until: Any) -> None:
    # The one test that sits leases out.
    live = start_server(lease_seconds=0.5, reconcile_seconds=0.1)
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    live.send_batch(run_id, 2)
    starts: list[int] = []

    def play_dead() -> bool:
        job = live.try_claim(f"doomed-{len(starts)}")
        if job is not None and job["step"] == 1:
            starts.append(job["start"])
        elif job is not None:
            live.done(job["job_id"], result_body())
        return bool(live.get(f"/runs/{run_id}/jobs", status="dead")["jobs"])

    wait_until(play_dead, "the job is dead")
    assert starts == [1, 2, 3]
    (dead,) = live.get(f"/runs/{run_id}/jobs", status="dead")["jobs"]
    assert "stopped answering" in dead["error"]
    assert "doomed" in dead["error"]
    assert live.try_claim() is None

    retry = f"/runs/{run_id}/jobs/{dead['job_id']}/retry"
    assert live.call("POST", retry).json() == {"status": "queued"}
    assert live.call("POST", retry).status_code == 409
    job = live.claim()
    assert (job["step"], job["start"]) == (1, 1)


def test_workers_that_are_told_to_stop_use_up_no_start(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    for restart in range(4):
        worker = f"w{restart}"
        job = live.claim(worker)
        assert job["start"] == 1
        body = {"worker": worker, "error": "the worker was stopped", "given_back": True}
        assert live.worker(f"/jobs/{job['job_id']}/fail", body).json() == {"status": "queued"}
        # Told again, by a worker that no longer holds it: nothing is taken back twice.
        live.worker(f"/jobs/{job['job_id']}/fail", body)
    assert live.done(live.claim()["job_id"], result_body())


def test_a_failed_job_keeps_its_place_and_its_traceback(start_server: Any) -> None:
    live = start_server(lease_seconds=30)
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    live.send_batch(run_id, 2)
    job_id = live.claim("w1")["job_id"]
    failure = {"worker": "w1", "error": "no model \x00 here", "traceback": "line \x00 7"}
    statuses = [live.worker(f"/jobs/{job_id}/fail", failure).json()["status"]]
    for _ in range(2):
        assert live.claim("w1")["step"] == 1
        statuses.append(live.worker(f"/jobs/{job_id}/fail", failure).json()["status"])
    assert statuses == ["queued", "queued", "dead"]
    (dead,) = live.get(f"/runs/{run_id}/jobs", status="dead")["jobs"]
    assert (dead["error"], dead["traceback"], dead["starts"]) == ("no model \ufffd here", "line \ufffd 7", 3)


def test_a_failure_that_trying_again_cannot_cure_is_final(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    job_id = live.claim()["job_id"]
    failure = {"worker": "w1", "error": "the batch is empty", "retry": False}
    assert live.worker(f"/jobs/{job_id}/fail", failure).json() == {"status": "dead"}
    assert live.worker(f"/jobs/{job_id}/fail", failure).json() == {"status": "dead"}
    assert live.worker("/jobs/99999/fail", failure).status_code == 404


def test_a_lost_lease_shows_no_traceback_of_an_earlier_failure(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    failure = {"worker": "w1", "error": "out of memory", "traceback": "line 7"}
    live.worker(f"/jobs/{live.claim('w1')['job_id']}/fail", failure)
    job_id = live.claim()["job_id"]
    live.lose_leases()
    assert status_of(live, job_id) == "queued"
    (job,) = live.get(f"/runs/{run_id}/jobs")["jobs"]
    assert "stopped answering" in job["error"]
    assert job["traceback"] is None


def test_a_failure_of_a_worker_that_lost_its_lease_changes_nothing(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    job_id = live.claim("slow")["job_id"]
    live.lose_leases()
    assert status_of(live, job_id) == "queued"
    live.claim("quick")
    answer = live.worker(f"/jobs/{job_id}/fail", {"worker": "slow", "error": "late"})
    assert answer.json() == {"status": "leased"}


def test_a_late_result_is_accepted_and_a_second_one_is_not(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    job_id = live.claim("slow")["job_id"]
    live.lose_leases()
    assert status_of(live, job_id) == "queued"
    live.claim("quick")
    assert live.done(job_id, result_body(0.6, worker="slow")) is True
    assert live.done(job_id, result_body(0.1, worker="quick")) is False
    skill = live.get(f"/runs/{run_id}/series", metric="retrieval_skill")["series"]["retrieval_skill"]
    assert skill["values"] == [0.6]
    assert live.get(f"/runs/{run_id}")["jobs"]["done"] == 1


def test_two_results_at_once_count_once(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    job_id = live.claim()["job_id"]
    answers: list[bool] = []
    threads = [
        threading.Thread(target=lambda: answers.append(live.done(job_id, result_body()))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 5 + [True]


def test_a_dead_job_comes_alive_with_a_good_result(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    job_id = live.claim()["job_id"]
    live.worker(f"/jobs/{job_id}/fail", {"worker": "w1", "error": "e", "retry": False})
    assert live.done(job_id, result_body()) is True
    counts = live.get(f"/runs/{run_id}")["jobs"]
    assert counts == {"queued": 0, "leased": 0, "done": 1, "dead": 0, "thinned": 0}


def test_redis_holds_the_queued_jobs_and_is_filled_again_when_emptied(
    live: LiveServer, deployment: Any, wait_until: Any, tmp_path: Path
) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    if deployment.redis_url is None:
        assert live.claim()["step"] == 1
        return
    client = redis.Redis.from_url(deployment.redis_url)
    with client:
        pushed = client.zrange(QUEUE_KEY, 0, -1, withscores=True)
        assert len(pushed) == 1
        client.flushdb()
        wait_until(lambda: client.zcard(QUEUE_KEY) == 1, "the job was pushed again")
        assert client.zrange(QUEUE_KEY, 0, -1, withscores=True) == pushed
        popped: Any = client.bzpopmin(QUEUE_KEY, 1)
        assert live.claim(job_id=int(popped[1]))["step"] == 1
