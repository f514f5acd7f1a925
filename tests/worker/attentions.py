"""Attention with every score written down, in float64: what faster ways are compared with."""

from typing import Any

import torch

SCALE = 0.4


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole_softmax(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias_QK: Any = 0.0,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Outputs [B, Q, H, D] and log-sum-exps [B, Q, H]."""
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.double().repeat_interleave(groups, dim=1) for tensor in (key, value))
    scores = torch.einsum("bhqd,bhkd->bhqk", query.double(), key) * SCALE
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + bias_QK
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return torch.einsum("bhqk,bhkd->bqhd", weights, value), lse.transpose(1, 2)
