"""A small server that speaks the worker API, and a workplace for real worker processes."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from collapsewatch.blobs import open_blob_store, pack_batch
from collapsewatch.contracts.rollouts import Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import Job, JobFailure, ScorerConfig, ScoringResult
from tests.worker.small_server import SmallServer

KEY = "worker-key"


def wait_until(condition: Callable[[], object], what: str, *, timeout_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_seconds:g} s: {what}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class JobServer(SmallServer):
    """Hands out its jobs in order and keeps everything it is told."""

    def __init__(self, port: int = 0) -> None:
        self.jobs: list[Job] = []
        self.claims: list[dict[str, Any]] = []
        self.beats: list[int] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.done: dict[int, ScoringResult] = {}
        self.failed: dict[int, JobFailure] = {}
        self.held = True
        self.answer_of_done: tuple[int, dict[str, Any]] = (200, {"accepted": True})
        self._lock = threading.Lock()
        job_server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                authorized = self.headers.get("Authorization") == f"Bearer {KEY}"
                status, answer = job_server.answer(self.path, body) if authorized else (401, {})
                content = b"" if status == 204 else json.dumps(answer).encode()
                self.send_response(status)
                if status != 204:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(Handler, port)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        verb, job_id = path.rpartition("/")[2], path.split("/")[-2]
        with self._lock:
            if verb == "claim":
                self.claims.append(body)
                return (200, self.jobs.pop(0).model_dump(mode="json")) if self.jobs else (204, {})
            if verb == "heartbeat":
                self.heartbeats.append(body)
                return 204, {}
            if verb == "beat":
                self.beats.append(int(job_id))
                return 200, {"held": self.held}
            if verb == "fail":
                self.failed[int(job_id)] = JobFailure.model_validate(body)
                return 200, {"status": "queued"}
            if self.answer_of_done[0] == 200:
                self.done[int(job_id)] = ScoringResult.model_validate(body)
            return self.answer_of_done


class Workplace:
    """A blob folder, jobs for it, and worker processes that the test ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.blobs = open_blob_store(str(folder / "blobs"))
        self.processes: list[subprocess.Popen[bytes]] = []
        self._num_jobs = 0

    def job(self, *, lease_seconds: float = 5.0, scorer: ScorerConfig | None = None) -> Job:
        self._num_jobs += 1
        number = self._num_jobs
        return Job(
            job_id=number,
            run_id="run-1",
            batch_id=f"batch-{number}",
            step=number,
            blob_keys=[f"batches/run-1/batch-{number}.zst"],
            scorer=scorer or ScorerConfig(),
            start=1,
            lease_seconds=lease_seconds,
        )

    def good_job(self, **options: Any) -> Job:
        job = self.job(**options)
        self.blobs.write(job.blob_keys[0], pack_batch(small_batch(job.step)))
        return job

    def blocking_job(self, **options: Any) -> tuple[Job, Path]:
        """A job that keeps the child inside one call: its blob is a pipe that nobody has written to yet."""
        job = self.job(**options)
        path = self.folder / "blobs" / job.blob_keys[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        return job, path

    def start(self, url: str, *, device: str = "cpu", **environment: str) -> subprocess.Popen[bytes]:
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")
        }
        variables |= {
            "COLLAPSEWATCH_WORKER_KEY": KEY,
            "COLLAPSEWATCH_BLOB_URL": str(self.folder / "blobs"),
            "COLLAPSEWATCH_CLAIM_WAIT_SECONDS": "0.1",
            "COLLAPSEWATCH_LOG_LEVEL": "DEBUG",
            "OMP_NUM_THREADS": "1",
            **environment,
        }
        with (self.folder / "worker.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "collapsewatch_worker", "--server", url, "--device", device],
                env=variables,
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    @property
    def log(self) -> str:
        return (self.folder / "worker.log").read_text()

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def small_batch(step: int) -> RolloutBatch:
    rollouts = [
        Rollout(
            group_id=place,
            reward=float(k % 2),
            turns=[Turn(prompt=f"you stand {place} <think>", response=f"i am {place} now {k} </think> go")],
        )
        for place in ("north", "south", "east", "west")
        for k in range(4)
    ]
    return RolloutBatch(batch_id=f"batch-{step}", step=step, rollouts=rollouts)


def children_of(pid: int) -> list[int]:
    """Processes that any thread of this one has started."""
    children: list[int] = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            children += map(int, (thread / "children").read_text().split())
    return children


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody has waited for counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
