"""Rows and columns of each scope, on batches small enough to count by hand."""

from collections import Counter

import numpy as np
import pytest

from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.batches.scopes import scope_names, scope_table, with_rows


def turn(
    rollout: int,
    group: str,
    prompt: str,
    *,
    index: int = 0,
    ids: tuple[int, ...] | None = None,
    invalid: str | None = None,
) -> PartitionedTurn:
    return PartitionedTurn(
        rollout_index=rollout,
        turn_index=index,
        group_id=group,
        prompt_token_ids=ids,
        prompt_text=prompt,
        reasoning_token_ids=None,
        reasoning_text=f"reasoning {rollout}",
        action_text=None,
        invalid_reason=invalid,
        retokenised=False,
    )


def test_every_group_is_a_column_and_every_turn_a_row() -> None:
    turns = [turn(0, "a", "north"), turn(1, "a", "north"), turn(2, "b", "south")]
    table = scope_table("first_turn", turns)
    assert [column.text for column in table.columns] == ["north", "south"]
    assert [column.group_ids for column in table.columns] == [("a",), ("b",)]
    assert table.prompt_of_R.tolist() == [0, 0, 1]
    assert table.weight_P.tolist() == [1.0, 1.0]
    assert table.mask_RP is None


def test_groups_with_the_same_prompt_are_one_column_with_their_weight() -> None:
    turns = [turn(0, "a", "north"), turn(1, "b", "south"), turn(2, "c", "north"), turn(3, "c", "north")]
    table = scope_table("first_turn", turns)
    assert [column.group_ids for column in table.columns] == [("a", "c"), ("b",)]
    assert table.weight_P.tolist() == [2.0, 1.0]
    assert table.prompt_of_R.tolist() == [0, 1, 0, 0]


def test_token_ids_and_not_text_tell_prompts_apart() -> None:
    turns = [turn(0, "a", "same text", ids=(1, 2)), turn(1, "b", "same text", ids=(1, 3))]
    assert len(scope_table("first_turn", turns).columns) == 2


def test_turns_that_cannot_be_scored_are_neither_rows_nor_columns() -> None:
    turns = [turn(0, "a", "north"), turn(1, "b", "south"), turn(2, "c", "west", invalid="empty reasoning")]
    table = scope_table("first_turn", turns)
    assert len(table.rows) == 2
    assert len(table.columns) == 2
    assert scope_table("first_turn", turns[2:]).rows == ()


def test_first_turn_takes_the_first_turn_of_each_rollout_only() -> None:
    turns = [turn(0, "a", "north"), turn(0, "a", "then east", index=1), turn(1, "b", "south")]
    assert [row.turn_index for row in scope_table("first_turn", turns).rows] == [0, 0]


def test_a_later_turn_is_compared_with_other_groups_and_not_with_siblings() -> None:
    turns = [
        turn(0, "a", "a0", index=1),
        turn(1, "a", "a1", index=1),
        turn(2, "b", "b0", index=1),
        turn(3, "b", "b1", index=1),
    ]
    table = scope_table("turn/1", turns)
    assert table.mask_RP is not None
    open_to_first = [table.columns[number].text for number in np.flatnonzero(~table.mask_RP[0])]
    assert open_to_first == ["a0", "b0", "b1"]
    # A group counts as one column, however many prompts its trajectories have led to.
    assert table.weight_P.tolist() == [0.5, 0.5, 0.5, 0.5]


def test_siblings_that_share_the_prompt_share_the_column() -> None:
    turns = [turn(0, "a", "x", index=1), turn(1, "a", "x", index=1), turn(2, "b", "y", index=1)]
    table = scope_table("turn/1", turns)
    assert table.mask_RP is None
    assert table.weight_P.tolist() == [1.0, 1.0]


def test_a_later_turn_of_the_same_trajectory_is_masked_and_an_earlier_one_is_not() -> None:
    turns = [
        turn(0, "a", "start", index=0),
        turn(0, "a", "start + reasoning 0", index=1),
        turn(1, "b", "other", index=0),
    ]
    table = scope_table("trajectory", turns)
    assert table.mask_RP is not None
    assert table.mask_RP.tolist() == [[False, True, False], [False, False, False], [False, False, False]]


