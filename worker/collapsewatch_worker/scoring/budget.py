"""How many tokens a forward call may hold, found from the model and the device it is on."""

import ctypes
import logging
import sys
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

log = logging.getLogger(__name__)

MIN_TOKEN_BUDGET = 16
"""An out-of-memory error below this budget is not ours to repair."""
CPU_WORKSPACE = 2**26
"""Bytes for activations on a CPU, where free memory belongs to others as well: 64 MiB."""
WEIGHTS_PER_WORKSPACE = 64
"""A large model gets a larger workspace: its weights' bytes over this."""
CUDA_SHARE = 0.5
"""Share of a device's free memory for activations and copied caches; the rest is for prompts and logits."""
CPU_PACKED_TOKENS = 1024
"""Packed tokens per thread from which on this engine got no faster: 400 cost a tenth more, 200 a quarter."""
CUDA_PACKED_TOKENS = 32_768
"""Packed tokens that fill a GPU; more only take memory."""
KEPT_BLOCK = 2**24 - 2**16
"""Bytes of the largest block that the C library keeps when freed: 16 MiB. With 32 the peak was higher."""
TOKENS_PER_TRIM = 8192
"""Tokens computed between two returns of freed memory, each of which takes milliseconds."""
LIVE_HIDDEN, LIVE_WIDEST = 12, 4
"""Tensors of the hidden size, and of the widest layer, that a decoder layer holds at once, with room."""


@dataclass
class TokenBudget:
    """How large micro-batches may be; shrinks when the device runs out of memory."""

    new_tokens: int
    """Most tokens of one forward call."""
    packed_tokens: int
    """Tokens that packed rows are gathered to; one row may be longer, up to `new_tokens`."""
    padded_tokens: int
    """Most tokens of a micro-batch whose rows carry a copy of the prompt, prompts and padding included."""

    def halve(self) -> bool:
        """True when there was something left to give up."""
        if self.new_tokens <= MIN_TOKEN_BUDGET:
            return False
        self.new_tokens = max(MIN_TOKEN_BUDGET, self.new_tokens // 2)
        self.packed_tokens = min(self.packed_tokens, self.new_tokens)
        self.padded_tokens = max(MIN_TOKEN_BUDGET, self.padded_tokens // 2)
        log.warning("out of memory, carrying on smaller", extra={"new_tokens": self.new_tokens})
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return True


def keep_freed_memory() -> None:
    """Brings the C library to hold on to what the layers free and ask for again, which they do all the time.

    glibc gives large blocks back to the system and gets them anew, page by page, which was 7 % of the time.
    The largest block that was freed so far tells it what to keep. This one is never written to, so it takes
    no memory. Other C libraries lose nothing by it.
    """
    torch.empty(KEPT_BLOCK, dtype=torch.uint8)


def return_freed_memory() -> None:
    """Brings the C library to give the system what it holds on to between blocks that are in use.

    Blocks of ever other sizes leave more such gaps with each prompt: 20 MiB after eight of 1,500 tokens.
    Other C libraries than glibc are left alone.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def found_budget(model: PreTrainedModel, limit: int | None) -> TokenBudget:
    """What fits the free memory of a CUDA device, or a fixed workspace on a CPU.

    Args:
        model: on its device.
        limit: most tokens of a micro-batch, whatever would fit; no limit when absent.

    Raises:
        ValueError: a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"a token budget must be at least 1, got {limit}")
    workspace = _workspace(model)
    per_new, per_cached = _bytes_per_token(model)
    cap = limit if limit is not None else max(MIN_TOKEN_BUDGET, workspace // min(per_new, per_cached))
    new_tokens = min(cap, max(MIN_TOKEN_BUDGET, workspace // per_new))
    on_cuda = model.device.type == "cuda"
    fastest = CUDA_PACKED_TOKENS if on_cuda else CPU_PACKED_TOKENS * torch.get_num_threads()
    return TokenBudget(
        new_tokens=new_tokens,
        packed_tokens=min(new_tokens, fastest),
        padded_tokens=min(cap, max(MIN_TOKEN_BUDGET, workspace // per_cached)),
    )


def _workspace(model: PreTrainedModel) -> int:
    """Bytes that activations and copied caches may take."""
    if model.device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(model.device)
        # What the allocator holds in reserve is free for us as well.
        reserve = torch.cuda.memory_reserved(model.device) - torch.cuda.memory_allocated(model.device)
        return int(CUDA_SHARE * (free + reserve))
    weights = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    return max(CPU_WORKSPACE, weights // WEIGHTS_PER_WORKSPACE)


def _bytes_per_token(model: PreTrainedModel) -> tuple[int, int]:
    """Bytes that a token takes in a forward call, and those that it takes in a cache of all layers."""
    config: Any = model.config.get_text_config(decoder=True)
    hidden = int(config.hidden_size)
    modules: Any = model
    ends = (modules.get_input_embeddings(), modules.get_output_embeddings())
    outside = {id(module.weight) for module in ends if module is not None}
    widths = [max(p.shape[-2:]) for p in model.parameters() if p.dim() >= 2 and id(p) not in outside]
    size = next(model.parameters()).element_size()
    heads = _most(config, "num_attention_heads", 1)
    key_heads = _most(config, "num_key_value_heads", heads)
    head_size = _most(config, "head_dim", hidden // heads)
    per_new = size * (LIVE_HIDDEN * hidden + LIVE_WIDEST * max(widths, default=hidden))
    per_cached = size * 2 * int(config.num_hidden_layers) * key_heads * head_size
    return max(1, per_new), max(1, per_cached)


def _most(config: Any, name: str, otherwise: int) -> int:
    """A number of the configuration; the greatest where layers differ; `otherwise` where it has none."""
    value = getattr(config, name, None)
    numbers = [number for number in (value if isinstance(value, list) else [value]) if number]
    return max(map(int, numbers), default=otherwise)
