"""Loads causal language models from Hugging Face folders: safetensors only, no foreign code, no network.

A folder is loaded only from below a root that the operator allowed, links followed. Loaded models stay in
a small cache until their files change or newer ones need the room.
"""

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import CheckpointNotAllowed, CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.models.tokenizer_files import load_tokenizer

log = logging.getLogger(__name__)

INDEX_NAME = "model.safetensors.index.json"
WEIGHTS_NAME = "model.safetensors"
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
# Writers of large checkpoints touch some file far more often than this.
_QUIET_SECONDS = 10.0
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Fingerprint = tuple[tuple[str, int, int], ...]
"""(name, time of change in ns, bytes) of every file of the folder."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to score with."""

    model: PreTrainedModel
    tokenizer: Tokenizer | None
    """None when the folder has none that can be read without running code."""
    path: Path
    """The folder, links resolved."""


class ModelStore:
    """Models by folder; keeps the `max_models` used last.

    Args:
        roots: folders below which checkpoints may lie; none allows nothing.
        device: `auto` (a GPU if there is one), `cpu`, `cuda` or `cuda:<number>`.
        dtype: `auto` (bfloat16 on a GPU, else float32), `float32`, `bfloat16` or `float16`.
        max_models: models kept at once, at least 1.

    Raises:
        ValueError: an unknown dtype, or `max_models` below 1.
    """

    def __init__(
        self, roots: Sequence[Path], *, device: str = "auto", dtype: str = "auto", max_models: int = 2
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
        self._roots = [root.expanduser().resolve() for root in roots]
        self._max_models = max_models
        self._loaded: OrderedDict[Path, tuple[Fingerprint, LoadedModel]] = OrderedDict()

    def load(self, checkpoint: str) -> LoadedModel:
        """The model of a checkpoint folder, from memory when the folder has not changed since.

        Args:
            checkpoint: the folder; a relative one is looked for below each root in turn.

        Raises:
            CheckpointNotAllowed: the folder, or a file in it, lies outside the allowed roots.
            CheckpointNotReady: the folder is missing, incomplete or still being written.
            CheckpointNotUsable: pickled weights only, an adapter, an architecture that needs code of its
                own, or weights that do not fit the configuration.
        """
        path = allowed_folder(checkpoint, self._roots)
        fingerprint = _checked_files(path, self._roots)
        kept = self._loaded.get(path)
        if kept is not None and kept[0] == fingerprint:
            self._loaded.move_to_end(path)
            return kept[1]
        # Room is made before loading: two generations of a large model do not fit together.
        self._loaded.pop(path, None)
        while len(self._loaded) >= self._max_models:
            self._loaded.popitem(last=False)
        kept = None
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        model = _load_model(path, self.dtype)
        torch.nn.Module.to(model, self.device)
        loaded = LoadedModel(model, load_tokenizer(path), path)
        if _checked_files(path, self._roots) != fingerprint:
            raise CheckpointNotReady(f"the checkpoint {path} was written to while it was read")
        self._loaded[path] = (fingerprint, loaded)
        num_parameters = sum(parameter.numel() for parameter in loaded.model.parameters())
        log.info("model loaded", extra={"checkpoint": str(path), "num_parameters": num_parameters})
        return loaded

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
            path = allowed_folder(checkpoint, self._roots)
            changed = max(entry.stat().st_mtime for entry in [path, *path.iterdir()])
        except FileNotFoundError:  # a missing folder, or a temporary file that was just renamed
            return False
        return time.time() - changed < _QUIET_SECONDS


def allowed_folder(checkpoint: str, roots: Sequence[Path]) -> Path:
    """The checkpoint's folder with all links resolved.

    Raises:
        CheckpointNotAllowed: it lies outside every root. Said before it is looked for, so that nobody
            learns what exists elsewhere.
        CheckpointNotReady: there is no such folder.
    """
    if "\0" in checkpoint:
        raise CheckpointNotAllowed("the checkpoint's path holds a NUL character")
    if not roots:
        raise CheckpointNotAllowed(
            f"no checkpoint may be loaded, got {checkpoint!r}: the operator of this worker allowed no folder"
        )
    candidates = [(root / checkpoint).resolve() for root in roots]
    inside = [path for path in candidates if _is_below(path, roots)]
    if not inside:
        raise CheckpointNotAllowed(
            f"the checkpoint {checkpoint!r} is outside the folders that this worker's operator allowed"
        )
    for path in inside:
        if path.is_dir():
            return path
    raise CheckpointNotReady(f"there is no checkpoint folder {inside[0]}")


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def _checked_files(path: Path, roots: Sequence[Path]) -> Fingerprint:
    """What identifies the folder's content, once it is known to be whole and safe to read."""
    files = sorted(entry for entry in path.iterdir() if not entry.is_dir())
    for file in files:
        if not _is_below(file.resolve(), roots):
            raise CheckpointNotAllowed(f"{file} is a link to a place outside the allowed folders")
    names = {file.name for file in files}
    if "adapter_config.json" in names:
        raise CheckpointNotUsable(f"{path} holds an adapter; merge it into its base model first")
    if "config.json" not in names:
        raise CheckpointNotReady(f"the checkpoint {path} has no config.json (yet)")
    for shard in _shards(path, names):
        try:
            with safe_open(shard, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise CheckpointNotReady(f"{shard} is incomplete or damaged: {error}") from error
    try:
        return tuple((file.name, (stat := file.stat()).st_mtime_ns, stat.st_size) for file in files)
    except FileNotFoundError as error:
        raise CheckpointNotReady(f"the checkpoint {path} changed while it was looked at: {error}") from error


def _shards(path: Path, names: set[str]) -> list[Path]:
    """The files that hold the weights."""
    if WEIGHTS_NAME in names:
        return [path / WEIGHTS_NAME]
    if INDEX_NAME in names:
        try:
            shards = sorted(set(json.loads((path / INDEX_NAME).read_text())["weight_map"].values()))
        except (ValueError, KeyError, AttributeError) as error:
            raise CheckpointNotReady(f"{path / INDEX_NAME} is incomplete or damaged") from error
        for name in shards:
            if not isinstance(name, str) or Path(name).name != name:
                raise CheckpointNotUsable(f"{path / INDEX_NAME} names a file of another folder: {name!r}")
            if name not in names:
                raise CheckpointNotReady(f"the checkpoint {path} has no {name} (yet)")
        return [path / name for name in shards]
    if any(next(path.glob(pattern), None) for pattern in PICKLE_PATTERNS):
        raise CheckpointNotUsable(
            f"{path} has pickled weights only, which can run code when they are read; save it as safetensors"
        )
    raise CheckpointNotReady(f"the checkpoint {path} has no {WEIGHTS_NAME} (yet)")


def _load_config(path: Path) -> PreTrainedConfig:
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            path, trust_remote_code=False, local_files_only=True
        )
    except OSError as error:
        raise CheckpointNotReady(f"{path / 'config.json'} is incomplete or damaged: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointNotUsable(f"{path / 'config.json'} cannot be used: {error}") from error
    # A configuration may name kernels to fetch and run; the library's own default is taken instead.
    for field in ("_attn_implementation", "_experts_implementation"):
        if hasattr(config, field):
            setattr(config, field, None)
    return config


def _load_model(path: Path, dtype: torch.dtype) -> PreTrainedModel:
    """The model on the CPU, ready to score: no dropout, no gradients.

    Weights that the configuration asks for and the folder lacks are an error: the library would fill
    them with random numbers and carry on.
    """
    config = _load_config(path)
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except (ValueError, OSError, KeyError, TypeError, RuntimeError, ImportError) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise CheckpointNotUsable(f"the checkpoint {path} cannot be loaded: {error}") from error
    model: PreTrainedModel = loaded[0]
    loading: dict[str, Any] = loaded[1]
    _check_weights(path, loading)
    model.train(False)
    model.requires_grad_(False)
    return model


def _check_weights(path: Path, loading: dict[str, Any]) -> None:
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        if faults := loading.get(kind):
            first = sorted(map(str, faults))[0]
            raise CheckpointNotUsable(
                f"the weights in {path} do not fit its config.json: {len(faults)} {kind}, such as {first}"
            )
