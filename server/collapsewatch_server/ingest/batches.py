"""Accepts batches of rollouts: the blob, then the rows, then the answer, then the feed."""

import hashlib
import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore, pack_document
from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.runs import BatchReceipt
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AttemptNotFound, BatchConflict, NotReady, RunNotFound, wrong
from collapsewatch_server.liveness import signs
from collapsewatch_server.queue.admission import Admission, Changes
from collapsewatch_server.queue.feed import Feed
from collapsewatch_server.repositories import attempts, batches, clock, events
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.attempts import arrival
from collapsewatch_server.tables import Run

log = logging.getLogger(__name__)


class BatchIntake:
    """Accepts batches."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        feed: Feed,
        ring: Callable[[], None],
        admission: Admission,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._feed = feed
        self._ring = ring
        self._admission = admission

    def add(self, run: Run, project: str, batch: RolloutBatch, *, late: bool = False) -> BatchReceipt:
        """Accepts the batch and queues its job; one that was accepted before changes nothing.

        Args:
            late: it comes from the spool of a process that has ended, and so is no sign of life.

        Raises:
            AttemptNotFound: nobody has opened the attempt that it names.
            BatchConflict: the run has a batch of this id with other content.
            RunNotFound: somebody deleted the run while the batch was on its way.
            NotReady: the blob store does not take it, such as a full disk.
        """
        # Without what is as if nobody had said it: a field that a later version adds must not make another
        # batch of one that was accepted before the upgrade and is sent again after it.
        document = batch.model_dump_json(exclude_none=True, exclude_defaults=True).encode()
        content_hash = hashlib.sha256(document).hexdigest()
        with self._database.read_session() as session:
            if self._is_duplicate(session, run, batch, content_hash):
                return BatchReceipt(batch_id=batch.batch_id, duplicate=True)
            if batch.attempt_id and attempts.of_run(session, run.id).named(batch.attempt_id) is None:
                raise AttemptNotFound(batch.attempt_id)
        # Named by its content, so that the same batch sent twice at once writes one blob, twice.
        blob_key = f"batches/{run.id}/{content_hash[:2]}/{content_hash}.zst"
        packed = pack_document(document)
        self._write_blob(blob_key, packed)
        try:
            changes = self._insert(run, project, batch, content_hash, blob_key, len(packed), late)
        except (BatchConflict, RunNotFound):
            self._blobs.delete(blob_key)
            raise
        if changes is None:
            return BatchReceipt(batch_id=batch.batch_id, duplicate=True)
        changes.tell(self._feed)
        self._ring()
        log.info(
            "batch accepted",
            extra={
                "run": run.run_id,
                "step": batch.step,
                "num_rollouts": len(batch.rollouts),
                "num_bytes": len(document),
            },
        )
        return BatchReceipt(batch_id=batch.batch_id, duplicate=False)

    def _write_blob(self, blob_key: str, packed: bytes) -> None:
        try:
            self._blobs.write(blob_key, packed)
        except OSError as error:
            # The trainer keeps the batch and tries again, so a full disk that is cleared costs no batch.
            reason = error.strerror or type(error).__name__
            log.error("a batch cannot be stored", extra={"error": reason, "num_bytes": len(packed)})
            raise NotReady(f"the batch cannot be stored now: {reason}; try again") from error

    def _insert(
        self,
        run: Run,
        project: str,
        batch: RolloutBatch,
        content_hash: str,
        blob_key: str,
        num_bytes: int,
        late: bool,
    ) -> Changes | None:
        """What it did to the queue; none when another request has just inserted the same batch."""
        with self._database.write_session() as session:
            # It holds the run: of shards that come together, one alone sees that the step is complete.
            arrived = arrival(session, run, project, batch.attempt_id, batch.step)
            signs.saw_data(session, run.id, late=late)
            batch_pk = batches.add(
                session,
                run.id,
                attempt_pk=arrived.attempt_pk,
                batch_id=batch.batch_id,
                step=batch.step,
                content_hash=content_hash,
                blob_key=blob_key,
                num_bytes=num_bytes,
                num_rollouts=len(batch.rollouts),
                policy_version=batch.policy_version,
                # Fixed now: a scorer that the run gets later is for later batches, not for those that wait.
                scorer=run.scorer if batch.scorer is None else batch.scorer.model_dump(mode="json"),
                logged_at=clock.read(session) if batch.logged_at is None else batch.logged_at,
                shard_index=batch.shard.index if batch.shard else 0,
                num_shards=batch.shard.count if batch.shard else 1,
            )
            if batch_pk is None:
                self._is_duplicate(session, run, batch, content_hash)
                return None
            changes = self._admission.admit(session, batches.get(session, batch_pk))
            data = {
                "run_id": run.run_id,
                "project": project,
                "step": batch.step,
                "batch_id": batch.batch_id,
            }
            told = [*arrived.events, Event("batch", data), *changes.events(run.run_id, project)]
            events.add(session, run.id, told)
        return changes

    def _is_duplicate(self, session: Session, run: Run, batch: RolloutBatch, content_hash: str) -> bool:
        known = batches.content_hash(session, run.id, batch.batch_id)
        if known is not None and known != content_hash:
            raise BatchConflict(
                f"the run has a batch {batch.batch_id} with other content; a new batch needs a new id",
                [wrong("batch_id", "accepted before with other content", batch.batch_id)],
            )
        return known is not None
