"""Causal language models of checkpoint folders, kept in memory up to a bound: safetensors only, no network.

A LoRA adapter is hung into its base model, which is loaded once for all its adapters. Models that were
used longest ago make room. Where an old version and a new one do not fit side by side, the new weights are
read over the old ones. Several threads may load and score at once.
"""

import copy
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedConfig, PreTrainedModel

from collapsewatch_worker.errors import CheckpointNotReady, CheckpointNotUsable, JobError
from collapsewatch_worker.models.adapter_config import AdapterConfig, read_adapter_config
from collapsewatch_worker.models.adapters import AdaptersClash, AdapterSwitch
from collapsewatch_worker.models.folders import (
    Fingerprint,
    Folder,
    allowed_folder,
    checked_folder,
    fingerprint,
    is_being_written,
    version_after,
    weight_bytes,
)
from collapsewatch_worker.models.loading import can_swap, load_config, load_model, model_bytes, swap_weights
from collapsewatch_worker.models.memory import MemoryBound, told_size
from collapsewatch_worker.models.resident import HungAdapter, Key, LoadedModel, Resident
from collapsewatch_worker.models.tokenizer_files import load_tokenizer

log = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


_UNREADABLE = (JobError, OSError, RuntimeError, SafetensorError)
"""What reading a folder may raise that somebody removes or writes to, or that does not fit the memory."""


