"""What the engine must know of a model's architecture: its limits, and how to go on after a prompt.

Legend: B rows of a micro-batch, P prompt tokens, T reasoning tokens, V vocabulary.
"""

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

REUSABLE_LAYERS = (DynamicLayer, DynamicSlidingWindowLayer)
"""Cache layers that grow by concatenation into new tensors, so a shallow copy leaves the original as it
was. Recurrent and convolutional states are written in place and are not among them."""


@dataclass(frozen=True)
class PromptState:
    """A prompt that any number of reasonings can be scored against."""

    prompt: torch.Tensor
    """Token ids [1, P]."""
    cache: DynamicCache | None
    """Keys and values of the prompt, one row; none when the architecture has nothing to reuse."""
    first_logits: torch.Tensor | None
    """Logits [1, V] of the token after the prompt; given with `cache`."""
    equal_lengths: bool
    """Rows of different length must not be padded to one another."""


class CausalModel:
    """A causal language model of any architecture, seen as prompt encoder plus continuation."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._model = model
        self._config = model.config.get_text_config(decoder=True)
        accepted = inspect.signature(model.forward).parameters
        self._takes_position_ids = "position_ids" in accepted
        self._takes_logits_to_keep = "logits_to_keep" in accepted
        self._cacheable = not model._is_stateful and not _attends_in_chunks(self._config)
        self.device = model.device
        # The library's own annotations are too wide here for a type checker.
        modules: Any = model
        self.num_embeddings = int(modules.get_input_embeddings().weight.shape[0])
        """Token ids run from 0 to this, exclusive."""
        head = modules.get_output_embeddings()
        self.vocabulary_size = int(head.weight.shape[0]) if head is not None else self.num_embeddings

    @property
    def max_positions(self) -> int | None:
        """Most tokens that the model may read at once; none when it has no limit."""
        limit = getattr(self._config, "max_position_embeddings", None)
        return int(limit) if isinstance(limit, int) and limit > 0 else None

    @torch.inference_mode()
    def encode(self, prompt: Sequence[int], longest_pair: int, piece: int) -> PromptState:
        """The prompt, read once, at most `piece` tokens per forward call.

        Where the architecture offers no reusable cache the prompt is kept as tokens, and every reasoning
        is scored by a forward pass over prompt and reasoning together.

        Args:
            prompt: at least one token id.
            longest_pair: tokens of the longest prompt and reasoning together that will be asked for.
            piece: tokens per forward call.
        """
        prompt_1P = torch.tensor([list(prompt)], dtype=torch.long, device=self.device)
        switches = _rotary_switch(self._config)
        if switches is not None and longest_pair > switches:
            # Past this length the rotary frequencies of ALL positions change with the length read.
            return PromptState(prompt_1P, None, None, equal_lengths=True)
        if self._cacheable:
            cache: Any = None
            for start in range(0, len(prompt), piece):
                output = self._forward(prompt_1P[:, start : start + piece], cache, start, keep=1)
                cache = getattr(output, "past_key_values", None)
                if not _is_reusable(cache, min(start + piece, len(prompt))):
                    self._cacheable = False
                    break
            else:
                return PromptState(prompt_1P, cache, output.logits[:, -1].clone(), equal_lengths=False)
        return PromptState(prompt_1P, None, None, equal_lengths=False)

    @torch.inference_mode()
    def continuation_logits(
        self, state: PromptState, tokens_BT: torch.Tensor, piece: int
    ) -> Iterator[torch.Tensor]:
        """Logits [B, t, V] that predict the tokens, in blocks along T; together they cover it once.

        Rows are padded on the right, where causal attention keeps the padding from being seen.
        """
        num_rows, num_tokens = tokens_BT.shape
        if state.cache is None or state.first_logits is None:
            prompts_BP = state.prompt.expand(num_rows, -1)
            output = self._forward(torch.cat([prompts_BP, tokens_BT[:, :-1]], dim=1), None, 0, num_tokens)
            yield output.logits[:, -num_tokens:]
            return
        yield state.first_logits.expand(num_rows, -1).unsqueeze(1)
        cache = _for_rows(state.cache, num_rows)
        num_read = state.prompt.shape[1]
        # The last token is only predicted, so it is never read.
        for start in range(0, num_tokens - 1, piece):
            inputs_BT = tokens_BT[:, start : min(start + piece, num_tokens - 1)]
            yield self._forward(inputs_BT, cache, num_read + start, 0).logits

    def _forward(self, tokens_BT: torch.Tensor, cache: DynamicCache | None, num_read: int, keep: int) -> Any:
        """One call of the model; logits of the last `keep` positions at least, of all when it is 0."""
        num_rows, num_tokens = tokens_BT.shape
        end = num_read + num_tokens
        options: dict[str, Any] = {"use_cache": self._cacheable}
        if cache is not None:
            options["past_key_values"] = cache
        if self._takes_position_ids:
            positions_T = torch.arange(num_read, end, device=self.device)
            options["position_ids"] = positions_T.expand(num_rows, -1)
        if self._takes_logits_to_keep:
            options["logits_to_keep"] = keep
        mask_BT = torch.ones((num_rows, end), dtype=torch.long, device=self.device)
        return self._model(input_ids=tokens_BT, attention_mask=mask_BT, **options)


def _is_reusable(cache: object, num_read: int) -> bool:
    """Whether a cache holds keys and values of every layer, and nothing else."""
    if type(cache) is not DynamicCache or not cache.layers:
        return False
    layers: list[Any] = cache.layers
    return all(
        type(layer) in REUSABLE_LAYERS and layer.is_initialized and layer.get_seq_length() == num_read
        for layer in layers
    )


def _for_rows(cache: DynamicCache, num_rows: int) -> DynamicCache:
    """A cache of its own for `num_rows` rows that all begin with the cached prompt."""
    copied = copy.copy(cache)
    layers: list[Any] = [copy.copy(layer) for layer in cache.layers]
    for layer in layers:
        # Views, not copies: the first concatenation makes the rows real.
        layer.keys = layer.keys.expand(num_rows, -1, -1, -1)
        layer.values = layer.values.expand(num_rows, -1, -1, -1)
    copied.layers = layers
    return copied


def _attends_in_chunks(config: Any) -> bool:
    """Attention in fixed chunks of positions; its cache is not tested, so it is not reused."""
    return bool(getattr(config, "attention_chunk_size", None))


def _rotary_switch(config: Any) -> int | None:
    """Length above which `longrope` frequencies change for all positions, none for other kinds."""
    parameters = getattr(config, "rope_parameters", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    for kind in kinds:
        if kind.get("rope_type") == "longrope":
            original = kind.get("original_max_position_embeddings")
            original = original or getattr(config, "original_max_position_embeddings", None)
            return int(original or config.max_position_embeddings)
    return None
