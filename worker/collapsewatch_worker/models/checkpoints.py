"""Models of checkpoint folders as the scorers use them. A torch room: import it late."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.utils.logging import disable_progress_bar

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import CheckpointNotReady
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.models.store import LoadedModel, ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.settings import ScoringSettings

_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class CheckpointModel:
    """A loaded checkpoint with the operator's token budget."""

    loaded: LoadedModel
    token_budget: int

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The checkpoint's tokenizer, when it has one."""
        return self.loaded.tokenizer

    def cross_log_probs(
        self, prompts: Sequence[Sequence[int]], reasonings: Sequence[Sequence[int]], *, temperature: float
    ) -> Floats:
        """[R, P] nats summed over the reasoning tokens."""
        return cross_log_probs(
            self.loaded.model,
            prompts,
            reasonings,
            temperature=temperature,
            token_budget=self.token_budget,
        )


class Checkpoints:
    """Loads checkpoints within the operator's limits and keeps the latest in memory."""

    def __init__(self, settings: ScoringSettings) -> None:
        if settings.num_torch_threads is not None:
            torch.set_num_threads(settings.num_torch_threads)
        # A bar per loaded checkpoint would stand between the lines of the log.
        disable_progress_bar()  # type: ignore[no-untyped-call]
        self._token_budget = settings.token_budget
        self._models = ModelStore(
            settings.checkpoint_roots,
            device=settings.device,
            dtype=settings.dtype,
            max_models=settings.num_cached_models,
        )

    def load(self, checkpoint: str) -> CheckpointModel:
        """The model of a checkpoint folder; errors as for `models.ModelStore.load`.

        Waits for a folder that somebody is writing to: given back at once, the job would use up all its
        starts within a second.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return CheckpointModel(self._models.load(checkpoint), self._token_budget)
            except CheckpointNotReady:
                if time.monotonic() > deadline or not self._models.is_being_written(checkpoint):
                    raise
            time.sleep(_LOOK_SECONDS)


def check_device(device: str) -> None:
    """Ends the process when the GPU it was given is not there: it would fail every job it is handed."""
    number = int(device.partition(":")[2] or 0)
    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        raise SystemExit(f"no such device: {device} ({torch.cuda.device_count()} GPUs are visible)")