class ModelStore:
    """Models by folder and content; keeps the `max_models` used last, as far as memory allows.

    Args:
        roots: folders below which checkpoints may lie; none allows nothing.
        device: `auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:<number>`.
        dtype: `auto` (bfloat16 on a GPU, else float32), `float32`, `bfloat16` or `float16`.
        max_models: models kept between loads, and adapters kept on each of them; at least 1.
        max_memory: most memory of all of them together; see `memory.MemoryBound`.
        device_map: `auto` spreads a model over all GPUs; see `loading.load_model`.

    Raises:
        ValueError: an unknown dtype or size, or `max_models` below 1.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_models: int = 2,
        max_memory: str = "auto",
        device_map: str | dict[str, Any] | None = None,
    ) -> None:
        if max_models < 1:
            raise ValueError(f"max_models must be at least 1, got {max_models}")
        if dtype != "auto" and dtype not in DTYPES:
            raise ValueError(f"dtype must be auto, {', '.join(DTYPES)}; got {dtype!r}")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(device)
        default = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.dtype = DTYPES.get(dtype, default)
        self._device_map = device_map
        self._roots = [root.expanduser().resolve() for root in roots]
        self._max_models = max_models
        self._memory = MemoryBound(max_memory, self.device, spread=device_map is not None)
        self._residents: OrderedDict[Key, Resident] = OrderedDict()
        # Whoever looks up a model that is there does not wait for somebody else's load.
        self._table = threading.RLock()
        # Whoever loads, or starts a thread that does, holds it until the model is in the table.
        self._loading = threading.Lock()

    def load(self, checkpoint: str) -> LoadedModel:
        """The model of a checkpoint folder, from memory when the folder has not changed since.

        Args:
            checkpoint: the folder; a relative one is looked for below each root in turn.

        Raises:
            CheckpointNotAllowed: the folder, an adapter's base, or a file in them lies outside the roots.
            CheckpointNotReady: the folder is missing, incomplete or still being written.
            CheckpointNotUsable: pickled weights only, an architecture that needs code of its own, weights
                that do not fit the configuration or the memory, or an adapter that is no LoRA or has no
                base model here.
        """
        folder = checked_folder(allowed_folder(checkpoint, self._roots), self._roots)
        if not folder.is_adapter:
            return self._plain(folder)
        config = read_adapter_config(folder.path)
        base_folder = self._base_folder(config)
        base = self._plain(base_folder)
        try:
            with base.scoring():
                adapter = self._adapter(base, folder, config)
        except AdaptersClash as clash:
            log.info("adapters do not go together, the base is loaded again", extra={"error": str(clash)})
            base = self._plain(base_folder)
            with base.scoring():
                adapter = self._adapter(base, folder, config)
        tokenizer = adapter.tokenizer or base.tokenizer
        return replace(base, adapter=adapter.name, tokenizer=tokenizer, path=folder.path)

    def load_next(self, current: LoadedModel, pattern: str) -> threading.Thread | None:
        """Begins to load the version that was written after this one; see `load_ahead`.

        Args:
            pattern: the checkpoint with its placeholders; without any there is no next version.
        """
        path = version_after(pattern, current.path, self._roots)
        return self.load_ahead(current, str(path)) if path is not None else None

    def load_ahead(self, current: LoadedModel, checkpoint: str) -> threading.Thread | None:
        """Begins to load another version of a model while that one scores; None where that cannot be done.

        Call it before the scoring starts. The version is read into a copy of the module: building a model
        anew changes settings of the whole process, such as the default dtype, under the feet of the scorer.
        It must fit beside the current one, and is in the table when the thread has ended. Nothing is said
        of a folder that is not whole: whoever asks for it will hear.
        """
        if self._device_map is not None or self._max_models < 2 or not self._loading.acquire(blocking=False):
            return None
        is_started = False
        try:
            folder = checked_folder(allowed_folder(checkpoint, self._roots), self._roots)
            module = self._copied_beside(current, folder)
            if module is None:
                return None
            thread = threading.Thread(target=self._read_ahead, args=(module, folder), daemon=True)
            thread.start()
            is_started = True
            return thread
        except _UNREADABLE:
            return None
        finally:
            if not is_started:
                self._loading.release()

    def _copied_beside(self, current: LoadedModel, folder: Folder) -> PreTrainedModel | None:
        """A copy of the current module for the folder's weights, if it fits once others have made room."""
        resident = current.resident
        with resident.lock:
            if folder.is_adapter or resident.adapters or self._kept(folder) is not None:
                return None
            if not can_swap(resident.model, folder, load_config(folder.path)):
                return None
            with self._table:
                others = [key for key, other in self._residents.items() if other is not resident]
                while self.held_bytes + resident.num_bytes > self._memory.room(self.held_bytes):
                    if not others:
                        return None
                    del self._residents[others.pop(0)]
                    self._memory.release()
            return copy.deepcopy(resident.model)

    def _read_ahead(self, module: PreTrainedModel, folder: Folder) -> None:
        try:
            swap_weights(module, folder)
            resident = self._as_resident(folder, module)
            self._check_unchanged(folder)
            self._keep(folder, resident)
            log.info("model loaded ahead", extra={"checkpoint": str(folder.path)})
        except _UNREADABLE:
            # Nobody has asked for it yet. Whoever does loads it then, and hears what is wrong.
            log.info("model not loaded ahead", extra={"checkpoint": str(folder.path)}, exc_info=True)
        finally:
            self._loading.release()

    @property
    def held_bytes(self) -> int:
        """Memory of all models and adapters that are kept."""
        with self._table:
            return sum(resident.held_bytes for resident in self._residents.values())

    def is_missing(self, checkpoint: str) -> bool:
        """Whether there is no such folder.

        Raises:
            CheckpointNotAllowed: the folder lies outside the allowed roots.
        """
        try:
            allowed_folder(checkpoint, self._roots)
        except CheckpointNotReady:
            return True
        return False

    def is_being_written(self, checkpoint: str) -> bool:
        """Whether the folder is there and something in it changed within the last seconds.

        Raises:
            CheckpointNotAllowed: the folder lies outside the allowed roots.
        """
        try:
            return is_being_written(allowed_folder(checkpoint, self._roots))
        except CheckpointNotReady:
            return False

    def content(self, checkpoint: str) -> Fingerprint | None:
        """What is in the folder at this moment, whole or not; None when it is not there.

        Raises:
            CheckpointNotAllowed: the folder lies outside the allowed roots.
        """
        try:
            return fingerprint(allowed_folder(checkpoint, self._roots))
        except CheckpointNotReady:
            return None

    def _base_folder(self, config: AdapterConfig) -> Folder:
        try:
            path = allowed_folder(config.base, self._roots)
        except CheckpointNotReady as error:
            raise CheckpointNotUsable(
                f"the adapter {config.path} needs its base model {config.base!r}, which lies in none of "
                "the folders that this worker's operator allowed"
            ) from error
        folder = checked_folder(path, self._roots)
        if folder.is_adapter:
            raise CheckpointNotUsable(f"the base model {config.base!r} of {config.path} is an adapter itself")
        return folder

    def _kept(self, folder: Folder) -> LoadedModel | None:
        key = (folder.path, folder.fingerprint)
        # Read in one go: a module leaves the table before it takes another version's weights.
        with self._table:
            resident = self._residents.get(key)
            if resident is None:
                return None
            self._residents.move_to_end(key)
            return LoadedModel(resident, resident.generation, None, resident.tokenizer, folder.path)

    def _plain(self, folder: Folder) -> LoadedModel:
        """The folder's model without adapters, loaded when it is not there."""
        kept = self._kept(folder)
        if kept is not None:
            return kept
        with self._loading:
            kept = self._kept(folder)
            if kept is not None:
                return kept
            with _told_as_changed(folder):
                config = load_config(folder.path)
                resident = self._with_room(folder, config) or self._loaded(folder, config)
                self._check_unchanged(folder)
            return self._keep(folder, resident)

    def _keep(self, folder: Folder, resident: Resident) -> LoadedModel:
        resident.key = key = (folder.path, folder.fingerprint)
        with self._table:
            # An older version of the same folder cannot be asked for any more.
            for old in [old for old in self._residents if old[0] == folder.path]:
                del self._residents[old]
            self._residents[key] = resident
            while len(self._residents) > self._max_models:
                self._residents.popitem(last=False)
            loaded = LoadedModel(resident, resident.generation, None, resident.tokenizer, folder.path)
        self._memory.release()
        return loaded

    def _with_room(self, folder: Folder, config: PreTrainedConfig) -> Resident | None:
        """Makes room for a model. Where a model of the same make would have to go, it is read over that one.

        What is in use at this moment finishes first.
        """
        needed = weight_bytes(folder.shards, self.dtype.itemsize)
        self._check_bound(folder.path, needed)
        while self._residents and self.held_bytes + needed > self._memory.room(self.held_bytes):
            with self._table:
                # The folder's own older version first: nobody will ask for it again.
                oldest = min(self._residents, key=lambda key: key[0] != folder.path)
                victim = self._residents.pop(oldest)
            swapped = self._swapped(victim, folder, config)
            if swapped is not None:
                return swapped
            del victim  # its memory is free only when nobody refers to it
            self._memory.release()
        return None

    def _swapped(self, resident: Resident, folder: Folder, config: PreTrainedConfig) -> Resident | None:
        """The resident with the folder's weights; None where they cannot be read over its own."""
        with resident.lock:
            if resident.adapters or not can_swap(resident.model, folder, config):
                return None
            resident.generation += 1
            swap_weights(resident.model, folder)
            resident.tokenizer = load_tokenizer(folder.path)
        log.info("model read over an older one", extra={"checkpoint": str(folder.path)})
        return resident

    def _loaded(self, folder: Folder, config: PreTrainedConfig) -> Resident:
        model = load_model(
            folder.path, config, dtype=self.dtype, device=self.device, device_map=self._device_map
        )
        num_parameters = sum(parameter.numel() for parameter in model.parameters())
        log.info("model loaded", extra={"checkpoint": str(folder.path), "num_parameters": num_parameters})
        return self._as_resident(folder, model)

    def _as_resident(self, folder: Folder, model: PreTrainedModel) -> Resident:
        key = (folder.path, folder.fingerprint)
        tokenizer = load_tokenizer(folder.path)
        return Resident(key, model, tokenizer, model_bytes(model), AdapterSwitch(model))

    def _adapter(self, base: LoadedModel, folder: Folder, config: AdapterConfig) -> HungAdapter:
        """The folder's adapter, hung into its base model, which nobody else uses meanwhile."""
        resident = base.resident
        key = (folder.path, folder.fingerprint)
        adapter = resident.adapters.get(key)
        if adapter is not None:
            resident.adapters.move_to_end(key)
            return adapter
        with _told_as_changed(folder):
            num_bytes = weight_bytes(folder.shards, self.dtype.itemsize)
        stale = [old for old in resident.adapters if old[0] == folder.path]
        for old in stale:
            self._drop_adapter(resident, old)
        self._make_room_beside(resident, folder.path, num_bytes)
        try:
            with _told_as_changed(folder):
                name = resident.switch.attach(config)
        except BaseException:
            # Half of an adapter may hang in the model.
            self._forget(resident)
            raise
        adapter = resident.adapters[key] = HungAdapter(name, load_tokenizer(folder.path), num_bytes)
        try:
            self._check_unchanged(folder)
        except JobError:
            self._drop_adapter(resident, key)
            raise
        log.info("adapter loaded", extra={"checkpoint": str(folder.path), "base": str(resident.key[0])})
        return adapter

    def _make_room_beside(self, base: Resident, path: Path, needed: int) -> None:
        """Room for an adapter: older adapters of its base go first, then other models."""
        self._check_bound(path, base.num_bytes + needed)
        while len(base.adapters) >= self._max_models:
            self._drop_adapter(base, next(iter(base.adapters)))
        while self.held_bytes + needed > self._memory.room(self.held_bytes):
            with self._table:
                others = [key for key, resident in self._residents.items() if resident is not base]
                if others:
                    del self._residents[others[0]]
                elif base.adapters:
                    self._drop_adapter(base, next(iter(base.adapters)))
                else:
                    return
            self._memory.release()

    def _drop_adapter(self, resident: Resident, key: Key) -> None:
        resident.switch.detach(resident.adapters.pop(key).name)

    def _forget(self, resident: Resident) -> None:
        resident.generation += 1
        with self._table:
            if self._residents.get(resident.key) is resident:
                del self._residents[resident.key]

    def _check_bound(self, path: Path, needed: int) -> None:
        if self._memory.is_fixed and needed > self._memory.room(0):
            raise CheckpointNotUsable(
                f"the checkpoint {path} takes {told_size(needed)} of memory, and this worker's operator "
                f"allows {told_size(self._memory.room(0))} for models"
            )

    def _check_unchanged(self, folder: Folder) -> None:
        if checked_folder(folder.path, self._roots).fingerprint != folder.fingerprint:
            raise CheckpointNotReady(f"the checkpoint {folder.path} was written to while it was read")


@contextmanager
def _told_as_changed(folder: Folder) -> Iterator[None]:
    """Errors of files that were there a moment ago, as what they mean: trainers remove old checkpoints."""
    try:
        yield
    except JobError:
        raise
    except (OSError, SafetensorError) as error:
        raise CheckpointNotReady(f"the checkpoint {folder.path} cannot be read: {error}") from error
