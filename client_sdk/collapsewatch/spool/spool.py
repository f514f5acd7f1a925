"""The spool of one process: any thread appends, one thread takes and acknowledges."""

import math
import os
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from collapsewatch.spool.cursor import Cursor
from collapsewatch.spool.folders import SpoolMeta, make_folder, read_meta, remove_folder, take_lock
from collapsewatch.spool.lanes import SCALARS
from collapsewatch.spool.reading import Head, LaneReader
from collapsewatch.spool.records import Record, RecordKind
from collapsewatch.spool.segments import Segment, find_segments, survey
from collapsewatch.spool.status import WHAT_OF_KIND, SpoolStatus
from collapsewatch.spool.writing import Dropped, SpoolWriter

MAX_RECORDS_PER_TAKE = 2000
MAX_BYTES_PER_TAKE = 4 * 2**20
# The server refuses more than 50,000 values at once, and stores them while all its other writers wait.
MAX_ITEMS_PER_TAKE = 20_000
_RETRY_SECONDS = 1.0
_RELEASE_SECONDS = 5.0
OnDrop = Callable[[RecordKind, int, str], None]
"""Kind, number of items, reason: `spool_full`, `closed` or `damaged`. Called without a lock."""


class Spool:
    """Records on disk in the order of their appending, within a budget.

    Over budget, or when the disk is full, the oldest rollouts go first, then the oldest scalars; the run's
    start and its changes never do, for without them the server cannot place the rest. What was taken stays
    until it is acknowledged, and memory holds what was taken only, however much waits.

    The budget counts what waits. The files may be larger by what is done with in them: at most a segment
    (4 MiB, or a sixteenth of the budget) at either end of each lane.
    """

    def __init__(
        self,
        folder: Path,
        meta: SpoolMeta,
        lock: int,
        *,
        max_bytes: int,
        on_drop: OnDrop,
        cursor: Cursor,
        found: dict[str, list[Segment]],
        next_seq: int,
    ) -> None:
        self.folder = folder
        self.meta = meta
        self._on_drop = on_drop
        self._cursor = cursor
        # Not the cursor's own number, which grows: a stray header in one lane may let others overtake it.
        self._done_before = cursor.done
        self._writer = SpoolWriter(folder, meta, lock, max_bytes=max_bytes, found=found, next_seq=next_seq)
        self._taken: list[Record] = []
        self._taken_from: list[Segment] = []
        self._acknowledged: Counter[RecordKind] = Counter()
        self._is_closed = False
        self._is_released = False
        self._make_locks()

    @classmethod
    def create(cls, root: Path, meta: SpoolMeta, *, max_bytes: int, on_drop: OnDrop) -> "Spool":
        """A new spool below the root, locked for as long as this process lives.

        Raises:
            OSError: its folder cannot be made.
        """
        folder, lock = make_folder(root, meta)
        cursor = Cursor(folder)
        return cls(
            folder, meta, lock, max_bytes=max_bytes, on_drop=on_drop, cursor=cursor, found={}, next_seq=1
        )

    @classmethod
    def adopt(cls, folder: Path, *, max_bytes: int, on_drop: OnDrop) -> "Spool | None":
        """The spool of a process that is gone; None while it lives, or when the folder is gone.

        Raises:
            SpoolError: nobody can tell whose spool it is.
            OSError: the folder cannot be locked or read.
        """
        try:
            lock = take_lock(folder)
        except FileNotFoundError:
            return None
        if lock is None:
            return None
        try:
            meta = read_meta(folder)
            cursor = Cursor.load(folder)
            found = find_segments(folder)
            highest = [survey(segment, cursor.done) for segments in found.values() for segment in segments]
            next_seq = max([cursor.done, *highest]) + 1
        except BaseException:
            os.close(lock)
            raise
        spool = cls(
            folder,
            meta,
            lock,
            max_bytes=max_bytes,
            on_drop=on_drop,
            cursor=cursor,
            found=found,
            next_seq=next_seq,
        )
        spool._look_ahead()
        return spool

    @property
    def is_drained(self) -> bool:
        """Whether nothing waits and nothing taken is unacknowledged."""
        with self._changed:
            return not self._taken and self._writer.left_records == 0

    @property
    def acknowledged(self) -> dict[RecordKind, int]:
        """Items that were taken and acknowledged since this process has the spool, by kind."""
        with self._changed:
            return dict(self._acknowledged)

    def num_values_alone(self) -> float:
        """Records of values that wait; infinity when something else waits with them."""
        with self._changed:
            lanes = self._writer.lanes
            num_values = lanes[SCALARS].left_records
            return num_values if num_values == self._writer.left_records else math.inf

    def status(self) -> SpoolStatus:
        """What waits, and what was dropped."""
        with self._changed:
            writer = self._writer
            num_records = len(self._taken) + writer.left_records
            num_bytes = writer.taken_bytes + writer.left_bytes
            times = [record.logged_at for record in (*self._taken[:1], *list(writer.unwritten)[:1])]
            times += [lane.front_logged_at for lane in writer.lanes.values() if lane.left_records > 0]
        oldest_seconds = max(0.0, time.time() - min(times)) if times else 0.0
        return SpoolStatus(num_records, num_bytes, oldest_seconds, self._cursor.dropped)

    def append(self, kind: RecordKind, body: bytes, *, num_items: int = 1, logged_at: float = 0.0) -> None:
        """Writes a record, which survives this process from here on; dropped with `on_drop` if it cannot be.

        That somebody removed the files is noticed within `LOOK_SECONDS`; what was written in between this
        process alone can still read. Not to be called from a signal's handler in the middle of another call.

        Args:
            num_items: values of a scalar record, else 1.
            logged_at: seconds since 1970; now when it is 0.
        """
        checksum = zlib.crc32(body)
        with self._lock:
            if self._is_closed:
                dropped: Dropped = {(kind, "closed"): num_items}
            else:
                dropped = self._writer.append(kind, body, checksum, num_items, logged_at or time.time())
                if self._num_waiting:
                    self._changed.notify_all()
        if dropped:
            self._tell(dropped)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether there was nothing to take, and something came within the time."""
        with self._changed:
            if self._taken or self._writer.left_records or self._is_closed:
                return False
            self._num_waiting += 1
            try:
                return self._changed.wait(timeout_seconds)
            finally:
                self._num_waiting -= 1

    def take(self, timeout_seconds: float | None) -> list[Record]:
        """The oldest record, or the oldest scalars in a row; waits for one.

        The same again until it is acknowledged. Empty when the time is up, or when the spool is closed and
        nothing more is to be had from it.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._taking:
            while not self._taken and not self._is_released:
                with self._changed:
                    limit = self._writer.next_seq
                self._take_below(limit)
                if not self._taken and not self._wait_for_news(limit, deadline):
                    break
            return list(self._taken)

    def ack(self, count: int | None = None) -> None:
        """Forgets what was taken, or the first so many of it: it has arrived, or it never will."""
        with self._taking:
            if not self._taken or self._is_released:
                return
            done = self._taken[:count]
            self._cursor.advance(done[-1].seq)
            with self._changed:
                # What the disk never took was taken from no segment, and alone.
                for segment in self._taken_from[:count]:
                    segment.num_taken -= 1
                for record in done:
                    self._acknowledged[record.kind] += record.num_items
                    self._writer.taken_bytes -= min(record.num_bytes, self._writer.taken_bytes)
                self._taken, self._taken_from = self._taken[len(done) :], self._taken_from[len(done) :]
            # Only what was read to its end is removed: damage there would go uncounted.
            self._look_ahead()
            with self._changed:
                for lane in self._writer.lanes.values():
                    lane.remove_done()

    def note_dropped(self, key: str, count: int) -> None:
        """Counts, beyond the life of this process, what the caller has dropped."""
        with self._taking:
            # A spool that was given back is somebody else's, who counts it again.
            if not self._is_released:
                self._cursor.drop(key, count)

    def give_up_unwritten(self) -> None:
        """Tries once more to write what is in memory alone, and drops what the disk still does not take."""
        with self._changed:
            dropped = self._writer.give_up_unwritten()
        self._tell(dropped)

    def close(self) -> None:
        """Lets nothing more in; `take` goes on until all is out."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def release(self) -> None:
        """Gives the lock back. Removes the folder when all is done with, else another process may ship it."""
        with self._changed:
            self._is_closed = self._is_released = True
            self._changed.notify_all()
        # Bounded: a disk that hangs may hold the taker for ever.
        has_taker_left = self._taking.acquire(timeout=_RELEASE_SECONDS)
        try:
            is_drained = self.is_drained
            if has_taker_left:
                self._close_files()
            if is_drained:
                remove_folder(self.folder)
            self._writer.close_lock(is_released=True)
        finally:
            if has_taker_left:
                self._taking.release()

    def leave_to_parent(self) -> None:
        """In a forked child: gives the descriptors back and touches nothing else.

        The lock stays the parent's: it holds until every process has closed its descriptor.
        """
        self._is_closed = self._is_released = True
        self._close_files()
        self._writer.close_lock()
        self._taken, self._taken_from = [], []
        # A fork may copy a lock that another thread holds.
        self._make_locks()

    def _make_locks(self) -> None:
        # Reentrant: a signal's handler may read the counts in the middle of a call.
        self._lock = threading.RLock()
        """Guards the lanes and their counts; held for a write at most."""
        self._changed = threading.Condition(self._lock)
        """The same lock."""
        self._num_waiting = 0
        """Threads that wait for something new."""
        self._taking = threading.Lock()
        """Guards the readers and what was taken; never asked for under the other."""
        self._readers = [LaneReader(lane, self._changed) for lane in self._writer.lanes.values()]

    def _close_files(self) -> None:
        for reader in self._readers:
            reader.close()
        self._writer.close_files()

    def _tell(self, dropped: Dropped) -> None:
        for (kind, reason), count in dropped.items():
            if reason != "closed":
                self._cursor.drop(f"{WHAT_OF_KIND[kind]}_{reason}", count)
            self._on_drop(kind, count, reason)

    def _take_below(self, limit: int) -> None:
        """Takes the oldest record with a number below the limit, and the scalars in a row with it.

        The limit makes lanes that are read one after the other one picture: what is appended meanwhile
        would else overtake a record of a lane that was seen as empty.
        """
        num_items = sum(record.num_items for record in self._taken)
        while len(self._taken) < MAX_RECORDS_PER_TAKE:
            with self._changed:
                unwritten = self._writer.unwritten[0] if self._writer.unwritten else None
            reader, head = min(self._look_ahead(), key=lambda pair: pair[1].header.seq, default=(None, None))
            if unwritten is not None and (head is None or unwritten.seq < head.header.seq):
                if self._taken or self._take_unwritten(unwritten):
                    return
            elif (
                reader is None
                or head is None
                or head.header.seq >= limit
                or not self._may_join(head, num_items)
            ):
                return
            else:
                self._take_head(reader, head)
                num_items += head.header.num_items
                if head.header.kind is RecordKind.scalars and self._taken:
                    num_items += self._take_row(reader, limit, num_items)

    def _take_head(self, reader: LaneReader, head: Head) -> None:
        header = head.header
        body = reader.take()
        if body is not None:
            record = Record(header.kind, body, header.num_items, header.logged_at, header.seq)
            with self._changed:
                self._taken.append(record)
                self._taken_from.append(head.segment)
                self._writer.taken_bytes += header.num_bytes

    def _take_row(self, reader: LaneReader, limit: int, num_items: int) -> int:
        """Takes the scalars that follow on the last one, beside `num_items`; the number of their items."""
        segment, records = reader.take_row(
            self._taken[-1],
            below=limit,
            max_records=MAX_RECORDS_PER_TAKE - len(self._taken),
            max_bytes=MAX_BYTES_PER_TAKE - self._writer.taken_bytes,
            max_items=MAX_ITEMS_PER_TAKE - num_items,
        )
        if segment is None:
            return 0
        with self._changed:
            self._taken += records
            self._taken_from += [segment] * len(records)
            self._writer.taken_bytes += sum(record.num_bytes for record in records)
        return sum(record.num_items for record in records)

    def _take_unwritten(self, record: Record) -> bool:
        """Takes a record from memory; False when it was written to its lane meanwhile."""
        with self._changed:
            if not self._writer.unwritten or self._writer.unwritten[0] is not record:
                return False
            self._taken.append(self._writer.unwritten.popleft())
            return True

    def _may_join(self, head: Head, num_items: int) -> bool:
        """Whether a record goes into the same request as those that were taken, with `num_items` in all."""
        return not self._taken or (
            self._taken[0].kind is head.header.kind is RecordKind.scalars
            and self._writer.taken_bytes + head.header.num_bytes <= MAX_BYTES_PER_TAKE
            and num_items + head.header.num_items <= MAX_ITEMS_PER_TAKE
        )

    def _look_ahead(self) -> list[tuple[LaneReader, Head]]:
        """The oldest record of each lane that has one. Tells of the damage that lay before them."""
        found = [(reader, reader.head(self._done_before)) for reader in self._readers]
        damaged = {(reader.lane.kind, "damaged"): reader.pop_damaged() for reader in self._readers}
        self._tell({what: count for what, count in damaged.items() if count})
        heads = [(reader, head) for reader, head in found if head is not None]
        with self._changed:
            # Damage may have hidden the highest number when the spool was adopted.
            highest = max((head.header.seq for _, head in heads), default=0)
            self._writer.next_seq = max(self._writer.next_seq, highest + 1)
        return heads

    def _wait_for_news(self, limit: int, deadline: float | None) -> bool:
        """Waits until something new may be taken; False when nothing came, or nothing will."""
        with self._changed:
            if self._writer.next_seq > limit:
                return True
            if self._is_closed:
                return False
            # What waits and could not be read (too many open files) is tried again.
            seconds = _RETRY_SECONDS if self._writer.left_records else None
            if deadline is not None:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                seconds = remaining if seconds is None else min(seconds, remaining)
            self._num_waiting += 1
            try:
                self._changed.wait(seconds)
            finally:
                self._num_waiting -= 1
            return True
