"""The thread that ships an outbox to the server, in order, for as long as it takes."""

import json
import logging
import math
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import zstandard

from collapsewatch.boundary import Boundary
from collapsewatch.outbox import Outbox, Record, RecordKind
from collapsewatch.settings import Settings

if TYPE_CHECKING:
    import httpx

_THREAD_NAME = "collapsewatch-sender"
_MIN_COMPRESSED_BYTES = 1024
_MAX_RETRY_AFTER_SECONDS = 300.0
_CLOSING_PAUSE_SECONDS = 0.5
_LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")

DROP_REASONS = {
    RecordKind.start: "runs",
    RecordKind.update: "updates",
    RecordKind.batch: "batches",
    RecordKind.scalars: "values",
}
"""First word of the count under which a record of each kind is dropped."""


@dataclass(frozen=True, slots=True)
class Request:
    """What goes over the wire for one or more records."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a request ended."""

    accepted: bool = False
    retry: bool = False
    reason: str = ""
    """What was wrong, for the log."""
    retry_after_seconds: float | None = None
    """What the server asked for."""


class Sender:
    """Ships one run's outbox from a daemon thread.

    Connection errors, 5xx, 408 and 429 are tried again until the run is finished and its time is up; any
    other refusal drops the record, counted and logged. A refused start drops everything: nothing has a place.
    """

    def __init__(self, outbox: Outbox, settings: Settings, run_id: str, boundary: Boundary) -> None:
        self._outbox = outbox
        self._settings = settings
        self._run_id = run_id
        self._boundary = boundary
        # Our own generator: the training's seeded one must not notice us.
        self._random = random.Random()
        self._refusal: str | None = None
        self._closing = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._ship_all, name=_THREAD_NAME, daemon=True)

    def start(self) -> None:
        """Begins to ship."""
        self._thread.start()

    def close(self, timeout_seconds: float) -> list[Record]:
        """Ships what is left, for a bounded time. Returns what did not make it."""
        self._outbox.close()
        self._closing.set()
        self._thread.join(max(0.0, timeout_seconds))
        self._stopped.set()
        return self._outbox.drain()

    def _ship_all(self) -> None:
        try:
            client = self._client()
        except Exception as error:  # noqa: BLE001 - the SDK boundary: such as an unreadable SSL_CERT_FILE
            self._outbox.close()
            self._boundary.report(
                "client", "nothing will be sent: %s: %s", type(error).__name__, error, level=logging.ERROR
            )
            return
        with client:
            while not self._stopped.is_set():
                records = self._outbox.take()
                if not records:
                    return
                if self._ship_guarded(client, records):
                    self._outbox.ack()

    def _ship_guarded(self, client: "httpx.Client", records: Sequence[Record]) -> bool:
        try:
            return self._ship(client, records)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: one record must not stop the rest
            self._drop(records, f"{type(error).__name__}: {error}")
            return True

    def _ship(self, client: "httpx.Client", records: Sequence[Record]) -> bool:
        """Whether the records are done with: accepted, or dropped. False when time was up."""
        if self._refusal is not None:
            self._drop(records, self._refusal)
            return True
        verdict = self._insist(client, self._request(records))
        if verdict is None:
            return False
        if verdict.accepted:
            return True
        if len(records) > 1:
            # One bad point must not take its neighbours along.
            outcomes = [self._ship(client, [record]) for record in records]
            return all(outcomes)
        if records[0].kind is RecordKind.start:
            self._refusal = verdict.reason
        self._drop(records, verdict.reason)
        return True

    def _insist(self, client: "httpx.Client", request: Request) -> Verdict | None:
        """The server's last word; None when the time was up before it came."""
        pause_seconds = self._settings.retry_seconds
        was_delayed = False
        while not self._stopped.is_set():
            verdict = self._attempt(client, request)
            if not verdict.retry:
                if was_delayed:
                    logging.getLogger("collapsewatch").info("sending again", extra={"run": self._run_id})
                return verdict
            was_delayed = True
            self._boundary.report(
                f"delay: {verdict.reason}", "will try again: %s %s", self._settings.url, verdict.reason
            )
            self._pause(pause_seconds * self._random.uniform(0.5, 1.0), verdict.retry_after_seconds)
            pause_seconds = min(2 * pause_seconds, self._settings.max_retry_seconds)
        return None

    def _attempt(self, client: "httpx.Client", request: Request) -> Verdict:
        import httpx

        try:
            response = client.request(
                request.method, request.path, content=request.body, headers=request.headers
            )
        except httpx.RequestError as error:
            return Verdict(retry=True, reason=f"{type(error).__name__}: {error}")
        return verdict_of(response.status_code, response.headers, response.text)

    def _pause(self, seconds: float, retry_after_seconds: float | None) -> None:
        """Waits; a run that is being finished is in a hurry, but does what the server asked for."""
        if self._closing.is_set():
            self._stopped.wait(retry_after_seconds or min(seconds, _CLOSING_PAUSE_SECONDS))
        elif retry_after_seconds is not None:
            self._stopped.wait(retry_after_seconds)
        else:
            self._closing.wait(seconds)

    def _request(self, records: Sequence[Record]) -> Request:
        run_path = f"/api/v1/runs/{self._run_id}"
        body = records[0].body
        match records[0].kind:
            case RecordKind.start:
                method, path = "POST", "/api/v1/runs"
            case RecordKind.update:
                method, path = "PATCH", run_path
            case RecordKind.batch:
                method, path = "POST", f"{run_path}/batches"
            case RecordKind.scalars:
                method, path = "POST", f"{run_path}/scalars"
                body = b'{"points":[' + b",".join(record.body for record in records) + b"]}"
        headers = {"Content-Type": "application/json"}
        if len(body) >= _MIN_COMPRESSED_BYTES:
            body = zstandard.ZstdCompressor(level=3).compress(body)
            headers["Content-Encoding"] = "zstd"
        return Request(method, path, body, headers)

    def _drop(self, records: Sequence[Record], reason: str) -> None:
        for record in records:
            what = DROP_REASONS[record.kind]
            self._boundary.drop(f"{what}_rejected", record.num_items)
            self._boundary.report(
                f"rejected: {what} {reason}",
                "%s rejected by the server: %s",
                what,
                reason,
                level=logging.ERROR,
            )

    def _client(self) -> "httpx.Client":
        # Imported here: it costs 0.15 s that `import collapsewatch` need not pay.
        import httpx

        # httpx tells every request at INFO; a line per training step would drown the trainer's own log.
        logging.getLogger("httpx").addFilter(_is_not_ours)
        headers = {"User-Agent": f"collapsewatch/{_own_version()}"}
        if self._settings.api_key is not None:
            headers["Authorization"] = f"Bearer {self._settings.api_key}"
        # A proxy of the cluster cannot reach this machine's loopback, and must not see what is sent there.
        is_local = urlsplit(self._settings.url).hostname in _LOOPBACK_HOSTS
        return httpx.Client(
            base_url=self._settings.url,
            headers=headers,
            timeout=httpx.Timeout(30.0, connect=5.0),
            follow_redirects=False,
            trust_env=not is_local,
        )


