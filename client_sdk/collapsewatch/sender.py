"""The thread that ships a spool to the server, in order, for as long as it takes."""

import logging
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collapsewatch.boundary import Boundary, log
from collapsewatch.settings import Settings
from collapsewatch.spool import Record, RecordKind, Spool
from collapsewatch.spool.status import WHAT_OF_KIND
from collapsewatch.wire import THREAD_NAMES, Outcome, Verdict, connect, request_of, send

if TYPE_CHECKING:
    import httpx

_TAKE_SECONDS = 5.0
# What waits is on disk: sending each value at once would only take the interpreter from the training.
_GATHER_SECONDS = 0.5
"""Pause after scalars were shipped. Each request takes the interpreter's lock for about a millisecond, and
a trainer that logs all the time should not pay for one request per call."""
_FIRST_SECONDS = 0.1
"""Pause before the first scalars after a while of silence are shipped: what is logged in a row goes together,
and the calls behind the first one do not share the interpreter with its request."""
_MANY_RECORDS = 200
_BREATH_SECONDS = 0.05
_CLOSING_PAUSE_SECONDS = 0.5
_MAX_FAILURES = 3
"""Unforeseen errors over one record before it counts as one that cannot be sent."""
_MAX_EMPTY_TAKES = 20


@dataclass(frozen=True, slots=True)
class Shipment:
    """How the shipping of a spool ended."""

    is_drained: bool
    """Nothing is left: it has arrived, or was dropped and counted."""
    refusal: str | None = None
    """Why the server takes nothing from this sender; the rest stays in the spool."""
    is_about_run: bool = False
    """The refusal concerns this run: the same server may take others."""


