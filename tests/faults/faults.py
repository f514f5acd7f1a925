"""Faults of the service: each breaks one part of a deployment while a trainer logs, and mends it again."""

import os
import signal
import sqlite3
import time
from contextlib import suppress

from tests import servers
from tests.faults import load_faults, trainer_faults
from tests.faults.disks import fill
from tests.faults.proxy import Network, Proxy
from tests.faults.scene import Fault, Scene
from tests.faults.stack import Unavailable

_AWAY = frozenset({503})
"""What a server says whose database or disk does not work."""
_NO_DATABASE = "database does not answer|OperationalError|AdminShutdown|CrashShutdown"
_LOCKED = "database is locked|no turn to write"
_NO_ROOM = "No space left|disk is full|disk I/O error|readonly database"
_JOB_LOST = "job (is dead|failed)|scoring process|worker process ended|worker stopped answering"


def kill_scoring_process(scene: Scene) -> None:
    """SIGKILL in the middle of a job; the parent reports the failure and starts another."""
    for _ in range(2):
        scene.await_moment()
        child = scene.stack.scoring_pid(scene.freeze_in_job())
        assert child is not None
        os.kill(child, signal.SIGKILL)
    scene.note("killed in two jobs")


def kill_worker(scene: Scene) -> None:
    """SIGKILL of the parent in the middle of a job; nobody is left to report it, so the lease must end."""
    for _ in scene.times(3):
        scene.await_moment()
        worker = scene.freeze_in_job()
        os.kill(worker, signal.SIGKILL)
        scene.note("killed in a job")
        if scene.stack.scaled_out:
            # Waited for, so that the killed one no longer counts as running.
            _await_end(scene, worker)
            scene.stack.start_worker()


def kill_server(scene: Scene) -> None:
    """SIGKILL while a request is being answered, and a new server on the same port."""
    network, num_hit = scene.stack.network, 0
    for _ in scene.times(3):
        scene.await_moment()
        before = network.num_exchanges
        scene.stack.wait_until(lambda: network.has_request or scene.trainer.has_ended(), "a request comes")
        scene.stack.kill_server()
        time.sleep(scene.random.uniform(0, scene.seconds(0.5, 5.0)))
        num_hit += any(exchange.end == "server" for exchange in network.exchanges(max(0, before - 1)))
        scene.stack.start_server()
    scene.demand(num_hit, "every request had been answered")
    scene.note(f"killed in {num_hit} requests")


def kill_after_commit(scene: Scene) -> None:
    """SIGKILL when a batch, and (scaled out) a result, was stored and its sender not told so."""
    asked = [(scene.stack.network, "/batches")]
    asked += [(scene.stack.worker_network, "/done")] if scene.stack.scaled_out else []
    for network, path_end in asked:
        scene.await_moment(0.4)
        _kill_with_answer(scene, network, path_end)
    scene.note(f"killed after {' and '.join(path_end for _, path_end in asked)}")


def cut_power(scene: Scene) -> None:
    """SIGKILL of everything but the trainer, at once."""
    scene.await_moment()
    scene.demand(not scene.trainer.has_ended(), "the trainer had ended")
    stack = scene.stack
    workers = stack.worker_pids()
    stack.server.send_signal(signal.SIGKILL)
    for worker in workers:
        for pid in (worker, stack.scoring_pid(worker)):
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    if stack.scaled_out:
        stack.end_redis(signal.SIGKILL)
        stack.postgres.stop(signal.SIGKILL)
        stack.postgres.start()
        stack.start_redis()
    stack.kill_server()
    stack.start_server()
    for worker in workers if stack.scaled_out else []:
        _await_end(scene, worker)
        stack.start_worker()


def empty_redis(scene: Scene) -> None:
    """FLUSHALL while jobs wait in it."""

    def holds_jobs() -> bool:
        return servers.ask_redis(scene.stack.redis_port, "DBSIZE") not in ("", "0")

    num_flushed = 0
    for _ in scene.times(5):
        if scene.trainer.has_ended() and num_flushed:
            break
        scene.await_moment()
        scene.let_jobs_wait()
        # A worker that stands still in the middle of its look at Redis still takes one suggestion along.
        scene.stack.wait_until(lambda: holds_jobs() or scene.trainer.has_ended(), "Redis holds jobs")
        if holds_jobs():
            servers.ask_redis(scene.stack.redis_port, "FLUSHALL")
            num_flushed += 1
        scene.stack.resume_workers()
    scene.demand(num_flushed, "Redis was empty")
    scene.note(f"flushed {num_flushed} times with jobs waiting")


def kill_redis(scene: Scene) -> None:
    """SIGKILL of Redis; the new one is empty."""
    scene.await_moment()
    scene.let_jobs_wait()
    scene.stack.end_redis(signal.SIGKILL)
    scene.stack.resume_workers()
    time.sleep(scene.seconds(1.5, 15.0))
    scene.stack.start_redis()


