"""Alerts while evaluations are folded again: what is derived anew stays itself, what is not vanishes."""

from dataclasses import replace

import pytest

from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.results.alert_book import Alert, AlertBook


def transition(kind: str, rule: str = "drop", severity: str = "warning") -> AlertTransition:
    return AlertTransition(kind, rule, severity, "title", "message", {"skill": 0.1})  # type: ignore[arg-type]


STORED = Alert("drop", "warning", "title", "message", {"skill": 0.1}, 5, 100.0, 9, 200.0, alert_id=1)


def test_an_alert_opens_and_is_resolved() -> None:
    book = AlertBook([], 0, now=50.0)
    book.apply(5, [transition("open")])
    (opened,), _ = book.changes()
    assert (opened.status, opened.opened_step, opened.opened_at, opened.alert_id) == ("open", 5, 50.0, None)
    book.apply(6, [transition("resolve")])
    (resolved,), gone = book.changes()
    assert (resolved.status, resolved.resolved_step, resolved.resolved_at) == ("resolved", 6, 50.0)
    assert gone == []


def test_a_change_of_severity_resolves_the_old_alert_and_opens_another() -> None:
    book = AlertBook([], 0, now=1.0)
    book.apply(5, [transition("open")])
    book.apply(6, [transition("resolve"), transition("open", severity="critical")])
    changed, _ = book.changes()
    assert [(alert.severity, alert.status) for alert in changed] == [
        ("warning", "resolved"),
        ("critical", "open"),
    ]


def test_what_is_derived_again_is_no_change() -> None:
    book = AlertBook([STORED], 3, now=999.0)
    book.apply(5, [transition("open")])
    book.apply(9, [transition("resolve")])
    assert book.changes() == ([], [])


def test_what_is_not_derived_again_vanishes() -> None:
    book = AlertBook([STORED], 5, now=999.0)
    assert book.changes() == ([], [STORED])


@pytest.mark.parametrize("from_step", [6, 9])
def test_a_resolution_from_the_folded_steps_on_is_taken_back(from_step: int) -> None:
    book = AlertBook([STORED], from_step, now=999.0)
    assert book.changes() == ([replace(STORED, resolved_step=None, resolved_at=None)], [])


def test_a_resolution_that_moves_is_a_new_moment() -> None:
    book = AlertBook([STORED], 6, now=999.0)
    book.apply(11, [transition("resolve")])
    assert book.changes() == ([replace(STORED, resolved_step=11, resolved_at=999.0)], [])


def test_a_resolution_before_the_folded_steps_stays() -> None:
    book = AlertBook([STORED], 10, now=999.0)
    book.apply(12, [transition("resolve", rule="other")])
    assert book.changes() == ([], [])
