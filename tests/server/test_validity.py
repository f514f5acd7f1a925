import json

from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.alerts.validity import ValidityState, fold_validity


def _transitions(rates: list[float]) -> list[list[tuple[str, str]]]:
    state = ValidityState()
    happened: list[list[tuple[str, str]]] = []
    for step, rate in enumerate(rates):
        state = ValidityState.from_json(json.loads(json.dumps(state.to_json())))
        state, transitions = fold_validity(state, rate, step=step)
        happened.append([(transition.kind, transition.severity) for transition in transitions])
    return happened


def _first(rates: list[float]) -> AlertTransition:
    state = ValidityState()
    for step, rate in enumerate(rates):
        state, transitions = fold_validity(state, rate, step=step)
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
