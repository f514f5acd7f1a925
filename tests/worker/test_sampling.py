"""Which reasonings are scored when not all are: the draw, the probe set, and what is told of them."""

import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from collapsewatch.contracts.rollouts import Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import ScorerConfig
from collapsewatch_worker.batches.partition import PartitionedTurn, partition_batch
from collapsewatch_worker.batches.sampling import (
    canonical_order,
    inclusion_probabilities,
    told_sampling,
    trainers_sampling,
    why_left_out,
)
from collapsewatch_worker.batches.scopes import scope_table, scope_turns

SIZES = st.lists(st.integers(1, 20), min_size=2, max_size=10)
SCOPES = st.sampled_from(["first_turn", "turn/1", "trajectory"])


def make_batch(turn_counts: list[list[int]]) -> list[Rollout]:
    """One list per group, of the number of turns of each of its rollouts; no two turns hold the same."""
    return [
        Rollout(
            group_id=f"g{group}",
            turns=[
                Turn(
                    prompt=f"prompt {group} {k if turn else ''} {turn}",
                    reasoning=f"because {group} {k} {turn}",
                )
                for turn in range(num_turns)
            ],
        )
        for group, counts in enumerate(turn_counts)
        for k, num_turns in enumerate(counts)
    ]


def cut(rollouts: list[Rollout]) -> tuple[PartitionedTurn, ...]:
    return partition_batch(RolloutBatch(batch_id="b", step=0, rollouts=rollouts), None).turns


def texts(turns: tuple[PartitionedTurn, ...]) -> list[str]:
    return [turn.reasoning_text for turn in turns]


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6), min_size=2, max_size=5), SCOPES, st.data()
)
def test_the_same_seed_draws_the_same_rows_in_whatever_order_the_rollouts_come(
    turn_counts: list[list[int]], scope: str, data: st.DataObject
) -> None:
    rollouts = make_batch(turn_counts)
    num_samples = data.draw(st.integers(1, len(rollouts)))
    seed, step = data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(0, 10**6))
    shuffled = data.draw(st.permutations(rollouts))
    one = scope_table(scope, cut(rollouts), num_samples=num_samples, seed=seed, step=step)
    other = scope_table(scope, cut(shuffled), num_samples=num_samples, seed=seed, step=step)
    assert sorted(texts(one.rows)) == sorted(texts(other.rows))
    # Drawn rows stay in the order of their batch.
    assert [row.rollout_index for row in other.rows] == sorted(row.rollout_index for row in other.rows)


@settings(deadline=None)
@given(SIZES, st.integers(1, 200), st.integers(0, 2**32 - 1), st.integers(0, 10**6))
def test_every_group_keeps_its_share(sizes: list[int], num_samples: int, seed: int, step: int) -> None:
    turns = cut(make_batch([[1] * size for size in sizes]))
    table = scope_table("first_turn", turns, num_samples=num_samples, seed=seed, step=step)
    assert len(table.rows) == min(num_samples, len(turns))
    assert len(set(texts(table.rows))) == len(table.rows)
    drawn = Counter(row.group_id for row in table.rows)
    for group, size in enumerate(sizes):
        share = len(table.rows) * size / len(turns)
        assert abs(drawn[f"g{group}"] - share) < 1 + 1e-9


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=5), min_size=2, max_size=5), st.data())
def test_every_group_keeps_its_share_of_the_trajectories(
    turn_counts: list[list[int]], data: st.DataObject
) -> None:
    turns = cut(make_batch(turn_counts))
    num_samples = data.draw(st.integers(1, len(turns)))
    table = scope_table("trajectory", turns, num_samples=num_samples, seed=data.draw(st.integers(0, 99)))
    assert len(set(texts(table.rows))) == len(table.rows) == num_samples
    drawn = Counter(row.group_id for row in table.rows)
    weights = np.array([1 / n for counts in turn_counts for n in counts for _ in range(n)])
    probabilities = np.ones(len(turns))
    if num_samples < len(turns):
        probabilities = inclusion_probabilities(weights, num_samples)
    expected: dict[str, float] = defaultdict(float)
    for turn, probability in zip(turns, probabilities, strict=True):
        expected[turn.group_id] += probability
    for group in expected:
        assert abs(drawn[group] - expected[group]) < 1 + 1e-6


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=30), st.data())
def test_inclusion_probabilities_follow_the_weights_up_to_certainty(
    weights: list[float], data: st.DataObject
) -> None:
    num_samples = data.draw(st.integers(1, len(weights) - 1))
    probabilities = inclusion_probabilities(np.array(weights), num_samples)
    assert probabilities.sum() == pytest.approx(num_samples)
    assert (probabilities > 0).all()
    assert (probabilities <= 1).all()
    open_ones = probabilities < 1
    ratios = probabilities[open_ones] / np.array(weights)[open_ones]
    assert ratios == pytest.approx(ratios[0])
    # Whatever is certain would have been more than certain at the ratio of the others.
    assert (np.array(weights)[~open_ones] * ratios[0] >= 1 - 1e-9).all()


