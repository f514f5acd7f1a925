"""Packing into micro-batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_worker.scoring.batching import filled_rows, packed_rows, padded, with_filler

LENGTHS = st.lists(st.integers(0, 50), max_size=60)


@given(LENGTHS, st.integers(1, 300), st.integers(0, 40), st.none() | st.integers(1, 100), st.booleans())
def test_every_row_is_packed_exactly_once(
    lengths: list[int], budget: int, context: int, new_budget: int | None, equal: bool
) -> None:
    batches = packed_rows(
        lengths, budget, context_length=context, new_token_budget=new_budget, equal_lengths=equal
    )

    assert sorted(int(row) for batch in batches for row in batch) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 300), st.integers(0, 40), st.none() | st.integers(1, 100))
def test_only_a_single_row_may_exceed_a_budget(
    lengths: list[int], budget: int, context: int, new_budget: int | None
) -> None:
    for batch in packed_rows(lengths, budget, context_length=context, new_token_budget=new_budget):
        longest = max(lengths[row] for row in batch)
        fits = len(batch) * (context + longest) <= budget
        fits_new = new_budget is None or len(batch) * longest <= new_budget
        assert len(batch) == 1 or (fits and fits_new)


@given(LENGTHS, st.integers(1, 300))
def test_longest_rows_come_first(lengths: list[int], budget: int) -> None:
    packed = [lengths[row] for batch in packed_rows(lengths, budget) for row in batch]

    assert packed == sorted(lengths, reverse=True)


@given(LENGTHS, st.integers(1, 300))
def test_no_micro_batch_could_have_taken_the_next_row(lengths: list[int], budget: int) -> None:
    batches = packed_rows(lengths, budget)

    for batch in batches[:-1]:
        assert (len(batch) + 1) * max(1, lengths[batch[0]]) > budget


@given(LENGTHS, st.integers(1, 300))
def test_equal_lengths_never_pad(lengths: list[int], budget: int) -> None:
    for batch in packed_rows(lengths, budget, equal_lengths=True):
        assert len({lengths[row] for row in batch}) == 1


@given(LENGTHS, st.integers(1, 300))
def test_rows_without_padding_fill_micro_batches_by_their_own_tokens(lengths: list[int], budget: int) -> None:
    batches = filled_rows(lengths, budget)

    packed = [int(row) for batch in batches for row in batch]
    assert sorted(packed) == list(range(len(lengths)))
    assert [lengths[row] for row in packed] == sorted(lengths, reverse=True)
    assert all(len(batch) == 1 or sum(lengths[row] for row in batch) <= budget for batch in batches)


def test_micro_batches_are_even() -> None:
    assert [len(batch) for batch in filled_rows([10] * 9, 80)] == [5, 4]


def test_rows_of_nothing_stay_together() -> None:
    assert [len(batch) for batch in filled_rows([0] * 9, 80)] == [9]


@pytest.mark.parametrize(("lengths", "budget"), [([1], 0), ([-1], 8)])
def test_impossible_arguments_are_refused_here_too(lengths: list[int], budget: int) -> None:
    with pytest.raises(ValueError, match=r"at least 1|negative"):
        filled_rows(lengths, budget)


def test_context_counts_for_every_row() -> None:
    batches = packed_rows([4, 4, 4, 4], 20, context_length=6)

    assert [len(batch) for batch in batches] == [2, 2]


@pytest.mark.parametrize(("lengths", "budget", "new_budget"), [([1], 0, None), ([1], 8, 0), ([-1], 8, None)])
def test_impossible_arguments_are_refused(lengths: list[int], budget: int, new_budget: int | None) -> None:
    with pytest.raises(ValueError, match=r"at least 1|negative"):
        packed_rows(lengths, budget, new_token_budget=new_budget)


def test_padding_stands_on_the_right() -> None:
    np.testing.assert_array_equal(padded([[5, 6, 7], [8]], fill=9), [[5, 6, 7], [8, 9, 9]])


@pytest.mark.parametrize(("missing", "filler"), [(0, []), (2, [2]), (3, [3]), (7, [3, 3, 1])])
def test_filler_stands_after_the_rows_and_is_no_longer_than_the_first(
    missing: int, filler: list[int]
) -> None:
    rows = [[5, 6, 7], [8]]

    filled = with_filler(rows, missing)

    assert filled[:2] == rows
    assert [len(row) for row in filled[2:]] == filler
