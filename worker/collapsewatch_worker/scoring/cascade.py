"""Many reasonings after one prompt, packed without padding, with one copy of the prompt's keys and values.

Every token attends once to the prompt's cache, which all share, and once to its own row; the two are merged
by their log-sum-exps, which is exact. This is known as cascade attention. Where one softmax over both is
faster, that is taken.

Legend: N packed tokens, H query heads, G key heads, K prompt tokens, D head size, F features.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface, DynamicCache

from collapsewatch_worker.scoring.attention import (
    RowGroup,
    attention_over,
    causal_within_rows,
    merged,
    seen_bias,
    varlen_on_cuda,
)
from collapsewatch_worker.scoring.joint import Block, joint_attention, suits_joint, token_blocks
from collapsewatch_worker.scoring.readout import FAILURES, agree, is_out_of_memory

IMPLEMENTATION = "collapsewatch_cascade"
"""Name under which transformers knows the attention function below; it builds no mask for such a name."""
REFUSED_OPTIONS = ("position_bias", "head_mask", "alibi", "cache", "block_table", "cu_seq_lens_q")
"""Options that change the attention in ways this function knows nothing of."""
PROBE_PROMPT, PROBE_ROWS = 6, (4, 2, 2)
"""Tokens of the prompt and of the rows of the check that an architecture is understood."""


class CannotCascade(NotImplementedError):
    """The architecture asks its attention for something that the cascade does not do."""


@dataclass
class _Plan:
    """What the attention function must know of the forward call that it is part of."""

    cache: DynamicCache
    num_prompt: int
    groups: list[RowGroup]
    steps_N: torch.Tensor
    """Position of each packed token in its row."""
    biases: dict[Any, torch.Tensor | None] = field(default_factory=dict)
    """Of the prompt's keys, by window, kept keys and device: the same for many layers."""
    blocks: dict[tuple[int, int], list[Block]] = field(default_factory=dict)
    """By kept keys and heads that share a key head."""
    layers: set[int] = field(default_factory=set)
    """The layers that have called so far."""

    def prompt_bias(self, window: int | None, key_1GKD: torch.Tensor) -> torch.Tensor | None:
        """Which kept prompt keys each token sees [N, K]; none when every token sees all."""
        kept = key_1GKD.shape[2]
        # Keys stand at -kept .. -1 and the tokens of a row at 0, 1, 2, ...
        if window is None or self.groups[0].length - 1 + kept < window:
            return None
        name = (window, kept, key_1GKD.device)
        if name not in self.biases:
            steps_N = self.steps_N.to(key_1GKD.device)
            positions_K = torch.arange(-kept, 0, device=key_1GKD.device)
            self.biases[name] = seen_bias(steps_N, positions_K, window, key_1GKD.dtype)
        return self.biases[name]

    def blocks_for(self, key_1GKD: torch.Tensor, num_heads: int) -> list[Block]:
        """The packed tokens in blocks for one softmax over prompt and rows."""
        kept, shared = key_1GKD.shape[2], num_heads // key_1GKD.shape[1]
        if (kept, shared) not in self.blocks:
            self.blocks[kept, shared] = token_blocks(self.groups, kept, shared)
        return self.blocks[kept, shared]

    def row_ends(self, device: torch.device) -> torch.Tensor:
        """Cumulative lengths of the rows, from 0, int32."""
        if ("ends", device) not in self.biases:
            lengths = [group.length for group in self.groups for _ in range(group.num_rows)]
            ends = list(itertools.accumulate(lengths, initial=0))
            self.biases["ends", device] = torch.tensor(ends, dtype=torch.int32, device=device)
        ends_R = self.biases["ends", device]
        assert ends_R is not None
        return ends_R


_plan: ContextVar[_Plan | None] = ContextVar("cascade_plan", default=None)


