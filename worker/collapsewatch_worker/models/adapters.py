"""LoRA adapters on a shared base model: hangs them in, switches them on and off, takes them out again."""

import warnings
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.functional import set_peft_model_state_dict
from safetensors import safe_open
from transformers import PreTrainedModel

from collapsewatch_worker.errors import CheckpointNotUsable
from collapsewatch_worker.models.adapter_config import AdapterConfig
from collapsewatch_worker.models.folders import ADAPTER_WEIGHTS_NAME
from collapsewatch_worker.scoring.readout import agree

_NUM_TRIED = 10
"""Tokens on which an adapter and its base are tried, spread over the vocabulary."""
_FAULTS = (ValueError, TypeError, KeyError, AttributeError, RuntimeError, ImportError)
"""What an adapter that does not fit may make the library answer."""


class AdaptersClash(Exception):
    """An adapter does not go together with those that hang in the model; alone it may."""


class AdapterSwitch:
    """Adapters on one base model. Its layers are wrapped once; a switch copies nothing."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._peft: PeftModel | None = None
        self._num_attached = 0
        self._active: str | None = None
        self._answers: dict[str | None, torch.Tensor] = {}
        self._is_exact = True

    def attach(self, config: AdapterConfig) -> str:
        """Reads an adapter's weights and hangs them into the model, switched off; its name here.

        Afterwards the base model and every adapter that was there compute what they did before. Whatever
        is raised, the model is no longer to be used.

        Raises:
            CheckpointNotUsable: it does not fit the base model.
            AdaptersClash: it cannot be hung in beside the adapters that are there.
        """
        name = f"number{self._num_attached}"
        self._num_attached += 1
        others = [other for other in self._answers if other is not None]
        try:
            if self._peft is None:
                # The bare model may hold other weights than when its last adapter was taken out.
                self._answers = {None: self._answer()}
                self._is_exact = torch.equal(self._answers[None], self._answer())
            with warnings.catch_warnings():
                # Peft warns of what is refused below, and of keys that are training's business.
                warnings.simplefilter("ignore")
                self._hang_in(name, config)
            # Which adapter is on after that depends on how many there were.
            self._active = ""
            self.switch(name)
            self._answers[name] = self._answer()
            self._check_others(name)
        except _FAULTS as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            if others:
                raise AdaptersClash(f"{config.path}: {error}") from error
            raise CheckpointNotUsable(
                f"the adapter {config.path} does not fit its base model {config.base!r}: {error}"
            ) from error
        self.switch(None)
        return name

    def detach(self, name: str) -> None:
        """Drops an adapter and its weights; with the last one the model is bare again."""
        assert self._peft is not None
        self.switch(None)
        tuner: Any = self._peft.base_model
        tuner.delete_adapter(name)
        del self._answers[name]
        if not tuner.peft_config:
            # Wrapped layers without any adapter refuse the next one, and keep new weights from being read
            # over the old ones.
            tuner.unload()
            self._peft = None

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

    @torch.inference_mode()
    def _answer(self) -> torch.Tensor:
        """Logits [1, T, V] of a few tokens, as the model computes at this moment."""
        model: Any = self._model
        num_rows = int(model.get_input_embeddings().weight.shape[0])
        limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
        num_tokens = min(_NUM_TRIED, limit) if isinstance(limit, int) and limit > 0 else _NUM_TRIED
        ids_T = torch.linspace(0, num_rows - 1, num_tokens).long().to(model.device)
        logits_1TV: torch.Tensor = model(input_ids=ids_T.unsqueeze(0), use_cache=False).logits
        # A half-precision model may overflow, and one NaN does not equal another.
        return logits_1TV.nan_to_num()

    def _check_others(self, name: str) -> None:
        """The library shares wrappers between adapters and ties weights anew: not every mix survives that."""
        for other, before in self._answers.items():
            if other == name:
                continue
            self.switch(other)
            now = self._answer()
            # Switched off, an adapter leaves no trace: the same operations on the same numbers.
            is_same = torch.equal(now, before) if self._is_exact else agree(now[0], before[0])
            if not is_same:
                whose = "its base model" if other is None else "another adapter"
                raise ValueError(f"with it in place {whose} no longer computes what it did; merge it first")

    def _hang_in(self, name: str, config: AdapterConfig) -> None:
        if any(parameter.is_meta for parameter in self._model.parameters()):
            raise ValueError("layers of the base are kept outside the device's memory and take no adapter")
        lora = LoraConfig(**config.fields, inference_mode=True)
        if self._peft is None:
            self._peft = PeftModel(
                self._model, lora, name, autocast_adapter_dtype=False, low_cpu_mem_usage=True
            )
        else:
            self._peft.add_adapter(name, lora, low_cpu_mem_usage=True, autocast_adapter_dtype=False)
        weights = _read_weights(config.path / ADAPTER_WEIGHTS_NAME, self._model.dtype)
        shared = _not_of(name, self._peft)
        result: Any = set_peft_model_state_dict(
            self._peft, _without_shared(weights, shared), adapter_name=name, low_cpu_mem_usage=True
        )
        if result.unexpected_keys:
            raise ValueError(
                f"{len(result.unexpected_keys)} of its weights belong nowhere, such as "
                f"{sorted(result.unexpected_keys)[0]}"
            )
        missing = [
            key for key, tensor in self._peft.named_parameters() if tensor.is_meta and name in key.split(".")
        ]
        if missing:
            raise ValueError(f"{len(missing)} of its weights are missing, such as {missing[0]}")
        # The library may rename keys on the way, so what became of them is looked at as well.
        replaced = [key for key, tensor in _not_of(name, self._peft).items() if shared.get(key) is not tensor]
        if replaced:
            raise ValueError(_told_as_shared(replaced[0]))
        self._peft.train(False)
        self._peft.requires_grad_(False)


def _not_of(name: str, model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights that an adapter has no part in: the base model's and other adapters'."""
    tensors: dict[str, torch.Tensor] = model.state_dict(keep_vars=True)
    return {key: tensor for key, tensor in tensors.items() if name not in key.split(".")}


def _without_shared(
    weights: dict[str, torch.Tensor], shared: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The weights without those that the base model holds anyway: trainers save embeddings along.

    Raises:
        ValueError: they would change the base model, which other adapters share.
    """
    for key in weights.keys() & shared.keys():
        ours = shared[key]
        if ours.shape != weights[key].shape or not torch.equal(ours, weights[key].to(ours.device)):
            raise ValueError(_told_as_shared(key))
    return {key: tensor for key, tensor in weights.items() if key not in shared}


def _told_as_shared(key: str) -> str:
    return f"it changes the base model's own {key}, which other adapters share; merge it into its base first"


def _read_weights(file: Path, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The adapter's weights in memory of their own: the library would leave them mapped to the file."""
    with safe_open(file, framework="pt") as weights:
        # The base model's precision, as engines that serve adapters do.
        return {
            name: weights.get_tensor(name).to(dtype, copy=True)
            for name in weights.keys()  # noqa: SIM118 - a safetensors file is no dictionary
        }
