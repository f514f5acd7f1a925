"""LoRA adapters: reads them from checkpoint folders and switches them on and off on a shared base model.

An adapter's configuration comes from whoever wrote the folder, and the peft library would import modules
and read pickled files that it names. So only the fields that say what the adapter computes are passed on.
"""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.functional import set_peft_model_state_dict
from safetensors import safe_open
from transformers import PreTrainedModel

from collapsewatch_worker.errors import CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.models.folders import ADAPTER_CONFIG_NAME, ADAPTER_WEIGHTS_NAME

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
    try:
        fields = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointNotReady(f"{file} is incomplete or damaged: {error}") from error
    if not isinstance(fields, dict) or fields.get("peft_type") != "LORA":
        kind = fields.get("peft_type") if isinstance(fields, dict) else None
        raise CheckpointNotUsable(f"{file}: only LoRA adapters are scored, got the type {kind!r}")
    base = fields.get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise CheckpointNotUsable(f"{file} names no base model (`base_model_name_or_path`)")
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


class AdapterSwitch:
    """Adapters on one base model. Its layers are wrapped once; a switch copies nothing."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._peft: PeftModel | None = None
        self._num_attached = 0
        self._active: str | None = None

    def attach(self, config: AdapterConfig) -> str:
        """Reads an adapter's weights and hangs them into the model, switched off; its name here.

        Raises:
            CheckpointNotUsable: it does not fit the base model, which is then no longer to be used.
        """
        name = f"number{self._num_attached}"
        self._num_attached += 1
        try:
            with warnings.catch_warnings():
                # Peft warns of what `_check` below refuses, and of keys that are training's business.
                warnings.simplefilter("ignore")
                self._hang_in(name, config)
        except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, ImportError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise CheckpointNotUsable(
                f"the adapter {config.path} does not fit its base model {config.base!r}: {error}"
            ) from error
        self._active = name
        self.switch(None)
        return name

    def detach(self, name: str) -> None:
        """Drops an adapter and its weights."""
        assert self._peft is not None
        self.switch(None)
        tuner: Any = self._peft.base_model
        tuner.delete_adapter(name)

    def switch(self, name: str | None) -> None:
        """Makes the model compute with one adapter, or with none."""
        if name == self._active or self._peft is None:
            return
        tuner: Any = self._peft.base_model
        if name is None:
            tuner.disable_adapter_layers()
        else:
            tuner.set_adapter(name, inference_mode=True)
            tuner.enable_adapter_layers()
            self._model.requires_grad_(False)
        self._active = name

    def _hang_in(self, name: str, config: AdapterConfig) -> None:
        lora = LoraConfig(**config.fields, inference_mode=True)
        if self._peft is None:
            self._peft = PeftModel(
                self._model, lora, name, autocast_adapter_dtype=False, low_cpu_mem_usage=True
            )
        else:
            self._peft.add_adapter(name, lora, low_cpu_mem_usage=True, autocast_adapter_dtype=False)
        weights = _read_weights(config.path / ADAPTER_WEIGHTS_NAME, self._model.dtype)
        result: Any = set_peft_model_state_dict(
            self._peft, weights, adapter_name=name, low_cpu_mem_usage=True
        )
        if result.unexpected_keys:
            raise ValueError(
                f"{len(result.unexpected_keys)} of its weights belong nowhere, such as "
                f"{sorted(result.unexpected_keys)[0]}"
            )
        missing = [key for key, tensor in self._peft.named_parameters() if tensor.is_meta and name in key]
        if missing:
            raise ValueError(f"{len(missing)} of its weights are missing, such as {missing[0]}")
        self._peft.train(False)
        self._peft.requires_grad_(False)


def _read_weights(file: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The adapter's weights in memory of their own: the library would leave them mapped to the file."""
    with safe_open(file, framework="pt") as weights:
        # The base model's precision, as engines that serve adapters do.
        return {
            name: weights.get_tensor(name).to(dtype, copy=True)
            for name in weights.keys()  # noqa: SIM118 - a safetensors file is no dictionary
        }
