"""Rules of one's own: when they fire, and that neither the order of arrival nor a restart shows in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from collapsewatch_server.alerts.custom import (
    NUM_BASELINE,
    BaselineSpan,
    Firing,
    Measured,
    Operator,
    RuleText,
    Told,
    evidence_of,
    firings,
    limits,
    message_of,
    num_before,
)


def rule(operator: Operator = "<", threshold: float = 0.5, num: int = 1, **more: object) -> RuleText:
    given = {"name": "n", "metric": "m", "operator": operator, "threshold": threshold}
    return RuleText.model_validate({**given, "for_evaluations": num, **more})


def points(*values: float | None, limit: float | None = 0.5) -> list[Measured]:
    """From step 1 on; none is a point without a limit."""
    return [
        Measured(step, 0.0 if value is None else value, None if value is None else limit)
        for step, value in enumerate(values, 1)
    ]


def spans(text: RuleText, *values: float | None) -> list[tuple[int, int | None]]:
    return [(one.opened_step, one.resolved_step) for one in firings(text, points(*values))]


def test_it_fires_once_it_was_met_so_often_in_a_row() -> None:
    assert spans(rule(num=3), 0.4, 0.4, 0.6, 0.4, 0.4, 0.4, 0.4) == [(6, None)]
    (firing,) = firings(rule(num=3), points(0.6, 0.4, 0.3, 0.2))
    assert firing == Firing(4, 2, 0.2, 0.5)


def test_it_clears_after_three_points_in_a_row_or_as_many_as_it_fires_after() -> None:
    assert spans(rule(), 0.4, 0.6, 0.6, 0.4, 0.6, 0.6, 0.6, 0.4) == [(1, 7), (8, None)]
    assert spans(rule(num=4), *[0.4] * 4, *[0.6] * 4) == [(4, 8)]


def test_a_point_that_cannot_be_judged_interrupts_a_row() -> None:
    assert spans(rule(num=2), 0.4, None, 0.4, 0.4) == [(4, None)]
    assert spans(rule(), 0.4, 0.6, 0.6, None, 0.6, 0.6, 0.6) == [(1, 7)]


@pytest.mark.parametrize(
    ("operator", "met"),
    [("<", (True, False, False)), ("<=", (True, True, False))],
)
def test_below(operator: Operator, met: tuple[bool, ...]) -> None:
    assert tuple(rule(operator).is_met(value, 0.5) for value in (0.4, 0.5, 0.6)) == met


@pytest.mark.parametrize(
    ("operator", "met"),
    [(">", (False, False, True)), (">=", (False, True, True))],
)
def test_above(operator: Operator, met: tuple[bool, ...]) -> None:
    assert tuple(rule(operator).is_met(value, 0.5) for value in (0.4, 0.5, 0.6)) == met


def test_drop_and_rise_go_by_the_baseline_and_its_size() -> None:
    assert rule("drop", 0.3).limit(2.0) == pytest.approx(1.4)
    assert rule("rise", 0.3).limit(2.0) == pytest.approx(2.6)
    # Of a negative reward the drop is away from zero.
    assert rule("drop", 0.5).limit(-2.0) == pytest.approx(-3.0)
    assert rule("drop", 0.3).limit(None) is None
    assert rule("drop", 0.3).is_met(1.39, 1.4) and not rule("drop", 0.3).is_met(1.4, 1.4)
    assert rule("rise", 0.3).is_met(2.61, 2.6) and not rule("rise", 0.3).is_met(2.6, 2.6)


def test_the_baseline_of_a_step_is_that_of_the_last_evaluation_up_to_it() -> None:
    series = [(step, float(step)) for step in range(1, 21)]
    known = [BaselineSpan(3, 0, 0, False), BaselineSpan(6, 2, 4, True), BaselineSpan(12, 8, 10, True)]
    found = limits(rule("drop", 0.5), [(step, 1.0, 0) for step in (2, 4, 6, 11, 12, 20)], known, series)
    assert [(one.step, one.limit) for one in found] == [
        (2, None),
        (4, None),
        (6, 1.5),
        (11, 1.5),
        (12, 4.5),
        (20, 4.5),
    ]


def test_without_evaluations_the_first_points_are_the_baseline() -> None:
    series = [(step, 2.0) for step in range(NUM_BASELINE)]
    found = limits(rule("rise", 1.0), [(9, 1.0, 0), (10, 1.0, 0)], [], series)
    assert [one.limit for one in found] == [None, 4.0]
    assert [one.limit for one in limits(rule("rise", 1.0), [(10, 1.0, 0)], [], series[1:])] == [None]


def test_a_rule_says_nothing_of_steps_before_it_was_saved() -> None:
    saved_at_4 = Told(may_open_from=4)
    (firing,) = firings(rule(num=3), points(*[0.4] * 6), before=saved_at_4)
    # What was met before counts in the row, so that nobody waits for what is known.
    assert (firing.opened_step, firing.first_step) == (4, 2)


def by_hand(text: RuleText, given: list[Measured]) -> list[tuple[int, int | None]]:
    """The slow second way: looks back over whole rows at each step."""
    found: list[tuple[int, int | None]] = []
    opened: int | None = None
    for at in range(len(given)):

        def row(num: int, wanted: bool, *, end: int = at) -> bool:
            last = given[max(0, end + 1 - num) : end + 1]
            judged = [one.limit is not None and text.is_met(one.value, one.limit) for one in last]
            known = all(one.limit is not None for one in last)
            return len(last) == num and known and all(one is wanted for one in judged)

        if opened is None and row(text.for_evaluations, True):
            opened = given[at].step
        elif opened is not None and row(text.num_clear, False):
            found.append((opened, given[at].step))
            opened = None
    return found if opened is None else [*found, (opened, None)]


values = st.lists(st.sampled_from([0.4, 0.4, 0.6, None]), max_size=30)


@given(values, st.integers(1, 5))
def test_it_fires_as_a_slow_second_way_says(given_values: list[float | None], num: int) -> None:
    text = rule(num=num)
    assert spans(text, *given_values) == by_hand(text, points(*given_values))


@given(values, st.integers(1, 5), st.integers(1, 31), st.integers(0, 31))
def test_to_judge_from_a_step_on_is_to_judge_everything(
    given_values: list[float | None], num: int, from_step: int, may_open_from: int
) -> None:
    text, series = rule(num=num), points(*given_values)
    whole = firings(text, series, before=Told(may_open_from=may_open_from))
    earlier = [one for one in whole if one.opened_step < from_step]
    is_open = next((one for one in earlier if (one.resolved_step or 99) >= from_step), None)
    before = [point for point in series if point.step < from_step][-num_before(text) :]
    rest = firings(
        text,
        before + [point for point in series if point.step >= from_step],
        from_step=from_step,
        before=Told(is_open, may_open_from),
    )
    assert [one for one in earlier if one is not is_open] + rest == whole


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("operator", "=="),
        ("threshold", float("nan")),
        ("for_evaluations", 0),
        ("severity", "fatal"),
        ("metric", ""),
        ("scope", "a\x00b"),
        ("run", "no such/id"),
        ("unknown", 1),
    ],
)
def test_a_wrong_field_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        rule(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(("operator", "share"), [("drop", 0.0), ("drop", 1.5), ("rise", 0.0), ("rise", -1.0)])
def test_a_share_that_is_none_is_refused(operator: Operator, share: float) -> None:
    with pytest.raises(ValidationError, match="threshold"):
        rule(operator, share)


def test_it_is_about_the_runs_that_it_names() -> None:
    run = {"project": "p", "tags": ["a", "b"], "run_id": "r1"}
    assert rule().applies_to(**run)  # type: ignore[arg-type]
    assert rule(project="p", tag="b", run="r1").applies_to(**run)  # type: ignore[arg-type]
    for other in ({"project": "q"}, {"tag": "c"}, {"run": "r2"}):
        assert not rule(**other).applies_to(**run)  # type: ignore[arg-type]


def test_the_alert_says_what_was_measured_and_against_what() -> None:
    text = rule("drop", 0.3, 2, metric="reward", scope="batch")
    (firing,) = firings(text, points(0.4, 0.3))
    assert message_of(text, firing) == (
        "reward of batch is 0.3 < 0.5 (0.7 × its baseline), in 2 points in a row from step 1 on. "
        "It is resolved after 3 points in a row that are not."
    )
    assert evidence_of(text, firing)["first_step"] == 1
