"""A running service in either deployment: the commands a user types, real servers, free ports."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

COMMAND = [sys.executable, "-m", "collapsewatch"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Service:
    """One server and its worker, as processes."""

    home: Path
    environment: dict[str, str]
    scaled_out: bool
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def spawn(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts `collapsewatch ARGUMENTS`, its output in a log file."""
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [*COMMAND, *arguments], env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def start(self) -> None:
        no_worker = ["--no-worker"] if self.scaled_out else []
        self.spawn("server", "serve", "--port", str(self.port), *no_worker)
        self.wait_until(self.is_ready, "the server is ready", timeout_seconds=120)
        if self.scaled_out:
            self.environment["COLLAPSEWATCH_WORKER_KEY"] = self.create_key("worker")
            self.spawn("worker", "worker", "--server", self.url, "--device", "cpu")

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=10).status_code == 200
        except httpx.HTTPError:
            return False

    def create_key(self, purpose: str, *options: str) -> str:
        shown = subprocess.run(
            [*COMMAND, "keys", "create", "--purpose", purpose, *options],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        return next(word for word in shown.split() if word.startswith(f"cw_{purpose}_"))

    def local_key(self) -> str:
        """The key that `serve` left for clients on this machine."""
        key: str = json.loads((self.home / "credentials.json").read_text())["api_key"]
        return key

    def get(self, path: str, **params: Any) -> Any:
        answer = httpx.get(f"{self.url}/api/v1{path}", params=params, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def wait_until(self, condition: Callable[[], bool], claim: str, *, timeout_seconds: float = 120) -> None:
        end = time.monotonic() + timeout_seconds
        while not condition():
            if time.monotonic() > end:
                tail = "\n".join(
                    f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-30:])
                    for path in sorted(self.home.glob("*.log"))
                )
                raise AssertionError(f"not within {timeout_seconds} s: {claim}\n{tail}")
            time.sleep(0.1)

    def wait_until_scored(self, run_id: str, num_batches: int, *, timeout_seconds: float = 240) -> None:
        def scored() -> bool:
            answer = httpx.get(f"{self.url}/api/v1/runs/{run_id}", timeout=60)
            if answer.status_code == 404:  # the client sends in the background, also the run itself
                return False
            jobs = answer.raise_for_status().json()["jobs"]
            return bool(jobs["done"] + jobs["dead"] >= num_batches)

        self.wait_until(scored, f"{num_batches} batches scored", timeout_seconds=timeout_seconds)

    def stop(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)


def base_environment(home: Path, checkpoint_root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")}
    return kept | {
        "COLLAPSEWATCH_HOME": str(home),
        "COLLAPSEWATCH_CHECKPOINT_ROOTS": json.dumps([str(checkpoint_root)]),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }
