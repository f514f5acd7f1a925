"""Legend: R rows, P columns."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collapsewatch_worker.metrics.arrays import Floats, Ints
from collapsewatch_worker.metrics.evaluation import MatrixMetrics, evaluate_matrix
from collapsewatch_worker.metrics.information import mi_ceiling, row_information, row_weights

HAND_SCORES = np.log(np.array([[0.6, 0.2], [0.2, 0.2], [0.1, 0.3]]))
HAND_PROMPTS = np.array([0, 0, 1])
HAND_TOKENS = np.array([2, 1, 4])


def evaluate(scores_RP: Floats, prompt_of_R: Ints, **options: object) -> MatrixMetrics:
    num_columns = scores_RP.shape[1]
    tokens_R = np.asarray(options.pop("tokens", np.full(len(scores_RP), 3)))
    weights_P = np.asarray(options.pop("weights", np.ones(num_columns)))
    return evaluate_matrix(scores_RP, prompt_of_R, weights_P, tokens_R, num_draws=20, **options)  # type: ignore[arg-type]


def value(result: MatrixMetrics, name: str) -> float:
    return result.metrics[name].value


def drawn_case(seed: int, num_prompts: int, per_prompt: int) -> tuple[Floats, Ints, Ints]:
    generator = np.random.default_rng(seed)
    tokens_R = generator.integers(1, 40, size=num_prompts * per_prompt)
    prompt_of_R = np.repeat(np.arange(num_prompts), per_prompt)
    scores_RP = -generator.gamma(2.0, 1.0, size=(prompt_of_R.size, num_prompts)) * tokens_R[:, None]
    return scores_RP, prompt_of_R, tokens_R


def test_a_hand_worked_matrix_gives_the_hand_worked_numbers() -> None:
    result = evaluate(HAND_SCORES, HAND_PROMPTS, tokens=HAND_TOKENS)
    # Mixtures are 0.4, 0.2 and 0.2; pmi is log 1.5, log 1 and log 1.5.
    expected = {
        "mi_seq": 2 / 3 * math.log(1.5),
        "mi_ceiling": math.log(2),
        "mi_normalised": 2 / 3 * math.log(1.5) / math.log(2),
        "mi_token": (math.log(1.5) / 2 + 0 + math.log(1.5) / 4) / 3,
        "conditional_entropy": -(math.log(0.6) / 2 + math.log(0.2) + math.log(0.3) / 4) / 3,
        "conditional_entropy_seq": -(math.log(0.6) + math.log(0.2) + math.log(0.3)) / 3,
        "reasoning_entropy": -(math.log(0.4) / 2 + math.log(0.2) + math.log(0.2) / 4) / 3,
        "reasoning_entropy_seq": -(math.log(0.4) + 2 * math.log(0.2)) / 3,
        "pmi_evalue": (1 / 1.5 + 1 + 1 / 1.5) / 3,
    }
    for name, wanted in expected.items():
        assert value(result, name) == pytest.approx(wanted, rel=1e-12), name
    marginals = [math.log(0.4) / 2, math.log(0.2), math.log(0.2) / 4]
    mean = sum(marginals) / 3
    spread = math.sqrt(sum((each - mean) ** 2 for each in marginals) / 3)
    assert value(result, "marginal_std") == pytest.approx(spread, rel=1e-12)
    assert value(result, "mi_zscore") == pytest.approx(expected["mi_token"] / (spread + 1e-3), rel=1e-12)


def test_equal_columns_carry_no_information() -> None:
    scores_RP = np.repeat(-np.arange(1.0, 13.0)[:, None], 4, axis=1)
    result = evaluate(scores_RP, np.tile(np.arange(4), 3))
    assert value(result, "mi_seq") == pytest.approx(0, abs=1e-12)
    assert value(result, "pmi_evalue") == pytest.approx(1, rel=1e-12)
    assert value(result, "conditional_entropy") == pytest.approx(value(result, "reasoning_entropy"))


@pytest.mark.parametrize("num_prompts", [2, 8, 64])
def test_reasoning_that_names_its_prompt_reaches_log_p(num_prompts: int) -> None:
    scores_RP = np.where(np.eye(num_prompts, dtype=bool), -10.0, -900.0)
    result = evaluate(scores_RP, np.arange(num_prompts))
    assert value(result, "mi_seq") == pytest.approx(math.log(num_prompts), rel=1e-12)
    assert value(result, "mi_ceiling") == pytest.approx(math.log(num_prompts), rel=1e-12)
    assert value(result, "mi_normalised") == pytest.approx(1, rel=1e-12)


def test_one_prompt_counted_twice_equals_two_identical_columns() -> None:
    scores_RP, prompt_of_R, tokens_R = drawn_case(7, 3, 4)
    merged = evaluate(scores_RP, prompt_of_R, tokens=tokens_R, weights=np.array([2, 1, 1]))
    matched_R = scores_RP[np.arange(12), prompt_of_R]
    repeated_RC = scores_RP[:, [0, 0, 1, 2]]
    slow = float(np.mean(matched_R - np.logaddexp.reduce(repeated_RC, axis=1) + math.log(4)))
    assert value(merged, "mi_seq") == pytest.approx(slow, rel=1e-12)
    assert value(merged, "mi_ceiling") == pytest.approx(-(0.5 * math.log(0.5) + 0.5 * math.log(0.25)))


def test_a_masked_column_is_as_if_the_row_had_never_met_it() -> None:
    scores_RP, prompt_of_R, tokens_R = drawn_case(3, 4, 2)
    mask_RP = np.zeros(scores_RP.shape, dtype=bool)
    mask_RP[5, 0] = True
    leaking_RP = scores_RP.copy()
    leaking_RP[5, 0] = np.nan
    result = evaluate(leaking_RP, prompt_of_R, tokens=tokens_R, mask_RP=mask_RP)
    pmi = []
    for row, own in enumerate(prompt_of_R):
        others = [scores_RP[row, column] for column in range(4) if not mask_RP[row, column]]
        pmi.append(scores_RP[row, own] - np.logaddexp.reduce(others) + math.log(len(others)))
    assert value(result, "mi_seq") == pytest.approx(float(np.mean(pmi)), rel=1e-12)
    assert value(result, "mi_token") == pytest.approx(float(np.mean(pmi / tokens_R)), rel=1e-12)


def test_weights_need_no_scale() -> None:
    scores_RP, prompt_of_R, tokens_R = drawn_case(5, 3, 2)
    counts, shares = (
        evaluate(scores_RP, prompt_of_R, tokens=tokens_R, weights=np.array(weights))
        for weights in ([2, 1, 1], [0.5, 0.25, 0.25])
    )
    assert counts.metrics.keys() == shares.metrics.keys()
    for name, wanted in counts.metrics.items():
        assert value(shares, name) == pytest.approx(wanted.value, rel=1e-12), name
    assert shares.ragen == pytest.approx(counts.ragen)


def test_log_probs_that_overflow_when_exponentiated_are_summed_exactly() -> None:
    scores_RP = np.array([[-20_000.0, -20_001.0], [-30_000.0, -29_000.0]])
    rows = row_information(
        scores_RP, np.array([0, 1]), row_weights(np.ones(2), None, 2), np.array([1000, 1000])
    )
    expected = [-20_000 + math.log((1 + math.exp(-1)) / 2), -29_000 + math.log(0.5)]
    assert rows.marginal_R.tolist() == pytest.approx(expected, rel=1e-15)


def test_a_huge_evalue_is_cut_off_and_stays_finite() -> None:
    result = evaluate(np.array([[-5000.0, -1.0], [-1.0, -5000.0]]), np.array([0, 1]))
    assert value(result, "pmi_evalue") == pytest.approx(1e300)


cases = st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 9), st.integers(1, 5))


@settings(max_examples=60, deadline=None)
@given(cases)
def test_information_stays_within_its_bounds(case: tuple[int, int, int]) -> None:
    scores_RP, prompt_of_R, tokens_R = drawn_case(*case)
    result = evaluate(scores_RP, prompt_of_R, tokens=tokens_R)
    assert value(result, "mi_seq") <= value(result, "mi_ceiling") + 1e-9
    assert value(result, "mi_normalised") <= 1 + 1e-9
    assert value(result, "mi_seq") == pytest.approx(
        value(result, "reasoning_entropy_seq") - value(result, "conditional_entropy_seq"), abs=1e-8
    )


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(0, 2**32 - 1))
def test_pmi_is_at_most_minus_log_of_the_own_weight(case: tuple[int, int, int], seed: int) -> None:
    scores_RP, prompt_of_R, tokens_R = drawn_case(*case)
    generator = np.random.default_rng(seed)
    mask_RP = generator.random(scores_RP.shape) < 0.3
    mask_RP[np.arange(prompt_of_R.size), prompt_of_R] = False
    weight_RP = row_weights(generator.integers(1, 5, case[1]).astype(float), mask_RP, len(scores_RP))
    rows = row_information(scores_RP, prompt_of_R, weight_RP, tokens_R)
    own_weight_R = weight_RP[np.arange(prompt_of_R.size), prompt_of_R]
    assert (rows.pmi_R <= -np.log(own_weight_R) + 1e-9).all()


@settings(max_examples=40, deadline=None)
@given(cases)
def test_the_order_of_rows_and_columns_does_not_matter(case: tuple[int, int, int]) -> None:
    scores_RP, prompt_of_R, tokens_R = drawn_case(*case)
    generator = np.random.default_rng(case[0])
    rows, columns = generator.permutation(len(scores_RP)), generator.permutation(case[1])
    place_of = np.argsort(columns)
    first = evaluate(scores_RP, prompt_of_R, tokens=tokens_R)
    second = evaluate(scores_RP[rows][:, columns], place_of[prompt_of_R[rows]], tokens=tokens_R[rows])
    assert first.metrics.keys() == second.metrics.keys()
    for name in first.metrics.keys() - {"retrieval_p_value"}:
        assert value(second, name) == pytest.approx(value(first, name), rel=1e-9, abs=1e-9), name


def test_the_ceiling_is_the_entropy_of_the_weights() -> None:
    assert mi_ceiling(np.ones(7)) == pytest.approx(math.log(7))
    assert mi_ceiling(np.array([3.0, 1.0])) == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
