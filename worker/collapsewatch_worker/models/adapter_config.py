"""What a LoRA adapter's folder says of it, checked. Imports no torch.

An adapter's configuration comes from whoever wrote the folder, and the peft library would import modules
and read pickled files that it names. So only the fields that say what the adapter computes are passed on.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collapsewatch_worker.errors import CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.models.folders import ADAPTER_CONFIG_NAME

_COMPUTES = {
    *("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "fan_in_fan_out", "use_dora"),
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "target_parameters"),
    *("modules_to_save", "trainable_token_indices", "lora_bias", "ensure_weight_tying"),
}
"""What the adapter adds, and where."""
_TRAINING_ONLY = {
    *("lora_dropout", "init_lora_weights", "inference_mode", "loftq_config", "eva_config", "corda_config"),
    *("lora_ga_config", "qalora_group_size", "megatron_core", "runtime_config"),
    *("base_model_name_or_path", "revision", "peft_type", "task_type", "peft_version", "auto_mapping"),
    "bias",
}
"""What says how it came about, or is checked by itself."""
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
"""Initialisations that leave the base model's own weights as they were."""


@dataclass(frozen=True)
class AdapterConfig:
    """What an adapter folder says about itself."""

    path: Path
    base: str
    """The base model's folder as the trainer wrote it down."""
    fields: dict[str, Any]
    """Arguments of `LoraConfig`."""


def read_adapter_config(path: Path) -> AdapterConfig:
    """The checked configuration of an adapter folder.

    Raises:
        CheckpointNotReady: it is half-written.
        CheckpointNotUsable: no LoRA adapter, none without its own base weights, or a variant that is not
            scored here.
    """
    file = path / ADAPTER_CONFIG_NAME
    fields = _read(file)
    if not isinstance(fields, dict) or fields.get("peft_type") != "LORA":
        kind = fields.get("peft_type") if isinstance(fields, dict) else None
        raise CheckpointNotUsable(f"{file}: only LoRA adapters are scored, got the type {kind!r}")
    base = _base(file, fields)
    if fields.get("bias", "none") != "none":
        raise CheckpointNotUsable(
            f"{file}: the adapter changes the base model's biases, which other adapters share; "
            "merge it into its base model first"
        )
    start = fields.get("init_lora_weights")
    if start not in _PLAIN_STARTS:
        raise CheckpointNotUsable(
            f"{file}: the adapter was started with {start!r}, which changes the base model's weights; "
            "save it converted to plain LoRA, or merge it into its base model first"
        )
    unknown = sorted(
        name for name, value in fields.items() if name not in _COMPUTES | _TRAINING_ONLY and value
    )
    if unknown:
        raise CheckpointNotUsable(f"{file}: adapters with `{unknown[0]}` are not scored; merge it first")
    return AdapterConfig(path, base, {name: fields[name] for name in _COMPUTES & fields.keys()})


def base_of_adapter(path: Path) -> str | None:
    """The base model that an adapter folder of any type names; None when it is no adapter folder.

    Raises:
        CheckpointNotReady: its configuration is half-written.
        CheckpointNotUsable: it names none.
    """
    file = path / ADAPTER_CONFIG_NAME
    return _base(file, _read(file)) if file.is_file() else None


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointNotReady(f"{file} is incomplete or damaged: {error}") from error


def _base(file: Path, fields: Any) -> str:
    base = fields.get("base_model_name_or_path") if isinstance(fields, dict) else None
    if not isinstance(base, str) or not base:
        raise CheckpointNotUsable(f"{file} names no base model (`base_model_name_or_path`)")
    return base
