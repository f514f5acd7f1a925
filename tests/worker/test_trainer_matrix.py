"""The matrix that the trainer sends, against numbers worked by hand."""

import math

import numpy as np
import pytest
from pydantic import ValidationError

from collapsewatch.contracts.rollouts import CrossLogProbs
from collapsewatch.contracts.scoring import ScorerKind
from collapsewatch_worker.errors import BatchNotScorable
from tests.worker.batches import matrix_batch, score


def test_the_trainers_matrix_is_measured_as_it_was_sent() -> None:
    log_probs = [[-1.0, -3.0], [-2.0, -4.0], [-5.0, -1.0], [-3.0, -2.0]]
    batch = matrix_batch(log_probs, ["a", "a", "b", "b"], {"a": "go north", "b": "go south"})
    result = score(batch, kind=ScorerKind.policy)
    (evaluation,) = result.evaluations
    matched = np.array([-1.0, -2.0, -1.0, -2.0])
    marginal = np.array([math.log(0.5 * math.exp(x) + 0.5 * math.exp(y)) for x, y in log_probs])
    assert evaluation.metrics["mi_seq"].value == pytest.approx(np.mean(matched - marginal))
    assert evaluation.metrics["mi_ceiling"].value == pytest.approx(math.log(2))
    assert evaluation.metrics["conditional_entropy"].value == pytest.approx(-matched.mean() / 2)
    assert evaluation.metrics["retrieval_accuracy"].value == 1.0
    assert evaluation.ragen["mi_seq_estimate"] == pytest.approx(np.mean(matched - marginal))
    assert result.scorer.label == "policy matrix from the trainer"
    assert result.scorer.is_policy


@pytest.mark.parametrize("count", [0, 2**31, 2**63])
def test_a_token_count_that_no_reasoning_has_is_refused_at_the_door(count: int) -> None:
    with pytest.raises(ValidationError, match="token_counts"):
        CrossLogProbs(rollout_indices=[0], column_group_ids=["a"], log_probs=[[-1.0]], token_counts=[count])


def test_the_trainers_columns_of_equal_prompts_become_one() -> None:
    log_probs = [[-1.0, -4.0, -1.0], [-4.0, -1.0, -4.0], [-1.5, -4.0, -1.5]]
    prompts = {"a": "go north", "b": "go south", "c": "go north"}
    (evaluation,) = score(matrix_batch(log_probs, ["a", "b", "c"], prompts)).evaluations
    assert evaluation.num_prompts == 2
    assert [prompt.group_ids for prompt in evaluation.prompts] == [["a", "c"], ["b"]]
    # 2/3 and 1/3 of the columns.
    ceiling = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert evaluation.metrics["mi_ceiling"].value == pytest.approx(ceiling)
    assert evaluation.metrics["retrieval_accuracy"].value == 1.0
    assert evaluation.metrics["retrieval_chance"].value == pytest.approx((2 / 3 + 1 / 3 + 2 / 3) / 3)


def test_a_value_left_out_is_no_candidate() -> None:
    log_probs: list[list[float | None]] = [[-5.0, None, -6.0], [-9.0, -2.0, -9.0], [-9.0, -9.0, -2.0]]
    batch = matrix_batch(log_probs, ["a", "b", "c"], {"a": "x", "b": "y", "c": "z"})
    (evaluation,) = score(batch).evaluations
    assert evaluation.metrics["retrieval_accuracy"].value == 1.0
    assert evaluation.metrics["retrieval_chance"].value == pytest.approx((1 / 2 + 1 / 3 + 1 / 3) / 3)


def test_a_row_without_its_own_value_is_the_batchs_fault() -> None:
    batch = matrix_batch([[None, -1.0], [-2.0, -1.0]], ["a", "b"], {"a": "x", "b": "y"})
    with pytest.raises(BatchNotScorable, match="rollout 0"):
        score(batch)