def _is_not_ours(record: logging.LogRecord) -> bool:
    return record.threadName != _THREAD_NAME


def verdict_of(status: int, headers: Mapping[str, str], text: str) -> Verdict:
    """What an answer means for the record that was sent."""
    if 200 <= status < 300:
        return Verdict(accepted=True)
    if 300 <= status < 400:
        return Verdict(
            reason=f"{status}: redirected to {headers.get('location', 'nowhere')}; set `url` to that server"
        )
    if status in (408, 429) or status >= 500:
        return Verdict(
            retry=True,
            reason=f"answered {status}",
            retry_after_seconds=_retry_after(headers.get("retry-after")),
        )
    return Verdict(reason=f"{status}: {_told(text)}")


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait by a `Retry-After` header, bounded; None when there is none or it is unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (when.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS)


def _told(text: str) -> str:
    """The server's message in one line. What was given is left out: it may be a prompt."""
    try:
        error: dict[str, Any] = json.loads(text)["error"]
        details = [f"{detail['loc']}: {detail['message']}" for detail in error.get("details", [])[:3]]
        return "; ".join([str(error["message"]), *details])[:500]
    except (ValueError, LookupError, TypeError, AttributeError):
        return text[:200]


def _own_version() -> str:
    try:
        return version("collapsewatch")
    except PackageNotFoundError:  # pragma: no cover - a source tree that was never installed
        return "unknown"