def test_a_later_turn_that_looks_the_same_is_the_own_prompt_and_no_leak() -> None:
    turns = [turn(0, "a", "state 1", index=0), turn(0, "a", "state 1", index=1), turn(1, "b", "state 2")]
    table = scope_table("trajectory", turns)
    assert table.mask_RP is None
    assert table.weight_P.tolist() == [2.0, 1.0]


def test_trajectory_pairs_are_drawn_evenly_by_trajectory() -> None:
    # One trajectory of 12 turns and 12 of one: uniform over pairs would give the long one half of the rows.
    long = [turn(0, "a", f"long {index}", index=index) for index in range(12)]
    short = [turn(number, f"g{number}", f"short {number}") for number in range(1, 13)]
    counts = Counter[int]()
    for step in range(400):
        table = scope_table("trajectory", [*long, *short], num_samples=4, step=step)
        assert len({(row.rollout_index, row.turn_index) for row in table.rows}) == 4
        counts.update(row.rollout_index for row in table.rows)
    # 1/13 of each draw; without replacement and with one pair removed the share hardly moves.
    assert counts[0] / 1600 == pytest.approx(1 / 13, abs=0.025)


def test_a_cap_keeps_every_group_and_the_same_draw_for_the_same_seed() -> None:
    turns = [turn(16 * g + k, f"g{g}", f"prompt {g}") for g in range(8) for k in range(16)]
    table = scope_table("first_turn", turns, num_samples=32, seed=3, step=5)
    assert Counter(row.group_id for row in table.rows) == {f"g{g}": 4 for g in range(8)}
    again = scope_table("first_turn", turns, num_samples=32, seed=3, step=5)
    assert table.rows == again.rows
    other = scope_table("first_turn", turns, num_samples=32, seed=4, step=5)
    assert table.rows != other.rows


def test_each_row_is_drawn_with_the_same_probability() -> None:
    sizes = {"a": 30, "b": 6, "c": 1}
    turns = [
        turn(number, group, group)
        for number, group in enumerate(group for group, size in sizes.items() for _ in range(size))
    ]
    counts = np.zeros(37)
    for step in range(600):
        for row in scope_table("first_turn", turns, num_samples=12, step=step).rows:
            counts[row.rollout_index] += 1
    # Standard deviation of one count: sqrt(600 · 12/37 · 25/37) = 11.5; 4.5 of them for the worst of 37.
    assert np.abs(counts - 600 * 12 / 37).max() < 52


def test_a_cap_leaves_all_first_prompts_as_columns_and_puts_those_with_rows_first() -> None:
    turns = [turn(g, f"g{g}", f"prompt {g}") for g in range(40)]
    table = scope_table("first_turn", turns, num_samples=8)
    assert len(table.rows) == 8
    assert len(table.columns) == 40
    assert sorted(table.prompt_of_R.tolist()) == list(range(8))


def test_a_cap_on_later_turns_caps_the_columns_too() -> None:
    turns = [turn(g, f"g{g}", f"prompt {g}", index=2) for g in range(40)]
    assert len(scope_table("turn/2", turns, num_samples=8).columns) == 8


def test_turns_stands_for_every_turn_index_of_the_batch() -> None:
    turns = [turn(0, "a", "x", index=index) for index in (0, 1, 2)]
    assert scope_names(["first_turn", "turns", "first_turn"], turns) == [
        "first_turn",
        "turn/0",
        "turn/1",
        "turn/2",
    ]


def test_dropping_rows_keeps_scores_beside_their_prompts() -> None:
    turns = [turn(0, "a", "x"), turn(1, "b", "y"), turn(2, "c", "z")]
    table = scope_table("first_turn", turns)
    scores = np.arange(9.0).reshape(3, 3)
    kept, kept_scores = with_rows(table, scores, np.array([False, False, True]))
    assert [column.text for column in kept.columns] == ["z", "x", "y"]
    assert kept.prompt_of_R.tolist() == [0]
    assert kept_scores.tolist() == [[8.0, 6.0, 7.0]]
