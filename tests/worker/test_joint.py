"""One softmax over prompt and row against the softmax over a whole mask, and when it is taken."""

import math
from collections.abc import Iterator

import pytest
import torch

from collapsewatch_worker.scoring import joint
from collapsewatch_worker.scoring.cascade import row_groups
from collapsewatch_worker.scoring.joint import joint_attention, joint_is_faster, suits_joint, token_blocks
from tests.worker.attentions import SCALE, draw, whole_softmax

pytestmark = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN products"
)


@pytest.fixture(autouse=True)
def no_trial_is_remembered() -> Iterator[None]:
    joint_is_faster.cache_clear()
    yield
    joint_is_faster.cache_clear()


@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("num_prompt", [1, 32, 70])
@pytest.mark.parametrize(
    "lengths", [[1], [40, 3, 3, 1], [50, 50, 49, 20, 17, 2, 1], [300], [150, 149], [1] * 40]
)
def test_every_row_sees_the_prompt_and_itself(
    key_heads: int, num_prompt: int, lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that blocks begin and end in the middle of rows.
    monkeypatch.setattr(joint, "TOKENS_PER_BLOCK", 32)
    num_tokens = sum(lengths)
    # Packed tokens stand token by token and not head by head, as they come from a layer.
    query, key, value = (draw(1, num_tokens, 4, 8, seed=seed).transpose(1, 2) for seed in range(3))
    key, value = key[:, :key_heads] * 5, value[:, :key_heads]
    prompt = (draw(1, key_heads, num_prompt, 8, seed=3) * 5, draw(1, key_heads, num_prompt, 8, seed=4))
    blocks = token_blocks(row_groups(lengths), num_prompt, 4 // key_heads)

    with torch.inference_mode():
        got = joint_attention(query, key, value, prompt, blocks, scale=SCALE)

    rows_N = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    own_NN = torch.zeros(num_tokens, num_tokens).masked_fill(rows_N[:, None] != rows_N, -math.inf)
    own_NN = own_NN.masked_fill(torch.ones_like(own_NN).triu(1) > 0, -math.inf)
    bias = torch.cat([torch.zeros(num_tokens, num_prompt), own_NN], dim=1)
    keys, values = (torch.cat(pair, dim=2) for pair in ((prompt[0], key), (prompt[1], value)))
    want, _ = whole_softmax(query, keys, values, bias)
    torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=0)


def test_values_may_be_of_another_size_than_keys() -> None:
    query, key, value = draw(1, 2, 20, 8), draw(1, 2, 20, 8, seed=1), draw(1, 2, 20, 3, seed=2)
    prompt = (draw(1, 2, 9, 8, seed=3), draw(1, 2, 9, 3, seed=4))
    blocks = token_blocks(row_groups([1] * 20), 9, 1)

    with torch.inference_mode():
        got = joint_attention(query, key, value, prompt, blocks, scale=SCALE)

    bias = torch.cat([torch.zeros(20, 9), torch.eye(20).log()], dim=1)
    want, _ = whole_softmax(
        query, torch.cat([prompt[0], key], dim=2), torch.cat([prompt[1], value], dim=2), bias
    )
    torch.testing.assert_close(got.double(), want, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("num_tokens", "ranges"),
    [
        (20, [(0, 20)]),
        (128, [(0, 128)]),
        (192, [(0, 128), (128, 192)]),
        (140, [(0, 128), (76, 140)]),
        (200, [(0, 128), (72, 200)]),
    ],
)
def test_blocks_are_of_two_sizes_and_cover_all_tokens(num_tokens: int, ranges: list[tuple[int, int]]) -> None:
    blocks = token_blocks(row_groups([num_tokens]), 10, 1)

    assert [(block.start, block.end) for block in blocks] == ranges


@pytest.mark.parametrize(("heads_per_key", "size"), [(1, 128), (2, 128), (4, 64), (7, 32), (8, 32), (64, 16)])
def test_heads_that_share_keys_make_blocks_shorter(heads_per_key: int, size: int) -> None:
    blocks = token_blocks(row_groups([1024]), 10, heads_per_key)

    assert {block.end - block.start for block in blocks} == {size}


def test_few_shapes_are_met() -> None:
    met = set()
    for num_prompt in range(380, 421, 4):
        for length in range(80, 121, 4):
            blocks = token_blocks(row_groups([length] * (1000 // length)), num_prompt, 1)
            met |= {(block.end - block.start, block.num_keys) for block in blocks}
    assert len(met) <= 20


def test_masks_of_long_rows_are_no_longer_than_their_blocks() -> None:
    blocks = token_blocks(row_groups([4000, 100]), 500, 1)

    assert sum(block.mask_TW.numel() for block in blocks) < 2 * 4100 * 300


def test_it_is_taken_where_a_trial_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def trial(num_threads: int, num_prompt: int, heads_per_key: int) -> bool:
        assert num_threads == torch.get_num_threads()
        asked.append((num_prompt, heads_per_key))
        return num_prompt > 200

    monkeypatch.setattr(joint, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(joint, "joint_is_faster", trial)
    query = draw(1, 4, 64, 8)

    assert suits_joint(query, draw(1, 2, 400, 8))
    assert not suits_joint(query, draw(1, 4, 128, 8))
    assert suits_joint(query, draw(1, 1, 5000, 8))
    assert asked == [(512, 2), (128, 1), (2048, 4)]
    assert not suits_joint(query[:, :, :63], draw(1, 2, 400, 8))
    assert not suits_joint(query, draw(1, 2, 127, 8))
    assert not suits_joint(query.bfloat16(), draw(1, 2, 400, 8).bfloat16())
    monkeypatch.setattr(joint, "onednn_is_faster", lambda: False)
    assert not suits_joint(query, draw(1, 2, 400, 8))
    assert len(asked) == 3


@pytest.mark.parametrize(("gain", "taken"), [(1.0, False), (1.09, False), (1.2, True)])
def test_the_trial_asks_for_a_clear_gain(gain: float, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.01, 0.01 * gain])
    ran = []

    def timed(way: object) -> float:
        assert callable(way)
        way()
        ran.append(way)
        return next(seconds)

    monkeypatch.setattr(joint, "_seconds", timed)

    assert joint_is_faster(torch.get_num_threads(), 32, 2) is taken
    assert joint_is_faster(torch.get_num_threads(), 32, 2) is taken
    assert len(ran) == 2