class Cascade:
    """The packed forward call of a decoder."""

    def __init__(self, body: Any) -> None:
        """Takes the decoder as it is; `cascades` tells whether it can be called in this way."""
        self._body = body
        configs = [
            module.config
            for module in body.modules()
            if hasattr(module, "layer_idx") and hasattr(module, "config")
        ]
        self._configs = list({id(config): config for config in configs}.values())

    def forward(
        self, cache: DynamicCache, num_prompt: int, num_tokens: Sequence[int], **inputs: torch.Tensor
    ) -> Any:
        """The decoder's output for packed rows that all follow the cached prompt.

        Args:
            cache: keys and values of the prompt, one row; stays as it is.
            num_prompt: tokens of the prompt.
            num_tokens: length of each row, longest first.
            inputs: `input_ids` [1, N] or `inputs_embeds` [1, N, F], row after row.

        Raises:
            CannotCascade: the architecture asks for something else than such attention.
        """
        device = next(iter(inputs.values())).device
        groups = row_groups(num_tokens)
        steps_N = torch.cat([torch.arange(group.length).repeat(group.num_rows) for group in groups]).to(
            device
        )
        plan = _Plan(cache, num_prompt, groups, steps_N)
        with self._attending(plan):
            output = self._body(position_ids=(steps_N + num_prompt).unsqueeze(0), use_cache=False, **inputs)
        if plan.layers != set(range(len(cache.layers))):
            raise CannotCascade(
                f"layers {sorted(plan.layers)} of {len(cache.layers)} use the attention interface"
            )
        return output

    @contextmanager
    def _attending(self, plan: _Plan) -> Iterator[None]:
        before = [config._attn_implementation for config in self._configs]
        token = _plan.set(plan)
        try:
            for config in self._configs:
                config._attn_implementation = IMPLEMENTATION
            yield
        finally:
            _plan.reset(token)
            for config, implementation in zip(self._configs, before, strict=True):
                config._attn_implementation = implementation


def row_groups(num_tokens: Sequence[int]) -> list[RowGroup]:
    """Runs of equal length among the rows, as they stand packed one after the other."""
    groups = []
    start = 0
    for length, run in itertools.groupby(num_tokens):
        group = RowGroup(start, num_rows=len(list(run)), length=length)
        groups.append(group)
        start = group.end
    return groups


