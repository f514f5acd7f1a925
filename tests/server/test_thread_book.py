"""Which alerts are one item of the inbox: grown graver, split by a late step, replayed by a later attempt."""

from dataclasses import replace

from collapsewatch_server.attempts import Attempt, Lineages
from collapsewatch_server.results.alert_book import Alert
from collapsewatch_server.results.thread_book import threads_of

ALONE = Lineages([Attempt(1, "a1", 1.0, None, 0, 30)])
RESUMED = Lineages([Attempt(1, "a1", 1.0, None, 0, 30), Attempt(2, "a2", 2.0, 10, 10, 40)])


def alert(step: int, severity: str = "warning", **changes: object) -> Alert:
    return replace(Alert(1, "drop", severity, "title", "message", {}, step), **changes)  # type: ignore[arg-type]


def grouped(alerts: list[Alert], lineages: Lineages = ALONE) -> list[tuple[int | None, list[int]]]:
    found = threads_of(alerts, lineages)
    return [(thread.pk, [one.opened_step for one in thread.alerts]) for thread in found]


def test_alerts_that_have_nothing_to_do_with_each_other_are_two_items() -> None:
    assert grouped([alert(5, resolved_step=8), alert(20)]) == [(None, [5]), (None, [20])]


def test_a_graver_alert_joins_the_item_whose_place_it_takes() -> None:
    first = alert(5, resolved_step=8, thread_pk=7)
    second = alert(8, "critical", continues=first.key, resolved_step=9)
    third = alert(9, "critical", continues=second.key)
    assert grouped([first, second, third]) == [(7, [5, 8, 9])]


def test_when_a_late_step_parts_two_alerts_the_first_keeps_the_item() -> None:
    assert grouped([alert(5, resolved_step=7, thread_pk=7), alert(8, thread_pk=7)]) == [(7, [5]), (None, [8])]


def test_an_alert_that_opens_again_among_the_replayed_steps_is_the_same_item() -> None:
    lost = alert(12, superseded=True, thread_pk=7)
    again = alert(13, attempt_pk=2)
    assert grouped([lost, again], RESUMED) == [(7, [12, 13])]
    # And it stays so when it is derived once more.
    assert grouped([lost, replace(again, thread_pk=7)], RESUMED) == [(7, [12, 13])]


def test_beyond_the_replayed_steps_it_is_another_item() -> None:
    lost = alert(12, superseded=True, thread_pk=7)
    assert grouped([lost, alert(31, attempt_pk=2)], RESUMED) == [(7, [12]), (None, [31])]
    ended = replace(lost, resolved_step=14)
    assert grouped([ended, alert(15, attempt_pk=2)], RESUMED) == [(7, [12]), (None, [15])]


def test_an_alert_of_another_rule_does_not_take_the_item_over() -> None:
    lost = alert(12, superseded=True, thread_pk=7)
    assert grouped([lost, alert(13, attempt_pk=2, rule="other")], RESUMED) == [(7, [12]), (None, [13])]


def test_a_superseded_successor_stays_with_the_alert_that_goes_on() -> None:
    first = alert(5, resolved_step=16, thread_pk=7)
    lost = alert(12, "critical", superseded=True, continues=first.key, thread_pk=7)
    again = alert(16, "critical", attempt_pk=2, continues=first.key)
    assert grouped([first, lost, again], RESUMED) == [(7, [5, 12, 16])]
