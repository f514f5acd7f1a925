import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collapsewatch_server.alerts import series_book
from collapsewatch_server.alerts.series import Measured, SeriesState
from collapsewatch_server.alerts.transitions import AlertTransition
from tests.server.series_cases import measured

USUAL: dict[str, float] = {
    "retrieval_skill": 0.8,
    "mi_normalised": 0.5,
    "conditional_entropy": 0.7,
    "reward": 0.6,
    "reward_std": 0.3,
    "success": 0.6,
    "zero_variance_fraction": 0.3,
    "reasoning_length": 40.0,
}


def _at(step: int, **changed: Any) -> Measured:
    return measured(step, **{**USUAL, **changed})


def _folded(
    evaluations: Iterable[Measured], state: SeriesState | None = None
) -> tuple[SeriesState, list[tuple[int, AlertTransition]]]:
    state, happened = state or SeriesState(), []
    for evaluation in evaluations:
        state, moves = series_book.fold_all(state, evaluation)
        happened += [(evaluation.step, move) for move in moves]
    return state, happened


def _usual() -> list[Measured]:
    return [_at(step) for step in range(12)]


def _opened(happened: list[tuple[int, AlertTransition]]) -> dict[str, int]:
    return {move.rule: step for step, move in happened if move.kind == "open"}


@pytest.mark.parametrize(
    ("changed", "rule", "severity"),
    [
        ({"mi_normalised": 0.1}, "mutual_information_fall", "warning"),
        ({"mi_normalised": 0.99}, "mutual_information_rise", "info"),
        ({"conditional_entropy": 0.2}, "reasoning_entropy_collapse", "warning"),
        ({"conditional_entropy": 2.5}, "reasoning_entropy_explosion", "warning"),
        ({"reward": 0.2}, "reward_drop", "warning"),
        ({"success": 0.2}, "success_drop", "warning"),
        ({"zero_variance_fraction": 0.8}, "zero_variance_excess", "warning"),
        ({"reasoning_length": 160.0}, "reasoning_length_explosion", "warning"),
        ({"reasoning_length": 10.0}, "reasoning_length_shrinkage", "info"),
    ],
)
def test_each_rule_finds_its_own_change_within_five_evaluations_and_no_other_does(
    changed: dict[str, Any], rule: str, severity: str
) -> None:
    _, happened = _folded([*_usual(), *(_at(step, **changed) for step in range(12, 20))])
    assert set(_opened(happened)) == {rule}
    assert 12 < _opened(happened)[rule] <= 16
    assert happened[0][1].severity == severity


def test_nothing_is_judged_before_the_baseline_is_complete() -> None:
    _, happened = _folded(_at(step, reward=0.6 if step < 5 else 0.1) for step in range(11))
    assert happened == []


def test_change_that_comes_back_clears_half_way_to_the_baseline() -> None:
    evaluations = [*_usual(), *(_at(step, reasoning_length=160.0) for step in range(12, 20))]
    # Limit 80, baseline 40: it clears below 60.
    evaluations += [_at(step, reasoning_length=70.0) for step in range(20, 30)]
    state, happened = _folded(evaluations)
    assert [move.kind for _, move in happened] == ["open"]
    _, after = _folded((_at(step, reasoning_length=50.0) for step in range(30, 40)), state)
    assert [(step, move.kind) for step, move in after] == [(34, "resolve")]


def test_value_that_wavers_around_the_limit_opens_one_alert() -> None:
    evaluations = [*_usual(), *(_at(step, reasoning_length=160.0) for step in range(12, 20))]
    evaluations += [_at(step, reasoning_length=85.0 if step % 2 else 75.0) for step in range(20, 80)]
    assert len(_folded(evaluations)[1]) == 1


def test_success_that_explains_the_missing_variance_keeps_silent() -> None:
    """At a success rate of 0.95 most groups of eight have no variance, and nothing is wrong."""
    rising = [
        _at(step, success=0.97, reward=0.97, zero_variance_fraction=0.83, reward_std=0.05)
        for step in range(12, 60)
    ]
    assert _folded([*_usual(), *rising])[1] == []
    stuck = [_at(step, zero_variance_fraction=0.83) for step in range(12, 60)]
    assert set(_opened(_folded([*_usual(), *stuck])[1])) == {"zero_variance_excess"}


def test_terser_reasoning_is_information_and_nothing_more() -> None:
    shorter = [_at(step, reasoning_length=max(40.0 - step, 8.0)) for step in range(12, 80)]
    _, happened = _folded([*_usual(), *shorter])
    assert [(move.rule, move.severity) for _, move in happened] == [("reasoning_length_shrinkage", "info")]


def test_metrics_of_the_batch_are_judged_by_the_first_turns_alone() -> None:
    evaluations = [_at(step, scope="turn/1", reward=0.6 if step < 12 else 0.1) for step in range(30)]
    assert _folded(evaluations)[1] == []


def test_title_names_another_scope() -> None:
    entropies = [0.7] * 12 + [0.1] * 12
    _, happened = _folded(
        _at(step, scope="trajectory", conditional_entropy=entropy) for step, entropy in enumerate(entropies)
    )
    assert happened[0][1].title == "Reasoning of one prompt became uniform (trajectory)"


