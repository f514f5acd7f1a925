"""Which prompt groups a reward-variance filter keeps, in plain Python, for use inside a trainer.

Source: docs/metrics.md section 3; arXiv 2604.06268.
"""

from collapsewatch.filters.buckets import FIXED_BUCKET_EDGES, variance_buckets
from collapsewatch.filters.recovery import RecoveringFilter
from collapsewatch.filters.rounding import ZERO_STD
from collapsewatch.filters.selection import FilterSelection, snr_filter

__all__ = [
    "FIXED_BUCKET_EDGES",
    "ZERO_STD",
    "FilterSelection",
    "RecoveringFilter",
    "snr_filter",
    "variance_buckets",
]
