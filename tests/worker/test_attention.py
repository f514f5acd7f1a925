"""Attention with log-sum-exps against the plain softmax over a whole mask."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from collapsewatch_worker.scoring import attention
from collapsewatch_worker.scoring.attention import (
    RowGroup,
    attention_over,
    causal_within_rows,
    flash_on_cpu_gives_lse,
    merged,
    plain_attention,
    product_attention,
    seen_bias,
)

SCALE = 0.4
Attention = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def whole_softmax(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias_QK: Any = 0.0,
    softcap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """[B, Q, H, D] and [B, Q, H], in float64, every score written down."""
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.double().repeat_interleave(groups, dim=1) for tensor in (key, value))
    scores = torch.einsum("bhqd,bhkd->bhqk", query.double(), key) * SCALE
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + bias_QK
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
    return torch.einsum("bhqk,bhkd->bqhd", weights, value), lse.transpose(1, 2)


def assert_same(got: tuple[torch.Tensor, torch.Tensor], want: tuple[torch.Tensor, torch.Tensor]) -> None:
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one.double(), other, atol=1e-5, rtol=0)


def test_this_torch_has_the_kernel() -> None:
    assert flash_on_cpu_gives_lse()


@pytest.mark.parametrize("way", [attention_over, plain_attention])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("max_scores", [1, 2**22])
def test_grouped_heads_and_any_bias(
    way: Attention, key_heads: int, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MAX_SCORES", max_scores)
    query, key, value = draw(2, 4, 7, 8), draw(2, key_heads, 5, 8, seed=1), draw(2, key_heads, 5, 8, seed=2)
    bias = torch.zeros(7, 5).masked_fill(draw(7, 5, seed=3) > 0.5, -math.inf)
    bias[3] = -math.inf

    assert_same(way(query, key, value, scale=SCALE), whole_softmax(query, key, value))
    got = way(query, key, value, scale=SCALE, bias_QK=bias)
    assert_same(got, whole_softmax(query, key, value, bias))
    assert torch.all(got[0][:, 3] == 0)
    assert torch.all(got[1][:, 3] == -math.inf)


@pytest.mark.parametrize("way", [attention_over, plain_attention])
@pytest.mark.parametrize("max_scores", [1, 2**22])
def test_causal_attention_sees_nothing_later(
    way: Attention, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "MAX_SCORES", max_scores)
    query, key, value = draw(2, 4, 6, 8), draw(2, 2, 6, 8, seed=1), draw(2, 2, 6, 8, seed=2)
    later = torch.full((6, 6), -math.inf).triu(1)

    assert_same(way(query, key, value, scale=SCALE, causal=True), whole_softmax(query, key, value, later))


def test_a_soft_cap_and_values_of_another_size() -> None:
    query, key, value = draw(1, 2, 6, 8), draw(1, 2, 5, 8, seed=1), draw(1, 2, 5, 3, seed=2)

    got = attention_over(query * 9, key, value, scale=SCALE, softcap=2.0)

    assert_same(got, whole_softmax(query * 9, key, value, softcap=2.0))


@pytest.mark.parametrize("split", [1, 4, 8])
def test_two_parts_merge_to_the_whole(split: int) -> None:
    query, key, value = draw(1, 4, 6, 8), draw(1, 4, 9, 8, seed=1), draw(1, 4, 9, 8, seed=2)
    own, own_lse = attention_over(query, key[:, :, :split], value[:, :, :split], scale=SCALE)
    other, other_lse = attention_over(query, key[:, :, split:], value[:, :, split:], scale=SCALE)

    want, _ = whole_softmax(query, key, value)
    torch.testing.assert_close(merged(own, own_lse, other, other_lse).double(), want, atol=1e-5, rtol=0)


def test_a_part_without_keys_weighs_nothing() -> None:
    own = draw(1, 3, 2, 4)

    got = merged(own, torch.zeros(1, 3, 2), torch.zeros_like(own), torch.full((1, 3, 2), -math.inf))

    torch.testing.assert_close(got, own)


@pytest.mark.parametrize("window", [None, 1, 3, 50])
def test_packed_rows_see_only_themselves(window: int | None) -> None:
    groups = [RowGroup(0, 2, 5), RowGroup(10, 1, 3), RowGroup(13, 2, 1)]
    rows_N = torch.tensor([0] * 5 + [1] * 5 + [2] * 3 + [3, 4])
    query, key, value = draw(1, 4, 15, 8), draw(1, 2, 15, 8, seed=1), draw(1, 2, 15, 8, seed=2)
    places = torch.arange(15)
    bias = seen_bias(places, places, 99 if window is None else window, torch.float32)
    bias = bias.masked_fill(rows_N[:, None] != rows_N[None, :], -math.inf)

    got = causal_within_rows(query, key, value, groups, scale=SCALE, window=window)

    assert_same(got, whole_softmax(query, key, value, bias))


def test_a_window_counts_the_token_itself() -> None:
    seen = seen_bias(torch.tensor([4]), torch.arange(7), 3, torch.float32) == 0

    assert seen.tolist() == [[False, False, True, True, True, False, False]]


@pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN products"
)
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize(("num_queries", "num_keys"), [(1, 16), (65, 17), (192, 100), (450, 33)])
def test_attention_by_products_is_attention(key_heads: int, num_queries: int, num_keys: int) -> None:
    # Packed queries stand token by token and not head by head, as they come from a layer.
    query = draw(1, num_queries, 4, 8).transpose(1, 2)
    key, value = draw(1, key_heads, num_keys, 8, seed=1) * 9, draw(1, key_heads, num_keys, 8, seed=2)

    with torch.inference_mode():
        got = product_attention(query, key, value, scale=SCALE)

    assert_same(got, whole_softmax(query, key, value))
    assert [tuple(part.shape) for part in got] == [(1, num_queries, 4, 8), (1, num_queries, 4)]


def test_long_prompts_are_attended_to_by_products(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(attention, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(attention, "product_attention", lambda *_tensors, scale: taken.append(scale))
    query, key = draw(1, 2, 192, 8), draw(1, 2, 512, 8, seed=1)

    attention_over(query, key, key, scale=SCALE)
    assert taken == [SCALE]
    bias = torch.zeros(192, 512)
    attention_over(query, key, key, scale=SCALE, bias_QK=bias)
    attention_over(query, key, key, scale=SCALE, softcap=1.0)
    attention_over(query[:, :, :191], key, key, scale=SCALE)
    attention_over(query, key[:, :, :511], key[:, :, :511], scale=SCALE)
    attention_over(
        query.expand(2, -1, -1, -1), key.expand(2, -1, -1, -1), key.expand(2, -1, -1, -1), scale=1.0
    )
    attention_over(query.bfloat16(), key.bfloat16(), key.bfloat16(), scale=SCALE)
    attention_over(key, key, key, scale=SCALE, causal=True)
    assert taken == [SCALE]
