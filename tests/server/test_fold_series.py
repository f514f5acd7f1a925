"""The rules on single metrics, as the fold of a scope brings them in."""

import json
from dataclasses import replace

import numpy as np
import pytest

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.folds.run_fold import Evaluation, FoldOutput
from tests.server.fold_cases import evaluation_at, evaluation_of, folded, healthy


def _with_batch(evaluation: Evaluation, **values: float) -> Evaluation:
    """The evaluation with these metrics of the whole batch, each with a narrow interval."""
    batch = {
        name: MetricValue(value=value, low=value - 0.02 * abs(value), high=value + 0.02 * abs(value))
        for name, value in values.items()
    }
    return replace(evaluation, batch_metrics={**evaluation.batch_metrics, **batch})


def _rules_opened(outputs: list[FoldOutput]) -> set[str]:
    return {move.rule for output in outputs for move in output.transitions if move.kind == "open"}


@pytest.mark.parametrize(
    ("metric", "usual", "changed", "rule"),
    [
        ("reward", 0.6, 0.1, "reward_drop"),
        ("success", 0.6, 0.1, "success_drop"),
        ("reasoning_length", 40.0, 200.0, "reasoning_length_explosion"),
        ("zero_variance_fraction", 0.3, 0.9, "zero_variance_excess"),
    ],
)
def test_fold_watches_the_metrics_of_the_batch(metric: str, usual: float, changed: float, rule: str) -> None:
    values = [usual] * 12 + [changed] * 8
    _, outputs = folded(
        _with_batch(evaluation_at(step, 0.8), **{metric: value}) for step, value in enumerate(values)
    )
    assert _rules_opened(outputs) == {rule}


@pytest.mark.parametrize(
    ("entropy", "rule"), [(0.1, "reasoning_entropy_collapse"), (3.0, "reasoning_entropy_explosion")]
)
def test_fold_watches_the_entropy_of_each_scope(entropy: float, rule: str) -> None:
    for scope in ("first_turn", "turn/2"):
        evaluations = healthy(scope=scope)
        evaluations += [evaluation_at(step, 0.8, entropy=entropy, scope=scope) for step in range(12, 24)]
        assert _rules_opened(folded(evaluations)[1]) == {rule}


def test_fall_of_mutual_information_is_told_while_retrieval_holds() -> None:
    shares = [0.6] * 12 + [0.1] * 10
    evaluations = [
        evaluation_at(step, 0.8, extra={"mi_normalised": share}) for step, share in enumerate(shares)
    ]
    assert _rules_opened(folded(evaluations)[1]) == {"mutual_information_fall"}


def test_drop_tells_whether_mutual_information_agrees() -> None:
    evaluations = [evaluation_at(step, 0.8, extra={"mi_normalised": 0.6}) for step in range(12)]
    evaluations += [
        evaluation_at(step, 0.0, p_value=0.5, extra={"mi_normalised": 0.6}) for step in range(12, 16)
    ]
    opened = [move for output in folded(evaluations)[1] for move in output.transitions if move.kind == "open"]
    said = "Mutual information did not clearly fall (0.60 of its ceiling"
    assert [said in move.message for move in opened] == [True] * 3


def test_gated_evaluation_still_counts_for_the_batch_and_not_for_its_scope() -> None:
    usual = [_with_batch(one, reasoning_length=40.0) for one in healthy()]
    leaking = {"mi_seq": 0.1, "pmi_evalue": 1e6}
    gated = [
        _with_batch(evaluation_at(step, 0.8, entropy=0.05, extra=leaking), reasoning_length=200.0)
        for step in range(12, 24)
    ]
    assert _rules_opened(folded([*usual, *gated])[1]) == {"reasoning_length_explosion"}


def test_new_baseline_begins_for_all_metrics() -> None:
    usual = [_with_batch(one, reasoning_length=40.0) for one in healthy()]
    hotter = [
        _with_batch(evaluation_at(step, 0.8, temperature=2.0), reasoning_length=200.0)
        for step in range(12, 40)
    ]
    state, outputs = folded([*usual, *hotter])
    assert _rules_opened(outputs) == set()
    assert state.series.complete["reasoning_length"].mean == pytest.approx(200.0)


def test_state_with_every_metric_and_open_alerts_stays_small() -> None:
    generator = np.random.default_rng(0)
    evaluations = []
    for step in range(30):
        one = evaluation_of(
            step, (generator.binomial(8, 0.6, size=256) / 8).tolist(), extra={"mi_normalised": 0.6}
        )
        lengths = {"reasoning_length": 40.0 if step < 15 else 200.0, "success": 0.6, "reward_std": 0.3}
        evaluations.append(_with_batch(one, **lengths))
    state, outputs = folded(evaluations)
    assert "reasoning_length_explosion" in _rules_opened(outputs)
    assert len(json.dumps(state.to_json())) < 6144
