"""The files of a lane: records one after the other, up to a size at which the next file begins."""

import errno
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from collapsewatch.spool.records import Header, find_record

_BLOCK_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024
"""Of a record that is written: for more at once the kernel looks for large stretches of memory, which takes
three times as long as the copying."""
_NAME = re.compile(r"(control|scalars|rollouts)-(\d{8,18})\.seg")


@dataclass(slots=True, eq=False)
class Segment:
    """One file, and what of it was not taken out yet."""

    path: Path
    number: int
    size: int = 0
    """Bytes that hold whole records; what lies behind them is the rest of a write that failed."""
    left_records: int = 0
    left_items: int = 0
    left_bytes: int = 0
    num_taken: int = 0
    """Records that were taken and not acknowledged."""
    is_read: bool = False
    """The reader has come to its end, and no more will be written."""
    is_gone: bool = False
    """Pushed out by the budget, or removed."""
    descriptor: int | None = None
    """Open while it is written, and after somebody removed the file under us: it can still be read."""

    def add(self, header: Header, count: int = 1) -> None:
        """Counts a record that waits; with -1, one that does not any more."""
        self.left_records += count
        self.left_items += count * header.num_items
        self.left_bytes += count * header.num_bytes

    def open_to_read(self) -> int:
        """A descriptor for the reader alone.

        Raises:
            OSError: the file is gone or not ours to read.
        """
        return os.open(self.path, os.O_RDONLY) if self.descriptor is None else os.dup(self.descriptor)

    def close(self) -> None:
        """Gives the writer's descriptor back."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)

    def remove(self) -> None:
        """Takes the file away; one that cannot be removed is read again by the next process, harmlessly."""
        self.is_gone = True
        self.close()
        with suppress(OSError):
            self.path.unlink()


def segment_path(folder: Path, lane: str, number: int) -> Path:
    """Where a lane's segment of this number lies."""
    return folder / f"{lane}-{number:08d}.seg"


def find_segments(folder: Path) -> dict[str, list[Segment]]:
    """Lane → its segments in order, not yet surveyed. Files with other names are left alone.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[str, list[Segment]] = {}
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is not None and path.is_file() and not path.is_symlink():
            found.setdefault(match[1], []).append(Segment(path, int(match[2])))
    for segments in found.values():
        segments.sort(key=lambda segment: segment.number)
    return found


def survey(segment: Segment, done: int) -> int:
    """The highest sequence number in a file that an earlier process wrote; what waits in it is counted.

    Bodies are not read: what is wrong with them shows when they are.

    Raises:
        OSError: the file cannot be read.
    """
    highest = 0
    descriptor = segment.open_to_read()
    read = Reader(descriptor)
    try:
        read.end = segment.size = os.fstat(descriptor).st_size
        offset = 0
        while True:
            found = find_record(read, offset, segment.size)
            if found.header is None:
                return highest
            highest = max(highest, found.header.seq)
            if found.header.seq > done:
                segment.add(found.header)
            offset = found.offset + found.header.num_bytes
    finally:
        read.close()


class Reader:
    """Reads a segment at any offset up to its `end`; fewer bytes than asked for there.

    Short reads are served from a block that was read ahead: each system call gives the interpreter's lock
    away, and a busy trainer gives it back 5 ms later. A disk that fails gives nothing: for a reader that is
    damage like any other.
    """

    def __init__(self, descriptor: int, end: int = 0) -> None:
        self.descriptor = descriptor
        self.end = end
        """What lies behind it may still change."""
        self._block = b""
        self._block_offset = 0

    def __call__(self, offset: int, count: int) -> bytes:
        count = min(count, self.end - offset)
        start = offset - self._block_offset
        if 0 <= start <= len(self._block) - count:
            return self._block[start : start + count]
        if count >= _BLOCK_BYTES:
            return self._pread(offset, count)
        self._block = self._pread(offset, min(_BLOCK_BYTES, self.end - offset))
        self._block_offset = offset
        return self._block[:count]

    def close(self) -> None:
        """Gives the descriptor back."""
        with suppress(OSError):
            os.close(self.descriptor)

    def _pread(self, offset: int, count: int) -> bytes:
        try:
            chunk = os.pread(self.descriptor, count, offset)
            while len(chunk) < count:
                more = os.pread(self.descriptor, count - len(chunk), offset + len(chunk))
                if not more:
                    break
                chunk += more
        except OSError:
            return b""
        return chunk


def write_record(descriptor: int, offset: int, header: bytes, body: bytes) -> None:
    """Puts a record at the offset, piece by piece; whole or not at all is the caller's concern.

    Raises:
        OSError: it does not fit on the disk, or cannot be written.
    """
    num_bytes = len(header) + len(body)
    # Of two small parts one call makes one more cheaply than two parts are handed over.
    if num_bytes <= _PIECE_BYTES and os.pwrite(descriptor, header + body, offset) == num_bytes:
        return
    rest = memoryview(body)
    num_written = os.pwritev(descriptor, (header, rest[:_PIECE_BYTES]), offset)
    if num_written < len(header):
        raise OSError(errno.ENOSPC, "the record was written in part")
    start = num_written - len(header)
    while start < len(body):
        num_written = os.pwrite(descriptor, rest[start : start + _PIECE_BYTES], offset + len(header) + start)
        if num_written == 0:
            raise OSError(errno.ENOSPC, "the record was written in part")
        start += num_written
