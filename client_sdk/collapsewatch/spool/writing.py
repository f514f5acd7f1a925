"""The writing end of a spool: the budget, the full disk, and what goes first."""

import errno
import fcntl
import os
from collections import defaultdict, deque
from contextlib import suppress
from pathlib import Path

from collapsewatch.spool.folders import SpoolMeta, remake_folder
from collapsewatch.spool.lanes import CONTROL, LANE_OF_KIND, ROLLOUTS, SCALARS, Lane
from collapsewatch.spool.records import (
    HEADER_BYTES,
    MAX_BODY_BYTES,
    MAX_SEQ,
    Header,
    Record,
    RecordKind,
    encode_header,
    header_of,
)
from collapsewatch.spool.segments import Segment

_MAX_SEGMENT_BYTES = 4 * 2**20
_SLACK_BYTES = 64 * 1024
_MAX_UNWRITTEN = 1000
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Dropped = dict[tuple[RecordKind, str], int]
"""Kind and reason → number of items."""


class SpoolWriter:
    """Puts records into the lanes. Its methods are called under the spool's lock."""

    def __init__(
        self,
        folder: Path,
        meta: SpoolMeta,
        lock: int,
        *,
        max_bytes: int,
        found: dict[str, list[Segment]],
        next_seq: int,
    ) -> None:
        self.next_seq = next_seq
        """Number of the next record."""
        self.taken_bytes = 0
        """Of what was taken and not acknowledged, which cannot be pushed out."""
        self.unwritten: deque[Record] = deque()
        """Starts and updates that the disk did not take; they wait in memory until it does."""
        segment_bytes = max(1, min(_MAX_SEGMENT_BYTES, max_bytes // 16))
        self.lanes = {
            name: Lane(name, folder, segment_bytes, found.get(name, []))
            for name in (CONTROL, SCALARS, ROLLOUTS)
        }
        self._all_lanes = tuple(self.lanes.values())
        self._lane_of_kind = {kind: self.lanes[name] for kind, name in LANE_OF_KIND.items()}
        self._folder = folder
        self._meta = meta
        self._lock_descriptor: int | None = lock
        self._max_bytes = max_bytes

    @property
    def left_records(self) -> int:
        """Records that were not taken yet."""
        return len(self.unwritten) + sum(lane.left_records for lane in self.lanes.values())

    @property
    def left_bytes(self) -> int:
        """Bytes of these records."""
        in_memory = sum(len(record.body) for record in self.unwritten)
        return in_memory + self._lane_bytes()

    def append(
        self, kind: RecordKind, body: bytes, checksum: int, num_items: int, logged_at: float
    ) -> Dropped:
        """Writes a record behind the others; what was dropped for it, or instead of it."""
        dropped: Dropped = defaultdict(int)
        if len(body) > MAX_BODY_BYTES or self.next_seq >= MAX_SEQ:
            dropped[kind, "spool_full"] += num_items
            return dropped
        header = Header(kind, self.next_seq, logged_at, num_items, len(body), checksum)
        self.next_seq += 1
        if self.unwritten:
            self._flush_unwritten(dropped)
        is_control = LANE_OF_KIND[kind] == CONTROL
        # A start or update must not overtake another one.
        if not (is_control and self.unwritten) and self._write(header, body, dropped):
            return dropped
        if is_control and len(self.unwritten) < _MAX_UNWRITTEN:
            self.unwritten.append(Record(kind, body, num_items, logged_at, header.seq))
        else:
            dropped[kind, "spool_full"] += num_items
        return dropped

    def give_up_unwritten(self) -> Dropped:
        """Writes what is in memory alone, or drops it."""
        dropped: Dropped = defaultdict(int)
        self._flush_unwritten(dropped)
        while self.unwritten:
            dropped[self.unwritten.popleft().kind, "spool_full"] += 1
        return dropped

    def close_files(self) -> None:
        """Gives the descriptors of the segments back."""
        for lane in self.lanes.values():
            lane.close()

    def close_lock(self, *, is_released: bool = False) -> None:
        """Closes the lock's descriptor; released, the lock is free even if a forked child has it open too."""
        descriptor, self._lock_descriptor = self._lock_descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                if is_released:
                    fcntl.flock(descriptor, fcntl.LOCK_UN)
            with suppress(OSError):
                os.close(descriptor)

    def _write(self, header: Header, body: bytes, dropped: Dropped) -> bool:
        """Whether the record is on disk. Pushes out older ones as far as that helps."""
        limit = self._max_bytes - HEADER_BYTES - header.num_body_bytes - self.taken_bytes
        if self._lane_bytes() > limit and not self._make_room(header, limit, dropped):
            return False
        lane = self._lane_of_kind[header.kind]
        raw_header = encode_header(header)
        has_restored = False
        least_left: int | None = None
        while True:
            try:
                lane.append(header, raw_header, body)
                return True
            except FileNotFoundError:
                if has_restored or not self._restore_folder():
                    return False
                has_restored = True
            except OSError as error:
                if least_left is None:
                    # Somebody else may eat the disk as fast as we clear it: we give up what we need at most.
                    least_left = self.left_bytes - 2 * header.num_bytes - _SLACK_BYTES
                if error.errno not in _NO_ROOM or self.left_bytes < least_left:
                    return False
                if not self._drop_oldest(header.kind, dropped):
                    return False

    def _make_room(self, header: Header, limit: int, dropped: Dropped) -> bool:
        """Brings what waits down to the limit; False when the record cannot fit in."""
        is_control = LANE_OF_KIND[header.kind] == CONTROL
        fixed = self.lanes[CONTROL].left_bytes
        if header.kind is RecordKind.batch:
            fixed += self.lanes[SCALARS].left_bytes
        if not is_control and fixed > limit:
            return False
        while self._lane_bytes() > limit:
            if not self._drop_oldest(header.kind, dropped):
                break
        return True

    def _lane_bytes(self) -> int:
        control, scalars, rollouts = self._all_lanes
        return control.left_bytes + scalars.left_bytes + rollouts.left_bytes

    def _drop_oldest(self, for_kind: RecordKind, dropped: Dropped) -> bool:
        """Pushes out the oldest segment that may go for a record of this kind; False when there is none."""
        names = (ROLLOUTS,) if for_kind is RecordKind.batch else (ROLLOUTS, SCALARS)
        for lane in (self.lanes[name] for name in names):
            num_items = lane.drop_oldest()
            if num_items is not None:
                dropped[lane.kind, "spool_full"] += num_items
                return True
        return False

    def _flush_unwritten(self, dropped: Dropped) -> None:
        while self.unwritten:
            oldest = self.unwritten[0]
            if not self._write(header_of(oldest), oldest.body, dropped):
                return
            self.unwritten.popleft()

    def _restore_folder(self) -> bool:
        """Makes the folder again after somebody removed it; whether that went well."""
        try:
            lock = remake_folder(self._folder, self._meta)
        except OSError:
            return False
        self.close_lock()
        self._lock_descriptor = lock
        return True
