"""Which checkpoint folders may be read, whether they are whole, and what identifies their content.

A folder is read only from below a root that the operator allowed, links followed. Weights are safetensors
files and nothing else: reading them runs no code.
"""

import glob
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from collapsewatch_worker.errors import CheckpointNotAllowed, CheckpointNotReady, CheckpointNotUsable

CONFIG_NAME = "config.json"
INDEX_NAME = "model.safetensors.index.json"
WEIGHTS_NAME = "model.safetensors"
ADAPTER_CONFIG_NAME = "adapter_config.json"
ADAPTER_WEIGHTS_NAME = "adapter_model.safetensors"
PICKLE_PATTERNS = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt")
# Writers of large checkpoints touch some file far more often than this.
_QUIET_SECONDS = 10.0
_BYTES_OF = {"BOOL": 1, "U8": 1, "I8": 1, "I16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8, "U64": 8}

Fingerprint = tuple[tuple[str, int, int, int], ...]
"""(name, two times of change in ns, bytes) of every file of the folder."""


@dataclass(frozen=True)
class Folder:
    """A checkpoint folder that is whole and may be read."""

    path: Path
    """Links resolved."""
    fingerprint: Fingerprint
    shards: tuple[Path, ...]
    """The safetensors files that hold the weights."""
    is_adapter: bool
    """It holds a LoRA adapter and no model of its own."""


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


def checked_folder(path: Path, roots: Sequence[Path]) -> Folder:
    """What is in an allowed folder, once it is known to be whole and safe to read.

    Raises:
        CheckpointNotAllowed: a file in it is a link that leads outside the roots.
        CheckpointNotReady: a file is missing or half-written.
        CheckpointNotUsable: pickled weights only, or an index that names files of other folders.
    """
    names = {file.name for file in files_within(path, roots)}
    is_adapter = ADAPTER_CONFIG_NAME in names
    if not is_adapter and CONFIG_NAME not in names:
        raise CheckpointNotReady(f"the checkpoint {path} has no {CONFIG_NAME} (yet)")
    shards = _single(path, names, ADAPTER_WEIGHTS_NAME) if is_adapter else _shards(path, names)
    for shard in shards:
        try:
            with safe_open(shard, framework="pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise CheckpointNotReady(f"{shard} is incomplete or damaged: {error}") from error
    return Folder(path, fingerprint(path), tuple(shards), is_adapter)


def files_within(path: Path, roots: Sequence[Path]) -> list[Path]:
    """The files of an allowed folder.

    Raises:
        CheckpointNotAllowed: one is a link that leads outside the roots.
        CheckpointNotReady: the folder was removed meanwhile.
    """
    try:
        files = _files(path)
    except FileNotFoundError as error:
        raise CheckpointNotReady(f"the checkpoint {path} was removed while it was looked at") from error
    for file in files:
        if not _is_below(file.resolve(), roots):
            raise CheckpointNotAllowed(f"{file} is a link to a place outside the allowed folders")
    return files


def version_after(pattern: str, current: Path, roots: Sequence[Path]) -> Path | None:
    """The folder that was written next after `current` among those that match a checkpoint's pattern.

    Args:
        pattern: with `{policy_version}` or `{step}` in it; each stands for any part of a name.
    """
    wildcard = glob.escape(pattern)
    for placeholder in ("{policy_version}", "{step}"):
        wildcard = wildcard.replace(placeholder, "*")
    if wildcard == glob.escape(pattern):
        return None
    found: set[Path] = set()
    for root in roots:
        # Outside the roots nothing is so much as looked for.
        place = Path(os.path.normpath(root / wildcard))
        if place != root and place.is_relative_to(root):
            found.update(root.glob(str(place.relative_to(root))))
    try:
        since = current.stat().st_mtime_ns
        # Beside their folders trainers write files of their own, such as the name of the latest.
        written = {path: path.stat().st_mtime_ns for path in found if path.is_dir()}
    except OSError:  # trainers remove old checkpoints
        return None
    newer = [path for path, changed in written.items() if changed > since]
    return min(newer, key=lambda path: written[path], default=None)


def is_being_written(path: Path) -> bool:
    """Whether something in the folder changed within the last seconds; False when it is not there."""
    try:
        changed = max(entry.stat().st_mtime for entry in [path, *path.iterdir()])
    except FileNotFoundError:  # a missing folder, or a temporary file that was just renamed
        return False
    return time.time() - changed < _QUIET_SECONDS


def weight_bytes(shards: Iterable[Path], bytes_per_float: int) -> int:
    """Memory that the weights will take, from the files' headers alone.

    Args:
        bytes_per_float: of the dtype in which floating-point weights will be held.
    """
    num_bytes = 0
    for shard in shards:
        with safe_open(shard, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safetensors file is no dictionary
                weights: Any = file.get_slice(name)
                size = _BYTES_OF.get(str(weights.get_dtype()), bytes_per_float)
                num_bytes += prod(weights.get_shape()) * size
    return num_bytes


def _files(path: Path) -> list[Path]:
    return sorted(entry for entry in path.iterdir() if not entry.is_dir())


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    return any(path.is_relative_to(root) for root in roots)


def fingerprint(path: Path) -> Fingerprint:
    """What identifies the content of a folder.

    Raises:
        CheckpointNotReady: a file vanished meanwhile.
    """
    try:
        files = _files(path)
        # Copies may keep the old time of a file's content; the time of its inode cannot be set.
        return tuple(
            (file.name, (stat := file.stat()).st_mtime_ns, stat.st_ctime_ns, stat.st_size) for file in files
        )
    except FileNotFoundError as error:
        raise CheckpointNotReady(f"the checkpoint {path} changed while it was looked at: {error}") from error


def _shards(path: Path, names: set[str]) -> list[Path]:
    """The files that hold a model's weights."""
    if WEIGHTS_NAME in names or INDEX_NAME not in names:
        return _single(path, names, WEIGHTS_NAME)
    try:
        shards = sorted(set(json.loads((path / INDEX_NAME).read_text())["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointNotReady(f"{path / INDEX_NAME} is incomplete or damaged") from error
    for name in shards:
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointNotUsable(f"{path / INDEX_NAME} names a file of another folder: {name!r}")
        if name not in names:
            raise CheckpointNotReady(f"the checkpoint {path} has no {name} (yet)")
    return [path / name for name in shards]


def _single(path: Path, names: set[str], weights_name: str) -> list[Path]:
    if weights_name in names:
        return [path / weights_name]
    if any(next(path.glob(pattern), None) for pattern in PICKLE_PATTERNS):
        raise CheckpointNotUsable(
            f"{path} has pickled weights only, which can run code when they are read; save it as safetensors"
        )
    raise CheckpointNotReady(f"the checkpoint {path} has no {weights_name} (yet)")
