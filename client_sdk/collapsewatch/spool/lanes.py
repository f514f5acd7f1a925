"""A lane: the segments of one sort of record, in the order of their writing."""

import os
import time
from collections import deque
from pathlib import Path

from collapsewatch.spool.records import HEADER_BYTES, Header, Record, RecordKind
from collapsewatch.spool.segments import Segment, segment_path, write_record

CONTROL, SCALARS, ROLLOUTS = "control", "scalars", "rollouts"

LANE_OF_KIND = {
    RecordKind.start: CONTROL,
    RecordKind.update: CONTROL,
    RecordKind.scalars: SCALARS,
    RecordKind.batch: ROLLOUTS,
}
KIND_OF_LANE = {CONTROL: RecordKind.update, SCALARS: RecordKind.scalars, ROLLOUTS: RecordKind.batch}
"""As what a damaged record of a lane is counted."""

LOOK_SECONDS = 0.2
"""How late it may be noticed that somebody removed the files; until then they exist for this process only."""


class Lane:
    """The writing end, and the count of what waits. Its methods are called under the spool's lock."""

    def __init__(self, name: str, folder: Path, segment_bytes: int, found: list[Segment]) -> None:
        self.name = name
        self.kind = KIND_OF_LANE[name]
        self.left_records = sum(segment.left_records for segment in found)
        """Records that were not taken yet."""
        self.left_bytes = sum(segment.left_bytes for segment in found)
        self.front_logged_at = 0.0
        """When the oldest of them was logged, as far as anybody has looked."""
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments = deque(found)
        self._next_number = found[-1].number + 1 if found else 1
        self._active: Segment | None = None
        self._next_look = 0.0

    def append(self, header: Header, raw_header: bytes, body: bytes) -> None:
        """Writes a record behind the others.

        Raises:
            OSError: it cannot be written; the lane is as it was.
        """
        active = self._active
        if (
            active is None
            or active.descriptor is None
            or active.size >= self._segment_bytes
            or time.monotonic() >= self._next_look
        ):
            active = self._active_segment()
            assert active.descriptor is not None
        start = active.size
        try:
            write_record(active.descriptor, start, raw_header, body)
            active.size += HEADER_BYTES + header.num_body_bytes
        except BaseException:
            # Also when Ctrl-C came in between: a part of a record must not lie between whole ones.
            active.size = start
            self._take_back(active)
            raise
        if self.left_records == 0:
            self.front_logged_at = header.logged_at
        self._add(active, header)

    def meet(self, segment: Segment, header: Header) -> None:
        """The reader has found the oldest record."""
        self.front_logged_at = header.logged_at
        if segment.left_records <= 0:
            # Nobody had counted it: it lay in what a damaged record says is its body.
            self._add(segment, header)

    def take(self, segment: Segment, header: Header) -> None:
        """Counts a record of the segment as taken."""
        segment.num_taken += 1
        self._add(segment, header, -1)

    def take_row(self, segment: Segment, records: list[Record]) -> None:
        """Counts records of the segment, which is not gone, as taken."""
        num_bytes = sum(record.num_bytes for record in records)
        segment.num_taken += len(records)
        segment.left_records -= len(records)
        segment.left_items -= sum(record.num_items for record in records)
        segment.left_bytes -= num_bytes
        self.left_records -= len(records)
        self.left_bytes -= num_bytes

    def come_to(self, end: int, segment: Segment, *, is_complete: bool) -> None:
        """The reader has read the segment up to here; complete, when no more will come into it."""
        segment.is_read = is_complete
        if segment.size == end:
            # What should have been there and was not, is no longer waited for.
            self._forget_left(segment)

    def drop_oldest(self) -> int | None:
        """Takes out the oldest segment with something in it: the number of its items; None without one."""
        oldest = next((segment for segment in self._segments if segment.left_records > 0), None)
        if oldest is None:
            return None
        num_items = oldest.left_items
        self.remove(oldest)
        return num_items

    def remove(self, segment: Segment) -> None:
        """Takes a segment out, be it the one that is written."""
        if segment is self._active:
            self._active = None
        self._forget_left(segment)
        if segment in self._segments:
            self._segments.remove(segment)
        segment.remove()

    def remove_done(self) -> None:
        """Takes out the oldest segments as far as they were read and acknowledged."""
        while self._segments and self._segments[0].is_read and self._segments[0].num_taken == 0:
            self.remove(self._segments[0])

    def is_written(self, segment: Segment) -> bool:
        """Whether more may come into this segment."""
        return segment is self._active

    def after(self, segment: Segment | None) -> Segment | None:
        """The segment that is read after this one."""
        number = 0 if segment is None else segment.number
        return next((later for later in self._segments if later.number > number), None)

    def close(self) -> None:
        """Gives all descriptors back."""
        self._active = None
        for segment in self._segments:
            segment.close()

    def _active_segment(self) -> Segment:
        active = self._active
        if active is not None and active.descriptor is not None:
            if self._is_removed(active.descriptor):
                # Its descriptor stays, so that what it holds can be shipped.
                active = None
            elif active.size >= self._segment_bytes:
                active.close()
                active = None
        if active is None:
            self._active = None
            number = self._next_number
            self._next_number += 1
            path = segment_path(self._folder, self.name, number)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            active = self._active = Segment(path, number, descriptor=descriptor)
            self._segments.append(active)
        return active

    def _take_back(self, active: Segment) -> None:
        """Cuts a segment off behind its last whole record; else nothing more is put behind it."""
        try:
            assert active.descriptor is not None
            os.ftruncate(active.descriptor, active.size)
        except OSError:
            active.close()
            self._active = None

    def _is_removed(self, descriptor: int) -> bool:
        """Whether somebody removed the file that is written; asked now and then, for each call costs."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + LOOK_SECONDS
        return os.fstat(descriptor).st_nlink == 0

    def _add(self, segment: Segment, header: Header, count: int = 1) -> None:
        if not segment.is_gone:
            num_bytes = count * (HEADER_BYTES + header.num_body_bytes)
            segment.left_records += count
            segment.left_items += count * header.num_items
            segment.left_bytes += num_bytes
            self.left_records += count
            self.left_bytes += num_bytes

    def _forget_left(self, segment: Segment) -> None:
        self.left_records -= segment.left_records
        self.left_bytes -= segment.left_bytes
        segment.left_records = segment.left_items = segment.left_bytes = 0
