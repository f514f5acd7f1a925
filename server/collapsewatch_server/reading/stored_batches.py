"""Reads batches from the blob store, part by part, within a limit, and notes what could not be read."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import TypeVar

from collapsewatch.blobs import BlobNotFound, BlobStore, BlobTooLarge, unpack_document
from collapsewatch_server.reading.traces import Moment, StoredBatch, StoredRollout, fault_words

Taken = TypeVar("Taken")

log = logging.getLogger(__name__)

_MEBIBYTE = 1 << 20
MAX_BYTES = 64 * _MEBIBYTE
"""Of a step, after decompression."""
_MAX_PARTS = 256
_GONE = "no longer stored"
_REMOVED = "no longer kept: its project removes what the model wrote after some days"
_BROKEN = "not readable"


@dataclass(frozen=True)
class StepSource:
    """A step's batch in the blob store."""

    moment: Moment
    keys: Sequence[str]
    """Of its parts, in their order."""
    faults: list[str] = field(default_factory=list)
    """What kept a part from being read."""

    @property
    def is_removed(self) -> bool:
        """Whether all of its text was removed, because the project does not keep it any longer."""
        return not any(self.keys)

    @property
    def is_broken(self) -> bool:
        """Whether something could not be read that should be there."""
        return any(fault != _REMOVED for fault in self.faults)

    def words(self) -> str | None:
        """What could not be read; none when nothing is missing."""
        return fault_words(self.moment.step, len(self.keys), self.faults)


class StoredBatches:
    """Batches as they lie in the store."""

    def __init__(self, blobs: BlobStore, *, max_bytes: int = MAX_BYTES) -> None:
        self._blobs = blobs
        self._max_bytes = max_bytes

    def rollouts(self, source: StepSource) -> Iterator[StoredRollout]:
        """Rollouts of the step, in their order, as far as they can be read."""
        for _, rollouts in self._parts(source):
            yield from rollouts

    def indexed(self, source: StepSource, num_rollouts: Sequence[int]) -> Iterator[tuple[int, StoredRollout]]:
        """The same with each rollout's place in the step, also after a part that cannot be read.

        Args:
            num_rollouts: of each part.
        """
        starts = [0, *accumulate(num_rollouts)]
        for number, rollouts in self._parts(source):
            yield from enumerate(rollouts, starts[number])

    def _parts(self, source: StepSource) -> Iterator[tuple[int, list[StoredRollout]]]:
        for number, document in self.documents(source):
            rollouts = self.taken_apart(source, partial(rollouts_of, document))
            del document
            if rollouts is not None:
                yield number, rollouts

    def taken_apart(self, source: StepSource, take: Callable[[], Taken]) -> Taken | None:
        """What `take` makes of a document; none, and a fault is noted, when that is not a batch."""
        try:
            return take()
        except ValueError as error:
            self._is_broken(source, error)
            return None

    def documents(self, source: StepSource) -> Iterator[tuple[int, bytes]]:
        """Number and JSON of each part of the step that can be read."""
        left, num_parts = self._max_bytes, len(source.keys)
        for number, key in enumerate(source.keys):
            if number == _MAX_PARTS:
                source.faults.extend([f"beyond the first {_MAX_PARTS}"] * (num_parts - number))
                return
            if not key:
                source.faults.append(_REMOVED)
                continue
            try:
                document = self._document(key, left)
            except BlobNotFound:
                source.faults.append(_GONE)
                continue
            except BlobTooLarge:
                most = f"{self._max_bytes / _MEBIBYTE:.3g} MiB"
                source.faults.extend([f"too large to read here (more than {most})"] * (num_parts - number))
                return
            except (OSError, ValueError) as error:
                self._is_broken(source, error)
                continue
            left -= len(document)
            yield number, document

    def _is_broken(self, source: StepSource, error: Exception) -> None:
        log.warning(
            "a batch cannot be read", extra={"step": source.moment.step, "error": type(error).__name__}
        )
        source.faults.append(_BROKEN)

    def _document(self, key: str, max_bytes: int) -> bytes:
        if self._blobs.size(key) > max_bytes:
            raise BlobTooLarge(f"the blob {key} holds more than {max_bytes} bytes")
        return unpack_document(self._blobs.read(key), max_bytes)


def rollouts_of(document: bytes) -> list[StoredRollout]:
    """Rollouts of the batch of this JSON.

    Raises:
        ValueError: it is not a batch.
    """
    return StoredBatch.model_validate_json(document).rollouts