class Sender:
    """Ships one spool: from a daemon thread of its own (`start`, `close`), or in the caller's (`ship`).

    Connection errors, 5xx, 408 and 429 are tried again for as long as there is time. A key that is not taken,
    a redirect, a refused start or a run that the server does not know ends the shipping and drops nothing:
    what is left stays in the spool. Any other refusal drops the record, counted and logged.
    """

    def __init__(
        self,
        spool: Spool,
        settings: Settings,
        boundary: Boundary,
        *,
        is_late: bool = False,
        on_accepted: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepares the shipping.

        Args:
            is_late: the spool is that of a dead process.
            on_accepted: called before the next request whenever the server has taken something.
        """
        self._spool = spool
        self._settings = settings
        self._boundary = boundary
        self._is_late = is_late
        self._on_accepted = on_accepted
        # Our own generator: the training's seeded one must not notice us.
        self._random = random.Random()
        self._refusal: str | None = None
        self._is_about_run = False
        self._failures = 0
        self._deadline = math.inf
        self._closing = threading.Event()
        self._urgent = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether the thread is gone although there is something to do."""
        return self._refusal is None and (self._thread is None or not self._thread.is_alive())

    def start(self) -> None:
        """Begins to ship, in a daemon thread.

        Raises:
            RuntimeError: the system gives no more threads.
        """
        thread = threading.Thread(target=self._ship_all, name=f"{THREAD_NAMES}sender", daemon=True)
        thread.start()
        self._thread = thread

    def hurry(self) -> None:
        """What was just appended shall not wait for values to gather."""
        self._urgent.set()

    def close(self, timeout_seconds: float) -> Shipment:
        """Lets nothing more into the spool and ships what is left, for a bounded time."""
        self._spool.close()
        self._closing.set()
        self._urgent.set()
        if self._thread is not None:
            self._thread.join(max(0.0, min(timeout_seconds, threading.TIMEOUT_MAX)))
        self._stopped.set()
        return self._shipment()

    def ship(self, timeout_seconds: float = math.inf) -> Shipment:
        """Ships what is in the spool, in this thread."""
        self._deadline = time.monotonic() + timeout_seconds
        self._spool.close()
        self._closing.set()
        self._ship_all()
        return self._shipment()

    def _shipment(self) -> Shipment:
        return Shipment(self._spool.is_drained, self._refusal, self._is_about_run)

    def _ship_all(self) -> None:
        try:
            client = connect(self._settings, is_late=self._is_late)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: such as an unreadable SSL_CERT_FILE
            self._stop_shipping(f"{type(error).__name__}: {error}")
            return
        with client:
            num_empty = 0
            while self._may_go_on() and num_empty < _MAX_EMPTY_TAKES:
                records = self._take()
                if records and self._ship_guarded(client, records):
                    self._spool.ack()
                num_empty = 0 if records or not self._closing.is_set() else num_empty + 1
                if self._closing.is_set() and self._spool.is_drained:
                    return
                if records and records[0].kind is RecordKind.scalars:
                    self._gather()

    def _gather(self) -> None:
        """Lets scalars gather: shorter when many wait, not at all when something waits that people watch."""
        # Cleared before the look: what is appended after it sets it again.
        self._urgent.clear()
        num_waiting = self._spool.num_values_alone()
        if not self._closing.is_set() and num_waiting < math.inf:
            self._urgent.wait(_GATHER_SECONDS if num_waiting < _MANY_RECORDS else _BREATH_SECONDS)

    def _gather_first(self) -> None:
        self._urgent.clear()
        if not self._closing.is_set() and self._spool.num_values_alone() < math.inf:
            self._urgent.wait(_FIRST_SECONDS)

    def _may_go_on(self) -> bool:
        return self._refusal is None and not self._stopped.is_set() and time.monotonic() < self._deadline

    def _take(self) -> list[Record]:
        try:
            if self._spool.wait(_TAKE_SECONDS):
                self._gather_first()
            records = self._spool.take(_TAKE_SECONDS)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: a disk may fail in any way
            self._boundary.report("take", "the spool cannot be read: %s: %s", type(error).__name__, error)
            records = []
        if not records and self._closing.is_set() and not self._spool.is_drained:
            # Closed, and yet it has something that it cannot give: a disk that may come back.
            self._stopped.wait(_CLOSING_PAUSE_SECONDS)
        return records

    def _ship_guarded(self, client: "httpx.Client", records: Sequence[Record]) -> bool:
        try:
            # After a failure one by one, so that it costs no record but its own.
            is_done = (self._ship_singly if self._failures else self._ship)(client, records)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: one record must not stop the rest
            self._failures += 1
            told = f"{type(error).__name__}: {error}"
            if self._failures < _MAX_FAILURES:
                self._boundary.report(f"failure: {told}", "will try again: %s", told)
                self._pause(self._settings.retry_seconds, None)
                return False
            # It was the first: any success before it would have begun the count anew.
            self._drop(records[:1], told)
            self._spool.ack(1)
            is_done = False
        self._failures = 0
        return is_done

    def _ship(self, client: "httpx.Client", records: Sequence[Record]) -> bool:
        """Whether the records are done with: accepted, or dropped. False when the time was up, or all is."""
        verdict = self._insist(client, records)
        if verdict is None:
            return False
        if verdict.outcome is Outcome.accepted:
            self._on_accepted()
            return True
        is_barred = verdict.outcome in (Outcome.barred, Outcome.run_barred)
        if is_barred or records[0].kind is RecordKind.start:
            self._is_about_run = verdict.outcome is not Outcome.barred
            self._stop_shipping(verdict.reason)
            return False
        if self._stopped.is_set():
            # Nobody waits for this any more: who ships the rest hears the same, and counts it.
            return False
        if len(records) > 1:
            # One bad point must not take its neighbours along.
            return self._ship_singly(client, records)
        self._drop(records, verdict.reason)
        return True

    def _ship_singly(self, client: "httpx.Client", records: Sequence[Record]) -> bool:
        """The same; each is acknowledged as soon as it is done with."""
        for record in records:
            if not self._ship(client, [record]):
                return False
            self._spool.ack(1)
            self._failures = 0
        return True

    def _insist(self, client: "httpx.Client", records: Sequence[Record]) -> Verdict | None:
        """The server's last word; None when the time was up before it came."""
        request = request_of(records, self._spool.meta)
        pause_seconds = self._settings.retry_seconds
        was_delayed = False
        while self._may_go_on():
            verdict = send(client, request)
            if verdict.outcome is not Outcome.retry:
                if was_delayed:
                    log.info("sending again", extra={"run": self._spool.meta.run_id})
                return verdict
            was_delayed = True
            self._boundary.report(
                f"delay: {verdict.reason}", "will try again: %s %s", self._settings.url, verdict.reason
            )
            self._pause(pause_seconds * self._random.uniform(0.5, 1.0), verdict.retry_after_seconds)
            pause_seconds = min(2 * pause_seconds, self._settings.max_retry_seconds)
        return None

    def _pause(self, seconds: float, retry_after_seconds: float | None) -> None:
        """Waits; a run that is being finished is in a hurry, but does what the server asked for."""
        limit = max(0.0, self._deadline - time.monotonic())
        if retry_after_seconds is not None:
            # `Retry-After: 0` is legal, and would be one request after the other for as long as it is said.
            asked_seconds = max(retry_after_seconds, min(seconds, _CLOSING_PAUSE_SECONDS))
            self._stopped.wait(min(asked_seconds, limit))
        elif self._is_late:
            self._stopped.wait(min(seconds, limit))
        elif self._closing.is_set():
            self._stopped.wait(min(seconds, limit, _CLOSING_PAUSE_SECONDS))
        else:
            self._closing.wait(min(seconds, limit))

    def _stop_shipping(self, reason: str) -> None:
        self._refusal = reason
        self._boundary.report(
            f"refused: {reason}",
            "nothing more will be sent: %s; what was logged and not sent is kept in %s",
            reason,
            self._spool.folder,
            level=logging.ERROR,
        )

    def _drop(self, records: Sequence[Record], reason: str) -> None:
        for record in records:
            what = WHAT_OF_KIND[record.kind]
            self._boundary.drop(f"{what}_rejected", record.num_items)
            self._spool.note_dropped(f"{what}_rejected", record.num_items)
            self._boundary.report(
                f"rejected: {what} {reason}",
                "%s rejected by the server: %s",
                what,
                reason,
                level=logging.ERROR,
            )
