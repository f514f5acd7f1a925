"""Servers of the products, as processes that end with the benchmark."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from benchmarks.dashboard.series import RunShape
from tests.servers import free_port, wait_until

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / "build" / "bench" / "venv" / "bin" / "python"


@contextmanager
def quiet_process(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose output goes to a file in the folder, and that is gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    own = {name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=own | dict(environment or {}),
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@contextmanager
def running_ours(home: Path) -> Iterator[str]:
    """Address of `collapsewatch serve` in `home`."""
    port = free_port()
    command = [sys.executable, "-m", "collapsewatch", "serve", "--port", str(port), "--no-worker"]
    environment = {"COLLAPSEWATCH_HOME": str(home), "COLLAPSEWATCH_LOG_LEVEL": "WARNING"}
    with quiet_process(command, home, environment):
        url = f"http://127.0.0.1:{port}"
        wait_for_answer(f"{url}/healthz")
        yield url


def wait_for_answer(url: str, *, timeout_seconds: float = 180) -> None:
    """Comes back when the address answers."""

    def answers() -> bool:
        try:
            return httpx.get(url, timeout=5, trust_env=False, follow_redirects=True).status_code < 500
        except httpx.HTTPError:
            return False

    wait_until(answers, f"{url} answers", timeout_seconds=timeout_seconds)


def fill_peer(name: str, folder: Path, cases: Mapping[str, Sequence[RunShape]]) -> dict[str, Any]:
    """Fills a peer's store with its own Python; what its pages' addresses need."""
    folder.mkdir(parents=True, exist_ok=True)
    shapes = json.dumps({case: [asdict(run) for run in runs] for case, runs in cases.items()})
    module = "benchmarks.dashboard.fill_peers"
    done = subprocess.run(
        [str(PEERS_PYTHON), "-m", module, name, str(folder), shapes],
        cwd=ROOT,
        env=os.environ | {"TRACKIO_DIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
