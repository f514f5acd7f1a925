"""Legend: R rows, P columns."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from collapsewatch.contracts.metrics import METRICS
from collapsewatch_worker.metrics.arrays import Floats, Ints
from collapsewatch_worker.metrics.evaluation import MatrixMetrics, evaluate_matrix
from collapsewatch_worker.metrics.information import INFORMATION_METRICS

NEED_PROMPTS = {
    *("retrieval_accuracy", "retrieval_chance", "retrieval_skill", "retrieval_p_value", "mi_ceiling"),
    *(f"retrieval_{kind}@{rank}" for kind in ("accuracy", "chance") for rank in (2, 4, 8)),
    *INFORMATION_METRICS,
}


def drawn(num_prompts: int, per_prompt: int, *, signal: float, seed: int = 0) -> tuple[Floats, Ints, Ints]:
    generator = np.random.default_rng(seed)
    prompt_of_R = np.repeat(np.arange(num_prompts), per_prompt)
    scores_RP = generator.normal(-60, 1, size=(prompt_of_R.size, num_prompts))
    scores_RP[np.arange(prompt_of_R.size), prompt_of_R] += signal
    return scores_RP, prompt_of_R, generator.integers(20, 60, size=prompt_of_R.size)


def evaluate(case: tuple[Floats, Ints, Ints], **options: object) -> MatrixMetrics:
    scores_RP, prompt_of_R, tokens_R = case
    options = {"num_draws": 200, "num_permutations": 199, **options}
    return evaluate_matrix(scores_RP, prompt_of_R, np.ones(scores_RP.shape[1]), tokens_R, **options)  # type: ignore[arg-type]


def test_every_metric_is_there_with_its_interval_and_known_to_the_contracts() -> None:
    result = evaluate(drawn(12, 4, signal=2))
    assert result.metrics.keys() == NEED_PROMPTS
    assert not result.absent
    assert METRICS.keys() >= NEED_PROMPTS
    without = {"mi_ceiling", "retrieval_p_value", *(name for name in NEED_PROMPTS if "chance" in name)}
    for name, metric in result.metrics.items():
        if name in without:
            assert metric.low is None and metric.high is None, name
        else:
            assert metric.low is not None and metric.high is not None, name
            assert metric.low <= metric.value <= metric.high, name
    assert len(result.ragen) == 25


def test_signal_is_told_from_noise() -> None:
    signal, noise = evaluate(drawn(12, 4, signal=4)), evaluate(drawn(12, 4, signal=0))
    skill, nothing = signal.metrics["retrieval_skill"], noise.metrics["retrieval_skill"]
    assert skill.low is not None and skill.low > 0.7
    assert nothing.low is not None and nothing.high is not None and nothing.low < 0.1 and nothing.high < 0.4
    assert signal.metrics["retrieval_p_value"].value == pytest.approx(1 / 200)
    assert noise.metrics["retrieval_p_value"].value > 0.05


def test_the_same_input_gives_the_same_output_and_the_seed_moves_only_the_intervals() -> None:
    case = drawn(9, 3, signal=1)
    first, again, other = evaluate(case, seed=1), evaluate(case, seed=1), evaluate(case, seed=2)
    assert first == again
    assert first.metrics["mi_seq"].value == other.metrics["mi_seq"].value
    assert first.metrics["mi_seq"].low != other.metrics["mi_seq"].low


def test_each_prompt_is_told_with_what_it_was_taken_for() -> None:
    scores_RP = np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 2.0]])
    result = evaluate((scores_RP, np.array([0, 0, 1]), np.array([1, 1, 1])))
    assert [prompt.column for prompt in result.prompts] == [0, 1]
    first, second = result.prompts
    assert (first.num_rows, first.accuracy) == (2, 0.5)
    assert first.chance == pytest.approx(1 / 3)
    assert first.retrieved == [0.5, 0.5, 0]
    assert (second.num_rows, second.accuracy, second.retrieved) == (1, 0.5, [0, 0.5, 0.5])
    assert second.mean_pmi == pytest.approx(2 - math.log((1 + 2 * math.exp(2)) / 3))
    assert result.metrics["retrieval_skill"].value == pytest.approx((0.5 - 1 / 3) / (2 / 3))


@pytest.mark.parametrize("num_rows", [1, 5])
def test_one_prompt_leaves_only_the_conditional_entropies(num_rows: int) -> None:
    scores_RP = -np.arange(1.0, num_rows + 1)[:, None]
    result = evaluate((scores_RP, np.zeros(num_rows, dtype=np.int64), np.full(num_rows, 2)))
    assert result.metrics.keys() == {"conditional_entropy", "conditional_entropy_seq"}
    mean = (num_rows + 1) / 2
    assert result.metrics["conditional_entropy"].value == pytest.approx(mean / 2)
    assert result.metrics["conditional_entropy_seq"].value == pytest.approx(mean)
    assert result.absent.keys() == (NEED_PROMPTS | {"ragen"}) - result.metrics.keys()
    assert set(result.absent.values()) == {"needs at least 2 distinct prompts, got 1"}


def test_no_rows_leave_reasons_and_no_number() -> None:
    result = evaluate((np.zeros((0, 4)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)))
    assert not result.metrics
    assert result.absent == dict.fromkeys([*NEED_PROMPTS, "ragen"], "no scored reasoning")


def test_rows_of_a_single_prompt_have_values_but_no_intervals() -> None:
    scores_RP, _, _ = drawn(5, 1, signal=0)
    result = evaluate((scores_RP, np.zeros(5, dtype=np.int64), np.full(5, 9)))
    assert result.metrics["mi_seq"].low is None
    assert result.absent["retrieval_p_value"] == "needs rows of at least 2 prompts, got 1"


def test_scores_that_are_no_log_probs_give_retrieval_only() -> None:
    result = evaluate(drawn(10, 2, signal=3), in_nats=False)
    assert result.metrics.keys() == NEED_PROMPTS - {"mi_ceiling", *INFORMATION_METRICS}
    assert result.absent.keys() == {"mi_ceiling", "ragen", *INFORMATION_METRICS}
    assert not result.ragen
    assert all(prompt.mean_pmi is None for prompt in result.prompts)
    assert "no log-probs" in result.absent["mi_seq"]


@pytest.mark.parametrize(("num_prompts", "missing"), [(2, {2, 4, 8}), (8, {8}), (9, set())])
def test_a_rank_that_leaves_nothing_to_miss_is_absent(num_prompts: int, missing: set[int]) -> None:
    result = evaluate(drawn(num_prompts, 2, signal=1))
    for rank in (2, 4, 8):
        for kind in ("accuracy", "chance"):
            name = f"retrieval_{kind}@{rank}"
            assert (name in result.absent) == (rank in missing), name
            assert (name in result.metrics) == (rank not in missing), name


def test_an_impossible_own_reasoning_is_a_reason_and_not_an_infinity() -> None:
    scores_RP, prompt_of_R, tokens_R = drawn(6, 2, signal=1)
    scores_RP[3, prompt_of_R[3]] = -np.inf
    result = evaluate((scores_RP, prompt_of_R, tokens_R))
    assert "mi_seq" in result.absent and "conditional_entropy" in result.absent
    assert "ragen/mi_estimate" in result.absent and "mi_estimate" not in result.ragen
    assert 0 < result.metrics["retrieval_accuracy"].value < 1
    assert math.isfinite(result.metrics["reasoning_entropy"].value)
    assert result.prompts[1].mean_pmi is None


def test_an_impossible_other_prompt_is_an_ordinary_zero() -> None:
    scores_RP = np.where(np.eye(4, dtype=bool), -5.0, -np.inf)
    result = evaluate((scores_RP, np.arange(4), np.full(4, 2)))
    assert result.metrics["mi_seq"].value == pytest.approx(math.log(4))
    assert result.metrics["retrieval_accuracy"].value == 1


def test_rows_that_may_meet_no_other_prompt_are_left_out() -> None:
    case = drawn(3, 2, signal=2)
    mask_RP = np.zeros((6, 3), dtype=bool)
    mask_RP[0, 1:] = True
    result = evaluate(case, mask_RP=mask_RP)
    without = evaluate(tuple(part[1:] for part in case))  # type: ignore[arg-type]
    assert result.num_rows == 5
    assert result.metrics["mi_seq"] == without.metrics["mi_seq"]
    mask_RP[:] = True
    mask_RP[np.arange(6), case[1]] = False
    assert set(evaluate(case, mask_RP=mask_RP).absent.values()) == {"every other column is masked"}


def test_a_leak_mask_leaves_the_public_codes_family_out() -> None:
    case = drawn(4, 2, signal=1)
    mask_RP = np.zeros((8, 4), dtype=bool)
    assert evaluate(case, mask_RP=mask_RP).ragen
    mask_RP[0, 1] = True
    result = evaluate(case, mask_RP=mask_RP)
    assert not result.ragen and "leak mask" in result.absent["ragen"]


@pytest.mark.parametrize(
    ("array", "place", "bad", "message"),
    [
        ("scores", (2, 1), np.nan, "row 2 under column 1 is nan"),
        ("scores", (0, 2), np.inf, "row 0 under column 2 is inf"),
        ("prompts", (0,), 3, "names column 3 of 3"),
        ("prompts", (0,), -1, "lowest -1"),
        ("weights", (1,), 0.0, "finite and above 0"),
        ("weights", (1,), np.nan, "finite and above 0"),
        ("tokens", (4,), 0, "row 4 has 0 reasoning tokens"),
        ("mask", (4, 2), True, "own column of row 4 is masked"),
    ],
)
def test_bad_input_is_refused_with_what_was_given(
    array: str, place: tuple[int, ...], bad: float, message: str
) -> None:
    scores_RP, prompt_of_R, tokens_R = drawn(3, 2, signal=1)
    weights_P, mask_RP = np.ones(3), np.zeros((6, 3), dtype=bool)
    arrays: dict[str, NDArray[Any]] = {
        "scores": scores_RP,
        "prompts": prompt_of_R,
        "weights": weights_P,
        "tokens": tokens_R,
        "mask": mask_RP,
    }
    arrays[array][place] = bad
    with pytest.raises(ValueError, match=message):
        evaluate_matrix(scores_RP, prompt_of_R, weights_P, tokens_R, mask_RP)


def test_arrays_that_do_not_fit_the_matrix_are_refused() -> None:
    scores_RP, prompt_of_R, tokens_R = drawn(3, 2, signal=1)
    with pytest.raises(ValueError, match=r"token_counts_R has shape \(5,\)"):
        evaluate_matrix(scores_RP, prompt_of_R, np.ones(3), tokens_R[:-1])
    with pytest.raises(ValueError, match=r"mask_RP has shape \(6, 2\)"):
        evaluate_matrix(scores_RP, prompt_of_R, np.ones(3), tokens_R, np.zeros((6, 2), dtype=bool))
    with pytest.raises(ValueError, match="2 dimensions, got 1"):
        evaluate_matrix(scores_RP[0], prompt_of_R, np.ones(3), tokens_R)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 4), st.booleans())
def test_no_number_is_ever_out_of_range(seed: int, num_prompts: int, per_prompt: int, ties: bool) -> None:
    scores_RP, prompt_of_R, tokens_R = drawn(num_prompts, per_prompt, signal=1, seed=seed)
    generator = np.random.default_rng(seed)
    if ties:
        scores_RP = np.round(scores_RP)
    mask_RP = generator.random(scores_RP.shape) < 0.2
    mask_RP[np.arange(prompt_of_R.size), prompt_of_R] = False
    weights_P = generator.integers(1, 4, num_prompts)
    result = evaluate_matrix(scores_RP, prompt_of_R, weights_P, tokens_R, mask_RP, num_draws=30)
    assert result.metrics.keys().isdisjoint(result.absent)
    assert result.metrics.keys() | result.absent.keys() >= NEED_PROMPTS
    for name, metric in result.metrics.items():
        if name.startswith(("retrieval_accuracy", "retrieval_chance", "retrieval_p")):
            assert 0 <= metric.value <= 1, name
            assert metric.low is None or metric.low >= -1e-12, name
            assert metric.high is None or metric.high <= 1 + 1e-12, name
    if "retrieval_skill" in result.metrics:
        assert result.metrics["retrieval_skill"].value <= 1 + 1e-12
