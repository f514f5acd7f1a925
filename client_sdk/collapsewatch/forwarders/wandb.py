"""W&B's offline runs: `offline-run-*/run-*.wandb`.

Source: wandb 0.31.0, `wandb/sdk/internal/datastore.py` and `wandb/proto/wandb_internal.proto`. The file is a
log of blocks of 32 KiB, as LevelDB's: each piece of a record has a checksum (4 bytes), a length (2) and a
kind (1: whole, 2, 3, 4: first, middle and last piece). Checksums are not compared.
"""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from collapsewatch.forwarders.protobuf import DamagedMessageError, fields, message_of, signed, text

PATTERN = "run-*.wandb"
_BLOCK, _HEAD = 32_768, 7
_MARK = b":W&B"
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_MAX_RECORD_BYTES = 2**28


def wandb_scalars(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """(step, {name: value}) of each row of one file that holds numbers; W&B's own names are left out.

    A file that is still written ends with the last row that is whole.

    Raises:
        DamagedMessageError: no such file of W&B's, or one damaged in its midst.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if len(head) == _HEAD and not head.startswith(_MARK):
            raise DamagedMessageError(f"{path}: no file of an offline run of W&B")
        for record in _records(file, path):
            for number, value in fields(record):
                if number == 2:
                    step, values = _history(message_of(value))
                    if values:
                        yield step, values


def _records(file: BinaryIO, path: Path) -> Iterator[bytes]:
    at, parts = _HEAD, bytearray()
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _HEAD:
            if len(file.read(left)) < left:
                return
            at += left
            continue
        head = file.read(_HEAD)
        if len(head) < _HEAD:
            return
        _, size, kind = struct.unpack("<IHB", head)
        if kind not in (_WHOLE, _FIRST, _MIDDLE, _LAST) or size > left - _HEAD:
            raise DamagedMessageError(f"{path}: damaged at byte {at}")
        body = file.read(size)
        if len(body) < size:
            return
        at += _HEAD + size
        if kind in (_WHOLE, _FIRST):
            parts.clear()
        parts += body
        if len(parts) > _MAX_RECORD_BYTES:
            raise DamagedMessageError(f"{path}: a record of more than {_MAX_RECORD_BYTES} bytes")
        if kind in (_WHOLE, _LAST):
            yield bytes(parts)


def _history(message: bytes) -> tuple[int, dict[str, float]]:
    step, values = 0, {}
    for number, value in fields(message):
        if number == 2:
            step = next((signed(each) for inner, each in fields(message_of(value)) if inner == 1), 0)
        elif number == 1:
            name, scalar = _item(message_of(value))
            if scalar is not None and not name.startswith("_"):
                values[name] = scalar
    return step, values


def _item(message: bytes) -> tuple[str, float | None]:
    keys: list[str] = []
    scalar: float | None = None
    for number, value in fields(message):
        if number in (1, 2):
            keys.append(text(value))
        elif number == 16:
            scalar = _number(text(value))
    return ".".join(key for key in keys if key), scalar


def _number(given: str) -> float | None:
    try:
        value = json.loads(given)
    except ValueError:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
