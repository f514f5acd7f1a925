"""Reads the weights of a checkpoint folder: into a new model, or over those of a model that is there."""

from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from collapsewatch_worker.errors import CheckpointNotReady, CheckpointNotUsable
from collapsewatch_worker.models.folders import CONFIG_NAME, Folder

# What changes from one saved version to the next and says nothing about the architecture.
_NOT_ARCHITECTURE = ("_name_or_path", "transformers_version", "dtype", "torch_dtype")
_BAD_CONFIG = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, StrictDataclassError)
"""What values that make no sense may make the library answer."""


def load_config(path: Path) -> PreTrainedConfig:
    """The configuration of a folder, without code and kernels that it may name.

    Raises:
        CheckpointNotReady: it is half-written.
        CheckpointNotUsable: an architecture that the library does not know.
    """
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(  # nosec B615
            path, trust_remote_code=False, local_files_only=True
        )
    except OSError as error:
        raise CheckpointNotReady(f"{path / CONFIG_NAME} is incomplete or damaged: {error}") from error
    except _BAD_CONFIG as error:
        raise CheckpointNotUsable(f"{path / CONFIG_NAME} cannot be used: {error}") from error
    # A configuration may name kernels to fetch and run; the library's own default is taken instead.
    for field in ("_attn_implementation", "_experts_implementation"):
        if hasattr(config, field):
            setattr(config, field, None)
    return config


def load_model(
    path: Path,
    config: PreTrainedConfig,
    *,
    dtype: torch.dtype,
    device: torch.device,
    device_map: str | dict[str, Any] | None = None,
) -> PreTrainedModel:
    """The folder's model, ready to score: no dropout, no gradients.

    Weights that the configuration asks for and the folder lacks are an error: the library would fill
    them with random numbers and carry on.

    Args:
        device_map: spreads the layers over several devices, as the accelerate library reads it; `device`
            then only says where the first one is.

    Raises:
        CheckpointNotUsable: weights that do not fit the configuration.
    """
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(  # nosec B615
            path,
            config=config,
            dtype=dtype,
            device_map=device_map,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, RuntimeError, ImportError, *_BAD_CONFIG) as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise CheckpointNotUsable(f"the checkpoint {path} cannot be loaded: {error}") from error
    model: PreTrainedModel = loaded[0]
    _check_weights(path, loaded[1])
    model.train(False)
    model.requires_grad_(False)
    if device_map is None:
        torch.nn.Module.to(model, device)
    _own_memory(model)
    return model


def model_bytes(model: torch.nn.Module) -> int:
    """Memory that a model's weights and buffers take, shared ones once."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def can_swap(model: PreTrainedModel, folder: Folder, config: PreTrainedConfig) -> bool:
    """Whether the folder's weights can be read over the model's: one architecture, the same names and shapes.

    Not so where the library renames or merges weights as it loads them.
    """
    if _architecture(model.config) != _architecture(config) or getattr(model, "is_quantized", False):
        return False
    weights = model.state_dict()
    written: set[int] = set()
    for shard in folder.shards:
        with safe_open(shard, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safetensors file is no dictionary
                ours = weights.get(name)
                # Layers that are kept on disk have no memory that could be written to.
                if ours is None or ours.is_meta or list(ours.shape) != file.get_slice(name).get_shape():
                    return False
                written.add(ours.data_ptr())
    # Tied weights are saved under one of their names.
    return all(tensor.data_ptr() in written for tensor in weights.values())


@torch.no_grad()
def swap_weights(model: PreTrainedModel, folder: Folder) -> None:
    """Reads the folder's weights over the model's, one tensor at a time: there is never a second copy.

    Only where `can_swap`. When it fails midway the model holds a mixture and must be thrown away.

    Raises:
        CheckpointNotReady: the files are others than those that were looked at.
    """
    weights = model.state_dict()
    for shard in folder.shards:
        with safe_open(shard, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - a safetensors file is no dictionary
                read, ours = file.get_tensor(name), weights.get(name)
                # A smaller tensor would be repeated to fill a larger one without a word.
                if ours is None or ours.shape != read.shape:
                    raise CheckpointNotReady(f"{shard} was written to while it was read")
                ours.copy_(read)


def _own_memory(model: torch.nn.Module) -> None:
    """Copies weights that are still a view of their file.

    On a CPU the library maps the file. A trainer that writes over it would change the weights of a loaded
    model under way, and one that shortens it would end the process with a bus error.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.device.type == "cpu":
            tensor.data = tensor.data.clone()


def _architecture(config: PreTrainedConfig) -> dict[str, Any]:
    values: dict[str, Any] = config.to_dict()
    return {name: value for name, value in values.items() if name not in _NOT_ARCHITECTURE}


def _check_weights(path: Path, loading: dict[str, Any]) -> None:
    for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
        if faults := loading.get(kind):
            first = sorted(map(str, faults))[0]
            raise CheckpointNotUsable(
                f"the weights in {path} do not fit its {CONFIG_NAME}: {len(faults)} {kind}, such as {first}"
            )
