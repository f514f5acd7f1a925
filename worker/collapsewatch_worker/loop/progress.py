"""What a worker has done so far and has in hand, for whoever asks from another thread."""

from dataclasses import dataclass


@dataclass
class Progress:
    """Written by the loop alone."""

    num_done: int = 0
    """Jobs scored since the worker started."""
    num_failed: int = 0
    job_id: int | None = None
    """The job in hand."""
