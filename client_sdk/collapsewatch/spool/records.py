"""The record format: bytes in, bytes out, no files.

A record is a header of fixed size and a body. The magic at its start holds bytes that UTF-8 never does, so a
JSON body cannot contain it, and a reader that lost its way finds the next record by looking for it.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

MAGIC = b"\xffCW\xfe"
_FIELDS = struct.Struct("<4sB3xQdIII")
"""Magic, kind, sequence number, time, items, bytes of the body, CRC-32 of the body."""
_CHECKSUM = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CHECKSUM.size
MAX_BODY_BYTES = 256 * 2**20
"""No body is longer, so a reader never needs more memory than this."""
MAX_SEQ = 2**62
"""Every sequence number is lower."""
_MAX_SEARCH_BYTES = 64 * 1024

ReadAt = Callable[[int, int], bytes]
"""Offset, count → the bytes there; fewer at the end."""


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


_CODES = {RecordKind.start: 1, RecordKind.update: 2, RecordKind.batch: 3, RecordKind.scalars: 4}
_KINDS = {code: kind for kind, code in _CODES.items()}


class Record(NamedTuple):
    """One thing to send."""

    kind: RecordKind
    body: bytes
    """JSON, uncompressed."""
    num_items: int
    """Values of a scalar record, else 1: what is counted when it is dropped."""
    logged_at: float
    """Seconds since 1970."""
    seq: int
    """Its number in the writer's order, from 1 on."""

    @property
    def num_bytes(self) -> int:
        """Length of the whole record on disk."""
        return HEADER_BYTES + len(self.body)


class Header(NamedTuple):
    """What a record says about its body."""

    kind: RecordKind
    seq: int
    logged_at: float
    num_items: int
    num_body_bytes: int
    body_checksum: int

    @property
    def num_bytes(self) -> int:
        """Length of the whole record."""
        return HEADER_BYTES + self.num_body_bytes


@dataclass(frozen=True, slots=True)
class Found:
    """Where the search for a record ended."""

    header: Header | None
    """None: no record begins in the range."""
    offset: int
    """Start of the record; the end of the range when there is none."""
    is_after_damage: bool = False
    """Something lay before it that is no record, and not just the torn end of the range."""


def encode_header(header: Header) -> bytes:
    """The bytes that go before the body.

    Raises:
        ValueError: the body is too long, or a number does not fit its field.
    """
    if header.num_body_bytes > MAX_BODY_BYTES:
        raise ValueError(f"a record holds at most {MAX_BODY_BYTES} bytes, got {header.num_body_bytes}")
    if header.seq >= MAX_SEQ:
        raise ValueError(f"a sequence number lies below {MAX_SEQ}, got {header.seq}")
    try:
        raw = _FIELDS.pack(
            MAGIC,
            _CODES[header.kind],
            header.seq,
            header.logged_at,
            header.num_items,
            header.num_body_bytes,
            header.body_checksum,
        )
    except struct.error as error:
        raise ValueError(f"a number does not fit the record: {error}") from error
    return raw + _CHECKSUM.pack(zlib.crc32(raw))


def header_of(record: Record) -> Header:
    """The header that goes before the record's body."""
    body = record.body
    return Header(record.kind, record.seq, record.logged_at, record.num_items, len(body), zlib.crc32(body))


def decode_header(raw: bytes) -> Header | None:
    """The header in these bytes; None when they are none, whole and undamaged."""
    if len(raw) != HEADER_BYTES or not raw.startswith(MAGIC):
        return None
    if zlib.crc32(raw[: _FIELDS.size]) != _CHECKSUM.unpack_from(raw, _FIELDS.size)[0]:
        return None
    _, code, seq, logged_at, num_items, num_body_bytes, body_checksum = _FIELDS.unpack_from(raw)
    kind = _KINDS.get(code)
    if kind is None or seq >= MAX_SEQ or num_body_bytes > MAX_BODY_BYTES:
        return None
    return Header(kind, seq, logged_at, num_items, num_body_bytes, body_checksum)


def find_record(read: ReadAt, start: int, end: int) -> Found:
    """The first record whose header is sound and whose body ends within the range."""
    is_after_damage = False
    offset = start
    while offset < end:
        raw = read(offset, min(HEADER_BYTES, end - offset))
        header = decode_header(raw)
        if header is not None and offset + header.num_bytes <= end:
            return Found(header, offset, is_after_damage)
        following = _find_magic(read, offset + 1, end)
        is_torn = following is None and (header is not None or _is_cut_header(raw))
        is_after_damage = is_after_damage or not is_torn
        offset = end if following is None else following
    return Found(None, end, is_after_damage)


def records_in_row(chunk: bytes, seq: int) -> list[Record]:
    """The sound records at the start of the chunk that are numbered without a gap from `seq` on."""
    records: list[Record] = []
    start = 0
    while True:
        header = decode_header(chunk[start : start + HEADER_BYTES])
        if header is None or header.seq != seq:
            return records
        kind, _, logged_at, num_items, num_body_bytes, body_checksum = header
        start += HEADER_BYTES
        body = chunk[start : start + num_body_bytes]
        if len(body) != num_body_bytes or zlib.crc32(body) != body_checksum:
            return records
        records.append(Record(kind, body, num_items, logged_at, seq))
        start += num_body_bytes
        seq += 1


def read_body(read: ReadAt, found: Found) -> bytes | None:
    """The body of a record that was found; None when it is not what was written."""
    assert found.header is not None
    body = read(found.offset + HEADER_BYTES, found.header.num_body_bytes)
    if len(body) != found.header.num_body_bytes or zlib.crc32(body) != found.header.body_checksum:
        return None
    return body


def _is_cut_header(raw: bytes) -> bool:
    """Whether these are the first bytes of a header that was not written to its end."""
    return len(raw) < HEADER_BYTES and raw[: len(MAGIC)] == MAGIC[: len(raw)]


def _find_magic(read: ReadAt, start: int, end: int) -> int | None:
    """Offset of the next whole magic in the range."""
    offset = start
    num_bytes = 2 * HEADER_BYTES
    while offset < end:
        chunk = read(offset, min(num_bytes, end - offset))
        if not chunk:
            return None
        position = chunk.find(MAGIC)
        if position >= 0:
            return offset + position
        # A magic may lie across two chunks.
        offset += max(1, len(chunk) - len(MAGIC) + 1)
        # From small to large: in a file of nothing but magics every search ends at once.
        num_bytes = min(4 * num_bytes, _MAX_SEARCH_BYTES)
    return None
