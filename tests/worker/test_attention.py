"""Attention with log-sum-exps against the plain softmax over a whole mask."""

import math
from collections.abc import Callable

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
    seen_bias,
)
from tests.worker.attentions import SCALE, draw, whole_softmax

Attention = Callable[..., tuple[torch.Tensor, torch.Tensor]]


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
