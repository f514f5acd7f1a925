"""Where an item of the inbox stands: by its rule, by people and by the clock; and what is told of it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.alerts.lifecycle import (
    Action,
    RuleWord,
    Standing,
    Told,
    changes_nothing,
    news,
    refusal,
    standing,
    told_by,
)
from collapsewatch_server.alerts.transitions import RANK

OPEN = RuleWord("warning", is_open=True)
CLEARED = RuleWord("warning", is_open=False)
NOW = 1000.0

severities = st.sampled_from(["info", "warning", "critical"])
words = st.builds(
    RuleWord,
    severity=severities,
    is_open=st.booleans(),
    superseded=st.booleans(),
    withdrawn=st.booleans(),
    switched_off=st.booleans(),
)
actions = st.one_of(
    st.builds(Action, kind=st.sampled_from(["acknowledge", "resolve"]), severity=severities),
    st.builds(Action, kind=st.just("reopen"), severity=severities, over_rule=st.booleans()),
    st.builds(
        Action, kind=st.just("snooze"), severity=severities, until=st.floats(min_value=0.0, max_value=2000.0)
    ),
)


def did(kind: str, severity: str = "warning", **more: object) -> Action:
    return Action(kind, severity, **more)  # type: ignore[arg-type]


def state(word: RuleWord, *done: Action, now: float = NOW) -> str:
    return standing(word, done, now).state


def test_without_people_the_rule_alone_counts() -> None:
    assert standing(OPEN, [], NOW) == Standing("open", "warning")
    assert standing(CLEARED, [], NOW) == Standing("resolved", "warning", "rule")


def test_the_last_action_counts() -> None:
    assert state(OPEN, did("acknowledge")) == "acknowledged"
    assert state(OPEN, did("acknowledge"), did("snooze", until=NOW + 1)) == "snoozed"
    assert state(OPEN, did("snooze", until=NOW + 1), did("acknowledge")) == "acknowledged"
    assert standing(OPEN, [did("resolve")], NOW).ended == "hand"
    assert state(OPEN, did("resolve"), did("reopen")) == "open"


def test_a_snooze_ends_by_itself() -> None:
    snoozed = standing(OPEN, [did("snooze", until=NOW + 1)], NOW)
    assert (snoozed.state, snoozed.snoozed_until) == ("snoozed", NOW + 1)
    assert standing(OPEN, [did("snooze", until=NOW)], NOW) == Standing("open", "warning")


def test_the_rule_resolves_what_people_have_acknowledged() -> None:
    assert standing(CLEARED, [did("acknowledge")], NOW) == Standing("resolved", "warning", "rule")


def test_a_graver_alert_is_open_whatever_was_done_to_the_lower_one() -> None:
    graver = replace(OPEN, severity="critical")
    for kind in ("acknowledge", "resolve"):
        assert state(graver, did(kind)) == "open"
    assert state(graver, did("snooze", until=NOW + 9)) == "open"
    assert state(graver, did("acknowledge"), did("acknowledge", "critical")) == "acknowledged"


def test_what_a_person_opens_against_the_rule_stays_until_a_person_resolves_it() -> None:
    held = did("reopen", over_rule=True)
    assert state(CLEARED, held) == "open"
    assert state(CLEARED, held, did("acknowledge")) == "acknowledged"
    assert standing(CLEARED, [held, did("resolve")], NOW).ended == "rule"
    # Opened again while the rule itself still held it open: then the rule's end counts.
    assert state(CLEARED, did("resolve"), did("reopen")) == "resolved"


@given(words, st.lists(actions, max_size=6), st.floats(min_value=0.0, max_value=2000.0))
def test_it_always_stands_somewhere_and_says_why_it_is_over(
    word: RuleWord, done: list[Action], now: float
) -> None:
    found = standing(word, done, now)
    assert (found.ended is not None) == (found.state == "resolved")
    assert (found.snoozed_until is not None) == (found.state == "snoozed")
    assert found.severity == word.severity
    if word.superseded or word.withdrawn or word.switched_off:
        assert found.state == "resolved"
    if found.state == "snoozed":
        assert now < found.snoozed_until  # type: ignore[operator]


@given(words, st.lists(actions, max_size=6), actions, st.floats(min_value=0.0, max_value=2000.0))
def test_actions_on_lower_severities_change_nothing(
    word: RuleWord, done: list[Action], more: Action, now: float
) -> None:
    known = [one for one in done if RANK[one.severity] >= RANK[word.severity]]
    assert standing(word, done, now) == standing(word, known, now)


@given(words, st.lists(actions, max_size=6))
def test_time_changes_nothing_but_snoozes(word: RuleWord, done: list[Action]) -> None:
    before, after = standing(word, done, 0.0), standing(word, done, 5000.0)
    assert before == after or (before.state, after.state) == ("snoozed", "open")


@given(
    st.lists(st.tuples(words, st.lists(actions, max_size=3), st.booleans(), st.integers(1, 3)), max_size=8)
)
def test_every_change_is_told_once_however_often_it_is_looked_at(
    history: list[tuple[RuleWord, list[Action], bool, int]],
) -> None:
    told: Told | None = None
    stories: list[str] = []
    for word, done, by_hand, num_looks in history:
        found = standing(word, done, NOW)
        looks = []
        for _ in range(num_looks):
            change = news(told, found, by_hand=by_hand)
            looks.append(change)
            if change is not None:
                stories.append(change)
                told = told_by(told, found)
        assert all(change is None for change in looks[1:])
    # What is told makes sense by itself: it begins with an opening, and nothing is told twice in a row.
    if stories:
        assert stories[0] in ("opened", "reopened")
    assert "opened" not in stories[1:]
    assert all(one != other for one, other in pairwise(stories) if one != "escalated")
    assert stories.count("escalated") <= 2


def test_what_was_acknowledged_before_anybody_heard_of_it_is_told_as_opened() -> None:
    acknowledged = standing(OPEN, [did("acknowledge")], NOW)
    assert news(None, acknowledged, by_hand=True) == "opened"
    assert news(told_by(None, acknowledged), standing(OPEN, [], NOW), by_hand=True) == "reopened"


def test_each_kind_of_change() -> None:
    opened = standing(OPEN, [], NOW)
    assert news(None, opened, by_hand=False) == "opened"
    told = told_by(None, opened)
    assert told == Told("open", "warning")
    for kind, word in (("acknowledge", "acknowledged"), ("resolve", "resolved")):
        assert news(told, standing(OPEN, [did(kind)], NOW), by_hand=True) == word
    snoozed = standing(OPEN, [did("snooze", until=NOW + 1)], NOW)
    assert news(told, snoozed, by_hand=True) == "snoozed"
    assert news(told_by(told, snoozed), opened, by_hand=False) == "snooze_ended"
    assert news(told_by(told, snoozed), opened, by_hand=True) == "reopened"
    graver = standing(replace(OPEN, severity="critical"), [did("acknowledge")], NOW)
    assert news(Told("acknowledged", "warning"), graver, by_hand=False) == "escalated"
    assert news(Told("open", "critical"), opened, by_hand=False) is None


def test_what_was_over_before_anybody_heard_of_it_is_no_news() -> None:
    assert news(None, standing(CLEARED, [], NOW), by_hand=False) is None
    assert news(None, standing(CLEARED, [did("reopen", over_rule=True)], NOW), by_hand=True) == "reopened"


def test_a_replayed_alert_is_not_told_of_anew() -> None:
    told = Told("acknowledged", "critical")
    superseded = standing(replace(OPEN, superseded=True), [did("acknowledge", "critical")], NOW)
    assert news(told, superseded, by_hand=False) is None
    assert news(told, superseded, by_hand=False, is_passed=True) == "resolved"
    assert news(None, superseded, by_hand=False, is_passed=True) is None
    back = standing(OPEN, [did("acknowledge", "critical")], NOW)
    assert news(told, back, by_hand=False) is None


@pytest.mark.parametrize("gone", ["superseded", "withdrawn", "switched_off"])
def test_history_takes_no_actions(gone: str) -> None:
    found = standing(replace(OPEN, **{gone: True}), [], NOW)  # type: ignore[arg-type]
    assert found.ended == gone
    for kind in ("acknowledge", "snooze", "resolve", "reopen"):
        assert refusal(found, kind) is not None


def test_what_is_resolved_is_reopened_first() -> None:
    resolved = standing(CLEARED, [], NOW)
    assert refusal(resolved, "acknowledge") is not None
    assert refusal(resolved, "snooze") is not None
    assert refusal(resolved, "reopen") is None
    assert changes_nothing(resolved, "resolve")
    assert changes_nothing(standing(OPEN, [], NOW), "reopen")
    assert not changes_nothing(standing(OPEN, [did("snooze", until=NOW + 1)], NOW), "snooze")
