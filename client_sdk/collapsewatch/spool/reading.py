"""The reading end of a lane: one record after the other, past whatever damage there is."""

from dataclasses import dataclass
from threading import Condition

from collapsewatch.spool.lanes import Lane
from collapsewatch.spool.records import Found, Header, Record, find_record, read_body, records_in_row
from collapsewatch.spool.segments import Reader, Segment

_ROW_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The oldest record of a lane that was not taken; its body was not read yet."""

    segment: Segment
    found: Found
    header: Header


class LaneReader:
    """Reads a lane, for one thread.

    Its descriptors are its own, so that the budget may remove what it is reading.
    """

    def __init__(self, lane: Lane, lock: Condition) -> None:
        self.lane = lane
        self._lock = lock
        self._segment: Segment | None = None
        self._read: Reader | None = None
        self._offset = 0
        self._head: Head | None = None
        self._has_passed_damage = False
        self._num_damaged = 0

    def head(self, done: int) -> Head | None:
        """The oldest record after number `done` whose header is sound; None when all was read."""
        if self._head is not None and self._head.segment.is_gone:
            self._head = None
        while self._head is None and self._has_segment():
            segment = self._segment
            assert segment is not None
            assert self._read is not None
            with self._lock:
                end, is_complete = segment.size, not self.lane.is_written(segment)
            self._read.end = end
            found = find_record(self._read, self._offset, end)
            self._has_passed_damage |= found.is_after_damage
            if found.header is None:
                self._offset = found.offset
                self._count_damage()
                with self._lock:
                    self.lane.come_to(end, segment, is_complete=is_complete)
                if not is_complete:
                    return None
            else:
                self._offset = found.offset + found.header.num_bytes
                self._meet(Head(segment, found, found.header), done)
        return self._head

    def take(self) -> bytes | None:
        """The body of the head, which is taken; None when it is damaged or was pushed out meanwhile."""
        head, self._head = self._head, None
        assert head is not None
        assert self._read is not None
        with self._lock:
            if head.segment.is_gone:
                return None
            # Before the body is read: what is taken, the budget no longer counts as dropped.
            self.lane.take(head.segment, head.header)
        body = read_body(self._read, head.found)
        if body is None:
            with self._lock:
                head.segment.num_taken -= 1
            self._num_damaged += 1
            self._offset = self._after_damaged(head)
        return body

    def take_row(
        self, after: Record, *, below: int, max_records: int, max_bytes: int, max_items: int
    ) -> tuple[Segment | None, list[Record]]:
        """The records of the same kind behind the one that was taken last, taken as well, and where they lie.

        Only those that follow on it in number, so that no other lane holds one in between. Looking at all
        lanes for each record takes the interpreter from the training for three times as long. What is
        damaged is left for `head`.

        Args:
            below: only records with a lower number.
            max_records, max_bytes, max_items: as many as this.
        """
        segment = self._segment
        if self._head is not None or segment is None or self._read is None:
            return None, []
        with self._lock:
            self._read.end = segment.size
        records: list[Record] = []
        for record in records_in_row(self._read(self._offset, _ROW_BYTES), after.seq + 1):
            max_bytes -= record.num_bytes
            max_items -= record.num_items
            is_room = len(records) < max_records and max_bytes >= 0 and max_items >= 0
            if not is_room or record.seq >= below or record.kind is not after.kind:
                break
            records.append(record)
        with self._lock:
            if segment.is_gone:
                return None, []
            # More than were counted lie in what a damaged record says is its body.
            records = records[: max(0, segment.left_records)]
            self.lane.take_row(segment, records)
        self._offset += sum(record.num_bytes for record in records)
        return segment, records

    def pop_damaged(self) -> int:
        """Damaged places that were passed since the last call."""
        num_damaged, self._num_damaged = self._num_damaged, 0
        return num_damaged

    def close(self) -> None:
        """Gives the descriptor back."""
        self._head = self._segment = None
        self._close_reader()

    def _meet(self, head: Head, done: int) -> None:
        if head.header.seq <= done:
            # Damage before it was counted by the process that came past it.
            self._has_passed_damage = False
            assert self._read is not None
            if read_body(self._read, head.found) is None:
                # A stray header: what it says is its body may hold records that nobody has.
                self._offset = self._after_damaged(head)
            return
        self._count_damage()
        self._head = head
        with self._lock:
            self.lane.meet(head.segment, head.header)

    def _after_damaged(self, head: Head) -> int:
        """Where to go on behind a damaged body: at its end when a record begins there, else inside it."""
        assert self._read is not None
        inside, behind = head.found.offset + 1, head.found.offset + head.header.num_bytes
        found = find_record(self._read, inside, self._read.end)
        return min(found.offset, behind)

    def _count_damage(self) -> None:
        self._num_damaged += self._has_passed_damage
        self._has_passed_damage = False

    def _has_segment(self) -> bool:
        """Goes on to the next segment when this one is through; False when there is none that can be read."""
        while self._segment is None or self._segment.is_gone or self._segment.is_read:
            with self._lock:
                following = self.lane.after(self._segment)
                if following is None:
                    return False
                try:
                    read = Reader(following.open_to_read())
                except FileNotFoundError:
                    self._num_damaged += max(1, following.left_records)
                    self.lane.remove(following)
                    continue
                except OSError:
                    # Such as too many open files: it may go better the next time.
                    return False
            self._close_reader()
            self._segment, self._read, self._offset = following, read, 0
        return True

    def _close_reader(self) -> None:
        read, self._read = self._read, None
        if read is not None:
            read.close()
