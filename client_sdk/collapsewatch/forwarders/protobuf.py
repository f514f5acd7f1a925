"""Just enough of the protobuf wire format to pick fields out of a message.

Source: protobuf.dev, "Encoding". Groups are not read; no file here has them.
"""

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
Value = int | bytes


class DamagedMessageError(ValueError):
    """These bytes are no message."""


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Number and raw value of each field: an int for a varint, else its bytes.

    Raises:
        DamagedMessageError: the message ends too early, or is none.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value: Value
            value, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32, _BYTES):
            if kind == _BYTES:
                size, at = _varint(message, at)
            else:
                size = 8 if kind == _FIXED64 else 4
            if at + size > len(message):
                raise DamagedMessageError(f"a field of {size} bytes ends after the message")
            value, at = message[at : at + size], at + size
        else:
            raise DamagedMessageError(f"no wire type {kind}")
        yield number, value


def signed(value: Value) -> int:
    """A varint that stands for an int64."""
    number = int(value) if isinstance(value, int) else 0
    return number - 2**64 if number >= 2**63 else number


def float32(value: Value) -> float:
    """A fixed32 that stands for a float.

    Raises:
        DamagedMessageError: not four bytes.
    """
    if not isinstance(value, bytes) or len(value) != 4:
        raise DamagedMessageError("a float has four bytes")
    number: float = struct.unpack("<f", value)[0]
    return number


def text(value: Value) -> str:
    """A string field; what is no UTF-8 is replaced."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def message_of(value: Value) -> bytes:
    """A field that is a message itself."""
    return value if isinstance(value, bytes) else b""


def _varint(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    for _ in range(_MAX_VARINT_BYTES):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise DamagedMessageError("a number that does not end")
