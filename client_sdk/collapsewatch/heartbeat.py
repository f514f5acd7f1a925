"""Signs of life: what a process says about itself while it logs, and about the spool of a dead one."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from collapsewatch.boundary import Boundary, log
from collapsewatch.contracts.runs import Heartbeat
from collapsewatch.sender import Sender, Shipment
from collapsewatch.settings import Settings
from collapsewatch.spool import Spool
from collapsewatch.wire import THREAD_NAMES, Outcome, Request, connect, send

if TYPE_CHECKING:
    import httpx

HEARTBEAT_SECONDS = 10.0
_TIMEOUT_SECONDS = 5.0
# After it nobody speaks of that spool any more, and the server would believe for ever that something waits.
_LAST_PAUSES_SECONDS = (0.3, 1.0, 3.0, 0.0)
_MAX_KEYS = 100


class Heart:
    """Tells the server every few seconds that a process lives and what waits in its spool.

    Beats from a daemon thread, from `begin` until `close`. Nothing depends on a single beat, so one that
    fails is not tried again and not reported.
    """

    def __init__(
        self,
        spool: Spool,
        settings: Settings,
        *,
        rank: int | None,
        dropped: Callable[[], Mapping[str, int]],
        interval_seconds: float = HEARTBEAT_SECONDS,
    ) -> None:
        self._spool = spool
        self._settings = settings
        self._rank = rank
        self._dropped = dropped
        self._interval_seconds = interval_seconds
        self._closing = threading.Event()
        self._has_begun = False
        self._thread: threading.Thread | None = None

    def begin(self) -> bool:
        """Beats from now on; whether this was the first call. Called by one thread."""
        if self._has_begun:
            return False
        self._has_begun = True
        thread = threading.Thread(target=self._beat_on, name=f"{THREAD_NAMES}heartbeat", daemon=True)
        # No more threads, or an interpreter that is going down: data is a sign of life as well.
        with suppress(RuntimeError):
            thread.start()
            self._thread = thread
        return True

    def close(self, timeout_seconds: float) -> None:
        """Beats once more, for the last news of the spool, and ends; waits a bounded time."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(max(0.0, timeout_seconds))

    def _beat_on(self) -> None:
        try:
            with connect(self._settings) as client:
                while True:
                    is_last = self._closing.is_set()
                    beat = heartbeat_of(self._spool, self._dropped(), rank=self._rank)
                    _post(client, self._spool.meta.run_id, beat)
                    if is_last:
                        return
                    self._closing.wait(self._interval_seconds)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: a run without a heartbeat goes on
            log.debug("no more heartbeats: %s: %s", type(error).__name__, error)


def ship_adopted(spool: Spool, settings: Settings, boundary: Boundary, *, timeout_seconds: float) -> Shipment:
    """Ships the spool of a process that is gone, in this thread, and tells the server what it had dropped.

    The spool stays with the caller, who releases it.
    """
    shipment = Sender(spool, settings, boundary, is_late=True).ship(timeout_seconds)
    if shipment.refusal is None:
        try:
            with connect(settings, is_late=True) as client:
                # While something is left, somebody will speak of it again.
                for pause_seconds in _LAST_PAUSES_SECONDS if shipment.is_drained else (0.0,):
                    beat = heartbeat_of(spool, spool.status().dropped, is_alive=False)
                    if _post(client, spool.meta.run_id, beat) is not Outcome.retry:
                        break
                    time.sleep(pause_seconds)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: what was shipped has arrived
            log.debug("no last heartbeat: %s: %s", type(error).__name__, error)
    return shipment


def heartbeat_of(
    spool: Spool, dropped: Mapping[str, int], *, rank: int | None = None, is_alive: bool = True
) -> Heartbeat:
    """What a spool has to say now."""
    status, meta = spool.status(), spool.meta
    return Heartbeat(
        writer_id=meta.writer_id,
        attempt_id=meta.attempt_id,
        host=meta.host or None,
        rank=rank,
        is_alive=is_alive,
        spool_records=status.num_records,
        spool_bytes=status.num_bytes,
        spool_oldest_seconds=status.oldest_seconds,
        dropped=dict(list(dropped.items())[:_MAX_KEYS]),
    )


def host_name() -> str:
    """This machine's name, as it may be shown."""
    return socket.gethostname()[:200].strip() or "unknown"


def _post(client: "httpx.Client", run_id: str, beat: Heartbeat) -> Outcome:
    body = beat.model_dump_json(exclude_none=True).encode()
    path = f"/api/v1/runs/{run_id}/heartbeat"
    client.timeout = _TIMEOUT_SECONDS
    verdict = send(client, Request("POST", path, body, {"Content-Type": "application/json"}))
    log.log(logging.DEBUG, "heartbeat %s: %s", verdict.outcome.name, verdict.reason)
    return verdict.outcome
