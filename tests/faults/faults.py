"""The faults: each breaks one part of a deployment while a trainer logs, and mends it again."""

import os
import random
import re
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from collapsewatch.blobs import open_blob_store
from tests import servers
from tests.faults.audit import Audit
from tests.faults.proxy import Network
from tests.faults.stack import Stack, TrainerProcess, Unavailable

BOTH = ("embedded", "scaled_out")


@dataclass
class Scene:
    """What a fault may touch."""

    stack: Stack
    audit: Audit
    trainer: TrainerProcess
    random: random.Random
    is_short: bool
    other_runs: dict[str, set[int]] = field(default_factory=dict)
    """Runs beside the trainer's, with the steps that were sent to them."""
    notes: list[str] = field(default_factory=list)

    def seconds(self, short: float, long: float) -> float:
        return short if self.is_short else long

    def await_moment(self, part: float = 0.6) -> None:
        """Comes back at a random moment in the first `part` of the training that is still to come."""
        done, last = len(self.trainer.ledger.steps()), self.trainer.workload.num_steps
        step = self.random.randint(min(done + 2, last), max(done + 2, int(last * part)))
        self.stack.wait_until(
            lambda: len(self.trainer.ledger.steps()) >= min(step, last) or self.trainer.has_ended(),
            f"the trainer reaches step {step}",
        )
        time.sleep(self.random.uniform(0, 0.02))

    def freeze_in_job(self) -> int | None:
        """A worker whose scoring process now stands still in the middle of a job; none when all is scored."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for worker in self.stack.worker_pids():
                if self._freezes_in_job(worker):
                    return worker
            if self.trainer.has_ended() and not self._has_open_jobs():
                self.note("too late for a job")
                return None
        raise TimeoutError("no worker took a job within 60 s")

    def _freezes_in_job(self, worker: int) -> bool:
        child = self.stack.scoring_pid(worker)
        with suppress(ProcessLookupError):
            if child is not None:
                os.kill(child, signal.SIGSTOP)
                # The parent may still lease a job for it; an idle worker goes on.
                end = time.monotonic() + 1.0
                while time.monotonic() < end:
                    if worker in self.audit.leased_pid():
                        return True
                    time.sleep(0.01)
                os.kill(child, signal.SIGCONT)
                # One that is only starting must get on with it before it is stopped again.
                time.sleep(0.5)
        return False

    def _has_open_jobs(self) -> bool:
        jobs = self.audit.num_jobs()
        return bool(jobs["queued"] + jobs["leased"])

    def note(self, text: str) -> None:
        self.notes.append(text)


Act = Callable[[Scene], None]


@dataclass(frozen=True)
class Fault:
    name: str
    act: Act
    deployments: tuple[str, ...] = BOTH


def kill_scoring_process(scene: Scene) -> None:
    """SIGKILL in the middle of a job; the parent reports the failure and starts another."""
    for _ in range(2):
        scene.await_moment()
        worker = scene.freeze_in_job()
        child = None if worker is None else scene.stack.scoring_pid(worker)
        if child is not None:
            os.kill(child, signal.SIGKILL)
            scene.note("killed in a job")


def kill_worker(scene: Scene) -> None:
    """SIGKILL of the parent in the middle of a job; nobody is left to report it, so the lease must end."""
    for _ in range(1 if scene.is_short else 3):
        scene.await_moment()
        worker = scene.freeze_in_job()
        if worker is None:
            return
        os.kill(worker, signal.SIGKILL)
        scene.note("killed in a job")
        if scene.stack.scaled_out:
            # Waited for, so that the killed one no longer counts as running.
            _await_end(scene, worker)
            scene.stack.start_worker()


def kill_server(scene: Scene) -> None:
    """SIGKILL while a request is being answered, and a new server on the same port."""
    for _ in range(1 if scene.is_short else 3):
        scene.await_moment()
        scene.stack.wait_until(
            lambda: scene.stack.network.has_request or scene.trainer.has_ended(), "a request is under way"
        )
        scene.note("killed in a request" if scene.stack.network.has_request else "killed between requests")
        time.sleep(scene.random.uniform(0, 0.01))
        scene.stack.kill_server()
        time.sleep(scene.random.uniform(0, scene.seconds(0.5, 5.0)))
        scene.stack.start_server()


def kill_trainer(scene: Scene) -> None:
    """SIGKILL of the trainer; what it left is shipped, and a new start goes on at its next step.

    Source of the steps: the ledger. A call that had not returned is made again by the next start.
    """
    for number in range(1 if scene.is_short else 3):
        scene.await_moment()
        scene.trainer.kill()
        steps = scene.trainer.ledger.steps()
        if number % 2 == 0:
            scene.trainer.sync()
        scene.note(f"killed after step {steps[-1]}, " + ("synced" if number % 2 == 0 else "left to init"))
        scene.trainer.start(from_step=steps[-1] + 1)


def empty_redis(scene: Scene) -> None:
    """FLUSHALL while jobs wait in it."""
    for _ in range(2 if scene.is_short else 5):
        scene.await_moment()
        _let_jobs_wait(scene)
        servers.ask_redis(scene.stack.redis_port, "FLUSHALL")
        scene.stack.resume_workers()
    scene.note("flushed with jobs waiting")


def kill_redis(scene: Scene) -> None:
    """SIGKILL of Redis; the new one is empty."""
    scene.await_moment()
    _let_jobs_wait(scene)
    scene.stack.end_redis(signal.SIGKILL)
    scene.stack.resume_workers()
    time.sleep(scene.seconds(1.5, 15.0))
    scene.stack.start_redis()


def stop_postgres(scene: Scene) -> None:
    """An immediate shutdown, and PostgreSQL away for a while."""
    scene.await_moment()
    seconds = scene.seconds(5.0, 30.0)
    scene.stack.postgres.stop(signal.SIGQUIT)
    time.sleep(seconds)
    scene.stack.postgres.start()
    scene.note(f"away for {seconds:.0f} s")


def kill_postgres(scene: Scene) -> None:
    """SIGKILL of PostgreSQL, which recovers from its log."""
    for _ in range(1 if scene.is_short else 3):
        scene.await_moment()
        scene.stack.postgres.stop(signal.SIGKILL)
        scene.stack.postgres.start()


def fill_disk(scene: Scene) -> None:
    """No space left in the home folder: database (embedded), blobs."""
    if not scene.stack.has_disk:
        raise Unavailable("this user may not mount a small disk (tmpfs)")
    scene.await_moment()
    balloon = scene.stack.service.home / "balloon"
    _fill(balloon)
    time.sleep(scene.seconds(3.0, 30.0))
    scene.note(f"{balloon.stat().st_size >> 20} MiB taken")
    balloon.unlink()


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


def cut_network(scene: Scene) -> None:
    """Connections between trainer and server are reset for a while, then a cable is pulled."""
    for network in (Network.reset, Network.silent):
        scene.await_moment()
        scene.stack.network.become(network)
        time.sleep(scene.seconds(1.0, 12.0))
        scene.stack.network.become(Network.up)


def lose_answers(scene: Scene) -> None:
    """Every second answer gets lost, to the trainer and (scaled out) to the workers: all is sent twice."""
    both = (scene.stack.network, scene.stack.worker_network)
    before = [network.num_lost_answers for network in both]
    for network in both:
        network.become(Network.loses_answers)
    enough = 16 if scene.is_short else 100
    scene.stack.wait_until(
        lambda: both[0].num_lost_answers >= before[0] + enough or scene.trainer.has_ended(),
        f"{enough} answers are lost",
        timeout_seconds=180,
    )
    for network in both:
        network.become(Network.up)
    lost = [network.num_lost_answers - count for network, count in zip(both, before, strict=True)]
    scene.note(f"{lost[0]} answers to the trainer and {lost[1]} to the workers lost")


def suspend_worker(scene: Scene) -> None:
    """SIGSTOP of a worker in a job for longer than its lease, then SIGCONT: its result comes late."""
    scene.await_moment()
    worker = scene.freeze_in_job()
    if worker is None:
        return
    stopped = [pid for pid in (worker, scene.stack.scoring_pid(worker)) if pid is not None]
    try:
        os.kill(worker, signal.SIGSTOP)
        time.sleep(2 * scene.stack.lease_seconds)
    finally:
        for pid in reversed(stopped):
            os.kill(pid, signal.SIGCONT)
    scene.note(f"stood still for {2 * scene.stack.lease_seconds:g} s")


def lock_database(scene: Scene) -> None:
    """Another program holds SQLite's write lock."""
    scene.await_moment()
    path = scene.stack.service.home / "collapsewatch.db"
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        time.sleep(scene.seconds(2.0, 20.0))
        connection.execute("ROLLBACK")
    finally:
        connection.close()


