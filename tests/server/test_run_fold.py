import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collapsewatch.contracts.scoring import ScopeEvaluation
from collapsewatch_server.folds.run_fold import Evaluation, FoldState, fold, initial_state
from tests.server.fold_cases import evaluation_at, evaluation_of, folded, happened, healthy

RECORDED: dict[str, dict[str, list[Any]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "recorded_hits.json").read_text()
)


def _recorded(run: str) -> list[Evaluation]:
    columns = RECORDED[run]
    evaluations = []
    for i, step in enumerate(columns["steps"]):
        evaluations.append(
            evaluation_of(
                step,
                columns["accuracies"][i],
                num_rows=min(columns["num_rows"][i]),
                p_value=columns["p_values"][i],
                entropy=columns["conditional_entropies"][i],
                valid_rate=columns["valid_reasoning_rates"][i],
            )
        )
    return evaluations


@pytest.mark.parametrize(
    ("run", "warning", "critical"),
    [
        ("flat_nf_s1", 32, 41),
        ("shift_nf_s1", 84, 103),
        ("solved_s1", 94, None),
        ("flat_f_s1", None, None),
        ("flat_healthy_s1", None, None),
    ],
)
def test_recorded_runs_open_the_alerts_that_they_should(
    run: str, warning: int | None, critical: int | None
) -> None:
    evaluations = _recorded(run)
    _, outputs = folded(evaluations)
    opened = {
        move.severity: evaluation.step
        for evaluation, output in zip(evaluations, outputs, strict=True)
        for move in output.transitions
        if move.kind == "open" and move.severity != "info"
    }
    expected = {"warning": warning, "critical": critical}
    assert opened.keys() == {severity for severity, step in expected.items() if step is not None}
    for severity, step in opened.items():
        assert abs(step - (expected[severity] or 0)) <= 2


@pytest.mark.parametrize("run", sorted(RECORDED))
def test_one_alert_of_a_rule_is_open_at_a_time(run: str) -> None:
    _, outputs = folded(_recorded(run))
    open_severity: str | None = None
    for output in outputs:
        for move in output.transitions:
            if move.kind == "open":
                assert open_severity is None
                open_severity = move.severity
            else:
                assert open_severity == move.severity
                open_severity = None


def test_collapsed_run_ends_in_template_collapse_and_the_healthy_one_in_diverse_reasoning() -> None:
    _, collapsed = folded(_recorded("flat_nf_s1"))
    _, healthy = folded(_recorded("flat_healthy_s1"))
    regimes = [output.regime for output in collapsed[-20:]]
    assert regimes.count("template_collapse") > 15
    assert {output.regime for output in healthy[-20:]} == {"diverse_reasoning"}


def test_regime_is_insufficient_until_the_baseline_is_frozen() -> None:
    _, outputs = folded(healthy(12))
    assert [output.regime for output in outputs] == ["insufficient"] * 10 + ["diverse_reasoning"] * 2
    assert "baseline: 4 of 10" in outputs[4].reason
    assert outputs[9].thresholds is None
    assert outputs[10].thresholds is not None
    assert outputs[11].thresholds == {
        "low_dependence": pytest.approx(0.2),
        "high_dependence": pytest.approx(0.4),
        "low_diversity": 0.5,
        "high_diversity": 2.0,
    }


def test_diversity_is_relative_to_the_running_mean_and_then_to_the_baseline() -> None:
    entropies = [2.0, 1.0, *[1.0] * 9, 0.5]
    _, outputs = folded(evaluation_at(step, 0.8, entropy=h) for step, h in enumerate(entropies))
    assert outputs[0].diversity == pytest.approx(1.0)
    assert outputs[1].diversity == pytest.approx(1.0 / 1.5)
    assert outputs[11].diversity == pytest.approx(0.5)
    assert (outputs[11].diversity_low, outputs[11].diversity_high) == pytest.approx((0.475, 0.525))
    assert outputs[11].derived["diversity_ratio"] == outputs[11].diversity


def test_lexical_scorer_leaves_diversity_unknown_and_still_raises_the_alert() -> None:
    evaluations = healthy(entropy=None, scorer="lexical")
    evaluations += [
        evaluation_at(step, 0.0, entropy=None, scorer="lexical", p_value=0.5) for step in range(12, 16)
    ]
    _, outputs = folded(evaluations)
    assert outputs[-1].regime == "indeterminate"
    assert "Input dependence is low" in outputs[-1].reason
    assert outputs[-1].diversity is None
    assert ("open", "critical") in [move for moves in happened(outputs) for move in moves]


def test_drop_to_chance_rises_from_info_to_critical_within_three_evaluations() -> None:
    _, outputs = folded([*healthy(), *(evaluation_at(step, 0.0, p_value=0.5) for step in range(12, 16))])
    assert happened(outputs)[:12] == [[]] * 12
    assert happened(outputs)[12:] == [
        [("open", "info")],
        [("resolve", "info"), ("open", "warning")],
        [("resolve", "warning"), ("open", "critical")],
        [],
    ]
    assert outputs[13].derived["log_evalue_warning"] >= np.log10(500.0)
    assert outputs[14].derived["log_evalue_critical"] >= 3.0


