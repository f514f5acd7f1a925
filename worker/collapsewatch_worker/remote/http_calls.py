"""HTTP calls to an engine: what is tried again, and which error of the job a bad answer becomes."""

import logging
import random
import threading
import time
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from collapsewatch_worker.errors import BatchNotScorable, EngineNotUsable, EngineUnavailable

log = logging.getLogger(__name__)

Document = dict[str, Any]
"""A JSON object."""

ANSWER_SECONDS = 120.0
"""How long one answer may take: an engine that also samples rollouts lets a request wait in its queue."""
PATIENCE_SECONDS = 120.0
"""How long an engine that is away, too busy or not there yet is asked again: a restart takes minutes."""
_CONNECT_SECONDS = 10.0
_NUM_TRIES = 5
"""Tries that every call has, however long each of them takes."""
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_OWN_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 30.0
# Engines close what is idle for 5 s. A connection that they close while a request is on its way looks like
# an engine that ended, so idle ones are given up well before.
_IDLE_SECONDS = 2.0
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_ABOUT_THE_REQUEST = frozenset({400, 413, 422})
_ABOUT_THE_KEY = frozenset({401, 403})
_ABOUT_THE_PATH = frozenset({404, 405, 501})
_BAD_GATEWAY = 502
_MAX_MESSAGE_CHARS = 300


class EngineChanged(Exception):
    """What an engine answers from here on may be of other weights than what it answered before."""

    def __init__(self, reason: str, *, is_cut: bool = False) -> None:
        super().__init__(reason)
        self.is_cut = is_cut
        """Known from a lost connection alone: the engine may have ended, and another come in its place."""


