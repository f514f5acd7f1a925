"""Asks a server for runs, their jobs and their alerts."""

import os
import time
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

from collapsewatch.asking.errors import AskingFailedError
from collapsewatch.settings import READ_KEY_HINT, Settings
from collapsewatch.wire import connect

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 30.0
_MAX_RUNS = 1000
_SAVE_SECONDS = 120.0
"""Between two pieces of an answer that is saved."""


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
        self._client = connect(settings, reads=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def run(self, run_id: str) -> dict[str, Any] | None:
        """The run as its page shows it; None when there is none.

        Raises:
            AskingFailedError: the server does not answer.
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

    def get(self, path: str, **params: Any) -> dict[str, Any] | None:
        """What the API answers below `/api/v1`; None when there is no such thing.

        Args:
            path: with its parts quoted.
            params: of the query; those that are None are left out.

        Raises:
            AskingFailedError: the server does not answer, or not to such a question.
        """
        return self._get(path, {name: value for name, value in params.items() if value is not None})

    def save(self, path: str, file: Path, **params: Any) -> int:
        """Number of bytes of what the API answers below `/api/v1`, once it is all in the file.

        Raises:
            AskingFailedError: the server does not answer, or not to such a question; the file is as it was.
            OSError: the file cannot be written.
        """
        given = {name: value for name, value in params.items() if value is not None}
        partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
        try:
            with self._client.stream(
                "GET", f"/api/v1{path}", params=given, timeout=_SAVE_SECONDS
            ) as response:
                if response.is_error:
                    response.read()
                    response.raise_for_status()
                with partial.open("wb") as target:
                    for piece in response.iter_bytes():
                        target.write(piece)
            num_bytes = partial.stat().st_size
            partial.replace(file)
        except httpx.HTTPError as error:
            raise AskingFailedError(f"{self.url} {_reason(error)}") from error
        finally:
            partial.unlink(missing_ok=True)
        return num_bytes

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
                    raise AskingFailedError(f"{self.url} {_reason(error)}") from error
            time.sleep(_POLL_SECONDS)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code >= 500 or error.response.status_code in (408, 429)
    return isinstance(error, httpx.RequestError)


def _reason(error: Exception) -> str:
    """What became of a question: what the server says is wrong, where it says anything."""
    if isinstance(error, httpx.HTTPStatusError):
        try:
            told = f"refuses: {error.response.json()['error']['message']}"
            return told if error.response.status_code not in (401, 403) else f"{told}. {READ_KEY_HINT}"
        except (ValueError, KeyError, TypeError):
            return f"answers with HTTP {error.response.status_code}"
    return f"does not answer: {str(error) or type(error).__name__}"
