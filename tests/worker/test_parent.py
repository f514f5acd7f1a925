"""The worker as a process: real parent, real child, and a small server that speaks the worker API."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from collapsewatch.blobs import pack_batch
from collapsewatch.contracts.scoring import ScorerConfig, ScorerKind
from collapsewatch_worker.loop.feed import FeedAnswer
from collapsewatch_worker.loop.messages import Ready, Scored
from collapsewatch_worker.loop.parent import Parent
from collapsewatch_worker.loop.scoring_process import CHILD_COMMAND, ScoringProcess
from collapsewatch_worker.loop.server_api import WorkerApi
from collapsewatch_worker.settings import ScoringSettings, WorkerSettings
from tests.worker.job_server import (
    KEY,
    JobServer,
    Workplace,
    children_of,
    free_port,
    is_gone,
    small_batch,
    wait_until,
)

pytestmark = pytest.mark.integration

NOISY_CHILD = (
    "import runpy; print('noise on stdout', flush=True); "
    "runpy.run_module('collapsewatch_worker.loop.child', run_name='__main__', alter_sys=True)"
)


@contextmanager
def read_by_somebody(pipe: Path) -> Iterator[None]:
    """Begins once the child is inside the call that reads the pipe, and keeps it there."""
    writers: list[int] = []

    def is_read() -> bool:
        with suppress(OSError):
            writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        return bool(writers)

    wait_until(is_read, "the child reads its blob")
    yield
    os.close(writers[0])


def scoring_settings(folder: Path) -> ScoringSettings:
    return WorkerSettings(device="cpu", blob_url=str(folder / "blobs")).for_scoring("worker-1")


def test_jobs_are_scored_one_after_the_other_and_handed_in(server: JobServer, workplace: Workplace) -> None:
    server.jobs = [workplace.good_job(), workplace.good_job()]
    process = workplace.start(server.url)
    wait_until(lambda: len(server.done) == 2, "both jobs are done")
    assert server.failed == {}
    assert [evaluation.scope for evaluation in server.done[1].evaluations] == ["first_turn"]
    assert server.done[1].evaluations[0].metrics["retrieval_accuracy"].value == 1.0
    assert len({claim["worker"] for claim in server.claims}) == 1
    assert server.done[1].worker == server.claims[0]["worker"]
    (child,) = children_of(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert is_gone(child)


def test_a_batch_at_fault_fails_for_good_with_its_traceback_and_the_next_job_is_scored(
    server: JobServer, workplace: Workplace
) -> None:
    poison = workplace.job()
    workplace.blobs.write(poison.blob_keys[0], b"this is no batch")
    forbidden = workplace.good_job(scorer=ScorerConfig(kind=ScorerKind.reference, checkpoint="/etc"))
    missing = workplace.job()
    good = workplace.good_job()
    server.jobs = [poison, missing, good]
    process = workplace.start(server.url)
    wait_until(lambda: good.job_id in server.done, "the good job is done")
    failure = server.failed[poison.job_id]
    assert not failure.retry
    assert failure.error.startswith("BatchNotScorable: the stored batch cannot be read")
    assert "Traceback (most recent call last)" in failure.traceback
    assert "unpack_document" in failure.traceback
    # A blob on a shared folder may be a moment late.
    assert server.failed[missing.job_id].retry
    assert "BlobNotFound" in server.failed[missing.job_id].error
    before = children_of(process.pid)
    server.jobs = [forbidden]
    wait_until(lambda: forbidden.job_id in server.failed, "the forbidden checkpoint is refused")
    assert not server.failed[forbidden.job_id].retry
    assert "CheckpointNotAllowed" in server.failed[forbidden.job_id].error
    # None of these cost a new process.
    assert children_of(process.pid) == before


def test_a_killed_child_fails_its_job_and_a_new_child_scores_the_next(
    server: JobServer, workplace: Workplace
) -> None:
    doomed, blob = workplace.blocking_job()
    good = workplace.good_job()
    server.jobs = [doomed]
    process = workplace.start(server.url)
    wait_until(lambda: not server.jobs, "the job is claimed")
    (first,) = children_of(process.pid)
    with read_by_somebody(blob):
        server.jobs = [good]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: is_gone(first), "the child is dead")
    wait_until(lambda: good.job_id in server.done, "the next job is done")
    failure = server.failed[doomed.job_id]
    assert "SIGKILL" in failure.error
    assert failure.retry
    (second,) = children_of(process.pid)
    assert second != first


def test_a_child_that_dies_idle_costs_no_job_a_start(server: JobServer, workplace: Workplace) -> None:
    process = workplace.start(server.url)
    wait_until(lambda: server.claims, "the worker looks for jobs")
    os.kill(children_of(process.pid)[0], signal.SIGKILL)
    good = workplace.good_job()
    server.jobs = [good]
    wait_until(lambda: good.job_id in server.done, "the job is done")
    assert server.failed == {}


def test_the_child_dies_with_its_parent_in_the_middle_of_a_job(
    server: JobServer, workplace: Workplace
) -> None:
    server.jobs = [workplace.blocking_job()[0]]
    process = workplace.start(server.url)
    wait_until(lambda: not server.jobs, "the job is claimed")
    (child,) = children_of(process.pid)
    assert not is_gone(child)
    process.kill()
    process.wait()
    wait_until(lambda: is_gone(child), "the child is gone")


def test_the_lease_is_kept_up_and_work_is_handed_in_even_when_it_was_lost(
    server: JobServer, workplace: Workplace
) -> None:
    job, blob = workplace.blocking_job(lease_seconds=0.4)
    server.held = False
    server.jobs = [job]
    workplace.start(server.url)
    # The child sits in a call that does not return; the beats come all the same.
    wait_until(lambda: len(server.beats) >= 4, "four heartbeats")
    assert set(server.beats) == {job.job_id}
    blob.write_bytes(pack_batch(small_batch(job.step)))
    wait_until(lambda: job.job_id in server.done, "the job is done")
    assert "lease lost, the work goes on" in workplace.log
    assert server.failed == {}


def test_the_lease_is_kept_up_while_a_result_cannot_be_handed_in(
    server: JobServer, workplace: Workplace
) -> None:
    server.answer_of_done = (503, {})
    job = workplace.good_job(lease_seconds=0.4)
    server.jobs = [job]
    workplace.start(server.url)
    wait_until(lambda: "the server gives no answer" in workplace.log, "the result cannot be handed in")
    before = len(server.beats)
    wait_until(lambda: len(server.beats) >= before + 4, "four heartbeats")
    server.answer_of_done = (200, {"accepted": True})
    wait_until(lambda: job.job_id in server.done, "the job is done")
    assert server.failed == {}


def test_a_stopping_worker_gives_its_job_back_within_its_bound(
    server: JobServer, workplace: Workplace
) -> None:
    job, _ = workplace.blocking_job()
    server.jobs = [job]
    process = workplace.start(server.url, COLLAPSEWATCH_SHUTDOWN_SECONDS="0.3")
    wait_until(lambda: not server.jobs, "the job is claimed")
    (child,) = children_of(process.pid)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    # Of itself it waits ten seconds for the job.
    assert time.monotonic() - started < 9.5
    assert server.failed[job.job_id].error == "the worker was stopped"
    assert server.failed[job.job_id].given_back
    assert server.failed[job.job_id].retry
    assert is_gone(child)


def test_a_stopping_worker_finishes_a_job_that_is_nearly_done(
    server: JobServer, workplace: Workplace
) -> None:
    job, blob = workplace.blocking_job()
    server.jobs = [job]
    process = workplace.start(server.url, COLLAPSEWATCH_SHUTDOWN_SECONDS="20")
    wait_until(lambda: not server.jobs, "the job is claimed")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    blob.write_bytes(pack_batch(small_batch(job.step)))
    assert process.wait(60) == 0
    assert job.job_id in server.done
    assert len(server.claims) == 1


def test_a_job_that_takes_too_long_is_stopped(server: JobServer, workplace: Workplace) -> None:
    slow, _ = workplace.blocking_job()
    good = workplace.good_job()
    server.jobs = [slow, good]
    workplace.start(server.url, COLLAPSEWATCH_MAX_JOB_SECONDS="0.5")
    wait_until(lambda: slow.job_id in server.failed, "the slow job failed")
    assert server.failed[slow.job_id].error == "the job took too long"


def test_an_absent_server_is_waited_for(workplace: Workplace) -> None:
    port = free_port()
    process = workplace.start(f"http://127.0.0.1:{port}")
    wait_until(lambda: "the server gives no answer" in workplace.log, "the first complaint")
    assert process.poll() is None
    server = JobServer(port)
    server.jobs = [workplace.good_job()]
    server.start()
    try:
        wait_until(lambda: server.done, "the job is done")
    finally:
        server.stop()


def test_a_refused_result_fails_its_job_and_says_why(server: JobServer, workplace: Workplace) -> None:
    error = {"error": {"code": "invalid", "message": "num_rows is negative", "details": []}}
    server.answer_of_done = (422, error)
    server.jobs = [workplace.good_job()]
    workplace.start(server.url)
    wait_until(lambda: server.failed, "the job failed")
    assert "num_rows is negative" in server.failed[1].error
    assert not server.failed[1].retry


def test_a_wrong_key_is_told_and_does_not_end_the_worker(server: JobServer, workplace: Workplace) -> None:
    process = workplace.start(server.url, COLLAPSEWATCH_WORKER_KEY="another-key")
    wait_until(lambda: "ERROR" in workplace.log, "an error in the log")
    assert "401" in workplace.log
    assert "another-key" not in workplace.log
    assert process.poll() is None


def test_no_job_is_claimed_for_a_child_that_cannot_start(server: JobServer, workplace: Workplace) -> None:
    server.jobs = [workplace.good_job()]
    stop = threading.Event()
    starts: list[float] = []

    def start_child() -> ScoringProcess:
        starts.append(time.monotonic())
        return ScoringProcess(
            scoring_settings(workplace.folder), command=(sys.executable, "-c", "raise SystemExit(3)")
        )

    with WorkerApi(server.url, KEY, "worker-1") as api:
        parent = Parent(worker="worker-1", api=api, start_child=start_child, stop=stop)
        thread = threading.Thread(target=parent.run)
        thread.start()
        try:
            wait_until(lambda: len(starts) >= 2, "a second try")
        finally:
            stop.set()
            thread.join(60)
    assert not thread.is_alive()
    assert starts[1] - starts[0] >= 0.25
    assert server.claims == []


def test_a_hint_is_claimed_by_its_id_and_without_one_the_claim_call_waits(
    server: JobServer, workplace: Workplace
) -> None:
    stop = threading.Event()
    hints: list[int | FeedAnswer] = [41, FeedAnswer.empty, FeedAnswer.unavailable]

    class Hints:
        def next_job_id(self) -> int | FeedAnswer:
            return hints.pop(0) if hints else FeedAnswer.empty

    with WorkerApi(server.url, KEY, "worker-1") as api:
        parent = Parent(
            worker="worker-1",
            api=api,
            feed=Hints(),
            start_child=lambda: ScoringProcess(scoring_settings(workplace.folder)),
            stop=stop,
            claim_wait_seconds=0.2,
        )
        thread = threading.Thread(target=parent.run)
        thread.start()
        try:
            wait_until(lambda: len(server.claims) >= 3, "three claims")
        finally:
            stop.set()
            thread.join(60)
    asked = [(claim.get("job_id"), claim["wait_seconds"]) for claim in server.claims[:3]]
    assert asked == [(41, 0.0), (None, 0.0), (None, 0.2)]


def test_what_a_child_prints_disturbs_nothing(workplace: Workplace) -> None:
    child = ScoringProcess(
        scoring_settings(workplace.folder), command=(CHILD_COMMAND[0], "-P", "-c", NOISY_CHILD)
    )
    try:
        assert isinstance(child.receive(60), Ready)
        child.send(workplace.good_job())
        message = child.receive(60)
        assert isinstance(message, Scored)
        assert message.result.worker == "worker-1"
    finally:
        child.stop()
    assert is_gone(child.pid)


def test_the_parent_imports_neither_torch_nor_numpy() -> None:
    heavy = "{'torch', 'transformers', 'numpy', 'sklearn'}"
    code = f"import sys, collapsewatch_worker.main; print(sorted({heavy} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_help_names_the_options_and_a_bad_one_is_told() -> None:
    command = [sys.executable, "-m", "collapsewatch_worker"]
    shown = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    for option in ("--device", "--server", "--checkpoint-root"):
        assert option in shown.stdout
    # A key on the command line could be read by every user of the machine.
    assert "--worker-key" not in shown.stdout
    bad = subprocess.run([*command, "--device", "tpu"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert "device" in bad.stderr
