"""Array types of the metrics.

Legend: R rows (scored reasoning traces), P columns (distinct prompts), N prompts that have rows,
B draws of a bootstrap or of a permutation test.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


def log_sum_exp(values: Floats, axis: int = -1) -> Floats:
    """log Σ exp(values) along an axis; −inf where every value is −inf, +inf and NaN pass through."""
    highest = np.max(values, axis=axis, keepdims=True)
    # Shifting by an infinite maximum would give inf − inf; zero leaves those rows to exp itself.
    shift = np.where(np.isfinite(highest), highest, 0.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        total = np.log(np.sum(np.exp(values - shift), axis=axis))
    return np.asarray(total + np.squeeze(shift, axis=axis), dtype=np.float64)
