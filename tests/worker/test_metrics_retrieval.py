"""Legend: R rows, P columns."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collapsewatch_worker.metrics.arrays import Floats, Ints
from collapsewatch_worker.metrics.retrieval import (
    chance_at,
    group_columns,
    hit_probability,
    hits_at,
    permutation_p_value,
    retrieval_accuracy,
    retrieval_credit,
    skill_matrix,
)


def even(scores_RP: Floats) -> Floats:
    return np.full(scores_RP.shape, 1 / scores_RP.shape[1])


def test_the_best_column_takes_the_hit_and_ties_share_it() -> None:
    scores_RP = np.array([[3.0, 1.0, 2.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0], [0.0, 5.0, 5.0]])
    prompt_of_R = np.array([0, 1, 2, 0])
    assert retrieval_accuracy(scores_RP, prompt_of_R, even(scores_RP)) == pytest.approx(
        (1 + 1 / 2 + 1 / 3 + 0) / 4
    )


@pytest.mark.parametrize("num_prompts", [2, 5, 64])
def test_equal_columns_give_chance_level(num_prompts: int) -> None:
    scores_RP = np.repeat(-np.arange(12.0)[:, None], num_prompts, axis=1)
    prompt_of_R = np.arange(12) % num_prompts
    assert retrieval_accuracy(scores_RP, prompt_of_R, even(scores_RP)) == pytest.approx(1 / num_prompts)


def test_numbers_that_differ_in_the_last_bit_are_no_tie() -> None:
    scores_RP = np.array([[-100.0, np.nextafter(-100.0, 0)]])
    assert retrieval_accuracy(scores_RP, np.array([0]), even(scores_RP)) == 0


def test_fewer_than_two_prompts_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 prompts, got 1"):
        retrieval_accuracy(np.zeros((3, 1)), np.zeros(3, dtype=np.int64), np.ones((3, 1)))


def test_a_prompt_of_two_groups_takes_two_shares_of_a_tie() -> None:
    credit_RP = retrieval_credit(np.zeros((1, 2)), np.array([[2 / 3, 1 / 3]]))
    assert credit_RP.tolist() == [[pytest.approx(2 / 3), pytest.approx(1 / 3)]]


def test_a_masked_column_takes_no_hit_even_as_the_best() -> None:
    credit_RP = retrieval_credit(np.array([[9.0, 1.0, 1.0]]), np.array([[0.0, 0.5, 0.5]]))
    assert credit_RP.tolist() == [[0, 0.5, 0.5]]


@given(st.integers(1, 12), st.data())
def test_the_hypergeometric_chance_matches_counting_all_draws(num_all: int, data: st.DataObject) -> None:
    num_own = data.draw(st.integers(0, num_all))
    num_drawn = data.draw(st.integers(0, min(num_all, 5)))
    draws = list(itertools.combinations(range(num_all), num_drawn))
    expected = sum(any(column < num_own for column in draw) for draw in draws) / len(draws)
    found = hit_probability(np.array([num_all]), np.array([num_own]), np.array([num_drawn]))
    assert found[0] == pytest.approx(expected, abs=1e-12)


def test_chance_at_k_is_k_over_p_without_repeated_prompts() -> None:
    columns_RP = np.ones((3, 10), dtype=np.int64)
    for rank in (1, 2, 4, 8):
        assert chance_at(rank, np.array([0, 4, 9]), columns_RP) == pytest.approx(rank / 10)


def slow_hit_at(rank: int, scores: list[float], own: int, copies: Ints) -> float:
    """Average over all orders that break ties, columns repeated as often as they count."""
    columns = [(scores[column], column) for column, count in enumerate(copies) for _ in range(count)]
    hits = []
    for order in itertools.permutations(range(len(columns))):
        ranked = sorted(order, key=lambda place: -columns[place][0])
        hits.append(any(columns[place][1] == own for place in ranked[:rank]))
    return float(np.mean(hits))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=4), st.data())
def test_expected_hits_at_k_match_every_order_of_ties(levels: list[int], data: st.DataObject) -> None:
    copies = np.array(data.draw(st.lists(st.integers(1, 2), min_size=len(levels), max_size=len(levels))))
    own = data.draw(st.integers(0, len(levels) - 1))
    rank = data.draw(st.integers(1, 3))
    scores = [float(level) for level in levels]
    found = hits_at(rank, np.array([scores]), np.array([own]), copies[None, :])
    assert found[0] == pytest.approx(slow_hit_at(rank, scores, own, copies), abs=1e-12)


def skills(scores_RP: Floats, prompt_of_R: Ints) -> Floats:
    weight_RP = even(scores_RP)
    column_of_N, cluster_of_R = np.unique(prompt_of_R, return_inverse=True)
    return skill_matrix(retrieval_credit(scores_RP, weight_RP), weight_RP, cluster_of_R, column_of_N)


def test_skill_is_one_for_perfect_and_zero_for_chance() -> None:
    prompt_of_R = np.repeat(np.arange(5), 3)
    perfect = skills(np.eye(5)[prompt_of_R], prompt_of_R)
    assert np.diagonal(perfect) == pytest.approx(np.ones(5))
    assert skills(np.zeros((15, 5)), prompt_of_R) == pytest.approx(np.zeros((5, 5)))


def test_skill_of_a_prompt_is_its_accuracy_above_its_chance() -> None:
    scores_RP = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    found = np.diagonal(skills(scores_RP, np.array([0, 0, 1, 2])))
    assert found.tolist() == pytest.approx([(1 / 2 - 1 / 3) / (2 / 3), 1, 1])


def slow_p_value(skill_NN: Floats) -> float:
    size = len(skill_NN)
    observed = float(np.trace(skill_NN))
    orders = list(itertools.permutations(range(size)))
    sums = [sum(float(skill_NN[i, order[i]]) for i in range(size)) for order in orders]
    return sum(each >= observed - 1e-9 for each in sums) / len(orders)


def test_few_prompts_are_tried_in_every_order() -> None:
    generator = np.random.default_rng(0)
    for size in (2, 3, 5):
        skill_NN = generator.normal(size=(size, size))
        assert permutation_p_value(skill_NN) == pytest.approx(slow_p_value(skill_NN))
    assert permutation_p_value(np.eye(6)) == pytest.approx(1 / math.factorial(6))


def test_the_smallest_p_value_of_two_prompts_is_one_half() -> None:
    assert permutation_p_value(np.eye(2)) == 0.5


def test_many_prompts_have_the_resolution_of_their_shuffles() -> None:
    assert permutation_p_value(np.eye(20), num_permutations=999) == pytest.approx(1 / 1000)
    assert permutation_p_value(np.zeros((20, 20)), num_permutations=99) == 1


def test_the_p_value_is_uniform_when_labels_mean_nothing() -> None:
    generator = np.random.default_rng(1)
    values = [
        permutation_p_value(generator.normal(size=(12, 12)), num_permutations=199, seed=seed)
        for seed in range(300)
    ]
    # Binomial: the share below 0.1 of 300 has a standard deviation of 0.017.
    assert 0.04 < np.mean(np.array(values) <= 0.1) < 0.16


def test_a_p_value_needs_two_prompts() -> None:
    with pytest.raises(ValueError, match="at least 2 prompts, got 1"):
        permutation_p_value(np.ones((1, 1)))


def test_weights_tell_how_many_groups_share_a_prompt() -> None:
    found = [
        group_columns(np.array(weights))
        for weights in ([2.0, 1.0, 1.0], [0.5, 0.25, 0.25], [0.2, 0.2], [3.0, 3.0])
    ]
    assert [each.tolist() for each in found if each is not None] == [[2, 1, 1], [2, 1, 1], [1, 1], [3, 3]]
    assert group_columns(np.array([1.0, math.pi])) is None


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 8), st.integers(1, 20))
def test_credit_is_a_distribution_over_columns(seed: int, num_prompts: int, num_rows: int) -> None:
    generator = np.random.default_rng(seed)
    scores_RP = generator.integers(0, 3, size=(num_rows, num_prompts)).astype(float)
    credit_RP = retrieval_credit(scores_RP, even(scores_RP))
    assert credit_RP.sum(axis=1) == pytest.approx(np.ones(num_rows))
    assert ((credit_RP >= 0) & (credit_RP <= 1)).all()