def test_critical_waits_until_dependence_cannot_be_shown_any_more() -> None:
    evaluations = [*healthy(), *(evaluation_at(step, 0.3, p_value=0.001) for step in range(12, 40))]
    _, outputs = folded(evaluations)
    assert outputs[-1].derived["log_evalue_critical"] > 3.0
    assert [move for moves in happened(outputs) for move in moves][-1] == ("open", "warning")


def test_baselines_own_evaluations_are_no_evidence() -> None:
    _, outputs = folded(
        [evaluation_at(0, 0.8), *(evaluation_at(step, 0.8 if step < 6 else 0.1) for step in range(1, 11))]
    )
    assert outputs[-1].derived["log_evalue_warning"] == 0.0
    assert happened(outputs) == [[]] * 11


def test_recovered_run_clears_after_five_evaluations_and_starts_from_no_evidence() -> None:
    evaluations = [*healthy(), *(evaluation_at(step, 0.0, p_value=0.5) for step in range(12, 30))]
    evaluations += [evaluation_at(step, 0.78) for step in range(30, 36)]
    _, outputs = folded(evaluations)
    assert happened(outputs)[30:35] == [[], [], [], [], [("resolve", "critical")]]
    assert outputs[35].derived["log_evalue_warning"] <= 0.0


def test_interrupted_recovery_starts_counting_again() -> None:
    evaluations = [*healthy(), *(evaluation_at(step, 0.0, p_value=0.5) for step in range(12, 16))]
    skills = [0.8, 0.8, 0.8, 0.8, 0.5, 0.8, 0.8, 0.8, 0.8]
    evaluations += [evaluation_at(16 + i, skill) for i, skill in enumerate(skills)]
    _, outputs = folded(evaluations)
    assert happened(outputs)[16:] == [[]] * len(skills)


def test_single_dip_is_info_and_passes() -> None:
    evaluations = [*healthy(), evaluation_at(12, 0.5), *(evaluation_at(step, 0.8) for step in range(13, 18))]
    _, outputs = folded(evaluations)
    assert happened(outputs)[12:] == [[("open", "info")], [], [], [], [], [("resolve", "info")]]


def test_gated_evaluation_leaves_no_trace_in_the_detectors() -> None:
    state, _ = folded(healthy())
    too_few = evaluation_of(12, [0.0] * 5)
    leaking = evaluation_at(12, 0.0, extra={"mi_seq": 0.1, "pmi_evalue": 1e6})
    for evaluation, said in ((too_few, "5 distinct prompts"), (leaking, "PMI e-value 1e+06")):
        after, output = fold(state, evaluation)
        assert (output.regime, output.transitions) == ("insufficient", [])
        assert said in output.reason
        assert "log_evalue_warning" not in output.derived
        assert (after.drop, after.baseline) == (state.drop, state.baseline)


def test_evaluation_set_aside_for_its_setup_is_no_evidence() -> None:
    state, _ = folded(healthy())
    after, output = fold(state, evaluation_at(12, 0.0, temperature=0.5))
    assert (output.regime, output.transitions, output.diversity) == ("insufficient", [], None)
    assert "temperature changed from 1.0 to 0.5" in output.reason
    assert after.drop == state.drop


def test_new_baseline_forgets_the_evidence_against_the_old_one() -> None:
    state, _ = folded([*healthy(), evaluation_at(12, 0.0)])
    assert max(state.drop.warning) > 0.0
    state, _ = folded(
        [evaluation_at(13, 0.6, temperature=0.5), evaluation_at(14, 0.6, temperature=0.5)], state
    )
    assert max(state.drop.warning) == 0.0
    assert len(state.drop.recent) == 1


def test_valid_reasoning_alert_belongs_to_the_first_turn() -> None:
    for scope, expected in (("first_turn", [("open", "critical")]), ("turn/1", [])):
        _, outputs = folded(evaluation_at(step, 0.8, valid_rate=0.5, scope=scope) for step in range(2))
        assert happened(outputs)[1] == expected
        assert "valid reasoning rate 0.50" in outputs[1].reason


def test_open_alert_outlives_a_new_baseline_and_clears_against_its_own() -> None:
    evaluations = [*healthy(), *(evaluation_at(step, 0.0, p_value=0.5) for step in range(12, 16))]
    evaluations += [evaluation_at(step, 0.4, temperature=0.5) for step in range(16, 40)]
    state, outputs = folded(evaluations)
    assert outputs[-1].regime == "diverse_reasoning"
    assert happened(outputs)[16:] == [[]] * 24
    _, outputs = folded((evaluation_at(step, 0.8, temperature=0.5) for step in range(40, 45)), state)
    assert happened(outputs)[-1] == [("resolve", "critical")]


