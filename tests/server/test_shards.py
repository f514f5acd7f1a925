"""Steps that ranks send in parts: one job for all, whatever comes late, twice or never."""

import itertools
import threading
from typing import Any

import pytest
from sqlalchemy import select, text

from collapsewatch.blobs import unpack_batch
from collapsewatch_server.queue.admission import Admission
from collapsewatch_server.repositories import batches, runs
from collapsewatch_server.tables import Batch, JobRow
from tests.server.live import Json, LiveServer, result_body

Starter = Any


@pytest.fixture
def patient(start_server: Starter) -> LiveServer:
    """A server whose incomplete steps and leases outlive the test."""
    live: LiveServer = start_server(lease_seconds=60)
    return live


@pytest.fixture
def hasty(start_server: Starter) -> LiveServer:
    """A server that queues incomplete steps at once."""
    live: LiveServer = start_server(lease_seconds=60, shard_wait_seconds=0.2, reconcile_seconds=0.05)
    return live


def send(live: LiveServer, run_id: str, step: int, index: int, count: int, **changes: Any) -> None:
    name = changes.pop("batch_id", f"s{step}-{index}of{count}")
    turn = {"prompt": f"prompt {index} <think>", "response": "reason</think>act"}
    body = {
        "batch_id": name,
        "rollouts": [{"group_id": name, "turns": [turn]}],
        "shard": {"index": index, "count": count},
        "logged_at": 1000.0 + index,
        **changes,
    }
    assert live.send_batch(run_id, step, **body).status_code == 202


def parts_of(live: LiveServer, job: Json) -> list[str]:
    """Ids of the batches of the job, in the order in which the worker puts them together."""
    blobs = live.services.blobs
    return [unpack_batch(blobs.read(key), 10_000).batch_id for key in job["blob_keys"]]


def num_jobs(live: LiveServer) -> int:
    with live.services.database.read_session() as session:
        return len(session.scalars(select(JobRow.id)).all())


def test_any_order_of_arrival_makes_the_same_job(patient: LiveServer) -> None:
    run_id = patient.start_run()
    orders = list(itertools.permutations(range(3)))
    for step, order in enumerate(orders):
        for position, index in enumerate(order):
            assert num_jobs(patient) == step, f"{position} of 3 shards make no job"
            send(patient, run_id, step, index, 3)
    for step in range(len(orders)):
        job = patient.claim()
        assert job["step"] == step
        assert parts_of(patient, job) == [f"s{step}-{index}of3" for index in range(3)]
        # The one logged last stands for the step.
        assert job["batch_id"] == f"s{step}-2of3"
    with patient.services.database.read_session() as session:
        assert None not in session.scalars(select(Batch.job_pk)).all()


def test_of_a_shard_that_was_sent_twice_the_last_logged_counts(patient: LiveServer) -> None:
    run_id = patient.start_run()
    copies = [("old", 5.0), ("new", 9.0), ("middle", 7.0)]
    for step, order in enumerate(itertools.permutations(copies)):
        for name, logged_at in order[:2]:
            send(patient, run_id, step, 0, 2, batch_id=f"{step}-{name}", logged_at=logged_at)
        send(patient, run_id, step, 1, 2, batch_id=f"{step}-other", logged_at=6.0)
        # The third copy meets a job that nobody has started.
        send(patient, run_id, step, 0, 2, batch_id=f"{step}-{order[2][0]}", logged_at=order[2][1])
        job = patient.claim()
        assert parts_of(patient, job) == [f"{step}-new", f"{step}-other"]
        assert job["batch_id"] == f"{step}-new"
    assert patient.try_claim() is None


def test_the_same_shard_sent_again_is_one_shard(patient: LiveServer) -> None:
    run_id = patient.start_run()
    send(patient, run_id, 1, 0, 2)
    body = {"batch_id": "s1-0of2", "shard": {"index": 0, "count": 2}, "logged_at": 1000.0}
    turn = {"prompt": "prompt 0 <think>", "response": "reason</think>act"}
    body["rollouts"] = [{"group_id": "s1-0of2", "turns": [turn]}]
    assert patient.send_batch(run_id, 1, **body).status_code == 200
    assert num_jobs(patient) == 0
    send(patient, run_id, 1, 1, 2)
    assert num_jobs(patient) == 1


def test_shards_of_different_worlds_do_not_mix(patient: LiveServer) -> None:
    run_id = patient.start_run()
    send(patient, run_id, 1, 0, 2)
    for index in (2, 0, 1):
        send(patient, run_id, 1, index, 3)
    assert parts_of(patient, patient.claim()) == ["s1-0of3", "s1-1of3", "s1-2of3"]
    send(patient, run_id, 1, 1, 2)
    assert parts_of(patient, patient.claim()) == ["s1-0of2", "s1-1of2"]
    send(patient, run_id, 1, 0, 1)
    assert parts_of(patient, patient.claim()) == ["s1-0of1"]
    assert patient.try_claim() is None


