"""TensorBoard's event files: `events.out.tfevents.*`.

Source: TensorBoard 2.21.0, `tensorboard/compat/proto/{event,summary,tensor}.proto`, and the TFRecord framing:
length (8 bytes), its checksum (4), the event, its checksum (4). Checksums are not compared.
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path

from collapsewatch.forwarders.protobuf import (
    DamagedMessageError,
    Value,
    fields,
    float32,
    message_of,
    signed,
    text,
)

PATTERN = "events.out.tfevents.*"
_MAX_EVENT_BYTES = 2**28
_DT_FLOAT, _DT_DOUBLE = 1, 2


def tensorboard_scalars(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """(step, {tag: value}) of each event of one file that holds scalars.

    A file that is still written ends with the last event that is whole.

    Raises:
        DamagedMessageError: the file is no event file, or is damaged in its midst.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        while (head := file.read(12)) and len(head) == 12:
            (size,) = struct.unpack("<Q", head[:8])
            if size > _MAX_EVENT_BYTES:
                raise DamagedMessageError(f"{path}: no event file, or damaged: an event of {size} bytes")
            body = file.read(size + 4)
            if len(body) < size + 4:
                return
            step, values = _event(body[:size])
            if values:
                yield step, values


def _event(message: bytes) -> tuple[int, dict[str, float]]:
    step, values = 0, {}
    for number, value in fields(message):
        if number == 2:
            step = signed(value)
        elif number == 5:
            for inner, each in fields(message_of(value)):
                if inner == 1:
                    tag, scalar = _summary_value(message_of(each))
                    if scalar is not None and math.isfinite(scalar):
                        values[tag] = scalar
    return step, values


def _summary_value(message: bytes) -> tuple[str, float | None]:
    tag, scalar = "", None
    for number, value in fields(message):
        if number == 1:
            tag = text(value)
        elif number == 2:
            scalar = float32(value)
        elif number == 8:
            scalar = _tensor(message_of(value))
    return tag, scalar


def _tensor(message: bytes) -> float | None:
    """A tensor's only number, which newer writers use; None for any other tensor."""
    kind = 0
    numbers: list[float] = []
    for number, value in fields(message):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2 and _num_entries(message_of(value)) != 1:
            return None
        elif number == 4:
            numbers += _unpacked(value, "f" if kind == _DT_FLOAT else "d" if kind == _DT_DOUBLE else "")
        elif number == 5 and kind == _DT_FLOAT:
            numbers += _unpacked(value, "f")
        elif number == 6 and kind == _DT_DOUBLE:
            numbers += _unpacked(value, "d")
    return numbers[0] if len(numbers) == 1 else None


def _num_entries(shape: bytes) -> int:
    """Product of the shape's sizes; 1 for a scalar."""
    product = 1
    for number, value in fields(shape):
        if number == 2:
            product *= next((signed(size) for inner, size in fields(message_of(value)) if inner == 1), 0)
    return product


def _unpacked(value: Value, kind: str) -> list[float]:
    size = {"f": 4, "d": 8}.get(kind, 0)
    if not size or not isinstance(value, bytes) or len(value) % size:
        return []
    return list(struct.unpack(f"<{len(value) // size}{kind}", value))
