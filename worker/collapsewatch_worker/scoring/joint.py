"""Attention of packed rows to their prompt and to themselves in one softmax, by the fastest matrix products.

A block of packed tokens is multiplied with the prompt's keys and with those of the rows that it is part of,
side by side. Keys of other rows and later keys are computed too and then masked, which costs less than a
second attention for the rows themselves and the merging of the two. The flash kernel on a CPU does the same
work with PyTorch's default products, which are slower where this is chosen.

Legend: N packed tokens, H query heads, G key heads, R query heads that share a key head, K prompt tokens,
D head size, T tokens of a block, S = T times R, W keys of a block.
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from collapsewatch_worker.scoring.attention import RowGroup, attention_over, causal_within_rows, merged
from collapsewatch_worker.scoring.products import linear, onednn_is_faster

log = logging.getLogger(__name__)

MIN_TOKENS, MIN_PROMPT = 64, 128
"""For fewer packed tokens, or behind shorter prompts, two attentions were as fast."""
TOKENS_PER_BLOCK, ROWS_PER_BLOCK = 128, 256
"""Most packed tokens of a block, and most rows of its scores, which then stay near the core."""
TOKEN_STEP, KEY_STEP, KEY_STEPS_PER_DOUBLING = 16, 32, 16
"""Blocks are filled up to multiples of such steps, since oneDNN keeps code for each shape that it meets."""
TRIAL_ROWS, TRIAL_ROW, TRIAL_HEADS, TRIAL_HEAD_SIZE = 8, 64, 4, 64
"""The case by which the two ways are compared. Its rows fill blocks evenly, so few shapes are met."""
LONGEST_TRIAL = 2048
"""Longest prompt of a trial, which then takes a fifth of a second."""
MOST_TRIAL_SECONDS = 0.5
"""Neither way is run once more after so long, as when others keep the processor busy."""
MIN_GAIN = 1.1
"""One softmax must be this much faster there, since rows that do not fill blocks gain less."""


@dataclass(frozen=True)
class Block:
    """Packed tokens that are multiplied at once, and the packed keys that any of them sees."""

    start: int
    end: int
    first_key: int
    """Packed position of the first key that is seen; the last is that before `end`."""
    num_keys: int
    """Keys of the prompt and of the rows, filled up."""
    mask_TW: torch.Tensor
    """0 or -inf for the last keys of the block; all before them are seen by every token."""


def token_blocks(groups: Sequence[RowGroup], num_prompt: int, heads_per_key: int) -> list[Block]:
    """Blocks that together cover the packed tokens; the last may begin within the one before it.

    Args:
        groups: the rows; together they cover all packed tokens, in order.
        num_prompt: keys of the prompt.
        heads_per_key: query heads that share a key head.
    """
    starts_N = torch.cat([_row_starts(group) for group in groups])
    blocks = []
    for start, end in _block_ranges(groups[-1].end, heads_per_key):
        first = int(starts_N[start])
        num_keys = _filled(num_prompt + end - first)
        one_row = int(starts_N[end - 1]) == first
        keys_W = torch.arange(start if one_row else first, first + num_keys - num_prompt)
        tokens_T1, starts_T1 = torch.arange(start, end)[:, None], starts_N[start:end, None]
        hidden_TW = (keys_W > tokens_T1) | (keys_W < starts_T1)
        mask_TW = torch.zeros(hidden_TW.shape).masked_fill_(hidden_TW, -math.inf)
        blocks.append(Block(start, end, first, num_keys, mask_TW))
    return blocks


def _row_starts(group: RowGroup) -> torch.Tensor:
    return torch.arange(group.start, group.end, group.length).repeat_interleave(group.length)


def _block_ranges(num_tokens: int, heads_per_key: int) -> list[tuple[int, int]]:
    """Start and end of each block: all of one size, but the last of half of it where that suffices."""
    size = min(TOKENS_PER_BLOCK, ROWS_PER_BLOCK // heads_per_key // TOKEN_STEP * TOKEN_STEP)
    size = max(TOKEN_STEP, size)
    ranges = [(end - size, end) for end in range(size, num_tokens + 1, size)]
    rest = num_tokens % size
    if rest:
        # It begins earlier rather than being of yet another size.
        last = size // 2 if 2 * rest <= size else size
        ranges.append((max(0, num_tokens - last), num_tokens))
    return ranges


def _filled(num_keys: int) -> int:
    step = max(KEY_STEP, (1 << num_keys.bit_length() - 1) // KEY_STEPS_PER_DOUBLING)
    return -(-num_keys // step) * step


def joint_attention(
    query_1HND: torch.Tensor,
    key_1GND: torch.Tensor,
    value_1GND: torch.Tensor,
    prompt_1GKD: tuple[torch.Tensor, torch.Tensor],
    blocks: Sequence[Block],
    *,
    scale: float,
) -> torch.Tensor:
    """Outputs [1, N, H, D] of packed rows, each seeing the whole prompt and itself, in float32 on a CPU.

    Args:
        prompt_1GKD: the prompt's keys and values.
        blocks: of `token_blocks`, for this prompt and these heads.
        scale: factor of the scores.
    """
    _, num_heads, num_tokens, size = query_1HND.shape
    num_key_heads, num_prompt, value_size = prompt_1GKD[1].shape[1:]
    shared = num_heads // num_key_heads
    # The query heads of a key head stand side by side at each token, so that a block of them is one matrix.
    query_GNRD = query_1HND.view(num_key_heads, shared, num_tokens, size).transpose(1, 2)
    query_GSD = query_1HND.new_empty(num_key_heads, num_tokens * shared, size)
    torch.mul(query_GNRD, scale, out=query_GSD.view(query_GNRD.shape))
    widest = max(block.num_keys for block in blocks)
    key_GWD, value_GWD = (_with_room(kept[0], widest) for kept in prompt_1GKD)
    out_NGRD = query_1HND.new_empty(num_tokens, num_key_heads, shared, value_size)
    for block in blocks:
        own = slice(block.first_key, block.end)
        end_key = num_prompt + block.end - block.first_key
        key_GWD[:, num_prompt:end_key] = key_1GND[0, :, own]
        value_GWD[:, num_prompt:end_key] = value_1GND[0, :, own]
        outputs_TRD = out_NGRD[block.start : block.end].unbind(1)
        queries_SD = query_GSD[:, block.start * shared : block.end * shared].unbind()
        keys_WD = key_GWD[:, : block.num_keys].unbind()
        values_DW = value_GWD[:, : block.num_keys].mT.unbind()
        for out_TRD, query_SD, key_WD, value_DW in zip(
            outputs_TRD, queries_SD, keys_WD, values_DW, strict=True
        ):
            out_SD = _head_output(query_SD, key_WD, value_DW, block.mask_TW)
            out_TRD.copy_(out_SD.view(out_TRD.shape))
    return out_NGRD.flatten(1, 2).unsqueeze(0)


def _with_room(kept_GKD: torch.Tensor, num_keys: int) -> torch.Tensor:
    """The prompt's keys or values, and after them finite room for those of a block."""
    num_heads, num_prompt, size = kept_GKD.shape
    room_GWD = kept_GKD.new_empty(num_heads, num_keys, size)
    room_GWD[:, :num_prompt] = kept_GKD
    room_GWD[:, num_prompt:] = 0
    return room_GWD


