"""Models of checkpoint folders as the scorers use them. A torch room: import it late."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers.utils.logging import disable_progress_bar

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.models.folders import Fingerprint
from collapsewatch_worker.models.resident import LoadedModel
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.scoring.own_tokens import TokenNote
from collapsewatch_worker.settings import ScoringSettings

_PATIENCE_SECONDS = 120.0
_MISSING_SECONDS = 30.0
_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class CheckpointModel:
    """A loaded checkpoint with the operator's token budget."""

    loaded: LoadedModel
    token_budget: int | None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The checkpoint's tokenizer, when it has one."""
        return self.loaded.tokenizer

    def cross_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        reasonings: Sequence[Sequence[int]],
        *,
        temperature: float,
        note: TokenNote | None = None,
    ) -> Floats:
        """[R, P] nats summed over the reasoning tokens."""
        with self.loaded.scoring() as model:
            return cross_log_probs(
                model,
                prompts,
                reasonings,
                temperature=temperature,
                token_budget=self.token_budget,
                note=note,
            )


class Checkpoints:
    """Loads checkpoints within the operator's limits and keeps the latest in memory.

    Args:
        patience_seconds: how long a folder that somebody is writing to is waited for.
        missing_seconds: how long a folder that is not there at all is waited for.
    """

    def __init__(
        self,
        settings: ScoringSettings,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
        missing_seconds: float = _MISSING_SECONDS,
    ) -> None:
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
            max_memory=settings.model_memory,
            device_map=settings.device_map,
        )
        self._patience_seconds = patience_seconds
        self._missing_seconds = missing_seconds
        self._expects_missing = True

    def load(
        self, checkpoint: str, *, needs_tokenizer: bool = False, pattern: str | None = None
    ) -> CheckpointModel:
        """The model of a checkpoint folder; errors as for `models.ModelStore.load`.

        Waits for a folder that is being written, or that is still to come: given back at once, the job would
        use up all its starts within a second. A folder that `needs_tokenizer` is not whole without one.

        Args:
            pattern: what the checkpoint's name was made from. The version that the trainer wrote next is
                loaded while this one scores, where memory allows both.
        """
        started = time.monotonic()
        seen: Fingerprint | None = None
        while True:
            seconds = time.monotonic() - started
            tried = self._models.content(checkpoint)
            try:
                loaded = self._models.load(checkpoint)
            except CheckpointNotUsable:
                # Between two files of a trainer a folder may look whole: the optimizer's is there and the
                # weights are not, or the weights are those of another configuration.
                if not self._becomes_another(checkpoint, tried, started + self._patience_seconds):
                    raise
            except CheckpointNotReady:
                # Copies may keep the old times of their files, so a folder is compared with the last look.
                before, seen = seen, self._models.content(checkpoint)
                is_growing = seen is not None and seen != before and seconds < self._patience_seconds
                if not is_growing and not self._may_come(checkpoint, seconds):
                    raise
            else:
                self._expects_missing = True
                lacks_tokenizer = needs_tokenizer and loaded.tokenizer is None
                if not lacks_tokenizer or not self._may_come(checkpoint, seconds):
                    if pattern is not None:
                        self._models.load_next(loaded, pattern)
                    return CheckpointModel(loaded, self._token_budget)
            time.sleep(_LOOK_SECONDS)

    def _becomes_another(self, checkpoint: str, tried: Fingerprint | None, deadline: float) -> bool:
        """Whether the folder's content changes before it is left alone; tried anew only then."""
        while self._models.content(checkpoint) == tried:
            if time.monotonic() >= deadline or not self._models.is_being_written(checkpoint):
                return False
            time.sleep(_LOOK_SECONDS)
        return time.monotonic() < deadline

    def _may_come(self, checkpoint: str, seconds: float) -> bool:
        """Whether what is not there after so many seconds is still worth waiting for."""
        if not self._models.is_missing(checkpoint):
            return seconds < self._patience_seconds and self._models.is_being_written(checkpoint)
        if seconds >= self._missing_seconds:
            # Trainers remove old checkpoints. A worker that waited for each of them would do nothing else.
            self._expects_missing = False
        return self._expects_missing


def check_device(device: str) -> None:
    """Ends the process when the GPU it was given is not there: it would fail every job it is handed."""
    number = int(device.partition(":")[2] or 0)
    if not torch.cuda.is_available() or number >= torch.cuda.device_count():
        raise SystemExit(f"no such device: {device} ({torch.cuda.device_count()} GPUs are visible)")
