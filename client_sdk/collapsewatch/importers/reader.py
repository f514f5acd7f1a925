"""What the importer and `check` ask the server: runs, their jobs and their alerts."""

import time
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import quote

import httpx

from collapsewatch.importers.steps import ImportFailedError
from collapsewatch.settings import Settings
from collapsewatch.wire import connect

STALL_SECONDS = 600.0
"""Scoring that makes no progress for so long is given up."""
_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0
_HINT_SECONDS = 20.0
_MAX_RUNS = 1000


def answers(url: str) -> bool:
    """Whether a server answers there."""
    try:
        with connect(Settings(url)) as client:
            return client.get("/healthz", timeout=5.0).is_success
    except (httpx.HTTPError, httpx.InvalidURL):
        return False


class ServerReader:
    """Reads from one server; lets it pass when the server is busy for a moment."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.url
        self._client = connect(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, run_id: str) -> dict[str, Any] | None:
        """The run as its page shows it; None when there is none.

        Raises:
            ImportFailedError: the server does not answer.
        """
        return self._get(f"/runs/{quote(run_id, safe='')}")

    def runs(self, project: str | None) -> list[dict[str, Any]]:
        """The newest runs of one project or of all."""
        params: dict[str, Any] = {"limit": _MAX_RUNS} | ({"project": project} if project else {})
        answer = self._get("/runs", params) or {}
        return list(answer.get("runs", []))

    def alerts(self, run_id: str) -> list[dict[str, Any]]:
        """The run's alerts, oldest first."""
        answer = self._get(f"/runs/{quote(run_id, safe='')}/alerts") or {}
        return sorted(answer.get("alerts", []), key=lambda alert: alert["alert_id"])

    def batch_ids(self, run_id: str) -> set[str]:
        """Batches of the run that the server has, as far as it lists them; the newest ones at least."""
        answer = self._get(f"/runs/{quote(run_id, safe='')}/jobs") or {}
        return {job["batch_id"] for job in answer.get("jobs", [])}

    def first_error(self, run_id: str) -> str | None:
        """Why the first of the run's batches that could not be scored was not."""
        answer = self._get(f"/runs/{quote(run_id, safe='')}/jobs", {"status": "dead"}) or {}
        errors = [(job["step"], job["error"]) for job in answer.get("jobs", []) if job["error"]]
        return f"step {min(errors)[0]}: {min(errors)[1]}" if errors else None

    def complaints(self) -> list[str]:
        """What the server says that it lacks, such as a worker."""
        try:
            checks = self._client.get("/readyz").json()["checks"]
            return [f"{name}: {check['message']}" for name, check in checks.items() if not check["ok"]]
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError):
            return []

    def _get(self, path: str, params: dict[str, Any] | None = None) -> dict[str, Any] | None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                response = self._client.get(f"/api/v1{path}", params=params)
                if response.status_code == httpx.codes.NOT_FOUND:
                    return None
                response.raise_for_status()
                answer: dict[str, Any] = response.json()
                return answer
            except (httpx.HTTPError, ValueError) as error:
                if not _may_pass(error) or time.monotonic() > deadline:
                    raise ImportFailedError(f"{self.url} does not answer: {error}") from error
            time.sleep(_POLL_SECONDS)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code in (408, 429)
    return isinstance(error, httpx.RequestError)


class Scoring:
    """How far the scoring of one run has come.

    Args:
        on_change: told the numbers of scored and waiting batches.
        tell: told, once, what the server lacks when nothing is scored for a while.
        check: raises when who scores has died.
    """

    def __init__(
        self,
        reader: ServerReader,
        run_id: str,
        *,
        on_change: Callable[[int, int], None],
        tell: Callable[[str], None],
        check: Callable[[], None] = lambda: None,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._reader = reader
        self._run_id = run_id
        self._on_change = on_change
        self._tell = tell
        self._is_told = False
        self._check = check
        self._stall_seconds = stall_seconds
        self._num_settled = 0
        self._last_progress = time.monotonic()
        self.jobs: dict[str, int] = {}

    @property
    def num_waiting(self) -> int:
        """Batches without a result that will get one."""
        return self.jobs.get("queued", 0) + self.jobs.get("leased", 0)

    def look(self) -> None:
        """Brings the numbers up to date.

        Raises:
            ImportFailedError: the server does not answer.
        """
        self._check()
        run = self._reader.run(self._run_id)
        self.jobs = {} if run is None else run["jobs"]
        settled = sum(self.jobs.values()) - self.num_waiting
        if settled != self._num_settled or not self.num_waiting:
            self._num_settled = settled
            self._last_progress = time.monotonic()
        self._on_change(self.jobs.get("done", 0), self.num_waiting)

    def wait(self, most_waiting: int) -> None:
        """Returns when no more batches than that wait.

        Raises:
            ImportFailedError: nothing was scored for too long.
        """
        self.look()
        self._last_progress = time.monotonic()
        while self.num_waiting > most_waiting:
            waited = time.monotonic() - self._last_progress
            if waited > _HINT_SECONDS and not self._is_told:
                self._is_told = True
                for complaint in self._reader.complaints():
                    self._tell(f"nothing was scored for {waited:.0f} s: {complaint}")
            if waited > self._stall_seconds:
                raise ImportFailedError(
                    f"nothing was scored for {waited:.0f} s while {self.num_waiting} batches wait: does a "
                    f"worker run for {self._reader.url}? The same command goes on"
                )
            time.sleep(_POLL_SECONDS)
            self.look()
