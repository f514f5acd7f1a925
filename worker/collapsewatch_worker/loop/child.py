"""The worker's scoring process: takes a job from its pipe, reads the batch, answers with a result.

Started by `scoring_process`; it leaves when the pipe closes and dies with its parent.
"""

import ctypes
import logging
import os
import signal
import sys
import traceback
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from pydantic import ValidationError

from collapsewatch.blobs import BlobStore, BlobTooLarge, open_blob_store, unpack_document
from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.scoring import Job, JobFailure, ScoringResult
from collapsewatch_worker.batches.partition import Tokenizer, wants_tokenizer
from collapsewatch_worker.batches.sharded import whole_step
from collapsewatch_worker.errors import BatchNotScorable, JobError
from collapsewatch_worker.logs import configure_logging
from collapsewatch_worker.loop.messages import Failed, Message, Ready, Scored, encoded
from collapsewatch_worker.process import process
from collapsewatch_worker.scorers import ScoringModel
from collapsewatch_worker.settings import ScoringSettings

if TYPE_CHECKING:
    # Torch is imported with the first job that needs a model: a lexical worker never pays for it.
    from collapsewatch_worker.models.checkpoints import Checkpoints
    from collapsewatch_worker.models.served import ServedModels

log = logging.getLogger("collapsewatch_worker.loop.child")

_PR_SET_PDEATHSIG = 1
_MAX_ERROR_CHARS = 2000
_MAX_TRACEBACK_CHARS = 100_000


class JobScorer:
    """Scores one job after the other; keeps the models it has loaded."""

    def __init__(self, settings: ScoringSettings) -> None:
        self._settings = settings
        self._blobs: BlobStore = open_blob_store(settings.blob_url)
        self._models: Checkpoints | ServedModels | None = None

    def answer(self, job: Job) -> Message:
        """The job's result, or its failure: whatever a batch holds, the process goes on."""
        try:
            return Scored(result=self.result(job))
        except Exception as error:  # noqa: BLE001 - the worker loop: the job fails, the worker lives
            log.info("job brought no result", extra={"job_id": job.job_id, "error": type(error).__name__})
            return Failed(
                failure=job_failure(self._settings.worker, error),
                worn_out=not isinstance(error, JobError) and _uses_gpu(),
            )

    def result(self, job: Job) -> ScoringResult:
        """Reads the job's batch and scores it."""
        batch = self._batch(job)
        load_model = partial(
            self._load_model, needs_tokenizer=wants_tokenizer(batch), pattern=job.scorer.checkpoint
        )
        return process(
            job,
            batch,
            worker=self._settings.worker,
            load_model=load_model,
            load_tokenizer=self._load_tokenizer,
        )

    def _batch(self, job: Job) -> RolloutBatch:
        """The job's batch, put together from the shards of its step."""
        left_bytes = self._settings.max_batch_bytes
        shards: list[RolloutBatch] = []
        for number, blob_key in enumerate(job.blob_keys):
            data = self._blobs.read(blob_key)
            try:
                document = unpack_document(data, left_bytes)
                shards.append(RolloutBatch.model_validate_json(document))
            except BlobTooLarge:
                raise BatchNotScorable(_too_large(self._settings.max_batch_bytes, number + 1)) from None
            except ValueError as error:
                raise BatchNotScorable(f"the stored batch cannot be read: {error}") from error
            left_bytes -= len(document)
        return whole_step(shards)

    def _load_model(self, checkpoint: str, *, needs_tokenizer: bool, pattern: str | None) -> ScoringModel:
        if self._models is None:
            self._models = _model_source(self._settings)
        return self._models.load(checkpoint, needs_tokenizer=needs_tokenizer, pattern=pattern)

    def _load_tokenizer(self, checkpoint: str) -> Tokenizer | None:
        """Without waiting: the batch is not scored, and what a tokenizer would add may be absent."""
        from collapsewatch_worker.models.tokenizer_files import tokenizer_below

        return tokenizer_below(self._settings.checkpoint_roots, checkpoint)


def _model_source(settings: ScoringSettings) -> "Checkpoints | ServedModels":
    if settings.engine != "transformers":
        from collapsewatch_worker.models.served import ServedModels

        return ServedModels(settings)
    from collapsewatch_worker.models.checkpoints import Checkpoints

    return Checkpoints(settings)


def _too_large(max_bytes: int, num_shards: int) -> str:
    of = "" if num_shards == 1 else f", its first {num_shards} shards taken together"
    return f"the stored batch holds more than {max_bytes} bytes after decompression{of}"


def job_failure(worker: str, error: Exception) -> JobFailure:
    """What the server and the run's page are told about an error."""
    # A file's name may hold bytes that are no text, and what holds them cannot be sent.
    lines, told = (
        text.encode(errors="replace").decode()
        for text in ("".join(traceback.format_exception(error)), f"{type(error).__name__}: {error}")
    )
    return JobFailure(
        worker=worker,
        error=told[:_MAX_ERROR_CHARS],
        # The end of a traceback says what happened.
        traceback=lines[-_MAX_TRACEBACK_CHARS:],
        retry=error.retry if isinstance(error, JobError) else True,
    )


def serve(pipe: Connection, scorer: JobScorer) -> None:
    """Answers every job until the pipe closes."""
    _send(pipe, Ready())
    while True:
        try:
            job = Job.model_validate_json(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if not _send(pipe, scorer.answer(job)):
            return


def _send(pipe: Connection, message: Message) -> bool:
    try:
        pipe.send_bytes(encoded(message))
    except OSError:
        return False
    return True


def die_with_parent(parent_pid: int) -> None:
    """Asks the kernel to kill this process when its parent ends, also in the middle of a long call.

    Linux only; elsewhere the closed pipe ends an idle process.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            log.warning("cannot ask to die with the parent", extra={"errno": ctypes.get_errno()})
    # The parent may have ended before the request was made; then it never comes true.
    if os.getppid() != parent_pid:
        raise SystemExit(1)


def _uses_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def main() -> None:
    """Runs the scoring process: `python -m collapsewatch_worker.loop.child PIPE PARENT`."""
    descriptor, parent_pid = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent_pid)
    # Ctrl-C and a service manager's stop reach the whole group; what happens to the job in hand is for the
    # parent to decide, which ends this process in its own time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.set_inheritable(descriptor, False)
    pipe = Connection(descriptor)
    try:
        settings = ScoringSettings.model_validate_json(pipe.recv_bytes())
    except (EOFError, OSError, ValidationError) as error:
        raise SystemExit(f"no settings came through the pipe: {error}") from error
    configure_logging(settings.log_level)
    if settings.device.startswith("cuda") and settings.engine == "transformers":
        from collapsewatch_worker.models.checkpoints import check_device

        check_device(settings.device)
    serve(pipe, JobScorer(settings))


if __name__ == "__main__":
    main()
