"""The worker says that it lives: at once, while it works, and once more when it leaves."""

import signal
import threading

import pytest

from collapsewatch.blobs import pack_batch
from collapsewatch.contracts.scoring import WorkerHeartbeat
from collapsewatch_worker.loop.heartbeat import Heart
from collapsewatch_worker.loop.progress import Progress
from collapsewatch_worker.loop.server_api import ServerUnreachable, WorkerApi
from tests.worker.job_server import KEY, JobServer, Workplace, free_port, small_batch, wait_until


def heart(send: object, progress: Progress, stop: threading.Event) -> Heart:
    assert callable(send)
    return Heart(send, worker="w1", device="cpu", progress=progress, stop=stop, interval_seconds=0.02)


def test_beats_tell_what_is_in_hand_and_the_last_one_says_goodbye() -> None:
    heard: list[WorkerHeartbeat] = []
    progress, stop = Progress(), threading.Event()
    with heart(heard.append, progress, stop):
        wait_until(lambda: heard, "the first beat")
        progress.job_id, progress.num_done = 7, 3
        wait_until(lambda: heard[-1].job_id == 7, "the job in hand")
        assert not heard[-1].is_stopping
        stop.set()
        wait_until(lambda: heard[-1].is_stopping, "it was told to stop")
        progress.job_id = None
    assert (heard[-1].num_done, heard[-1].job_id, heard[-1].is_stopping) == (3, None, True)
    assert len({beat.started_at for beat in heard}) == 1


def test_an_absent_server_costs_nothing_and_hears_the_next_beat() -> None:
    heard: list[WorkerHeartbeat] = []
    num_tries = 0

    def send(beat: WorkerHeartbeat) -> None:
        nonlocal num_tries
        num_tries += 1
        if num_tries < 4:
            raise ServerUnreachable("no connection")
        heard.append(beat)

    with heart(send, Progress(), threading.Event()):
        wait_until(lambda: heard, "a beat after the outage")


def test_a_server_that_is_not_there_is_survived() -> None:
    with (
        WorkerApi(f"http://127.0.0.1:{free_port()}", KEY, "w1") as api,
        heart(api.heartbeat, Progress(), threading.Event()),
    ):
        pass


@pytest.mark.integration
def test_a_real_worker_beats_while_its_child_is_inside_one_long_call(
    server: JobServer, workplace: Workplace
) -> None:
    job, blob = workplace.blocking_job()
    server.jobs = [job]
    process = workplace.start(server.url)
    wait_until(lambda: server.heartbeats, "a beat at the start")
    assert server.heartbeats[0]["device"] == "cpu"
    # One beat every five seconds, so this is the second or third.
    wait_until(lambda: server.heartbeats[-1].get("job_id") == job.job_id, "the job in hand")
    blob.write_bytes(pack_batch(small_batch(job.step)))
    wait_until(lambda: job.job_id in server.done, "the job is done")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    last = server.heartbeats[-1]
    assert (last["is_stopping"], last["num_done"], last["num_failed"]) == (True, 1, 0)
    assert "job_id" not in last
