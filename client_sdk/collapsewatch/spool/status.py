"""What a spool says of itself."""

from dataclasses import dataclass

from collapsewatch.spool.records import RecordKind

WHAT_OF_KIND = {
    RecordKind.start: "runs",
    RecordKind.update: "updates",
    RecordKind.batch: "batches",
    RecordKind.scalars: "values",
}
"""First word of the count under which a record of each kind is dropped."""


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """What waits, and what will never arrive."""

    num_records: int
    num_bytes: int
    oldest_seconds: float
    """Age of the oldest record that waits; 0 when none does."""
    dropped: dict[str, int]
    """By reason, over the whole life of the spool: `batches_spool_full`, `values_damaged` and the like, which
    the spool counts itself, and what `note_dropped` was told."""
