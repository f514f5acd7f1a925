"""The demo's own service: `collapsewatch serve` in a folder of its own, and what can be read from it."""

import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import httpx

from collapsewatch.demo.processes import Child, ChildFailedError, start_child

DEFAULT_PORT = 7788
START_SECONDS = 120.0
"""A cold disk takes its time over the first import."""
_URL = re.compile(r"https?://[^\s/]+:\d+")


def child_environment(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of all children: the demo's own service and no other.

    Settings of a real installation (its server, database, keys) are left out. One thread per process,
    because four of them share what may be two cores; scoring on the CPU, where it is fast enough.
    """
    kept = {name: value for name, value in environ.items() if not name.startswith("COLLAPSEWATCH_")}
    return kept | {
        "COLLAPSEWATCH_HOME": str(home),
        "COLLAPSEWATCH_WORKER_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def usable_port(port: int | None) -> int:
    """The port asked for; when none was, the usual one if it is free, else 0 for any free one."""
    if port is not None:
        return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", DEFAULT_PORT))
        except OSError:
            return 0
    return DEFAULT_PORT


@dataclass(frozen=True)
class Service:
    """A service that answers."""

    url: str
    child: Child


class StartingService:
    """`collapsewatch serve` from its start until it answers."""

    def __init__(self, home: Path, port: int, checkpoint_root: Path) -> None:
        self._lines: SimpleQueue[str] = SimpleQueue()
        arguments = ["collapsewatch.cli", "serve", "--home", str(home), "--port", str(port)]
        self.child = start_child(
            "the service",
            [*arguments, "--checkpoint-root", str(checkpoint_root)],
            environment=child_environment(home),
            log_path=home / "logs" / "service.log",
            on_line=self._lines.put,
        )

    def wait(self, timeout_seconds: float = START_SECONDS) -> Service:
        """The service, once it answers.

        Raises:
            ChildFailedError: it ended, or did not answer in time.
        """
        deadline = time.monotonic() + timeout_seconds
        url: str | None = None
        while time.monotonic() < deadline:
            if self.child.check():
                raise ChildFailedError(f"the service ended at once:\n{self.child.last_lines()}")
            url = url or self._announced_url()
            if url is not None and _answers(url):
                return Service(url, self.child)
            time.sleep(0.1)
        raise ChildFailedError(
            f"the service did not answer within {timeout_seconds:.0f} s:\n{self.child.last_lines()}"
        )

    def _announced_url(self) -> str | None:
        try:
            match = _URL.search(self._lines.get_nowait())
        except Empty:
            return None
        return match.group() if match else None


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz", timeout=2.0, trust_env=False).is_success
    except httpx.HTTPError:
        return False


class ServiceReader:
    """What anybody may read from the service, as the page does."""

    def __init__(self, url: str) -> None:
        # No proxy of the environment may come between two processes of this machine.
        self._client = httpx.Client(base_url=f"{url}/api/v1", timeout=10.0, trust_env=False)

    def run(self, run_id: str) -> dict[str, Any] | None:
        """The run with its newest numbers; None when the service has not heard of it yet.

        Raises:
            httpx.HTTPError: the service does not answer, or answers with an error.
        """
        response = self._client.get(f"/runs/{run_id}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return None
        return self._json(response)

    def alerts(self, run_id: str) -> list[dict[str, Any]]:
        """The run's alerts, by step; those that belong to none, such as a stall, come first."""
        return in_step_order(self._json(self._client.get(f"/runs/{run_id}/alerts"))["alerts"])

    def series(self, run_id: str, scope: str, metrics: Sequence[str]) -> dict[str, list[float]]:
        """Values in step order by metric; a metric that the run does not have is left out."""
        query: dict[str, str | list[str]] = {"scope": scope, "metric": list(metrics)}
        answer = self._json(self._client.get(f"/runs/{run_id}/series", params=query))
        return {name: series["values"] for name, series in answer["series"].items() if series["values"]}

    def close(self) -> None:
        """Gives the connections back."""
        self._client.close()

    @staticmethod
    def _json(response: httpx.Response) -> dict[str, Any]:
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer


def in_step_order(alerts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Alerts by step, then as they were raised; those that belong to no step come first."""
    return sorted(
        alerts,
        key=lambda alert: (-1 if alert["opened_step"] is None else alert["opened_step"], alert["alert_id"]),
    )
