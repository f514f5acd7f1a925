"""A LoRA adapter for the worker, which scores it on the base model that it already holds."""

import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from collapsewatch.errors import InvalidInputError
from collapsewatch.scoring.extra import needs_extra
from collapsewatch.scoring.whole import whole_model


def save_adapter(model: Any, folder: str | os.PathLike[str], *, is_writer: bool = True) -> Path:
    """The folder, with the model's active adapter in it, whole from the moment that it is there.

    Megabytes instead of a checkpoint: `Run.set_scorer("policy", checkpoint=".../{policy_version}")` has the
    worker put each adapter on the one base model in its memory. The worker must see the folder, and the base
    model by the name that the adapter's configuration has, below its checkpoint roots. A folder that is there
    already is replaced.

    Under FSDP and DeepSpeed ZeRO-3 every rank must make this call.

    Args:
        model: a PEFT model, wrapped or not.
        is_writer: False on all ranks but one.

    Raises:
        InvalidInputError: no PEFT model.
        OSError: the folder cannot be written.
    """
    target = Path(folder)
    with needs_extra("save_adapter"), whole_model(model) as whole:
        if not hasattr(whole, "peft_config"):
            raise InvalidInputError(f"`save_adapter` takes a PEFT model, got {type(whole).__name__}")
        if is_writer:
            _write(whole, target)
    return target


def _write(model: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target: only within one file system is a renaming one step.
    fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    try:
        active = model.active_adapter
        model.save_pretrained(fresh, selected_adapters=[active], safe_serialization=True)
        # PEFT puts every adapter but the one called `default` into a folder of its name.
        written = fresh / active if (fresh / active).is_dir() else fresh
        if target.exists():
            target.rename(fresh.with_name(f"{fresh.name}.old"))
        written.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(fresh.with_name(f"{fresh.name}.old"), ignore_errors=True)
