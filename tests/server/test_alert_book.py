"""Alerts as they follow from what the rules said: derived anew they stay themselves, or they vanish."""

from dataclasses import replace

from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.attempts import Attempt, Lineages
from collapsewatch_server.results.alert_book import Alert, Changes, Said, alerts_along, changes

ALONE = Lineages([Attempt(1, "a1", 1.0, None, 0)])
STORED = Alert(
    1,
    "drop",
    "warning",
    "title",
    "message",
    {"skill": 0.1},
    5,
    resolved_step=9,
    opened_at=100.0,
    resolved_at=200.0,
    alert_id=1,
)


def transition(kind: str, rule: str = "drop", severity: str = "warning") -> AlertTransition:
    return AlertTransition(kind, rule, severity, "title", "message", {"skill": 0.1})  # type: ignore[arg-type]


def said(step: int, *kinds: str, attempt: int = 1) -> Said:
    return Said(attempt, step, [transition(kind) for kind in kinds])


def told(found: Changes) -> tuple[list[Alert], list[Alert]]:
    return found.changed, found.vanished


def test_an_alert_opens_and_is_resolved() -> None:
    (opened,) = alerts_along(ALONE, [said(5, "open")])
    assert (opened.status, opened.opened_step, opened.attempt_pk) == ("open", 5, 1)
    (resolved,) = alerts_along(ALONE, [said(6, "resolve"), said(5, "open")])
    assert (resolved.status, resolved.resolved_step) == ("resolved", 6)


def test_a_change_of_severity_resolves_the_old_alert_and_opens_another() -> None:
    worse = Said(1, 6, [transition("resolve"), transition("open", severity="critical")])
    alerts = alerts_along(ALONE, [said(5, "open"), worse])
    assert [(alert.severity, alert.status) for alert in alerts] == [
        ("warning", "resolved"),
        ("critical", "open"),
    ]


def test_rules_do_not_resolve_each_others_alerts() -> None:
    (alert,) = alerts_along(ALONE, [said(5, "open"), Said(1, 6, [transition("resolve", rule="other")])])
    assert alert.status == "open"


def test_an_alert_that_was_open_at_the_resume_goes_on_in_the_new_attempt() -> None:
    lineages = Lineages([Attempt(1, "a1", 1.0, None, 0), Attempt(2, "a2", 2.0, 8, 8)])
    first = [said(5, "open"), said(9, "resolve"), said(11, "open")]
    inherited, replayed = alerts_along(lineages, first)
    # The first attempt resolved it only at a step that the second has taken over.
    assert (inherited.status, inherited.superseded) == ("open", False)
    assert (replayed.status, replayed.superseded) == ("open", True)
    inherited, replayed = alerts_along(lineages, [*first, said(10, "resolve", attempt=2)])
    assert (inherited.resolved_step, inherited.attempt_pk) == (10, 1)
    assert replayed.opened_step == 11


def test_an_alert_that_the_run_lost_ends_as_in_the_newest_attempt_that_still_held_it() -> None:
    lineages = Lineages(
        [Attempt(1, "a1", 1.0, None, 0), Attempt(2, "a2", 2.0, 18, 18), Attempt(3, "a3", 3.0, 10, 10)]
    )
    story = [
        said(15, "open"),
        said(16, "open", attempt=3),
        said(20, "resolve"),
        said(22, "resolve", attempt=2),
    ]
    lost, own = alerts_along(lineages, story)
    assert (lost.opened_step, lost.superseded, lost.resolved_step) == (15, True, 22)
    assert (own.opened_step, own.superseded, own.status) == (16, False, "open")


def test_what_is_derived_again_is_no_change() -> None:
    derived = alerts_along(ALONE, [said(5, "open"), said(9, "resolve")])
    assert told(changes([STORED], derived, now=999.0)) == ([], [])


def test_what_is_not_derived_again_vanishes() -> None:
    assert told(changes([STORED], [], now=999.0)) == ([], [STORED])


def test_a_resolution_can_be_taken_back() -> None:
    derived = alerts_along(ALONE, [said(5, "open")])
    expected = replace(STORED, resolved_step=None, resolved_at=None)
    assert told(changes([STORED], derived, now=999.0)) == ([expected], [])


def test_a_resolution_that_moves_is_a_new_moment() -> None:
    derived = alerts_along(ALONE, [said(5, "open"), said(11, "resolve")])
    expected = replace(STORED, resolved_step=11, resolved_at=999.0)
    assert told(changes([STORED], derived, now=999.0)) == ([expected], [])


def test_new_alerts_get_the_time_of_now() -> None:
    derived = alerts_along(ALONE, [said(5, "open"), said(9, "resolve")])
    (alert,), gone = told(changes([], derived, now=7.0))
    assert (alert.opened_at, alert.resolved_at, alert.alert_id, gone) == (7.0, 7.0, None, [])


def test_an_alert_that_a_late_step_moves_is_the_same_one() -> None:
    found = changes([STORED], alerts_along(ALONE, [said(3, "open"), said(9, "resolve")]), now=999.0)
    assert found.changed == [replace(STORED, opened_step=3)]
    assert found.vanished == []


def test_an_alert_that_was_over_before_is_another_one() -> None:
    found = changes([STORED], alerts_along(ALONE, [said(9, "open")]), now=999.0)
    assert [(one.alert_id, one.opened_step) for one in found.changed] == [(None, 9)]
    assert found.vanished == [STORED]


def test_a_graver_alert_is_not_the_moved_one() -> None:
    graver = Said(1, 4, [transition("open", severity="critical")])
    assert changes([STORED], alerts_along(ALONE, [graver]), now=999.0).vanished == [STORED]


def test_a_withdrawn_alert_comes_back_as_itself_and_vanishes_once() -> None:
    withdrawn = replace(STORED, withdrawn=True)
    assert told(changes([withdrawn], [], now=999.0)) == ([], [])
    derived = alerts_along(ALONE, [said(5, "open"), said(9, "resolve")])
    assert told(changes([withdrawn], derived, now=999.0)) == ([STORED], [])


def test_a_graver_alert_continues_the_one_whose_place_it_takes() -> None:
    replaced = AlertTransition("resolve", "drop", "warning", "title", "message", {"escalated_to": "critical"})
    worse = Said(1, 6, [replaced, transition("open", severity="critical")])
    first, second = alerts_along(ALONE, [said(5, "open"), worse])
    assert (first.continues, second.continues) == (None, first.key)
    # An end of another kind at the same step is none.
    anew = Said(1, 6, [transition("resolve"), transition("open", severity="critical")])
    assert [one.continues for one in alerts_along(ALONE, [said(5, "open"), anew])] == [None, None]
