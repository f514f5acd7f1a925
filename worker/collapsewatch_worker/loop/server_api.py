"""The server's worker API, as the worker sees it: claim, beat, done, fail, heartbeat."""

import logging
import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

import httpx
import zstandard
from pydantic import ValidationError

from collapsewatch.contracts.base import WireModel
from collapsewatch.contracts.scoring import (
    ClaimRequest,
    Job,
    JobFailure,
    Lease,
    LeaseState,
    ScoringResult,
    WorkerHeartbeat,
)

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=WireModel)

_COMPRESS_FROM_BYTES = 64 * 1024
_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 15.0
_BEAT_SECONDS = 3.0
# Three tries within about a second: a longer outage is the caller's to wait out, with its own back-off.
_NUM_TRIES = 3
_FIRST_PAUSE_SECONDS = 0.3
# What the service says of a key, or of what was sent. Any other 4xx, or a page of a proxy that is set up for
# another moment, is said of the way to it, and costs no work.
_REFUSALS = frozenset({400, 401, 403, 409, 413, 415, 422})


class ServerApiError(Exception):
    """A call of the worker API that brought no good answer."""


class ServerUnreachable(ServerApiError):
    """No connection, no answer in time, or one that is no answer to the call, every time it was tried.

    The service may be back in a moment.
    """


class RequestRefused(ServerApiError):
    """The server did not accept what was sent: sending the same again would be refused again."""

    def __init__(self, status_code: int, code: str, message: str) -> None:
        super().__init__(f"{status_code} {code}: {message}")
        self.status_code = status_code
        self.code = code

    @property
    def is_about_the_key(self) -> bool:
        """The key is missing, unknown, or not one for workers."""
        return self.status_code in (401, 403)


class WorkerApi:
    """A thin client. Every method may raise ServerUnreachable and RequestRefused."""

    def __init__(
        self,
        server_url: str,
        worker_key: str | None,
        worker: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._worker = worker
        self._sleep = sleep
        self._claim_is_open = False
        headers = {"Accept": "application/json"}
        if worker_key:
            headers["Authorization"] = f"Bearer {worker_key}"
        self._client = httpx.Client(
            base_url=f"{server_url}/api/v1/worker/",
            headers=headers,
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the connections back."""
        self._client.close()

    def claim(self, *, wait_seconds: float = 0, job_id: int | None = None) -> Job | None:
        """The next job, leased to this worker; None when there is none within `wait_seconds`."""
        request = ClaimRequest(
            worker=self._worker, wait_seconds=wait_seconds, job_id=job_id, repeats=self._claim_is_open
        )
        repeated = request.model_copy(update={"repeats": True})
        # Unless an answer says otherwise, a job may have been leased to us that we know nothing of.
        self._claim_is_open = True
        response = self._post(
            "claim", request, repeated=repeated, answer_seconds=_ANSWER_SECONDS + wait_seconds
        )
        self._claim_is_open = False
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        return _parsed(Job, response)

    def beat(self, job_id: int) -> bool:
        """Whether this worker still holds the job's lease, which is now longer.

        Tried once: the next beat is the retry, and waiting here would delay the child's answer.
        """
        lease = Lease(worker=self._worker)
        response = self._post(f"jobs/{job_id}/beat", lease, answer_seconds=_BEAT_SECONDS, num_tries=1)
        return _parsed(LeaseState, response).held

    def done(self, job_id: int, result: ScoringResult) -> bool:
        """Whether this was the first good result of the job; a later one changes nothing."""
        response = self._post(f"jobs/{job_id}/done", result)
        return bool(_document(response).get("accepted", False))

    def fail(self, job_id: int, failure: JobFailure) -> str:
        """The job's new status: `queued` when it will be started again, else `dead`."""
        response = self._post(f"jobs/{job_id}/fail", failure)
        return str(_document(response).get("status", "unknown"))

    def heartbeat(self, heartbeat: WorkerHeartbeat) -> None:
        """Says that this worker lives. Tried once: the next one is the retry."""
        self._post("heartbeat", heartbeat, answer_seconds=_BEAT_SECONDS, num_tries=1)

    def _post(
        self,
        path: str,
        body: WireModel,
        *,
        repeated: WireModel | None = None,
        answer_seconds: float = _ANSWER_SECONDS,
        num_tries: int = _NUM_TRIES,
    ) -> httpx.Response:
        """The answer; `repeated` is what later tries say instead of `body`."""
        content, headers = _encoded(body)
        timeout = httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS)
        reason = ""
        for attempt in range(num_tries):
            if attempt:
                self._sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
                content, headers = _encoded(repeated or body)
            try:
                response = self._client.post(path, content=content, headers=headers, timeout=timeout)
            # Also an answer that cannot be unpacked, as from a proxy that is at fault.
            except httpx.RequestError as error:
                reason = f"{type(error).__name__}: {error}"
                continue
            if response.is_success:
                return response
            refusal = _refusal(response)
            if refusal.status_code in _REFUSALS or refusal.code == "job_not_found":
                raise refusal
            reason = f"status {response.status_code}"
        raise ServerUnreachable(f"{path} failed {num_tries} times: {reason}")


def _encoded(body: WireModel) -> tuple[bytes, dict[str, str]]:
    content = body.model_dump_json(exclude_none=True).encode()
    headers = {"Content-Type": "application/json"}
    if len(content) >= _COMPRESS_FROM_BYTES:
        content = zstandard.ZstdCompressor().compress(content)
        headers["Content-Encoding"] = "zstd"
    return content, headers


def _parsed(model: type[Model], response: httpx.Response) -> Model:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        # Another program answers at this address, or one of another version: nothing to do but wait.
        raise ServerUnreachable(
            f"the answer is not a {model.__name__}: {error.error_count()} errors"
        ) from error


def _document(response: httpx.Response) -> dict[str, object]:
    try:
        document = response.json()
    except ValueError as error:
        raise ServerUnreachable("the answer is not JSON") from error
    if not isinstance(document, dict):
        raise ServerUnreachable("the answer is not a JSON object")
    return document


def _refusal(response: httpx.Response) -> RequestRefused:
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
        details = error.get("details") or []
    except (ValueError, KeyError, TypeError, AttributeError):
        return RequestRefused(response.status_code, "unknown", response.text[:300])
    if details:
        message += f" ({str(details[0])[:300]})"
    return RequestRefused(response.status_code, code, message)
