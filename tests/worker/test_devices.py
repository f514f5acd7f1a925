"""One worker for each device that was asked for."""

import os
import signal
import threading

import pytest

from collapsewatch_worker.loop.devices import run_each, scoring_devices, visible_gpus
from tests.worker.job_server import JobServer, Workplace, children_of, is_gone, wait_until


@pytest.mark.parametrize(
    ("asked", "num_gpus", "expected"),
    [
        ("cuda", 2, ["cuda:0", "cuda:1"]),
        ("cuda", 1, ["cuda:0"]),
        ("cuda", 0, ["cuda"]),
        ("cuda:1,cuda:3", 4, ["cuda:1", "cuda:3"]),
        ("cpu,cuda", 2, ["cpu", "cuda:0", "cuda:1"]),
        ("auto", 4, ["auto"]),
    ],
)
def test_cuda_stands_for_every_visible_gpu(asked: str, num_gpus: int, expected: list[str]) -> None:
    assert scoring_devices(asked, count_gpus=lambda: num_gpus) == expected


def test_one_model_on_all_gpus_has_one_process() -> None:
    assert scoring_devices("cuda", spread=True, count_gpus=lambda: 4) == ["cuda"]


def test_the_gpus_are_counted_as_pytorch_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    assert visible_gpus() == torch.cuda.device_count()
    monkeypatch.setattr("sys.executable", "/no/such/python")
    assert visible_gpus() == 0


def test_a_worker_that_fails_stops_the_others_and_is_heard() -> None:
    stop, ended = threading.Event(), threading.Event()

    def works() -> None:
        assert stop.wait(60)
        ended.set()

    def fails() -> None:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        run_each([works, fails], stop)
    assert ended.is_set()


@pytest.mark.integration
def test_every_device_has_a_scoring_process_that_works_beside_the_others(
    server: JobServer, workplace: Workplace
) -> None:
    (slow, pipe), quick = workplace.blocking_job(), workplace.good_job()
    server.jobs = [slow, quick]
    process = workplace.start(server.url, device="cpu,cpu")

    wait_until(lambda: quick.job_id in server.done, "one scores while the other is held up")
    assert len(children_of(process.pid)) == 2
    assert len({claim["worker"] for claim in server.claims}) == 2
    assert {beat["device"] for beat in server.heartbeats} == {"cpu"}
    assert slow.job_id not in server.done | server.failed

    content = workplace.blobs.read(quick.blob_keys[0])
    pipe.write_bytes(content)
    wait_until(lambda: slow.job_id in server.done | server.failed, "the other one goes on")
    children = children_of(process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert all(map(is_gone, children))


@pytest.mark.integration
def test_a_killed_worker_takes_the_processes_of_all_its_devices_along(
    server: JobServer, workplace: Workplace
) -> None:
    process = workplace.start(server.url, device="cpu,cpu")
    wait_until(lambda: len({claim["worker"] for claim in server.claims}) == 2, "both look for jobs")
    children = children_of(process.pid)

    os.kill(process.pid, signal.SIGKILL)

    wait_until(lambda: all(map(is_gone, children)), "no scoring process is left")
