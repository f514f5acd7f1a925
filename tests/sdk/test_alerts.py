import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import collapsewatch
from collapsewatch import alerts
from collapsewatch.alerts import Alert, changes

from .conftest import COLUMNS, Answer, Recorder, Seen

Waiting = Callable[..., None]
Said = list[tuple[str, int, str]]


def alert(number: int = 1, **fields: Any) -> Alert:
    usual = {"rule": "input_dependence", "severity": "warning", "state": "open", "step": 7}
    words = {"title": "t", "message": "m", "scope": "first_turn"}
    return Alert(**{"id": number, **usual, **words, **fields})


class Standing:
    """What the server says stands on the run; a test changes it."""

    def __init__(self, recorder: Recorder) -> None:
        self.alerts: list[Alert] = []
        self.status = 200
        recorder.answers = self.answer

    def answer(self, seen: Seen) -> Answer | None:
        if seen.method != "GET":
            return None
        fields = ("id", "rule", "severity", "state", "title", "message", "scope", "step")
        told = [{name: getattr(one, name) for name in fields} for one in self.alerts]
        return Answer(self.status, body=json.dumps({"alerts": told}))


@pytest.fixture
def standing(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Standing:
    monkeypatch.setattr(alerts, "ASK_SECONDS", 0.02)
    return Standing(recorder)


@pytest.fixture
def said(run: collapsewatch.Run, standing: Standing) -> Said:
    """What a callback was told: change, id, severity."""
    heard: Said = []
    run.on_alert(lambda one: heard.append((one.change, one.id, one.severity)))
    return heard


def test_nobody_is_asked_before_somebody_wants_to_know(
    run: collapsewatch.Run, recorder: Recorder, standing: Standing
) -> None:
    run.log_rollouts(1, **COLUMNS)
    run.finish()
    assert all(seen.method != "GET" for seen in recorder.seen)


def test_a_callback_hears_of_the_opening_the_escalation_and_the_end(
    said: Said, standing: Standing, wait_until: Waiting
) -> None:
    standing.alerts = [alert()]
    wait_until(lambda: said == [("opened", 1, "warning")])
    standing.alerts = [alert(severity="critical")]
    wait_until(lambda: len(said) == 2)
    standing.alerts = []
    wait_until(lambda: len(said) == 3)
    assert said[1:] == [("escalated", 1, "critical"), ("resolved", 1, "critical")]


def test_a_callback_is_not_told_of_what_is_less_grave_than_it_asked_for(
    said: Said, standing: Standing, recorder: Recorder, wait_until: Waiting
) -> None:
    standing.alerts = [alert(1, severity="info"), alert(2)]
    wait_until(lambda: said == [("opened", 2, "warning")])
    standing.alerts = [alert(1, severity="critical"), alert(2)]
    wait_until(lambda: len(said) == 2)
    assert said[1] == ("opened", 1, "critical")


def test_a_server_that_fails_ends_no_alert(
    said: Said,
    standing: Standing,
    run: collapsewatch.Run,
    recorder: Recorder,
    wait_until: Waiting,
) -> None:
    standing.alerts = [alert(severity="critical")]
    wait_until(lambda: run.should_stop())
    standing.status, standing.alerts = 503, []
    asked = len(recorder.seen)
    wait_until(lambda: len(recorder.seen) > asked + 1)
    assert run.should_stop()
    assert said == [("opened", 1, "critical")]


def test_an_error_in_a_callback_is_told_and_the_next_is_called(
    run: collapsewatch.Run,
    standing: Standing,
    sdk_log: Callable[[], list[str]],
    wait_until: Waiting,
) -> None:
    heard: list[Alert] = []

    def broken(one: Alert) -> None:
        raise RuntimeError("not today")

    run.on_alert(broken)
    run.on_alert(heard.append)
    standing.alerts = [alert()]
    wait_until(lambda: heard)
    assert any("not today" in line for line in sdk_log())


def test_a_callback_that_hangs_holds_neither_the_training_nor_its_end(
    run: collapsewatch.Run, standing: Standing, wait_until: Waiting
) -> None:
    entered, released = threading.Event(), threading.Event()

    def hang(one: Alert) -> None:
        entered.set()
        released.wait(120)

    run.on_alert(hang)
    standing.alerts = [alert(severity="critical")]
    wait_until(entered.is_set)
    begun = time.monotonic()
    run.log_rollouts(1, **COLUMNS)
    assert run.should_stop()
    run.finish()
    assert time.monotonic() - begun < 60
    released.set()


@pytest.mark.parametrize(
    ("fields", "question", "answer"),
    [
        ({"severity": "critical"}, {}, True),
        ({"severity": "warning"}, {}, False),
        ({"severity": "warning"}, {"severity": "warning"}, True),
        ({"severity": "critical", "state": "acknowledged"}, {}, False),
        ({"severity": "critical", "state": "snoozed"}, {}, False),
        ({"severity": "critical", "step": None}, {}, False),
        ({"severity": "critical"}, {"rules": ("reward_drop",)}, False),
        ({"severity": "critical"}, {"rules": ("input_dependence",)}, True),
    ],
)
def test_a_run_should_stop_for_a_grave_alert_that_nobody_looks_after(
    run: collapsewatch.Run,
    standing: Standing,
    wait_until: Waiting,
    fields: dict[str, Any],
    question: dict[str, Any],
    answer: bool,
) -> None:
    heard: list[Alert] = []
    run.on_alert(heard.append, severity="info")
    standing.alerts = [alert(**fields)]
    wait_until(lambda: heard)
    assert run.should_stop(**question) is answer


def test_a_run_that_nobody_answers_goes_on(offline_recorder: Recorder) -> None:
    run = collapsewatch.init(url=offline_recorder.url)
    begun = time.monotonic()
    assert not run.should_stop()
    assert time.monotonic() - begun < 10
    run.finish(0)
    assert not run.should_stop()


@pytest.mark.parametrize("mode", ["offline", "disabled"])
def test_a_run_without_a_server_never_stops(mode: Any) -> None:
    run = collapsewatch.init(mode=mode)
    run.on_alert(print)
    assert not run.should_stop()
    run.finish()


def test_an_unknown_severity_is_told_and_does_not_raise(
    run: collapsewatch.Run, sdk_log: Callable[[], list[str]]
) -> None:
    assert not run.should_stop(severity="fatal")  # type: ignore[arg-type]
    run.on_alert(print, severity="fatal")  # type: ignore[arg-type]
    assert sum("severity is one of info, warning, critical, got 'fatal'" in line for line in sdk_log()) == 2


def test_what_is_no_list_of_alerts_changes_nothing(
    run: collapsewatch.Run, standing: Standing, recorder: Recorder, wait_until: Waiting
) -> None:
    recorder.answers = lambda seen: Answer(200, body='{"alerts": [{"id": 1}]}')
    assert not run.should_stop()
    asked = len(recorder.seen)
    wait_until(lambda: len(recorder.seen) > asked + 1)
    assert not run.should_stop()


def test_an_alert_that_comes_again_after_its_end_is_told_again() -> None:
    told: dict[int, Alert] = {}
    one = alert()
    assert changes(told, [one], "warning") == [one]
    assert changes(told, [one], "warning") == []
    assert [end.change for end in changes(told, [], "warning")] == ["resolved"]
    assert changes(told, [one], "warning") == [one]