def test_shards_that_come_at_the_same_moment_make_one_job(patient: LiveServer) -> None:
    run_id = patient.start_run()
    world, steps = 4, 12
    together = threading.Barrier(world)

    def send_all(index: int) -> None:
        for step in range(steps):
            together.wait(30)
            send(patient, run_id, step, index, world)

    ranks = [threading.Thread(target=send_all, args=(index,)) for index in range(world)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    jobs = [patient.claim() for _ in range(steps)]
    assert sorted(job["step"] for job in jobs) == list(range(steps))
    assert {len(job["blob_keys"]) for job in jobs} == {world}
    assert patient.try_claim() is None


def test_a_step_whose_shards_do_not_come_is_scored_without_them(hasty: LiveServer, wait_until: Any) -> None:
    run_id = hasty.start_run()
    send(hasty, run_id, 1, 2, 3)
    send(hasty, run_id, 1, 0, 3)
    wait_until(lambda: num_jobs(hasty) == 1, "the step was queued")
    job = hasty.claim(wait_seconds=5)
    assert parts_of(hasty, job) == ["s1-0of3", "s1-2of3"]


def test_a_late_shard_joins_a_job_that_nobody_started(hasty: LiveServer, wait_until: Any) -> None:
    run_id = hasty.start_run()
    send(hasty, run_id, 1, 0, 3)
    wait_until(lambda: num_jobs(hasty) == 1, "the step was queued")
    send(hasty, run_id, 1, 2, 3)
    job = hasty.claim()
    assert parts_of(hasty, job) == ["s1-0of3", "s1-2of3"]
    assert job["batch_id"] == "s1-2of3"
    assert num_jobs(hasty) == 1


# Whether the late shard was logged before or after the one that was scored must not matter, and neither
# whether the worker of the incomplete step answers before or after that of the whole one.
@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("answered", ["before the late shard", "before the whole", "after the whole"])
def test_the_result_of_the_whole_step_stands(
    hasty: LiveServer, wait_until: Any, late: int, answered: str
) -> None:
    run_id = hasty.start_run()
    send(hasty, run_id, 1, 1 - late, 2)
    wait_until(lambda: num_jobs(hasty) == 1, "the step was queued")
    incomplete = hasty.claim()
    if answered == "before the late shard":
        assert hasty.done(incomplete["job_id"], result_body(0.2))
    send(hasty, run_id, 1, late, 2)
    whole = hasty.claim()
    assert whole["job_id"] != incomplete["job_id"]
    assert parts_of(hasty, whole) == ["s1-0of2", "s1-1of2"]
    assert whole["batch_id"] == "s1-1of2"
    if answered == "before the whole":
        assert hasty.done(incomplete["job_id"], result_body(0.2))
    assert hasty.done(whole["job_id"], result_body(0.6))
    if answered == "after the whole":
        assert hasty.done(incomplete["job_id"], result_body(0.2))
    series = hasty.get(f"/runs/{run_id}/series", metric="retrieval_skill")["series"]
    assert series["retrieval_skill"]["values"] == [0.6]
    assert hasty.get(f"/runs/{run_id}")["jobs"]["done"] == 2


def test_a_result_that_meets_a_late_shard_goes_where_its_job_went(
    hasty: LiveServer, deployment: Any, wait_until: Any
) -> None:
    if deployment.database_url is None:
        pytest.skip("SQLite has one writer, which never meets another")
    run_id = hasty.start_run()
    send(hasty, run_id, 1, 1, 2)
    wait_until(lambda: num_jobs(hasty) == 1, "the step was queued")
    incomplete = hasty.claim()
    answers: list[bool] = []
    worker = threading.Thread(
        target=lambda: answers.append(hasty.done(incomplete["job_id"], result_body(0.2)))
    )
    database = hasty.services.database
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")

    def is_held() -> bool:
        with database.read_session() as session:
            return bool(session.scalar(waiting))

    with database.write_session() as session:
        other = session.scalars(select(Batch)).one()
        runs.lock(session, other.run_pk)
        worker.start()
        wait_until(is_held, "the result waits for the run")
        copied = ("attempt_pk", "step", "blob_key", "num_bytes", "num_rollouts", "num_shards")
        values = {name: getattr(other, name) for name in copied}
        late = {"batch_id": "late", "content_hash": "h", "logged_at": 1.0, "shard_index": 0, **values}
        batch_pk = batches.add(session, other.run_pk, **late)
        assert batch_pk is not None
        Admission(64, 2000).admit(session, batches.get(session, batch_pk))
    worker.join()
    assert answers == [True]
    assert hasty.done(hasty.claim()["job_id"], result_body(0.6))
    series = hasty.get(f"/runs/{run_id}/series", metric="retrieval_skill")["series"]
    assert series["retrieval_skill"]["values"] == [0.6]


def test_an_older_copy_of_a_shard_that_comes_after_the_result_changes_nothing(patient: LiveServer) -> None:
    run_id = patient.start_run()
    for index in (0, 1):
        send(patient, run_id, 1, index, 2)
    assert patient.done(patient.claim()["job_id"], result_body(0.6))
    send(patient, run_id, 1, 0, 2, batch_id="older", logged_at=1.0)
    assert patient.try_claim() is None
    with patient.services.database.read_session() as session:
        assert len(set(session.scalars(select(Batch.job_pk)).all())) == 1
