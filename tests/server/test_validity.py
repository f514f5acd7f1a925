import json

import numpy as np

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.alerts.validity import ValidityState, fold_validity


def _transitions(rates: list[float]) -> list[list[tuple[str, str]]]:
    state = ValidityState()
    happened: list[list[tuple[str, str]]] = []
    for step, rate in enumerate(rates):
        state = ValidityState.from_json(json.loads(json.dumps(state.to_json())))
        state, transitions = fold_validity(state, MetricValue(value=rate), step=step, num_prompts=8)
        happened.append([(transition.kind, transition.severity) for transition in transitions])
    return happened


def _first(rates: list[float]) -> AlertTransition:
    state = ValidityState()
    for step, rate in enumerate(rates):
        state, transitions = fold_validity(state, MetricValue(value=rate), step=step, num_prompts=8)
        if transitions:
            return transitions[-1]
    raise AssertionError("nothing happened")


def test_one_low_batch_is_not_an_alert() -> None:
    assert _transitions([0.95, 0.7, 0.95, 0.7, 0.95]) == [[]] * 5


def test_second_low_batch_in_a_row_opens_a_warning() -> None:
    assert _transitions([0.95, 0.89, 0.85]) == [[], [], [("open", "warning")]]


def test_rate_below_the_gate_is_critical() -> None:
    assert _transitions([0.95, 0.5, 0.5]) == [[], [], [("open", "critical")]]


def test_worse_rate_replaces_the_warning() -> None:
    happened = _transitions([0.85, 0.85, 0.75, 0.75])
    assert happened == [[], [("open", "warning")], [], [("resolve", "warning"), ("open", "critical")]]


def test_open_alert_is_not_opened_again() -> None:
    assert sum(map(len, _transitions([0.7] * 30))) == 1


def test_rate_around_the_limit_does_not_flap() -> None:
    assert sum(map(len, _transitions([0.85, 0.85] + [0.91, 0.89] * 20))) == 1


def test_three_good_batches_in_a_row_clear_it() -> None:
    happened = _transitions([0.85, 0.85, 0.92, 0.95, 0.90, 0.92, 0.93, 0.94])
    assert happened[2:] == [[], [], [], [], [], [("resolve", "warning")]]


def test_cleared_alert_can_open_again() -> None:
    happened = _transitions([0.7, 0.7, 1.0, 1.0, 1.0, 0.7, 0.7])
    assert happened[-1] == [("open", "critical")]


def test_message_says_what_was_measured() -> None:
    warning = _first([0.88, 0.86])
    assert warning.rule == "valid_reasoning_rate"
    assert warning.message == (
        "Valid reasoning rate 0.86, below 0.90 in 2 evaluations in a row: "
        "14 % of the turns have no closed, non-empty reasoning."
    )
    assert warning.evidence == {
        "step": 1,
        "valid_reasoning_rate": 0.86,
        "limit": 0.9,
        "num_evaluations": 2,
    }
    assert "Input dependence is not judged" in _first([0.3, 0.3]).message


def _with_intervals(rates: list[float], half_width: float) -> list[list[tuple[str, str]]]:
    state = ValidityState()
    happened: list[list[tuple[str, str]]] = []
    for step, rate in enumerate(rates):
        given = MetricValue(value=rate, low=max(rate - half_width, 0.0), high=min(rate + half_width, 1.0))
        state = ValidityState.from_json(json.loads(json.dumps(state.to_json())))
        state, transitions = fold_validity(state, given, step=step, num_prompts=8)
        happened.append([(transition.kind, transition.severity) for transition in transitions])
    return happened


def test_two_batches_whose_intervals_hold_the_limit_are_not_an_alert() -> None:
    assert _with_intervals([0.88, 0.88], 0.05) == [[], []]
    assert _with_intervals([0.84, 0.84], 0.05) == [[], [("open", "warning")]]


def test_rate_a_little_too_low_shows_by_many_evaluations() -> None:
    happened = _with_intervals([0.86] * 40, 0.06)
    opened = [step for step, moves in enumerate(happened) if moves]
    assert [happened[step] for step in opened] == [[("open", "warning")]]
    assert 5 < opened[0] < 40


def test_rate_that_is_fine_keeps_silent_however_its_batches_dip() -> None:
    """A true rate of 0.93, 64 turns a batch: one batch in eight is below 0.9 by itself."""
    generator = np.random.default_rng(4)
    rates = generator.binomial(64, 0.93, size=4000) / 64
    assert np.mean(rates < 0.9) > 0.08
    happened = _with_intervals(rates.tolist(), 1.96 * np.sqrt(0.93 * 0.07 / 64))
    assert sum(("open", "warning") in moves for moves in happened) <= 4000 / 500


def test_alert_of_many_evaluations_does_not_claim_two_in_a_row() -> None:
    state = ValidityState()
    for step in range(60):
        rate = MetricValue(value=0.86, low=0.8, high=0.92)
        state, moves = fold_validity(state, rate, step=step, num_prompts=8)
        if moves:
            assert "by all evaluations together" in moves[0].message
            assert moves[0].evidence["alpha"] == 1 / 16_000
            return
    raise AssertionError("nothing happened")
