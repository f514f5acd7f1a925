"""Packs rows of unequal length into micro-batches. Pure numpy: knows no model.

Legend: R rows (one reasoning each).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def packed_rows(
    num_tokens_R: Sequence[int] | Ints,
    token_budget: int,
    *,
    context_length: int = 0,
    new_token_budget: int | None = None,
    equal_lengths: bool = False,
) -> list[Ints]:
    """Row positions per micro-batch, longest rows first; every row stands in exactly one micro-batch.

    A micro-batch of b rows whose longest has n tokens occupies b · (context_length + n) padded tokens,
    of which b · n are new. Both stay within their budgets, except that a row which is too long on its
    own gets a micro-batch to itself.

    Args:
        num_tokens_R: length of each row, 0 or more.
        token_budget: padded tokens of a micro-batch, context included.
        context_length: tokens that every row carries besides its own, such as a cached prompt.
        new_token_budget: padded tokens of a micro-batch without the context; no limit when absent.
        equal_lengths: rows of different length never share a micro-batch, so nothing is padded.

    Raises:
        ValueError: a budget below 1, or a negative length.
    """
    lengths_R = np.asarray(num_tokens_R, dtype=np.int64)
    if token_budget < 1 or (new_token_budget is not None and new_token_budget < 1):
        raise ValueError(f"token budgets must be at least 1, got {token_budget} and {new_token_budget}")
    if context_length < 0 or (lengths_R.size and int(lengths_R.min()) < 0):
        raise ValueError("lengths cannot be negative")
    # Longest first, so an out-of-memory error comes on the first micro-batch, and so neighbours pad little.
    order_R = np.argsort(-lengths_R, kind="stable")
    batches: list[Ints] = []
    start = 0
    while start < order_R.size:
        longest = int(lengths_R[order_R[start]])
        capacity = token_budget // max(1, context_length + longest)
        if new_token_budget is not None:
            capacity = min(capacity, new_token_budget // max(1, longest))
        end = min(order_R.size, start + max(1, capacity))
        if equal_lengths:
            same = int(np.searchsorted(-lengths_R[order_R], -longest, side="right"))
            end = min(end, same)
        batches.append(order_R[start:end])
        start = end
    return batches


def filled_rows(num_tokens_R: Sequence[int] | Ints, token_budget: int) -> list[Ints]:
    """Row positions per micro-batch, longest rows first, where rows are packed without padding.

    The lengths in a micro-batch add up to at most the budget, except that a row which is too long on its own
    gets a micro-batch to itself. Micro-batches are as even as whole rows allow.

    Args:
        num_tokens_R: length of each row, 0 or more.
        token_budget: tokens of a micro-batch.

    Raises:
        ValueError: a budget below 1, or a negative length.
    """
    lengths_R = np.asarray(num_tokens_R, dtype=np.int64)
    if token_budget < 1:
        raise ValueError(f"a token budget must be at least 1, got {token_budget}")
    if lengths_R.size and int(lengths_R.min()) < 0:
        raise ValueError("lengths cannot be negative")
    order_R = np.argsort(-lengths_R, kind="stable")
    # A last micro-batch of a few tokens costs as many kernel calls as a full one.
    even = max(1, -(-int(lengths_R.sum()) // max(1, -(-int(lengths_R.sum()) // token_budget))))
    batches: list[Ints] = []
    start, num_tokens = 0, 0
    for position, row in enumerate(order_R):
        length = int(lengths_R[row])
        if position > start and (num_tokens >= even or num_tokens + length > token_budget):
            batches.append(order_R[start:position])
            start, num_tokens = position, 0
        num_tokens += length
    if start < order_R.size:
        batches.append(order_R[start:])
    return batches


def with_filler(rows: Sequence[Sequence[int]], num_tokens: int) -> list[Sequence[int]]:
    """The rows, and after them further ones with `num_tokens` tokens 0 in all, none longer than the first."""
    longest = len(rows[0])
    return [*rows, *([0] * min(longest, num_tokens - start) for start in range(0, num_tokens, longest))]


def padded(rows: Sequence[Sequence[int]], *, fill: int = 0) -> Ints:
    """The rows as one array [len(rows), longest], filled up on the right."""
    longest = max((len(row) for row in rows), default=0)
    array = np.full((len(rows), longest), fill, dtype=np.int64)
    for position, row in enumerate(rows):
        array[position, : len(row)] = row
    return array