def stop_postgres(scene: Scene) -> None:
    """An immediate shutdown, and PostgreSQL away for a while."""
    scene.await_moment()
    scene.demand(not scene.trainer.has_ended(), "the trainer had ended")
    seconds = scene.seconds(5.0, 30.0)
    scene.stack.postgres.stop(signal.SIGQUIT)
    time.sleep(seconds)
    scene.stack.postgres.start()
    scene.note(f"away for {seconds:.0f} s")


def kill_postgres(scene: Scene) -> None:
    """SIGKILL of PostgreSQL, which recovers from its log."""
    for _ in scene.times(3):
        scene.await_moment()
        scene.demand(not scene.trainer.has_ended(), "the trainer had ended")
        scene.stack.postgres.stop(signal.SIGKILL)
        scene.stack.postgres.start()


def fill_disk(scene: Scene) -> None:
    """No space left in the home folder: database (embedded), blobs."""
    if not scene.stack.has_disk:
        raise Unavailable("this user may not mount a small disk (tmpfs)")
    scene.await_moment()
    before = scene.stack.network.num_exchanges
    balloon = scene.stack.service.home / "balloon"
    fill(balloon)
    time.sleep(scene.seconds(3.0, 30.0))
    num_refused = sum(one.status == 503 for one in scene.stack.network.exchanges(before))
    scene.note(f"{balloon.stat().st_size >> 20} MiB taken, {num_refused} requests refused")
    balloon.unlink()
    scene.demand(num_refused, "nobody met the full disk")


def cut_network(scene: Scene) -> None:
    """Connections between trainer and server are reset for a while, then a cable is pulled."""
    for network in (Network.reset, Network.silent):
        scene.await_moment()
        before = scene.stack.network.num_cut
        scene.stack.network.become(network)
        time.sleep(scene.seconds(1.0, 12.0))
        scene.stack.network.become(Network.up)
        scene.demand(scene.stack.network.num_cut > before, f"nobody met the {network} network")


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
    scene.demand(lost[0] >= enough // 2, "hardly an answer was lost")
    scene.demand(lost[1] or not scene.stack.scaled_out, "no worker lost an answer")


def suspend_worker(scene: Scene) -> None:
    """SIGSTOP of a worker in a job for longer than its lease, then SIGCONT: its result comes late."""
    scene.await_moment()
    worker = scene.freeze_in_job()
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
        before = scene.stack.network.num_exchanges
        time.sleep(scene.seconds(2.0, 20.0))
        has_met = scene.stack.network.num_exchanges > before or scene.stack.network.has_request
        connection.execute("ROLLBACK")
    finally:
        connection.close()
    scene.demand(has_met, "nobody met the lock")


FAULTS = (
    Fault("kill_scoring_process", kill_scoring_process, leaves_unanswered=False, logged=_JOB_LOST),
    Fault("kill_worker", kill_worker, leaves_unanswered=False, logged=_JOB_LOST),
    Fault("kill_server", kill_server),
    Fault("kill_after_commit", kill_after_commit),
    Fault("cut_power", cut_power, answers=_AWAY, logged=_NO_DATABASE),
    Fault("kill_trainer", trainer_faults.kill_trainer),
    Fault("rewind_trainer", trainer_faults.rewind_trainer),
    Fault("damage_spool", trainer_faults.damage_spool),
    Fault("fill_spool_disk", trainer_faults.fill_spool_disk),
    Fault("empty_redis", empty_redis, ("scaled_out",), leaves_unanswered=False),
    Fault("kill_redis", kill_redis, ("scaled_out",), leaves_unanswered=False),
    Fault("stop_postgres", stop_postgres, ("scaled_out",), answers=_AWAY, logged=_NO_DATABASE),
    Fault("kill_postgres", kill_postgres, ("scaled_out",), answers=_AWAY, logged=_NO_DATABASE),
    Fault(
        "lock_database",
        lock_database,
        ("embedded",),
        answers=frozenset({429, 503}),
        logged=_LOCKED,
        leaves_unanswered=False,
    ),
    Fault("fill_disk", fill_disk, answers=_AWAY, logged=_NO_ROOM),
    Fault("poison", load_faults.poison, leaves_unanswered=False, logged=_JOB_LOST),
    Fault("flood", load_faults.flood),
    Fault("crowd", load_faults.crowd, answers=frozenset({429})),
    Fault("cut_network", cut_network),
    Fault("lose_answers", lose_answers),
    Fault("suspend_worker", suspend_worker, leaves_unanswered=False),
)


def _kill_with_answer(scene: Scene, network: Proxy, path_end: str) -> None:
    caught = network.catch_answer(path_end)
    try:
        scene.stack.wait_until(
            lambda: caught.is_set() or scene.trainer.has_ended(), f"an answer to {path_end} is held"
        )
        scene.demand(caught.is_set(), f"no answer to {path_end} was held")
        scene.stack.kill_server()
    finally:
        network.let_go()
    scene.stack.start_server()


def _await_end(scene: Scene, worker: int) -> None:
    scene.stack.wait_until(lambda: worker not in scene.stack.worker_pids(), "the killed worker is gone")