def test_change_of_scorer_resolves_the_open_alert_without_calling_it_recovery() -> None:
    evaluations = [*healthy(), *(evaluation_at(step, 0.0, p_value=0.5) for step in range(12, 16))]
    evaluations += [evaluation_at(step, 0.0, scorer="lexical", p_value=0.5) for step in range(16, 18)]
    _, outputs = folded(evaluations)
    assert happened(outputs)[16:] == [[], [("resolve", "critical")]]
    assert "No recovery was measured" in outputs[17].transitions[0].message


def test_smoothed_scores_are_derived_and_start_again_with_another_scorer() -> None:
    scores = {"mi_token": 0.2, "marginal_std": 0.5}
    ragen = {"mi_estimate": 0.3, "marginal_std": 0.4, "mi_seq_estimate": 3.0, "marginal_std_seq": 4.0}
    wider = {"mi_token": 0.2, "marginal_std": 1.5}
    evaluations = [
        evaluation_at(0, 0.8, extra=scores, ragen=ragen),
        evaluation_at(1, 0.8, extra=wider, ragen=ragen),
        evaluation_at(2, 0.8, extra=wider, ragen=ragen, scorer="reference"),
    ]
    _, outputs = folded(evaluations)
    assert [output.derived["mi_zscore_ema"] for output in outputs] == pytest.approx(
        [0.2 / 0.501, 0.2 / 0.601, 0.2 / 1.501]
    )
    assert outputs[0].derived["ragen/mi_zscore_ema"] == pytest.approx(0.3 / 0.401)
    assert outputs[0].derived["ragen/mi_zscore_ema_seq"] == pytest.approx(3.0 / 4.001)
    assert outputs[0].derived["ragen/marginal_std_ema"] == 0.4
    assert outputs[0].derived["ragen/marginal_std_ema_seq"] == 4.0


def test_earlier_step_is_refused() -> None:
    state, _ = folded(healthy(3))
    with pytest.raises(ValueError, match="step 1 comes after step 2"):
        fold(state, evaluation_at(1, 0.8))


def test_state_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 0"):
        FoldState.from_json({**initial_state().to_json(), "version": 0})


def test_evaluation_without_any_scored_trace_is_insufficient() -> None:
    scope = ScopeEvaluation(
        scope="first_turn",
        num_prompts=8,
        num_rows=0,
        metrics={},
        absent={"retrieval_skill": "no rows"},
        prompts=[],
    )
    _, output = fold(initial_state(), Evaluation(0, "policy", scope, {}))
    assert output.regime == "insufficient"
    assert output.dependence is None
    assert output.baseline is None


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.1, 0.4, 0.8, 0.95]),
        st.sampled_from([0.6, 0.85, 1.0]),
        st.sampled_from(["policy", "policy", "policy", "lexical"]),
        st.sampled_from([1.0, 1.0, 1.0, 0.5]),
        st.integers(1, 5),
    ),
    min_size=1,
    max_size=12,
)
"""Stretches of a run: skill, valid rate, scorer, temperature, how many evaluations."""


@settings(max_examples=60, deadline=None)
@given(events=EVENTS, lead=st.integers(0, 14), cut=st.integers(0, 40))
def test_fold_from_a_stored_state_equals_the_fold_in_order(
    events: list[tuple[float, float, str, float, int]], lead: int, cut: int
) -> None:
    stretches = [(0.8, 1.0, "policy", 1.0, lead), *events]
    flat = [stretch for stretch in stretches for _ in range(stretch[4])]
    evaluations = [
        evaluation_at(
            step,
            skill,
            valid_rate=rate,
            scorer=scorer,
            temperature=temperature,
            entropy=None if scorer == "lexical" else 0.6,
            extra={} if scorer == "lexical" else {"mi_token": skill, "marginal_std": 0.1 + 0.01 * step},
        )
        for step, (skill, rate, scorer, temperature, _) in enumerate(flat)
    ]
    last, straight = folded(evaluations)
    middle, before = folded(evaluations[:cut])
    text = json.dumps(middle.to_json(), allow_nan=False)
    resumed, after = folded(evaluations[cut:], FoldState.from_json(json.loads(text)))
    assert before + after == straight
    assert resumed == last


def test_state_stays_small_with_many_prompts() -> None:
    generator = np.random.default_rng(0)
    evaluations = [
        evaluation_of(step, (generator.binomial(8, 0.6, size=256) / 8).tolist()) for step in range(20)
    ]
    state, _ = folded(evaluations)
    assert len(json.dumps(state.to_json())) < 4096


def test_the_badge_stays_on_template_collapse_through_a_recorded_collapse() -> None:
    # With the interval of one evaluation it would leave the low region again and again at 8 prompts.
    _, outputs = folded(_recorded("flat_nf_s1"))
    after_alert = [output.regime for output in outputs[60:]]
    assert after_alert.count("template_collapse") >= 0.8 * len(after_alert)
    assert "diverse_reasoning" not in after_alert