FAULTS = (
    Fault("kill_scoring_process", kill_scoring_process),
    Fault("kill_worker", kill_worker),
    Fault("kill_server", kill_server),
    Fault("kill_trainer", kill_trainer),
    Fault("empty_redis", empty_redis, ("scaled_out",)),
    Fault("kill_redis", kill_redis, ("scaled_out",)),
    Fault("stop_postgres", stop_postgres, ("scaled_out",)),
    Fault("kill_postgres", kill_postgres, ("scaled_out",)),
    Fault("lock_database", lock_database, ("embedded",)),
    Fault("fill_disk", fill_disk),
    Fault("poison", poison),
    Fault("cut_network", cut_network),
    Fault("lose_answers", lose_answers),
    Fault("suspend_worker", suspend_worker),
)


def _let_jobs_wait(scene: Scene) -> None:
    """Stops the workers until a few jobs have queued up."""
    scene.stack.signal_workers(signal.SIGSTOP)
    scene.stack.wait_until(
        lambda: scene.audit.num_jobs()["queued"] >= 2 or scene.trainer.has_ended(), "jobs wait"
    )


def _fill(balloon: Path) -> None:
    """Takes all that is left of the disk, to the last byte that a file can have."""
    with balloon.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass


def _await_end(scene: Scene, worker: int) -> None:
    scene.stack.wait_until(lambda: worker not in scene.stack.worker_pids(), "the killed worker is gone")


def _await_death(scene: Scene, run_id: str, step: int) -> None:
    def is_dead() -> bool:
        found = scene.audit.batch(run_id, step)
        return found is not None and found[1].status == "dead"

    scene.stack.wait_until(is_dead, f"the batch of step {step} is dead")


def _send_poison(scene: Scene, run_id: str) -> None:
    import httpx

    api = f"{scene.stack.service.url}/api/v1"
    headers = {"Authorization": f"Bearer {scene.stack.service.local_key()}"}
    scene.other_runs[run_id] = {0, 1, 2}
    turns = [{"prompt_token_ids": [1], "response_token_ids": [2, 3], "reasoning_span": [0, 2]}]
    no_pattern = {"pattern": "(?P<reasoning>"}
    with httpx.Client(headers=headers, timeout=20, trust_env=False) as client:
        client.post(f"{api}/runs", json={"run_id": run_id, "project": "faults", "name": run_id})
        for step in range(3):
            body = {
                "batch_id": f"poison-{step}",
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
