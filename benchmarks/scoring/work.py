"""The models and batches of the scoring benchmark: random weights, random tokens, seeded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

Tokens = list[int]

_PROMPT_SPREAD = 0.05
_REASONING_SPREAD = 0.2


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder with rotary positions and a gated MLP, as most policies are today."""

    name: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    intermediate_size: int
    vocabulary_size: int


@dataclass(frozen=True, slots=True)
class Size:
    """How large a batch is. Lengths are means."""

    name: str
    num_prompts: int
    rollouts_per_prompt: int
    prompt_tokens: int
    shared_tokens: int
    """How many tokens all prompts begin with."""
    reasoning_tokens: int
    shape: Shape
    with_more: bool = False
    """Whether naive pairs, and the reference scheme with oneDNN's products, are timed too."""
    with_16_rows: bool = False
    """Whether the reference scheme is timed with 16 rows a forward pass as well, which is slower on a CPU."""
    only_memory: bool = False
    """Whether the engine alone is run, for its memory."""

    @property
    def title(self) -> str:
        """The size in words, as a line of the table and of the plot begins."""
        shared = f"{self.shared_tokens:,} shared" if self.shared_tokens else "none shared"
        shape = "" if self.shape is SMALL else f"{self.shape.name}, "
        return (
            f"{shape}N={self.num_prompts}, K={self.rollouts_per_prompt}, "
            f"prompts {self.prompt_tokens:,} ({shared}), reasonings {self.reasoning_tokens:,}"
        )


@dataclass(frozen=True, slots=True)
class Work:
    """One batch: every reasoning is scored under every prompt."""

    prompts: list[Tokens]
    reasonings: list[Tokens]

    @property
    def num_scored_tokens(self) -> int:
        """Tokens that get a log-probability, over all pairs."""
        return len(self.prompts) * sum(map(len, self.reasonings))

    @property
    def num_padded_tokens(self) -> int:
        """Tokens of all pairs, each reasoning padded to the longest: what the reference scheme reads."""
        padded = len(self.reasonings) * max(map(len, self.reasonings))
        return len(self.reasonings) * sum(map(len, self.prompts)) + len(self.prompts) * padded

    def part(self, rows: Sequence[int], columns: Sequence[int]) -> "Work":
        """Some of the reasonings with some of the prompts."""
        return Work([self.prompts[column] for column in columns], [self.reasonings[row] for row in rows])


SMALL = Shape("4 layers of 256", 256, 4, 4, 4, 1024, 8192)
HALF_BILLION = Shape("0.5B", 896, 24, 14, 2, 4864, 151_936)
SEVEN_BILLION = Shape("7B", 3584, 28, 28, 4, 18_944, 152_064)

CPU_SIZES = (
    Size("short", 8, 16, 400, 280, 100, SMALL, with_more=True, with_16_rows=True),
    Size("short-apart", 8, 16, 400, 0, 100, SMALL),
    Size("long", 8, 16, 1500, 0, 100, SMALL),
    Size("long-shared", 8, 16, 1500, 1400, 100, SMALL),
    Size("few", 4, 4, 1500, 1400, 100, SMALL),
    Size("many", 8, 64, 400, 280, 100, SMALL, only_memory=True),
)
GPU_SIZES = (
    Size("gpu-0.5b", 8, 16, 2000, 0, 400, HALF_BILLION, with_16_rows=True),
    Size("gpu-7b", 8, 16, 2000, 0, 400, SEVEN_BILLION, with_16_rows=True),
)


def work(size: Size) -> Work:
    """The batch of a size: prompts ±5 % long beyond what they share, reasonings ±20 %."""
    generator = np.random.default_rng(size.num_prompts * 1_000_003 + size.prompt_tokens)

    def tokens(count: int) -> Tokens:
        return [int(token) for token in generator.integers(0, size.shape.vocabulary_size, count)]

    def length(mean: int, spread: float) -> int:
        return int(generator.integers(round(mean * (1 - spread)), round(mean * (1 + spread)) + 1))

    shared = tokens(size.shared_tokens)
    prompts = [
        shared + tokens(max(1, length(size.prompt_tokens, _PROMPT_SPREAD) - size.shared_tokens))
        for _ in range(size.num_prompts)
    ]
    num_reasonings = size.num_prompts * size.rollouts_per_prompt
    reasonings = [tokens(length(size.reasoning_tokens, _REASONING_SPREAD)) for _ in range(num_reasonings)]
    return Work(prompts, reasonings)


def model(shape: Shape, device: torch.device, dtype: torch.dtype) -> PreTrainedModel:
    """The shape with random weights, in eval mode, under transformers' own default attention."""
    torch.manual_seed(0)
    options: dict[str, Any] = {
        "vocab_size": shape.vocabulary_size,
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": False,
    }
    # The library's own annotations are too wide here for a type checker.
    maker: Any = AutoModelForCausalLM
    with torch.device(device):
        made: PreTrainedModel = maker.from_config(AutoConfig.for_model("llama", **options), dtype=dtype)
    made.train(False)
    return made
