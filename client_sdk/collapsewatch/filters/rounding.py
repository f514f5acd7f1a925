"""Sums and single precision in plain Python, as the filter rules need them."""

import math
import struct
from collections.abc import Sequence

ZERO_STD = 1e-10
"""A score no further from 0 counts as 0."""


def none_unless_finite(value: float) -> float | None:
    """The value; None for NaN and infinities."""
    return value if math.isfinite(value) else None


def exact_sum(values: Sequence[float]) -> float:
    """Exactly rounded sum; infinite or NaN where it overflows, instead of an error."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)


def float32(value: float) -> float:
    """The nearest float32; infinite where it overflows."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded
