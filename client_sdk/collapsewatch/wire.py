"""One request to the server: how it is made, sent, and what the answer means for what was sent."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import zstandard

from collapsewatch.settings import Settings
from collapsewatch.spool import Record, RecordKind, SpoolMeta

if TYPE_CHECKING:
    import httpx

THREAD_NAMES = "collapsewatch-"
"""How the names of all our threads begin."""
LATE_HEADER = "X-Collapsewatch-Late"
"""Says that a spool is shipped whose process is dead: what arrives is no sign of life."""
_MIN_COMPRESSED_BYTES = 1024
_MAX_RETRY_AFTER_SECONDS = 300.0
_ABOUT_THE_RECORDS = (400, 409, 410, 415, 422)
"""Refusals of what was sent; any other one is about the way to the server."""
_LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


class Outcome(Enum):
    """What an answer means for the records that were sent."""

    accepted = auto()
    retry = auto()
    """The server is away, or asks for patience."""
    rejected = auto()
    """These records will never be taken."""
    barred = auto()
    """Nothing is taken from this sender; the records are as good as before."""
    run_barred = auto()
    """Nothing is taken for this run: the server does not know it, or the key is another project's."""


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

    outcome: Outcome
    reason: str = ""
    """What was wrong, for the log."""
    retry_after_seconds: float | None = None
    """What the server asked for."""


def request_of(records: Sequence[Record], meta: SpoolMeta) -> Request:
    """The request that carries one record, or scalars that were logged in a row."""
    run_path = f"/api/v1/runs/{meta.run_id}"
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
            # Joined as bytes: to parse them here would hold the interpreter's lock against the training.
            points = b",".join(record.body for record in records)
            body = b'{"attempt_id":"%b","points":[%b]}' % (meta.attempt_id.encode(), points)
    headers = {"Content-Type": "application/json"}
    if len(body) >= _MIN_COMPRESSED_BYTES:
        body = zstandard.ZstdCompressor(level=3).compress(body)
        headers["Content-Encoding"] = "zstd"
    return Request(method, path, body, headers)


def connect(settings: Settings, *, is_late: bool = False, reads: bool = False) -> "httpx.Client":
    """A client of the server, for one thread.

    Args:
        reads: what people see, for which there is a key of its own.

    Raises:
        Exception: of many sorts, such as an unreadable SSL_CERT_FILE.
    """
    # Imported here: it costs 0.15 s that only `init` needs to pay.
    import httpx

    # httpx tells every request at INFO; a line per training step would drown the trainer's own log.
    logging.getLogger("httpx").addFilter(_is_not_ours)
    headers = {"User-Agent": f"collapsewatch/{_own_version()}"}
    key = settings.read_key if reads else settings.api_key
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if is_late:
        headers[LATE_HEADER] = "1"
    # A proxy of the cluster cannot reach this machine's loopback, and must not see what is sent there.
    is_local = urlsplit(settings.url).hostname in _LOOPBACK_HOSTS
    return httpx.Client(
        base_url=settings.url,
        headers=headers,
        timeout=httpx.Timeout(30.0, connect=5.0),
        follow_redirects=False,
        trust_env=not is_local,
    )


def send(client: "httpx.Client", request: Request) -> Verdict:
    """What the server says, or why it could not be asked."""
    import httpx

    try:
        response = client.request(request.method, request.path, content=request.body, headers=request.headers)
    except httpx.RequestError as error:
        return Verdict(Outcome.retry, f"{type(error).__name__}: {error}")
    # The answer and its stream hold each other: left so, every request would be work for the garbage
    # collection, which the training's own calls would wait for.
    response.stream = httpx.ByteStream(b"")
    return verdict_of(response.status_code, response.headers, response.text)


def verdict_of(status: int, headers: Mapping[str, str], text: str) -> Verdict:
    """What an answer means for what was sent."""
    is_ours = headers.get("content-type", "").startswith("application/json")
    if ((200 <= status < 300 and status != 204) or status in (401, 403, 404)) and not is_ours:
        # Such as the page of a proxy that wants a login, or one whose server is being started again.
        return Verdict(Outcome.retry, f"answered {status}, but not in the way of a collapsewatch server")
    if 200 <= status < 300:
        return Verdict(Outcome.accepted)
    if 300 <= status < 400:
        target = headers.get("location", "nowhere")
        return Verdict(Outcome.barred, f"{status}: redirected to {target}; set `url` to that server")
    if status in (408, 429) or status >= 500:
        wait_seconds = _retry_after(headers.get("retry-after"))
        return Verdict(Outcome.retry, f"answered {status}", wait_seconds)
    if status == 401:
        return Verdict(Outcome.barred, f"401: {_told(text)}")
    if status in (403, 404):
        return Verdict(Outcome.run_barred, f"{status}: {_told(text)}")
    if status == 413:
        return Verdict(Outcome.rejected, f"413: larger than the server takes in one request: {_told(text)}")
    if status not in _ABOUT_THE_RECORDS:
        return Verdict(Outcome.barred, f"{status}: {_told(text)}")
    return Verdict(Outcome.rejected, f"{status}: {_told(text)}")


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait by a `Retry-After` header, bounded; None when there is none or it is unreadable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
            seconds = (when.astimezone(UTC) - datetime.now(UTC)).total_seconds()
        except (ValueError, OverflowError):
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), _MAX_RETRY_AFTER_SECONDS)


def _told(text: str) -> str:
    """The server's message in one line. What was given is left out: it may be a prompt."""
    try:
        error: dict[str, Any] = json.loads(text)["error"]
        details = [f"{detail['loc']}: {detail['message']}" for detail in error.get("details", [])[:3]]
        return "; ".join([str(error["message"]), *details])[:500]
    except (ValueError, LookupError, TypeError, AttributeError):
        return text[:200]


def _is_not_ours(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith(THREAD_NAMES)


def _own_version() -> str:
    try:
        return version("collapsewatch")
    except PackageNotFoundError:  # pragma: no cover - a source tree that was never installed
        return "unknown"
