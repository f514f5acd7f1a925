"""Matrix products by the fastest float32 library that this processor has.

PyTorch multiplies float32 matrices on a CPU with MKL, which leaves the widest vector units of some processors
unused; oneDNN, which comes in the same package, uses them. Measured on one thread of an AMD EPYC (Zen 5):
80-90 against 155-190 GFLOP/s. Which one is faster here is measured once per process.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

log = logging.getLogger(__name__)

MIN_GAIN = 1.15
"""oneDNN must be this much faster in the trial, so that chance does not decide where both are equal."""
MIN_ROWS = 16
"""Products of fewer rows are bound by memory, not by arithmetic: they stay where they are."""
TRIAL_SHAPE = (256, 256, 1024)
"""Rows, inner size and columns of the trial product, which takes a millisecond."""
MIN_STEP, STEPS_PER_DOUBLING = 16, 32
"""Sizes are rounded up to such steps: oneDNN compiles code for each shape that it meets, which takes 0.3 ms,
and keeps it, which takes 0.57 MiB."""

MIN_FILLED = MIN_STEP * STEPS_PER_DOUBLING
"""From here on a step is at most a 32nd part, so a few tokens more cost less than copies."""


class FastProducts:
    """A model's float32 linear layers on a CPU, and a context in which the fastest library runs them."""

    def __init__(self, model: torch.nn.Module) -> None:
        """Finds the layers; none when PyTorch's default is as fast."""
        layers = [module for module in model.modules() if type(module) is torch.nn.Linear and _suits(module)]
        self._layers = layers if layers and onednn_is_faster() else []

    def num_rows_for(self, num_rows: int) -> int:
        """Rows to give the layers instead of so many, so that none is copied to be filled up."""
        return stepped(num_rows) if self._layers and num_rows >= MIN_FILLED else num_rows

    @contextmanager
    def used(self) -> Iterator[None]:
        """Within it the layers run in that library; afterwards they are as they were."""
        for layer in self._layers:
            vars(layer)["forward"] = partial(_layer_output, layer)
        try:
            yield
        finally:
            for layer in self._layers:
                del vars(layer)["forward"]


def stepped(size: int) -> int:
    """The size, or up to a 32nd part more of it, and at least a multiple of 16; so that few sizes exist."""
    step = _step_at(size)
    return -(-size // step) * step


def stepped_down(size: int) -> int:
    """The next smaller such size; the size itself below 16."""
    return size // _step_at(size) * _step_at(size) or size


def _step_at(size: int) -> int:
    return max(MIN_STEP, (1 << size.bit_length() - 1) // STEPS_PER_DOUBLING)


def _suits(layer: torch.nn.Linear) -> bool:
    weight = layer.weight
    # A forward of its own moves weights between devices, or is another's replacement: leave it in place.
    return (
        weight.is_cpu
        and weight.dtype == torch.float32
        and weight.is_contiguous()
        and "forward" not in vars(layer)
    )


def _layer_output(layer: torch.nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    if inputs.dtype != torch.float32 or inputs.numel() < MIN_ROWS * layer.in_features:
        return torch.nn.functional.linear(inputs, layer.weight, layer.bias)
    num_rows = inputs.numel() // layer.in_features
    num_computed = stepped(num_rows)
    if num_computed == num_rows:
        return linear(inputs, layer.weight, layer.bias)
    rows_NI = inputs.reshape(num_rows, layer.in_features)
    padded_NI = torch.nn.functional.pad(rows_NI, (0, 0, 0, num_computed - num_rows))
    return linear(padded_NI, layer.weight, layer.bias)[:num_rows].view(*inputs.shape[:-1], -1)


def linear(inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Inputs [N, I] times the transpose of a weight [O, I], by oneDNN in float32."""
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")
    return product


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN multiplies equally well and clearly faster than PyTorch's default, in a short trial."""
    library: Any = torch.backends.mkldnn
    if not (library.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    rows, inner, columns = TRIAL_SHAPE
    generator = torch.Generator().manual_seed(0)
    inputs, weight = (torch.randn(size, inner, generator=generator) for size in (rows, columns))
    with torch.inference_mode():
        try:
            error = (linear(inputs, weight) - torch.nn.functional.linear(inputs, weight)).abs().max()
        except (RuntimeError, TypeError):
            return False
        default, other = (_seconds(way, inputs, weight) for way in (torch.nn.functional.linear, linear))
    log.debug("products tried", extra={"default_seconds": default, "onednn_seconds": other})
    return bool(error < 1e-3) and default > MIN_GAIN * other


def _seconds(way: Callable[..., torch.Tensor], inputs: torch.Tensor, weight: torch.Tensor) -> float:
    """The shortest of a few runs: what disturbs a run only makes it longer."""
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        way(inputs, weight)
        best = min(best, time.perf_counter() - start)
    return best
