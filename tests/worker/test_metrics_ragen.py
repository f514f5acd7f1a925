"""The golden vectors hold the family as a whole; here are the traits that set it apart."""

import math

import numpy as np
import pytest

from collapsewatch_worker.metrics.evaluation import evaluate_matrix
from collapsewatch_worker.metrics.ragen import prompt_of_each_group, ragen_metrics


def test_the_mixture_is_taken_over_means_per_token() -> None:
    sums_RN = np.array([[-20.0, -40.0], [-30.0, -10.0]])
    found = ragen_metrics(sums_RN / 10, sums_RN, np.array([0, 1]))
    mixtures = [math.log((math.exp(-2) + math.exp(-4)) / 2), math.log((math.exp(-3) + math.exp(-1)) / 2)]
    assert found["mi_estimate"] == pytest.approx((-2 - 1 - sum(mixtures)) / 2, rel=1e-12)
    ours = (
        evaluate_matrix(sums_RN, np.array([0, 1]), np.ones(2), np.array([10, 10])).metrics["mi_token"].value
    )
    # log N / |Z| bounds ours and not theirs.
    assert ours <= math.log(2) / 10 < found["mi_estimate"]


def test_a_tie_goes_to_the_first_column() -> None:
    found = [
        ragen_metrics(np.zeros((1, 4)), np.zeros((1, 4)), np.array([own]))["retrieval_accuracy"]
        for own in range(4)
    ]
    assert found == [1, 0, 0, 0]


def test_at_k_is_clipped_at_the_number_of_columns() -> None:
    found = ragen_metrics(np.zeros((1, 4)), np.zeros((1, 4)), np.array([3]))
    assert (found["retrieval_accuracy@8"], found["retrieval_chance_level@8"]) == (1, 1)


def test_equal_prompts_count_as_own_and_the_bound_counts_groups() -> None:
    scores_RN = np.array([[-1.0, -2.0, -3.0]])
    found = ragen_metrics(scores_RN, scores_RN, np.array([2]), signature_N=["a", "b", "a"])
    assert found["retrieval_accuracy"] == 1
    assert found["retrieval_chance_level"] == pytest.approx(2 / 3)
    assert found["retrieval_chance_level@2"] == 1
    assert found["mi_upper_bound"] == pytest.approx(math.log(3))


def test_fewer_than_two_columns_give_nothing() -> None:
    assert ragen_metrics(np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(3, dtype=np.int64)) == {}


def test_distinct_columns_with_counts_give_what_repeated_columns_give() -> None:
    generator = np.random.default_rng(0)
    sums_RP, tokens_R = generator.normal(-50, 3, size=(8, 3)), generator.integers(5, 20, size=8)
    prompt_of_R = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    merged = evaluate_matrix(sums_RP, prompt_of_R, np.array([2, 1, 1]), tokens_R).ragen
    sums_RN = sums_RP[:, [0, 0, 1, 2]]
    columns_R = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    repeated = ragen_metrics(sums_RN / tokens_R[:, None], sums_RN, columns_R, signature_N="aabc")
    assert merged == pytest.approx(repeated, rel=1e-12)


def test_a_group_with_two_prompts_is_refused() -> None:
    assert prompt_of_each_group([1, 0, 1], [[5], [6, 7], [5]]) == {1: (5,), 0: (6, 7)}
    with pytest.raises(ValueError, match="row 2 of group 1"):
        prompt_of_each_group([1, 0, 1], [[5], [6, 7], [8]])
