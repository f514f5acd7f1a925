"""Starts the processes of the benchmark: our server, and one child for each library at work."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks.ingest.child import ANSWER
from tests.servers import free_port, wait_until

ROOT = Path(__file__).parents[2]
PEERS_PYTHON = ROOT / "build" / "bench" / "venv" / "bin" / "python"
_CHILD_SECONDS = 1800


@dataclass
class Server:
    """Our server as a user starts it."""

    home: Path
    url: str
    key: str
    process: subprocess.Popen[bytes]


@contextmanager
def running_server(
    home: Path, *, core: int | None = None, worker: bool = False, database_url: str | None = None
) -> Iterator[Server]:
    """`collapsewatch serve` in `home`, pinned to one core when that is asked for."""
    environment = _environment() | {"COLLAPSEWATCH_HOME": str(home), "COLLAPSEWATCH_LOG_LEVEL": "WARNING"}
    if database_url is not None:
        environment["COLLAPSEWATCH_DATABASE_URL"] = database_url
    port = free_port()
    command = [sys.executable, "-m", "collapsewatch", "serve", "--port", str(port)]
    if not worker:
        command.append("--no-worker")
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    home.mkdir(parents=True, exist_ok=True)
    with (home / "server.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(url, home)
        key = json.loads((home / "credentials.json").read_text())["api_key"]
        yield Server(home, url, key, process)
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(url: str, home: Path) -> None:
    try:
        wait_until(lambda: _is_ready(url), "the server is ready", timeout_seconds=60)
    except AssertionError as error:
        log = (home / "server.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the server did not start: {log}") from error


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@dataclass(frozen=True)
class Contestant:
    """A library, how it is started, and what it is told by its environment."""

    name: str
    python: str
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, mode: str, folder: Path, options: Sequence[str]) -> list[str]:
        """The child's command line."""
        return [self.python, "-m", "benchmarks.ingest.child", mode, self.name, str(folder), *options]

    def start(self, mode: str, folder: Path, *options: str) -> subprocess.Popen[bytes]:
        """A child at work; its output is a pipe."""
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "child.log").open("ab") as log:
            return subprocess.Popen(
                self.command(mode, folder, options),
                cwd=ROOT,
                env=_environment() | self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def ask(self, mode: str, folder: Path, *options: str) -> object:
        """What the child answers.

        Raises:
            RuntimeError: it ended without an answer.
        """
        with self.start(mode, folder, *options) as process:
            output = process.communicate(timeout=_CHILD_SECONDS)[0].decode(errors="replace")
        answers = [line for line in output.splitlines() if line.startswith(ANSWER)]
        if not answers:
            log = (folder / "child.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.name} gave no answer: {log}")
        answer: object = json.loads(answers[-1].removeprefix(ANSWER))
        return answer


def ours(server: Server | None) -> Contestant:
    """Our SDK, and the server it speaks to; without one the server is away."""
    environment = {"BENCH_RUN_ID": uuid.uuid4().hex, "COLLAPSEWATCH_URL": "http://127.0.0.1:9"}
    if server is not None:
        environment |= {
            "BENCH_SERVER_HOME": str(server.home),
            "COLLAPSEWATCH_URL": server.url,
            "COLLAPSEWATCH_API_KEY": server.key,
        }
    return Contestant("collapsewatch", sys.executable, environment)


def peers() -> list[Contestant]:
    """The other trackers."""
    return [Contestant(name, str(PEERS_PYTHON)) for name in ("trackio", "wandb", "mlflow")]


def versions() -> dict[str, str]:
    """Version of each library."""
    script = "import importlib.metadata as m; print(m.version({!r}))"
    found = {}
    for contestant in [ours(None), *peers()]:
        command = [contestant.python, "-c", script.format(contestant.name)]
        found[contestant.name] = subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.strip()
    return found


def settle(seconds: float = 5.0) -> None:
    """Lets a library's background process finish what the kill has left to it."""
    time.sleep(seconds)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")}
