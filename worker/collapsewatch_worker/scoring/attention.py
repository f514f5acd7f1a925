"""Attention that also says how much weight it spread, so that two parts can be merged exactly.

Legend: B rows, H query heads, G key heads, Q query tokens, K key tokens, D head size, N packed tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.nn.attention.varlen import AuxRequest, varlen_attn

MAX_SCORES = 2**22
"""Most attention scores that the plain way holds at once: 16 MiB in float32."""


@dataclass(frozen=True)
class RowGroup:
    """Packed rows of one length that stand side by side."""

    start: int
    """Packed position of the first token of the first row."""
    num_rows: int
    length: int

    @property
    def end(self) -> int:
        """Packed position after the last token of the last row."""
        return self.start + self.num_rows * self.length


def merged(
    own: torch.Tensor, own_lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor
) -> torch.Tensor:
    """Attention over two sets of keys from the attention over each, with any leading axes.

    Args:
        own: outputs [..., D] over the first set; `own_lse` [...] is finite.
        own_lse: log-sum-exp of the scaled scores of that set.
        other: outputs [..., D] over the second set, finite everywhere.
        other_lse: the same for that set, or -inf where no key of it is seen.
    """
    weight = torch.sigmoid(other_lse - own_lse).unsqueeze(-1)
    return torch.lerp(own, other, weight.to(own.dtype))


def attention_over(
    query_BHQD: torch.Tensor,
    key_BGKD: torch.Tensor,
    value_BGKD: torch.Tensor,
    *,
    scale: float,
    causal: bool = False,
    bias_QK: torch.Tensor | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [B, Q, H, D] and log-sum-exps [B, Q, H], the latter in float32.

    Query heads share key heads in equal groups. Where a bias hides every key, the output is 0 and the
    log-sum-exp -inf.

    Args:
        scale: factor of the scores.
        causal: query t sees the keys up to t; needs as many keys as queries.
        bias_QK: added to the scores, -inf where a key is not seen.
        softcap: limit c of c · tanh(score / c), applied before the bias.
    """
    flash = query_BHQD.device.type == "cpu" and softcap is None and flash_on_cpu_gives_lse()
    if not flash or query_BHQD.shape[-1] != value_BGKD.shape[-1]:
        return plain_attention(
            query_BHQD, key_BGKD, value_BGKD, scale=scale, causal=causal, bias_QK=bias_QK, softcap=softcap
        )
    hidden_Q = None
    if bias_QK is not None:
        # The kernel's log-sum-exp of a query without keys is not -inf: let it see one and correct that.
        hidden_Q = torch.isneginf(bias_QK).all(dim=1)
        bias_QK = bias_QK.masked_fill(hidden_Q[:, None], 0.0).to(query_BHQD.dtype)[None, None]
    out_BHQD, lse_BHQ = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query_BHQD, key_BGKD, value_BGKD, 0.0, causal, attn_mask=bias_QK, scale=scale
    )
    out_BQHD, lse_BQH = out_BHQD.transpose(1, 2), lse_BHQ.transpose(1, 2)
    if hidden_Q is not None:
        out_BQHD = out_BQHD.masked_fill(hidden_Q[None, :, None, None], 0.0)
        lse_BQH = lse_BQH.masked_fill(hidden_Q[None, :, None], -math.inf)
    return out_BQHD, lse_BQH


