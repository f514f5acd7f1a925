"""What waits to be sent: a queue in memory with a budget of bytes.

A spool on disk can take this room: records are bytes already, and `take` gives the same ones until `ack`.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

MAX_POINTS_PER_REQUEST = 500


class DropReason(StrEnum):
    """Why the outbox did not keep a record."""

    outbox_full = "outbox_full"
    outbox_closed = "outbox_closed"


class RecordKind(StrEnum):
    """What the body of a record is."""

    start = "start"
    """`RunStart`"""
    update = "update"
    """`RunUpdate`"""
    batch = "batch"
    """`RolloutBatch`"""
    scalars = "scalars"
    """`ScalarPoint`; neighbours share a request."""


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One thing to send."""

    kind: RecordKind
    body: bytes
    """JSON, uncompressed."""
    num_items: int = 1
    """Values of a scalar record, else 1: what is counted when it is dropped."""

    @property
    def num_bytes(self) -> int:
        """What it costs to keep, the objects around a short body included."""
        return len(self.body) + 200


class Outbox:
    """Records in the order of their appending. Any thread may append; one thread takes and acknowledges.

    Over budget the oldest rollout batches go first, then the oldest scalars; the run's start and its
    changes never do, for without them the server cannot place the rest.
    """

    def __init__(self, max_bytes: int, on_drop: Callable[[Record, DropReason], None]) -> None:
        self._max_bytes = max_bytes
        self._on_drop = on_drop
        self._changed = threading.Condition()
        self._waiting: deque[Record] = deque()
        self._taken: list[Record] = []
        self._num_bytes = 0
        self._is_closed = False

    def __len__(self) -> int:
        """Records that were not acknowledged."""
        with self._changed:
            return len(self._waiting) + len(self._taken)

    def append(self, record: Record) -> None:
        """Puts a record at the end. Dropped, with `on_drop`, when it does not fit or the outbox is closed."""
        with self._changed:
            reason = DropReason.outbox_closed if self._is_closed else DropReason.outbox_full
            dropped = [record]
            if not self._is_closed:
                self._waiting.append(record)
                self._num_bytes += record.num_bytes
                dropped = self._make_room()
                self._changed.notify_all()
        for gone in dropped:
            self._on_drop(gone, reason)

    def take(self) -> list[Record]:
        """The oldest record, or the oldest scalars in a row; waits for one. Empty when closed and drained.

        What was taken stays in the outbox, and is given again, until it is acknowledged.
        """
        with self._changed:
            while not self._taken and not self._waiting and not self._is_closed:
                self._changed.wait()
            if not self._taken and self._waiting:
                self._taken.append(self._waiting.popleft())
                while self._joins_taken():
                    self._taken.append(self._waiting.popleft())
            return list(self._taken)

    def ack(self) -> None:
        """Forgets what was taken: it has arrived, or it never will."""
        with self._changed:
            self._num_bytes -= sum(record.num_bytes for record in self._taken)
            self._taken.clear()

    def close(self) -> None:
        """Lets nothing more in; `take` goes on until all is out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def drain(self) -> list[Record]:
        """All that was not acknowledged; the outbox is empty afterwards."""
        with self._changed:
            left = [*self._taken, *self._waiting]
            self._taken.clear()
            self._waiting.clear()
            self._num_bytes = 0
            return left

    def _joins_taken(self) -> bool:
        return bool(
            self._waiting
            and self._taken[0].kind is self._waiting[0].kind is RecordKind.scalars
            and len(self._taken) < MAX_POINTS_PER_REQUEST
        )

    def _make_room(self) -> list[Record]:
        """Takes out what the budget does not hold. What is being sent stays: it may have arrived."""
        gone: list[Record] = []
        for kind in (RecordKind.batch, RecordKind.scalars):
            while self._num_bytes > self._max_bytes:
                oldest = next((record for record in self._waiting if record.kind is kind), None)
                if oldest is None:
                    break
                self._waiting.remove(oldest)
                self._num_bytes -= oldest.num_bytes
                gone.append(oldest)
        return gone