def test_few_prompts_are_not_judged() -> None:
    evaluations = [_at(step, num_prompts=5, reward=0.6 if step < 12 else 0.1) for step in range(30)]
    assert _folded(evaluations)[1] == []


def test_message_states_measurement_weight_and_the_other_signals() -> None:
    evaluations = [*_usual(), *(_at(step, reward=0.2, success=0.2) for step in range(12, 20))]
    moves = {move.rule: move for _, move in _folded(evaluations)[1]}
    message = moves["reward_drop"].message
    assert message.startswith(
        "Reward fell: 0.20 (95 % 0.19 to 0.21), was 0.60 at baseline (steps 1 to 10), 0.33 × baseline. "
        "Evidence that it is below 0.45: "
    )
    assert "a stable run reaches 16000 to 1 at most once in 16000 evaluations." in message
    assert (
        "In agreement: Success 0.20 (was 0.60). Not in agreement: Retrieval skill 0.80 (was 0.80)." in message
    )


def test_excess_tells_what_success_explains() -> None:
    evaluations = [*_usual(), *(_at(step, zero_variance_fraction=0.8) for step in range(12, 20))]
    [(_, move)] = _folded(evaluations)[1]
    assert "The success rate explains 0.30" in move.message
    assert move.evidence["explained"] == pytest.approx(0.3, abs=1e-6)


def test_evidence_is_json_and_shows_its_part_of_the_budget() -> None:
    evaluations = [*_usual(), *(_at(step, success=0.1) for step in range(12, 20))]
    [(_, move)] = _folded(evaluations)[1]
    assert json.loads(json.dumps(dict(move.evidence), allow_nan=False)) == move.evidence
    assert move.evidence["budget_share"] == 1 / 32
    assert move.evidence["alpha"] == 1 / 16000
    assert move.evidence["limit"] == pytest.approx(0.42)


def test_reward_below_zero_has_a_limit_below_it() -> None:
    evaluations = [_at(step, reward=-1.0 if step < 12 else -2.0) for step in range(30)]
    assert set(_opened(_folded(evaluations)[1])) == {"reward_drop"}


def test_new_baseline_keeps_an_open_alert_and_its_limit() -> None:
    state, _ = _folded([*_usual(), *(_at(step, reward=0.2) for step in range(12, 20))])
    state, ended = series_book.restarted(
        state, "the temperature changed", scope="first_turn", scorer_changed=False
    )
    assert ended == []
    assert state.baselines == {}
    _, happened = _folded((_at(step, reward=0.55) for step in range(20, 30)), state)
    assert [(step, move.kind, move.rule) for step, move in happened] == [(24, "resolve", "reward_drop")]


def test_change_of_scorer_ends_alerts_whose_numbers_mean_something_else_now() -> None:
    changed = {"reward": 0.2, "reasoning_length": 160.0}
    state, _ = _folded([*_usual(), *(_at(step, **changed) for step in range(12, 20))])
    state, ended = series_book.restarted(state, "the scorer changed", scope="first_turn", scorer_changed=True)
    assert [move.rule for move in ended] == ["reasoning_length_explosion"]
    assert "No recovery was measured" in ended[0].message
    assert set(state.rules) == {"reward_drop"}


STRETCH = st.tuples(
    st.sampled_from(["reward", "conditional_entropy", "mi_normalised", "reasoning_length", "success"]),
    st.sampled_from([0.1, 0.6, 1.0, 3.0]),
    st.integers(1, 8),
)


@settings(max_examples=60, deadline=None)
@given(stretches=st.lists(STRETCH, max_size=8), cut=st.integers(0, 60))
def test_fold_from_a_stored_state_equals_the_fold_in_order(
    stretches: list[tuple[str, float, int]], cut: int
) -> None:
    changed = [{metric: USUAL[metric] * factor} for metric, factor, count in stretches for _ in range(count)]
    evaluations = [_at(step, **values) for step, values in enumerate([*[{}] * 12, *changed])]
    last, straight = _folded(evaluations)
    middle, before = _folded(evaluations[:cut])
    stored = SeriesState.from_json(json.loads(json.dumps(middle.to_json(), allow_nan=False)))
    resumed, after = _folded(evaluations[cut:], stored)
    assert before + after == straight
    assert resumed == last


@settings(max_examples=60, deadline=None)
@given(stretches=st.lists(STRETCH, max_size=8))
def test_one_alert_of_a_rule_is_open_at_a_time(stretches: list[tuple[str, float, int]]) -> None:
    changed = [{metric: USUAL[metric] * factor} for metric, factor, count in stretches for _ in range(count)]
    _, happened = _folded(_at(step, **values) for step, values in enumerate([*[{}] * 12, *changed]))
    is_open: set[str] = set()
    for _, move in happened:
        assert (move.kind == "open") == (move.rule not in is_open)
        is_open ^= {move.rule}


def test_stable_run_with_noise_keeps_silent() -> None:
    generator = np.random.default_rng(3)
    num_opened = 0
    for _ in range(20):
        evaluations = []
        for step in range(211):
            noisy: dict[str, Any] = {
                metric: value * float(generator.normal(1.0, 0.12)) for metric, value in USUAL.items()
            }
            evaluations.append(measured(step, half_width=0.2, **noisy))
        num_opened += len(_opened(_folded(evaluations)[1]))
    assert num_opened <= 4000 / 500