def cascade_attention(
    module: Any,
    query_1HND: torch.Tensor,
    key_1GND: torch.Tensor,
    value_1GND: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Attention outputs [1, N, H, D] of packed rows: transformers' attention interface.

    Raises:
        CannotCascade: the caller asks for more than grouped heads, a window, a soft cap and sinks.
    """
    plan = _plan.get()
    assert plan is not None, "the cascade is called through Cascade.forward only"
    window = _checked_window(plan, module, attention_mask, options)
    plan.layers.add(module.layer_idx)
    layer: Any = plan.cache.layers[module.layer_idx]
    softcap, sinks_H = options.get("softcap"), options.get("s_aux")
    scale = scaling if scaling is not None else 1 / math.sqrt(query_1HND.shape[-1])
    bias_NK = plan.prompt_bias(window, layer.keys)
    if bias_NK is None and softcap is None and sinks_H is None and suits_joint(query_1HND, layer.keys):
        # Whoever sees the whole prompt sees the whole of its row up to itself.
        blocks = plan.blocks_for(layer.keys, query_1HND.shape[1])
        prompt_1GKD = (layer.keys, layer.values)
        return joint_attention(query_1HND, key_1GND, value_1GND, prompt_1GKD, blocks, scale=scale), None
    own, own_lse = _own_attention(plan, query_1HND, key_1GND, value_1GND, scale, window, softcap)
    if layer.keys.shape[2] == 0:
        out_1NHD, lse_1NH = own, own_lse
    else:
        if softcap is None and bias_NK is None and flash_on_cuda(query_1HND, value_1GND):
            other, other_lse = _prompt_on_cuda(query_1HND, layer, scale)
        else:
            other, other_lse = attention_over(
                query_1HND, layer.keys, layer.values, scale=scale, bias_QK=bias_NK, softcap=softcap
            )
        out_1NHD, lse_1NH = merged(own, own_lse, other, other_lse), torch.logaddexp(own_lse, other_lse)
    if sinks_H is not None:
        # A sink is one more key whose value is nothing.
        out_1NHD = out_1NHD * torch.sigmoid(lse_1NH - sinks_H.float()).unsqueeze(-1).to(out_1NHD.dtype)
    return out_1NHD.contiguous(), None


AttentionInterface.register(IMPLEMENTATION, cascade_attention)


def _checked_window(
    plan: _Plan, module: Any, mask: torch.Tensor | None, options: dict[str, Any]
) -> int | None:
    """The window of a layer, after making sure that all it asks for is understood."""
    if mask is not None:
        raise CannotCascade("the attention has a mask of its own")
    for name in REFUSED_OPTIONS:
        if options.get(name) is not None:
            raise CannotCascade(f"the attention has the option {name}")
    if options.get("is_causal") is False or getattr(module, "is_causal", True) is False:
        raise CannotCascade("the attention is not causal")
    if module.layer_idx >= len(plan.cache.layers):
        raise CannotCascade("layers share the keys and values of other layers")
    window: int | None = options.get("sliding_window")
    cached_window = getattr(plan.cache.layers[module.layer_idx], "sliding_window", None)
    if window != cached_window:
        raise CannotCascade(f"the attention has the window {window}, its cache {cached_window}")
    return window


def flash_on_cuda(query_1HND: torch.Tensor, value_1GND: torch.Tensor) -> bool:
    """Whether the flash kernel takes these heads."""
    size = query_1HND.shape[-1]
    return (
        query_1HND.is_cuda
        and query_1HND.dtype in (torch.bfloat16, torch.float16)
        and size == value_1GND.shape[-1]
        and size <= 256
        and size % 8 == 0
    )


def _own_attention(
    plan: _Plan,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    window: int | None,
    softcap: float | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each row to itself."""
    if softcap is None and flash_on_cuda(query, value):
        ends, longest = plan.row_ends(query.device), plan.groups[0].length
        seen = -1 if window is None else window - 1
        return varlen_on_cuda(
            query, key, value, ends, ends, (longest, longest), scale=scale, window=(seen, 0)
        )
    return causal_within_rows(query, key, value, plan.groups, scale=scale, window=window, softcap=softcap)


def _prompt_on_cuda(query: torch.Tensor, layer: Any, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    num_queries, num_keys = query.shape[2], layer.keys.shape[2]
    ends_Q, ends_K = (
        torch.tensor([0, size], dtype=torch.int32, device=query.device) for size in (num_queries, num_keys)
    )
    return varlen_on_cuda(
        query, layer.keys, layer.values, ends_Q, ends_K, (num_queries, num_keys), scale=scale, window=(-1, -1)
    )


def cascades(body: Any, embeddings_1TH: torch.Tensor) -> bool:
    """Whether packed rows get the hidden states that one pass over prompt and row gives.

    Args:
        body: the decoder, which answers with a `last_hidden_state`.
        embeddings_1TH: at least 10 input embeddings.
    """
    prompt, longest = PROBE_PROMPT, PROBE_ROWS[0]
    try:
        whole = body(inputs_embeds=embeddings_1TH[:, : prompt + longest], use_cache=False).last_hidden_state[
            0
        ]
        cache = body(inputs_embeds=embeddings_1TH[:, :prompt], use_cache=True).past_key_values
        packed = torch.cat([embeddings_1TH[:, prompt : prompt + length] for length in PROBE_ROWS], dim=1)
        output = Cascade(body).forward(cache, prompt, PROBE_ROWS, inputs_embeds=packed)
    except FAILURES as error:
        if is_out_of_memory(error):
            raise
        return False
    want = torch.cat([whole[prompt : prompt + length] for length in PROBE_ROWS])
    return agree(output.last_hidden_state[0], want)