def plain_attention(
    query_BHQD: torch.Tensor,
    key_BGKD: torch.Tensor,
    value_BGKD: torch.Tensor,
    *,
    scale: float,
    causal: bool = False,
    bias_QK: torch.Tensor | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same from matrix products in float32, a slice of the queries at a time."""
    num_rows, num_heads, num_queries, _ = query_BHQD.shape
    num_key_heads, num_keys = key_BGKD.shape[1:3]
    per_key_head = num_heads // num_key_heads
    key_BGDK, value_BG1KD = key_BGKD.float().mT, value_BGKD.float().unsqueeze(2)
    step = max(1, MAX_SCORES // (num_rows * num_heads * num_keys))
    outputs, lses = [], []
    for start in range(0, num_queries, step):
        end = min(start + step, num_queries)
        query_BGRQD = query_BHQD[:, :, start:end].float()
        query_BGRQD = query_BGRQD.reshape(num_rows, num_key_heads, per_key_head, end - start, -1)
        scores = (query_BGRQD * scale) @ key_BGDK.unsqueeze(2)
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        if bias_QK is not None:
            scores = scores + bias_QK[start:end]
        if causal:
            later = torch.ones(end - start, num_keys, dtype=torch.bool, device=scores.device).triu(start + 1)
            scores = scores.masked_fill(later, -math.inf)
        lse = torch.logsumexp(scores, dim=-1)
        weights = torch.exp(scores - lse.masked_fill(torch.isneginf(lse), 0.0).unsqueeze(-1))
        outputs.append((weights @ value_BG1KD).flatten(1, 2).transpose(1, 2))
        lses.append(lse.flatten(1, 2).transpose(1, 2))
    return torch.cat(outputs, dim=1).to(query_BHQD.dtype), torch.cat(lses, dim=1)


def causal_within_rows(
    query_1HND: torch.Tensor,
    key_1GND: torch.Tensor,
    value_1GND: torch.Tensor,
    groups: Sequence[RowGroup],
    *,
    scale: float,
    window: int | None = None,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [1, N, H, D] and log-sum-exps [1, N, H] of packed rows, each seeing only itself.

    Args:
        groups: the rows; together they cover all packed tokens, in order.
        window: most tokens that a token sees, itself included; no limit when absent.
    """
    outputs, lses = [], []
    for group in groups:
        query_BHTD, key_BGTD, value_BGTD = (
            _rows_of(packed, group) for packed in (query_1HND, key_1GND, value_1GND)
        )
        bias_TT = None
        if window is not None and window < group.length:
            steps_T = torch.arange(group.length, device=query_1HND.device)
            bias_TT = seen_bias(steps_T, steps_T, window, query_1HND.dtype)
        out_BTHD, lse_BTH = attention_over(
            query_BHTD,
            key_BGTD,
            value_BGTD,
            scale=scale,
            causal=bias_TT is None,
            bias_QK=bias_TT,
            softcap=softcap,
        )
        outputs.append(out_BTHD.flatten(0, 1))
        lses.append(lse_BTH.flatten(0, 1))
    if len(groups) == 1:
        return outputs[0].unsqueeze(0), lses[0].unsqueeze(0)
    return torch.cat(outputs).unsqueeze(0), torch.cat(lses).unsqueeze(0)


def _rows_of(packed_1HND: torch.Tensor, group: RowGroup) -> torch.Tensor:
    """The group's rows [B, H, T, D], a view."""
    rows_HND = packed_1HND[0, :, group.start : group.end]
    num_heads, _, size = rows_HND.shape
    return rows_HND.view(num_heads, group.num_rows, group.length, size).transpose(0, 1)


def seen_bias(
    positions_Q: torch.Tensor, positions_K: torch.Tensor, window: int, dtype: torch.dtype
) -> torch.Tensor:
    """0 where a query sees a key [Q, K], which is not later and less than `window` before it; else -inf."""
    distances_QK = positions_Q[:, None] - positions_K[None, :]
    hidden_QK = (distances_QK < 0) | (distances_QK >= window)
    return torch.zeros(hidden_QK.shape, dtype=dtype, device=positions_Q.device).masked_fill_(
        hidden_QK, -math.inf
    )


def varlen_on_cuda(
    query_1HND: torch.Tensor,
    key_1GKD: torch.Tensor,
    value_1GKD: torch.Tensor,
    ends_Q: torch.Tensor,
    ends_K: torch.Tensor,
    longest: tuple[int, int],
    *,
    scale: float,
    window: tuple[int, int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [1, N, H, D] and log-sum-exps [1, N, H] of packed sequences, by the flash kernel.

    Args:
        ends_Q: cumulative query lengths, from 0, int32.
        ends_K: cumulative key lengths, from 0, int32.
        longest: most queries and most keys of one sequence.
        window: tokens seen before and after, -1 for no limit; (-1, 0) is causal.
    """
    query, key, value = (
        tensor[0].transpose(0, 1).contiguous() for tensor in (query_1HND, key_1GKD, value_1GKD)
    )
    result: Any = varlen_attn(
        query,
        key,
        value,
        ends_Q,
        ends_K,
        longest[0],
        longest[1],
        return_aux=AuxRequest(lse=True),
        scale=scale,
        window_size=window,
        enable_gqa=query_1HND.shape[1] != key_1GKD.shape[1],
    )
    out_NHD, lse_HN = result
    return out_NHD.unsqueeze(0), lse_HN.transpose(0, 1).unsqueeze(0)


@cache
def flash_on_cpu_gives_lse() -> bool:
    """Whether this torch has the CPU kernel with grouped heads and log-sum-exps, as a small case shows."""
    if not hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"):
        return False
    generator = torch.Generator().manual_seed(0)
    query, key = (torch.randn(2, heads, 3, 8, generator=generator) for heads in (4, 2))
    try:
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, key, 0.0, True, attn_mask=None, scale=0.5
        )
    except (RuntimeError, TypeError):
        return False
    want_out, want_lse = plain_attention(query, key, key, scale=0.5, causal=True)
    return bool(
        lse.shape == (2, 4, 3)
        and torch.allclose(out.transpose(1, 2), want_out, atol=1e-4)
        and torch.allclose(lse.transpose(1, 2), want_lse, atol=1e-4)
    )
