"""Tells the server every few seconds that this worker lives, whatever its scoring process is doing."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import Self

from collapsewatch.contracts.scoring import WorkerHeartbeat
from collapsewatch_worker.loop.progress import Progress
from collapsewatch_worker.loop.server_api import ServerApiError

log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
_MAX_NAME = 200


class Heart:
    """Beats from a thread of its own for the length of a `with` block, at once and once more at the end.

    A beat that fails is nobody's business but the next one's: the work never depends on it.
    """

    def __init__(
        self,
        send: Callable[[WorkerHeartbeat], None],
        *,
        worker: str,
        device: str,
        progress: Progress,
        stop: threading.Event,
        interval_seconds: float = BEAT_SECONDS,
    ) -> None:
        """Prepares it.

        Args:
            send: see `WorkerApi.heartbeat`.
            stop: once it is set, every beat says that the worker is stopping.
        """
        self._send = send
        self._worker = worker
        self._device = device
        self._progress = progress
        self._stop = stop
        self._interval_seconds = interval_seconds
        self._started_at = time.time()
        self._has_ended = threading.Event()
        self._is_silent = False
        self._thread = threading.Thread(target=self._beat_on, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_ended.set()
        self._thread.join()
        # However it ends: whoever leaves the block says so, and is not missed.
        self._beat(is_stopping=True)

    def _beat_on(self) -> None:
        while not self._has_ended.is_set():
            self._beat(is_stopping=self._stop.is_set())
            self._has_ended.wait(self._interval_seconds)

    def _beat(self, *, is_stopping: bool) -> None:
        progress = self._progress
        try:
            self._send(
                WorkerHeartbeat(
                    worker=self._worker,
                    host=socket.gethostname()[:_MAX_NAME] or "unknown",
                    device=self._device,
                    version=version("collapsewatch"),
                    started_at=self._started_at,
                    num_done=progress.num_done,
                    num_failed=progress.num_failed,
                    job_id=progress.job_id,
                    is_stopping=is_stopping,
                )
            )
            self._is_silent = False
        except ServerApiError as error:
            # Once for each outage; the loop that looks for jobs complains as well.
            level = logging.DEBUG if self._is_silent else logging.INFO
            log.log(level, "the server hears no heartbeat", extra={"error": str(error)})
            self._is_silent = True