def test_certain_pairs_are_always_drawn() -> None:
    # Ten trajectories of one turn and one of ten: of 11 trajectories and 15 rows the short ones are certain.
    turns = cut(make_batch([[1] * 10, [10]]))
    for step in range(20):
        rows = scope_table("trajectory", turns, num_samples=15, step=step).rows
        assert Counter(row.group_id for row in rows) == {"g0": 10, "g1": 5}


@settings(deadline=None)
@given(SIZES, st.data())
def test_a_probe_set_is_never_thinned_unless_a_cap_says_so(sizes: list[int], data: st.DataObject) -> None:
    turns = cut(make_batch([[1] * size for size in sizes]))
    probes = data.draw(st.sets(st.sampled_from([f"g{n}" for n in range(len(sizes))]), min_size=1))
    wanted = [turn for turn in turns if turn.group_id in probes]
    table = scope_table("first_turn", turns, probe_group_ids=probes, seed=data.draw(st.integers(0, 99)))
    assert list(table.rows) == wanted
    assert {group for column in table.columns for group in column.group_ids} == probes
    num_samples = data.draw(st.integers(1, len(turns)))
    capped = scope_table("first_turn", turns, probe_group_ids=probes, num_samples=num_samples)
    assert len(capped.rows) == min(num_samples, len(wanted))
    assert {row.group_id for row in capped.rows} <= probes
    # The columns stay: a cap on the rows makes the question no easier.
    assert {group for column in capped.columns for group in column.group_ids} == probes


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_rollouts_that_hold_the_same_are_interchangeable(contents: list[int]) -> None:
    assume(len(set(contents)) > 1)
    turns = cut(
        [
            Rollout(group_id="g", turns=[Turn(prompt="p", reasoning=f"because {content}")])
            for content in contents
        ]
    )
    ordered = [turns[position].reasoning_text for position in canonical_order(turns)]
    shuffled = list(turns)
    random.Random(0).shuffle(shuffled)
    assert ordered == [shuffled[position].reasoning_text for position in canonical_order(shuffled)]


def test_the_order_is_of_token_ids_where_there_is_no_text() -> None:
    rollouts = [
        Rollout(
            group_id="g",
            turns=[Turn(prompt_token_ids=[1, 2], response_token_ids=[number, 9], reasoning_span=(0, 1))],
        )
        for number in range(40)
    ]
    turns = cut(rollouts)
    ids = [turns[position].reasoning_token_ids for position in canonical_order(turns)]
    backwards = cut(rollouts[::-1])
    assert ids == [backwards[position].reasoning_token_ids for position in canonical_order(backwards)]


def test_steps_that_are_left_out_say_which_is_next() -> None:
    config = ScorerConfig(every_steps=5)
    batches = {
        step: RolloutBatch(batch_id="b", step=step, rollouts=make_batch([[1], [1]])) for step in (0, 4, 5, 6)
    }
    assert why_left_out(config, batches[0]) is None
    assert why_left_out(config, batches[5]) is None
    assert "next of them is 5" in str(why_left_out(config, batches[4]))
    assert "next of them is 10" in str(why_left_out(config, batches[6]))
    assert all(why_left_out(ScorerConfig(), batch) is None for batch in batches.values())


def test_a_batch_without_a_single_probe_is_left_out() -> None:
    batch = RolloutBatch(batch_id="b", step=0, rollouts=make_batch([[1], [1]]))
    assert "none of the 2 groups" in str(why_left_out(ScorerConfig(probe_group_ids=["x", "y"]), batch))
    assert why_left_out(ScorerConfig(probe_group_ids=["g1", "y"]), batch) is None


def test_what_is_told_counts_the_whole_batch_and_knows_the_probe_set_by_its_groups() -> None:
    turns = cut(make_batch([[1] * 4, [1] * 4, [1] * 4]))
    available = scope_turns("first_turn", turns)
    config = ScorerConfig(num_samples=8, seed=7, every_steps=2, probe_group_ids=["g2", "g1", "elsewhere"])
    told = told_sampling(config, available, 8)
    assert (told.num_rows, told.num_rows_available, told.num_samples, told.seed) == (8, 12, 8, 7)
    assert (told.every_steps, told.is_probe, told.num_probe_groups, told.num_probe_groups_present) == (
        2,
        True,
        3,
        2,
    )
    reordered = config.model_copy(update={"probe_group_ids": ["g1", "elsewhere", "g2"]})
    assert told_sampling(reordered, available, 8) == told
    other = config.model_copy(update={"probe_group_ids": ["elsewhereg1", "g2"]})
    assert told_sampling(other, available, 8).probe_key != told.probe_key
    plain = told_sampling(ScorerConfig(), available, 12)
    assert (plain.is_probe, plain.probe_key, plain.num_samples, plain.every_steps) == (False, "", None, 1)


def test_a_matrix_of_the_trainer_is_told_as_what_it_is() -> None:
    turns = cut(make_batch([[1] * 4, [1] * 4]))
    told = trainers_sampling(turns[:6], turns)
    assert (told.num_rows, told.num_rows_available, told.by_trainer) == (6, 8, True)
    assert (told.num_samples, told.every_steps, told.is_probe) == (None, 1, False)
