"""What trainers send becomes rows: all of it or nothing, committed before it is acknowledged."""

import hashlib
import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore, pack_document
from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch.contracts.rollouts import RolloutBatch, ScalarBatch
from collapsewatch.contracts.runs import BatchReceipt, RunReceipt, RunStart, RunUpdate, ScalarReceipt
from collapsewatch_server.auth import Caller
from collapsewatch_server.db import Database
from collapsewatch_server.errors import BatchConflict, NotReady, RunConflict, RunNotFound, wrong
from collapsewatch_server.queue.feed import Feed
from collapsewatch_server.repositories import batches, events, jobs, metrics, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Run

log = logging.getLogger(__name__)


class Ingest:
    """Accepts runs, batches and scalars."""

    def __init__(self, database: Database, blobs: BlobStore, feed: Feed, ring: Callable[[], None]) -> None:
        self._database = database
        self._blobs = blobs
        self._feed = feed
        self._ring = ring

    def open_run(self, caller: Caller, run_id: str) -> tuple[Run, str]:
        """The run that the caller may write to, and its project's name.

        Raises:
            RunNotFound: there is none of this id.
            Forbidden: the key belongs to another project.
        """
        with self._database.read_session() as session:
            found = runs.find(session, run_id)
        if found is None:
            raise RunNotFound(run_id)
        caller.may_write(found[0].project_id)
        return found

    def start_run(self, caller: Caller, start: RunStart) -> RunReceipt:
        """Opens the run, or finds it open: the same id, project and name are the same run.

        Raises:
            RunConflict: the id belongs to a run of another project or name.
            Forbidden: the key belongs to another project.
        """
        with self._database.read_session() as session:
            found = runs.find(session, start.run_id)
        if found is None:
            found = self._add_run(caller, start)
            if found is None:
                self._ring()
                return _receipt(start, created=True)
        run, project = found
        caller.may_write(run.project_id)
        if (project, run.name) != (start.project, start.name):
            raise RunConflict(
                f"the run id {start.run_id} belongs to the run {run.name!r} of the project {project!r}",
                [
                    wrong("project", f"the run's project is {project!r}", start.project),
                    wrong("name", f"the run's name is {run.name!r}", start.name),
                ],
            )
        return _receipt(start, created=False)

    def _add_run(self, caller: Caller, start: RunStart) -> tuple[Run, str] | None:
        """None when the run is new; the run when another request was faster."""
        with self._database.write_session() as session:
            # A key of another project must not even leave a new, empty project behind.
            project_id = runs.project_id(session, start.project)
            caller.may_write(project_id)
            run_pk = runs.add(
                session,
                run_id=start.run_id,
                project_id=project_id,
                name=start.name,
                config=start.config,
                tags=list(start.tags),
                scorer=None if start.scorer is None else start.scorer.model_dump(mode="json"),
            )
            if run_pk is None:
                return runs.find(session, start.run_id)
            data = {"run_id": start.run_id, "project": start.project, "state": "running"}
            events.add(session, run_pk, [Event("run", data)])
        log.info("run opened", extra={"run": start.run_id, "project": start.project})
        return None

    def update_run(self, run: Run, project: str, update: RunUpdate) -> RunReceipt:
        """Changes what is given."""
        changes = update.model_dump(mode="json", exclude_none=True)
        if changes:
            with self._database.write_session() as session:
                runs.change(session, run.id, **changes)
                data = {"run_id": run.run_id, "project": project, "state": changes.get("state", run.state)}
                events.add(session, run.id, [Event("run", data)])
            self._ring()
        return RunReceipt(run_id=run.run_id, project=project, name=run.name, created=False)

    def add_batch(self, run: Run, project: str, batch: RolloutBatch) -> BatchReceipt:
        """Accepts the batch and queues its job; one that was accepted before changes nothing.

        Raises:
            BatchConflict: the run has a batch of this id with other content.
            NotReady: the blob store does not take it, such as a full disk.
        """
        document = batch.model_dump_json(exclude_none=True).encode()
        content_hash = hashlib.sha256(document).hexdigest()
        with self._database.read_session() as session:
            if self._is_duplicate(session, run, batch, content_hash):
                return BatchReceipt(batch_id=batch.batch_id, duplicate=True)
        # Named by its content, so that the same batch sent twice at once writes one blob, twice.
        blob_key = f"batches/{run.id}/{content_hash[:2]}/{content_hash}.zst"
        packed = pack_document(document)
        self._write_blob(blob_key, packed)
        try:
            job = self._insert(run, project, batch, content_hash, blob_key, len(packed))
        except BatchConflict:
            self._blobs.delete(blob_key)
            raise
        if job is None:
            return BatchReceipt(batch_id=batch.batch_id, duplicate=True)
        self._feed.push([job])
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
        self, run: Run, project: str, batch: RolloutBatch, content_hash: str, blob_key: str, num_bytes: int
    ) -> tuple[int, float] | None:
        """The new job's id and place; none when another request has just inserted the same batch."""
        with self._database.write_session() as session:
            batch_pk = batches.add(
                session,
                run.id,
                batch_id=batch.batch_id,
                step=batch.step,
                content_hash=content_hash,
                blob_key=blob_key,
                num_bytes=num_bytes,
                num_rollouts=len(batch.rollouts),
                policy_version=batch.policy_version,
                # Fixed now: a scorer that the run gets later is for later batches, not for those that wait.
                scorer=run.scorer if batch.scorer is None else batch.scorer.model_dump(mode="json"),
            )
            if batch_pk is None:
                self._is_duplicate(session, run, batch, content_hash)
                return None
            job = jobs.add(session, batch_pk=batch_pk, run_pk=run.id)
            runs.touch(session, run.id, batch.step)
            data = {
                "run_id": run.run_id,
                "project": project,
                "step": batch.step,
                "batch_id": batch.batch_id,
            }
            events.add(session, run.id, [Event("batch", data)])
        return job

    def _is_duplicate(self, session: Session, run: Run, batch: RolloutBatch, content_hash: str) -> bool:
        known = batches.content_hash(session, run.id, batch.batch_id)
        if known is not None and known != content_hash:
            raise BatchConflict(
                f"the run has a batch {batch.batch_id} with other content; a new batch needs a new id",
                [wrong("batch_id", "accepted before with other content", batch.batch_id)],
            )
        return known is not None

    def add_scalars(self, run: Run, project: str, scalars: ScalarBatch) -> ScalarReceipt:
        """Stores plain numbers; of several values of one metric and step, the last counts."""
        points = {
            (metric, point.step): value for point in scalars.points for metric, value in point.values.items()
        }
        steps = [point.step for point in scalars.points]
        with self._database.write_session() as session:
            metrics.put_scalars(session, run.id, TRAINER_SCOPE, points)
            runs.touch(session, run.id, max(steps))
            data = {"run_id": run.run_id, "project": project, "step": min(steps), "scope": TRAINER_SCOPE}
            events.add(session, run.id, [Event("metrics", data)])
        self._ring()
        return ScalarReceipt(num_values=len(points))


def _receipt(start: RunStart, *, created: bool) -> RunReceipt:
    return RunReceipt(run_id=start.run_id, project=start.project, name=start.name, created=created)