def _head_output(
    query_SD: torch.Tensor, key_WD: torch.Tensor, value_DW: torch.Tensor, mask_TW: torch.Tensor
) -> torch.Tensor:
    """Outputs [S, D] of one block and one key head."""
    scores_SW = linear(query_SD, key_WD)
    num_tokens, num_masked = mask_TW.shape
    scores_TRW = scores_SW.view(num_tokens, -1, len(key_WD))
    scores_TRW[..., -num_masked:].add_(mask_TW.unsqueeze(1))
    # In place, where a second matrix of this size would push the first out of the core's own cache.
    weights_SW = torch.softmax(scores_SW, dim=-1, out=scores_SW)
    return linear(weights_SW, value_DW)


def suits_joint(query_1HND: torch.Tensor, prompt_key_1GKD: torch.Tensor) -> bool:
    """Whether one softmax over prompt and row is the fastest way for these packed rows."""
    num_heads, num_tokens = query_1HND.shape[1:3]
    num_key_heads, num_prompt = prompt_key_1GKD.shape[1:3]
    if not query_1HND.is_cpu or query_1HND.dtype != torch.float32 or not onednn_is_faster():
        return False
    if num_tokens < MIN_TOKENS or num_prompt < MIN_PROMPT:
        return False
    like = 2 ** round(math.log2(min(num_prompt, LONGEST_TRIAL)))
    return joint_is_faster(torch.get_num_threads(), like, num_heads // num_key_heads)


@cache
def joint_is_faster(num_threads: int, num_prompt: int, heads_per_key: int) -> bool:
    """Whether it clearly beats two attentions and their merging in a short trial behind such a prompt.

    Args:
        num_threads: of torch, as many as now.
        num_prompt: tokens of the prompt.
        heads_per_key: query heads that share a key head.
    """
    assert num_threads == torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    groups = [RowGroup(0, TRIAL_ROWS, TRIAL_ROW)]
    num_key_heads = max(1, TRIAL_HEADS // heads_per_key)

    def drawn(num_heads: int, num_tokens: int) -> torch.Tensor:
        return torch.randn(1, num_heads, num_tokens, TRIAL_HEAD_SIZE, generator=generator)

    query, own = drawn(num_key_heads * heads_per_key, groups[0].end), drawn(num_key_heads, groups[0].end)
    prompt = drawn(num_key_heads, num_prompt)
    blocks = token_blocks(groups, num_prompt, heads_per_key)

    def joint() -> None:
        joint_attention(query, own, own, (prompt, prompt), blocks, scale=0.1)

    def apart() -> None:
        near = causal_within_rows(query, own, own, groups, scale=0.1)
        merged(*near, *attention_over(query, prompt, prompt, scale=0.1))

    with torch.inference_mode():
        seconds, other_seconds = _seconds(joint), _seconds(apart)
    log.debug("attention tried", extra={"joint_seconds": seconds, "apart_seconds": other_seconds})
    return other_seconds > MIN_GAIN * seconds


def _seconds(way: Callable[[], None]) -> float:
    """The shortest of a few runs: what disturbs a run only makes it longer."""
    # Of one thread its own time is known, which other processes make no longer.
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    best, end = float("inf"), time.monotonic() + MOST_TRIAL_SECONDS
    for _ in range(4):
        start = clock()
        way()
        best = min(best, clock() - start)
        if time.monotonic() > end:
            break
    return best
