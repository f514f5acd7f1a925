"""Wounds in the files of a spool, and what its reader should still find there.

A record is whole as long as its bytes stand somewhere in its file, in one piece: what is beside it is no
reason to lose it.
"""

import random
import shutil
from pathlib import Path

from collapsewatch.spool import Record, Spool
from collapsewatch.spool.cursor import CURSOR_FILE, Cursor
from collapsewatch.spool.records import MAGIC, encode_header, find_record, header_of, read_body

_MAX_BYTES = 2**30
_MAX_TAKES = 10_000


def waiting_in(folder: Path) -> list[Record]:
    """Everything that an undamaged spool still has to ship."""
    done = Cursor.load(folder).done
    return [record for record in records_in(folder) if record.seq > done]


def records_in(folder: Path) -> list[Record]:
    """Everything that lies in an undamaged spool, shipped or not."""
    found = []
    for path in _segments(folder):
        content = path.read_bytes()

        def read(offset: int, count: int, content: bytes = content) -> bytes:
            return content[offset : offset + count]

        offset = 0
        while (place := find_record(read, offset, len(content))).header is not None:
            header, body = place.header, read_body(read, place)
            offset = place.offset + header.num_bytes
            if body is not None:
                found.append(Record(header.kind, body, header.num_items, header.logged_at, header.seq))
    return found


def whole(folder: Path, records: list[Record]) -> list[Record]:
    """Those of the records whose bytes can still be found."""
    contents = [path.read_bytes() for path in _segments(folder)]
    raw = {record.seq: encode_header(header_of(record)) + record.body for record in records}
    return [record for record in records if any(raw[record.seq] in content for content in contents)]


def damage(folder: Path, drawn: random.Random) -> None:
    """Wounds the spool's segments and its cursor in one to six places."""
    paths = [path for path in (*_segments(folder), folder / CURSOR_FILE) if path.is_file()]
    paths = [path for path in paths if path.stat().st_size]
    for _ in range(drawn.randint(1, 6)):
        path = drawn.choice(paths)
        path.write_bytes(_wounded(path.read_bytes(), drawn))


def read_back(folder: Path, drawn: random.Random, scratch: Path) -> str | None:
    """What is wrong with the reading of a damaged copy; nothing when all that is whole came out."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(folder, scratch)
    records, waiting = records_in(scratch), waiting_in(scratch)
    damage(scratch, drawn)
    expected = whole(scratch, waiting)
    try:
        spool = Spool.adopt(scratch, max_bytes=_MAX_BYTES, on_drop=lambda kind, count, reason: None)
        if spool is None:
            return "somebody holds its lock"
        found = _taken(spool)
    except Exception as error:  # noqa: BLE001 - whatever it is, the reader should not have raised it
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _difference(records, expected, found)


def _taken(spool: Spool) -> list[Record]:
    spool.close()
    found: list[Record] = []
    try:
        for _ in range(_MAX_TAKES):
            records = spool.take(0)
            if not records:
                break
            found += records
            spool.ack()
        if not spool.is_drained:
            raise AssertionError(f"{spool.status().num_records} records wait for ever")
    finally:
        spool.release()
    return found


def _difference(records: list[Record], expected: list[Record], found: list[Record]) -> str | None:
    bodies = {record.seq: record for record in records}
    strange = [record.seq for record in found if bodies.get(record.seq) != record]
    missing = sorted({record.seq for record in expected} - {record.seq for record in found})
    if strange:
        return f"records that nobody wrote: {strange[:5]}"
    return f"whole, and did not come out: {missing[:5]} of {len(expected)}" if missing else None


def _wounded(content: bytes, drawn: random.Random) -> bytes:
    if not content:
        return MAGIC
    start = drawn.randrange(len(content))
    end = min(len(content), start + drawn.choice((1, 4, 40, 400, 4000)))
    match drawn.randrange(7):
        case 0:
            return (
                content[:start] + bytes([content[start] ^ (1 << drawn.randrange(8))]) + content[start + 1 :]
            )
        case 1:
            return content[:start] + bytes(end - start) + content[end:]
        case 2:
            return content[:start] + drawn.randbytes(end - start) + content[end:]
        case 3:
            return content[:start] + drawn.randbytes(end - start) + content[start:]
        case 4:
            return content[:start] + content[end:]
        case 5:
            # A header, or the beginning of one, where none belongs.
            other = content.find(MAGIC, drawn.randrange(len(content)))
            stray = content[other : other + drawn.randint(1, 60)] if other >= 0 else MAGIC
            return content[:start] + stray + content[start:]
        case _:
            return content[:start] or MAGIC


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))
