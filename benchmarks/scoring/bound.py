"""The least floating-point work that a batch needs, and how fast the machine multiplies matrices.

Legend: R reasonings, P prompts, T reasoning tokens.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from benchmarks.scoring.work import Work

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_SQUARES = {"cpu": (512, 1536), "cuda": (4096, 8192)}
_REPEATS = {"cpu": 2, "cuda": 10}


@dataclass(frozen=True, slots=True)
class Flops:
    """Multiplications and additions, each counted as one."""

    layers: int
    """The weight matrices of the layers."""
    attention: int
    """Queries times keys and weights times values, for the keys that a query may see and no others."""
    head: int
    """Hidden states times the output embedding."""

    @property
    def total(self) -> int:
        """All of them."""
        return self.layers + self.attention + self.head


@dataclass(frozen=True, slots=True)
class Weights:
    """What the count needs to know of a model."""

    num_layer_weights: int
    num_head_weights: int
    attention_width: int
    """Query heads times their dimension, summed over the layers."""


def weights(model: PreTrainedModel) -> Weights:
    """Reads the matrices off a decoder of plain linear layers with full causal attention in each layer."""
    body: Any = model.base_model
    config = model.config
    whole: Any = model
    head = whole.get_output_embeddings()
    linear = [module for module in body.modules() if isinstance(module, torch.nn.Linear)]
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return Weights(
        sum(module.weight.numel() for module in linear),
        head.weight.numel(),
        config.num_hidden_layers * config.num_attention_heads * head_size,
    )


def least_flops(of: Weights, work: Work) -> Flops:
    """Each token of the prompts' prefix tree once, and of each pair all reasoning tokens but the last.

    The last token of a reasoning is predicted and never read. The first is predicted by the prompt's last
    hidden state, which all reasonings share, so the head runs once for each distinct prompt and T − 1 times
    for each pair. Lookups, norms, rotations, activations and softmax are no matrix products and do not count.
    """
    prompts = sorted({tuple(prompt) for prompt in work.prompts})
    reasonings = {tuple(reasoning) for reasoning in work.reasonings}
    num_read, num_seen = 0, 0
    before: tuple[int, ...] = ()
    for prompt in prompts:
        # Sorted, so the longest prefix that any earlier prompt shares is shared with its neighbour.
        known = common_prefix(before, prompt)
        num_read += len(prompt) - known
        num_seen += _causal_keys(known, len(prompt))
        before = prompt
    num_heads = len(prompts)
    for prompt in prompts:
        for reasoning in reasonings:
            num_read += len(reasoning) - 1
            num_heads += len(reasoning) - 1
            num_seen += _causal_keys(len(prompt), len(prompt) + len(reasoning) - 1)
    return Flops(
        layers=2 * of.num_layer_weights * num_read,
        attention=4 * of.attention_width * num_seen,
        head=2 * of.num_head_weights * num_heads,
    )


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences begin with alike."""
    length = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        length += 1
    return length


def _causal_keys(start: int, end: int) -> int:
    """Keys that the positions from `start` up to `end` see: each sees itself and all before it."""
    return (end * (end + 1) - start * (start + 1)) // 2


class MatmulRate:
    """The best rate of a square matrix product seen so far, in the model's number format.

    The machine's speed changes under the benchmark, so the rate is measured again before each thing that is
    timed, and the best of the whole run is the one that bounds are divided by. On a CPU there are two
    libraries to ask, and the faster one counts.
    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, squares: Sequence[int] | None = None
    ) -> None:
        self._device = device
        self._ways: dict[str, Product] = {"torch.mm": torch.mm}
        if device.type == "cpu" and (onednn := onednn_product()) is not None:
            self._ways["oneDNN"] = onednn
        self.by_way = dict.fromkeys(self._ways, 0.0)
        """Best floating-point operations per second of each library."""
        self._pairs = [
            torch.randn(2, size, size, device=device, dtype=dtype)
            for size in squares or _SQUARES[device.type]
        ]

    @property
    def best(self) -> float:
        """Floating-point operations per second."""
        return max(self.by_way.values())

    @torch.no_grad()
    def measure(self) -> None:
        """One more look: a quarter of a second on a core, less on a GPU."""
        for left, right in self._pairs:
            for name, product in self._ways.items():
                product(left, right)
                for _ in range(_REPEATS[self._device.type]):
                    rate = 2 * len(left) ** 3 / self._seconds(product, left, right)
                    self.by_way[name] = max(self.by_way[name], rate)

    def _seconds(self, product: Product, left: torch.Tensor, right: torch.Tensor) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            begun = time.perf_counter()
            product(left, right)
            torch.cuda.synchronize(self._device)
            return time.perf_counter() - begun
        begun = time.thread_time()
        product(left, right)
        return time.thread_time() - begun


def onednn_product() -> Product | None:
    """A matrix times another one's transpose by oneDNN; none where PyTorch was built without it."""
    backend: Any = torch.backends.mkldnn
    if not (backend.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return None

    def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        done: torch.Tensor = torch.ops.mkldnn._linear_pointwise(left, right, None, "none", [], "")
        return done

    return product