def engine_address(url: str) -> str:
    """The engine's address without the `/v1` that other clients want and without a slash at its end.

    Raises:
        ValueError: not an http(s) address of a host, or one with a password, query or fragment in it.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"the engine's address starts with http:// or https:// and a host, got {url!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        # The address itself may hold a secret then, so it is not repeated.
        raise ValueError("the engine's address has a password, query or fragment; give a key by its option")
    parts.port  # noqa: B018 - raises when it is not a number of a port
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


class EngineApi:
    """Calls to one engine; safe to use from several threads.

    Every call may raise
        EngineUnavailable: no connection, no answer in time, 429 or 5xx, every time it was tried.
        EngineChanged: the connection was lost while the engine was `held`.
        BatchNotScorable: the engine refused the request itself (400, 413, 422), for instance its length.
        EngineNotUsable: a refused key, an unknown path, a redirect, or an answer that is no JSON object.

    Args:
        address: from `engine_address`.
        num_connections: calls that may run at once.
        answer_seconds: how long one answer may take before it is asked for again.
        patience_seconds: how long a call that fails is tried again, and at least for a few tries.
    """

    def __init__(
        self,
        address: str,
        api_key: str | None,
        *,
        num_connections: int,
        answer_seconds: float = ANSWER_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._address = address
        self._patience_seconds = patience_seconds
        self._is_held = False
        self._is_stopped = threading.Event()
        headers = {"Accept": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._client = httpx.Client(
            base_url=f"{address}/",
            headers=headers,
            timeout=httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=num_connections, keepalive_expiry=_IDLE_SECONDS),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def stop(self) -> None:
        """Lets the calls under way end at their next answer: nothing is tried again."""
        self._is_stopped.set()

    def hold(self) -> None:
        """From now on a lost connection is no reason to try again: another engine may be there then."""
        self._is_held = True

    def get(self, path: str) -> Document:
        """The JSON object at a path."""
        return self._answer("GET", path, None)

    def post(
        self,
        path: str,
        body: Document,
        *,
        is_patient: bool = True,
        why_again: Callable[[Document], str | None] = lambda _: None,
    ) -> Document:
        """The JSON object that answers `body`. Scoring changes nothing, so it can be asked for twice.

        Args:
            is_patient: whether it is tried for as long as patience lasts, or a few times only.
            why_again: why an answer is none yet; none when it is one.
        """
        return self._answer("POST", path, body, is_patient, why_again)

    def _answer(
        self,
        method: str,
        path: str,
        body: Document | None,
        is_patient: bool = True,
        why_again: Callable[[Document], str | None] = lambda _: None,
    ) -> Document:
        started = time.monotonic()
        patience_seconds = self._patience_seconds if is_patient else 0.0
        for attempt in count(1):
            wished_pause = None
            try:
                response = self._client.request(method, path, json=body)
            except httpx.RequestError as error:
                self._check_hold(error)
                reason = f"{type(error).__name__}: {error}"
            else:
                if response.is_success:
                    document = self._document(path, response)
                    if (again := why_again(document)) is None:
                        return document
                    reason = again
                else:
                    reason = self._passing_failure(path, response)
                    wished_pause = response.headers.get("Retry-After")
            log.debug("engine call failed", extra={"path": path, "attempt": attempt, "reason": reason})
            is_last = attempt >= _NUM_TRIES and time.monotonic() - started >= patience_seconds
            if is_last or self._is_stopped.wait(_pause_seconds(attempt, wished_pause)):
                break
        raise EngineUnavailable(f"the engine at {self._address} gave no answer to {path}: {reason}")

    def _check_hold(self, error: httpx.RequestError) -> None:
        if self._is_held and not isinstance(error, httpx.TimeoutException | httpx.DecodingError):
            raise EngineChanged(
                f"the connection to the engine was lost ({type(error).__name__}: {error})", is_cut=True
            ) from error

    def _passing_failure(self, path: str, response: httpx.Response) -> str:
        """What failed, for now; raises what would fail again."""
        if response.status_code not in _PASSING:
            raise self._refusal(path, response)
        reason = f"status {response.status_code} {_message(response)}".rstrip()
        if self._is_held and response.status_code == _BAD_GATEWAY:
            raise EngineChanged(f"a proxy lost its connection to the engine ({reason})", is_cut=True)
        return reason

    def _document(self, path: str, response: httpx.Response) -> Document:
        try:
            document = response.json()
        except ValueError as error:
            raise EngineNotUsable(f"{self._address}/{path} answered something that is not JSON") from error
        if not isinstance(document, dict):
            raise EngineNotUsable(f"{self._address}/{path} answered JSON that is not an object")
        return document

    def _refusal(self, path: str, response: httpx.Response) -> BatchNotScorable | EngineNotUsable:
        status, message = response.status_code, _message(response)
        if status in _ABOUT_THE_REQUEST:
            return BatchNotScorable(f"the engine refused to score (status {status}): {message}")
        if status in _ABOUT_THE_KEY:
            return EngineNotUsable(f"the engine at {self._address} refuses the key (status {status})")
        if status in _ABOUT_THE_PATH:
            return EngineNotUsable(
                f"the engine at {self._address} does not know /{path} (status {status}): {message}"
            )
        return EngineNotUsable(f"{self._address}/{path} answered with status {status}: {message}")


def _pause_seconds(attempt: int, wished: str | None) -> float:
    """Doubles with each attempt up to a few seconds; what the engine asks for counts when it is longer."""
    pause = _FIRST_PAUSE_SECONDS * 2.0 ** min(attempt - 1, 10) * random.uniform(0.5, 1.5)
    pause = min(pause, _LONGEST_OWN_PAUSE_SECONDS)
    if wished is not None and wished.isdecimal():
        pause = max(pause, float(wished))
    return min(pause, _LONGEST_PAUSE_SECONDS)


def _message(response: httpx.Response) -> str:
    """What the engine says of its refusal: `error.message`, `message`, or the start of the text."""
    try:
        document = response.json()
    except ValueError:
        return response.text[:_MAX_MESSAGE_CHARS]
    if isinstance(document, dict):
        error = document.get("error")
        if isinstance(error, dict):
            message = error.get("message")
        else:
            message = error or document.get("message") or document.get("detail")
        if isinstance(message, str):
            return message[:_MAX_MESSAGE_CHARS]
    return response.text[:_MAX_MESSAGE_CHARS]
