"""Faults of load: batches that nobody can score, more batches or more senders than there is room for."""

import os
import re
import signal
import socket
import time
from contextlib import ExitStack, suppress

import httpx

from collapsewatch.blobs import open_blob_store
from tests.faults.account import Sent
from tests.faults.scene import Scene
from tests.faults.stack import MAX_DEFERRED, MAX_INTAKE_REQUESTS, MAX_WAITING
from tests.faults.workload import Workload

_NUM_THINNED = 8


def poison(scene: Scene) -> None:
    """Three batches that nobody can score: each ends with its reason, and the others are not held up."""
    run_id = f"{scene.trainer.run_id}-poison"
    scene.await_moment()
    scene.stack.signal_workers(signal.SIGSTOP)
    _send_poison(scene, run_id)
    unreadable, deadly = (scene.audit.batch(run_id, step) for step in (1, 2))
    assert unreadable is not None
    assert deadly is not None
    blobs = scene.stack.service.home / "blobs"
    open_blob_store(str(blobs)).write(unreadable[0].blob_key, b"this is no batch")
    # A pipe that nobody writes to keeps the scoring process inside one call, and there it is killed.
    path = blobs / deadly[0].blob_key
    path.unlink()
    os.mkfifo(path)
    scene.stack.resume_workers()
    num_kills = _kill_whoever_takes(scene, run_id, 2)
    scene.note(f"{num_kills} scoring processes died of one batch")
    # The last kill may have hit a process that was only starting.
    for step, reason in enumerate(("regular expression", "cannot be read", "SIGKILL|does not start")):
        _await_death(scene, run_id, step)
        found = scene.audit.batch(run_id, step)
        error = found[1].error if found is not None else None
        if re.search(reason, error or "") is None:
            raise AssertionError(f"poison {step}: {reason!r} is not in its reason {error!r}")


def flood(scene: Scene) -> None:
    """A second run sends while no worker scores: batches are deferred and thinned, retried, and all scored.

    They are scored newest first, and come out like those of a run that was scored in order.
    """
    run_id = f"{scene.trainer.run_id}-other"
    workload = Workload(scene.trainer.workload.seed, MAX_WAITING + MAX_DEFERRED + _NUM_THINNED, 0.0)
    trainer = scene.stack.trainer(run_id, workload)
    scene.await_moment(0.3)
    scene.stack.signal_workers(signal.SIGSTOP)
    trainer.start()
    scene.stack.wait_until(trainer.has_ended, "the flood is over", timeout_seconds=240)
    keys = set(trainer.ledger.keys())
    rules = frozenset({"batches_deferred", "batches_thinned"})
    scene.other_runs[run_id] = Sent(keys, opened=rules)
    scene.stack.wait_until(lambda: scene.audit.accepted(run_id) >= keys, "the flood has arrived")
    thinned = scene.audit.jobs(run_id, "thinned")
    scene.demand(thinned, "nothing was thinned")
    if not all(job.error for job in thinned):
        raise AssertionError("thinned without a reason")
    scene.stack.resume_workers()
    scene.stack.wait_until(lambda: scene.audit.is_settled(run_id, keys), "the rest of the flood is scored")
    for job in thinned:
        url = f"{scene.stack.service.url}/api/v1/runs/{run_id}/jobs/{job.id}/retry"
        httpx.post(url, timeout=30, trust_env=False).raise_for_status()
    scene.stack.wait_until(
        lambda: scene.audit.num_jobs(run_id)["done"] == len(keys),
        "the thinned are scored",
        timeout_seconds=120,
    )
    scene.note(f"{len(thinned)} of {len(keys)} batches thinned, and retried")
    for difference in scene.compare(run_id, workload):
        raise AssertionError(f"the flooded run differs: {difference}")


def crowd(scene: Scene) -> None:
    """Senders that never finish take all places: the trainer is told to come again, and does."""
    scene.await_moment(0.4)
    network = scene.stack.network
    before = network.num_exchanges
    path = f"/api/v1/runs/{scene.trainer.run_id}/batches"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {scene.stack.service.local_key()}\r\nContent-Length: 100000\r\n\r\n"
    enough, end = (1 if scene.is_short else 5), time.monotonic() + 60
    num_refused = num_open = 0
    with ExitStack() as connections:
        while num_refused < enough and time.monotonic() < end and not scene.trainer.has_ended():
            # One more whenever the trainer had a place that is free again.
            for _ in range(1 if num_open else MAX_INTAKE_REQUESTS):
                address = ("127.0.0.1", scene.stack.service.port)
                one = connections.enter_context(socket.create_connection(address, 10))
                one.sendall(head.encode())
                num_open += 1
            time.sleep(0.05)
            num_refused = sum(exchange.status == 429 for exchange in network.exchanges(before))
    scene.note(f"{num_refused} requests told to come again")
    scene.demand(num_refused, "there was room for all")


def _await_death(scene: Scene, run_id: str, step: int) -> None:
    def is_dead() -> bool:
        found = scene.audit.batch(run_id, step)
        return found is not None and found[1].status == "dead"

    scene.stack.wait_until(is_dead, f"the batch of step {step} is dead")


def _send_poison(scene: Scene, run_id: str) -> None:
    api = f"{scene.stack.service.url}/api/v1"
    headers = {"Authorization": f"Bearer {scene.stack.service.local_key()}"}
    scene.other_runs[run_id] = Sent(
        {("a0", step) for step in range(3)},
        dead=frozenset(range(3)),
        state="running",
        still_open=frozenset({"batches_dead"}),
    )
    turns = [{"prompt_token_ids": [1], "response_token_ids": [2, 3], "reasoning_span": [0, 2]}]
    attempt = {"attempt_id": "a0", "started_at": time.time()}
    no_pattern = {"pattern": "(?P<reasoning>"}
    with httpx.Client(headers=headers, timeout=20, trust_env=False) as client:
        client.post(
            f"{api}/runs", json={"run_id": run_id, "project": "faults", "name": run_id, "attempt": attempt}
        )
        for step in range(3):
            body = {
                "batch_id": f"poison-{step}",
                "attempt_id": "a0",
                "step": step,
                "rollouts": [{"group_id": f"g{i % 2}", "turns": turns} for i in range(4)],
            } | ({"reasoning_tags": no_pattern} if step == 0 else {})
            client.post(f"{api}/runs/{run_id}/batches", json=body).raise_for_status()


def _kill_whoever_takes(scene: Scene, run_id: str, step: int) -> int:
    """Kills each scoring process that works on the step, until nobody tries any more."""
    killed: set[int] = set()

    def is_dead() -> bool:
        found = scene.audit.batch(run_id, step)
        job = None if found is None else found[1]
        if job is not None and job.status == "leased" and job.owner:
            child = scene.stack.scoring_pid(int(job.owner.split("-")[-2]))
            if child is not None and child not in killed:
                killed.add(child)
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        return job is not None and job.status == "dead"

    scene.stack.wait_until(is_dead, "the poison is dead")
    return len(killed)
