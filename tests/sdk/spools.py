"""What the tests of the spool share."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from collapsewatch.spool import Record, RecordKind, Spool, SpoolMeta

Dropped = list[tuple[RecordKind, int, str]]
"""What `on_drop` was told."""

MAX_BYTES = 2**30
KINDS = {"r": RecordKind.start, "u": RecordKind.update, "b": RecordKind.batch, "s": RecordKind.scalars}
"""By the first letter of a record's name."""


def meta_of(writer_id: str = "w", *, run_id: str = "r", url: str = "http://127.0.0.1:1") -> SpoolMeta:
    return SpoolMeta(
        url=url,
        run_id=run_id,
        project="project",
        name="name",
        writer_id=writer_id,
        attempt_id="a",
        host="host",
        pid=os.getpid(),
        created_at=1.7e9,
    )


def new_spool(root: Path, dropped: Dropped, *, max_bytes: int = MAX_BYTES, writer_id: str = "w") -> Spool:
    return Spool.create(
        root, meta_of(writer_id), max_bytes=max_bytes, on_drop=lambda *told: dropped.append(told)
    )


def adopted(folder: Path, dropped: Dropped | None = None, *, max_bytes: int = MAX_BYTES) -> Spool:
    told: Dropped = [] if dropped is None else dropped
    spool = Spool.adopt(folder, max_bytes=max_bytes, on_drop=lambda *gone: told.append(gone))
    assert spool is not None
    return spool


def takes(spool: Spool) -> Iterator[list[Record]]:
    """What the spool gives, request by request, each acknowledged."""
    while records := spool.take(0):
        yield records
        spool.ack()


def bodies(spool: Spool) -> list[str]:
    """All that waits, in order; the spool is empty afterwards."""
    return [record.body.decode() for records in takes(spool) for record in records]


def append(spool: Spool, *names: str, size: int = 0) -> None:
    """Appends a record for each name; its first letter says of which kind."""
    for name in names:
        spool.append(KINDS[name[0]], name.ljust(size, ".").encode())


def requests(spool: Spool) -> list[list[str]]:
    return [[record.body.decode().rstrip(".") for record in records] for records in takes(spool)]


def segments(folder: Path, lane: str = "") -> list[Path]:
    return sorted(folder.glob(f"{lane}*.seg"))


def left_run(root: Path, url: str, *, run_id: str = "r", writer_id: str = "w", num_steps: int = 3) -> Path:
    """The spool of a trainer that is gone: a start, and a batch and two values in each step."""
    meta = meta_of(writer_id, run_id=run_id, url=url)
    spool = Spool.create(root, meta, max_bytes=MAX_BYTES, on_drop=lambda *_: None)
    start = {"run_id": run_id, "project": "project", "name": "name"}
    spool.append(RecordKind.start, json.dumps(start).encode())
    for step in range(num_steps):
        turn = {"prompt": "p", "response": "r"}
        batch = {
            "batch_id": f"{writer_id}-{step}",
            "step": step,
            "rollouts": [{"group_id": "g", "turns": [turn]}],
        }
        spool.append(RecordKind.batch, json.dumps(batch).encode())
        point = {"step": step, "values": {"kl": 0.5, "loss": 0.25}}
        spool.append(RecordKind.scalars, json.dumps(point).encode(), num_items=2)
    spool.release()
    return spool.folder
