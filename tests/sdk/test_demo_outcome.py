import json
from dataclasses import replace

from rich.console import Console

from collapsewatch.demo.outcome import AlertOutcome, RunOutcome, outcome_json, outcome_table
from collapsewatch.demo.service import in_step_order

FILTERED = RunOutcome(
    variant="filtered",
    run_id="b",
    name="with the filter",
    project="demo",
    state="finished",
    last_step=159,
    jobs={"done": 160},
    scorer={"kind": "policy"},
    regime={"regime": "diverse_reasoning", "step": 159},
    first_metrics={"retrieval_accuracy": 0.95, "retrieval_chance": 0.125},
    last_metrics={"retrieval_accuracy": 0.96, "retrieval_chance": 0.125},
)
INFO = AlertOutcome("input_dependence", "info", "resolved", 17, "below", "…", 66.8)
WARNING = AlertOutcome("input_dependence", "warning", "open", 25, "fell", "…", 71.9)
PLAIN = replace(
    FILTERED,
    variant="plain",
    run_id="a",
    name="without",
    regime={"regime": "template_collapse", "step": 159},
    last_metrics={"retrieval_accuracy": 0.25, "retrieval_chance": 0.125},
    alerts=[INFO, WARNING],
)


def test_the_first_alert_is_the_first_that_is_more_than_a_hint() -> None:
    assert PLAIN.first_alert_seconds == 71.9
    assert replace(PLAIN, alerts=[INFO]).first_alert_seconds is None
    assert FILTERED.first_alert_seconds is None


def test_an_outcome_is_plain_json() -> None:
    document = json.loads(json.dumps(outcome_json(PLAIN)))
    assert (document["name"], document["regime"]["regime"]) == ("without", "template_collapse")
    assert document["last_metrics"]["retrieval_accuracy"] == 0.25
    assert [(alert["severity"], alert["step"]) for alert in document["alerts"]] == [
        ("info", 17),
        ("warning", 25),
    ]
    assert document["first_alert_seconds"] == 71.9


def test_an_alert_that_belongs_to_no_step_stands_before_the_others() -> None:
    alerts = [
        {"alert_id": number, "opened_step": step} for number, step in ((1, 30), (2, None), (3, 17), (4, 17))
    ]
    assert [alert["alert_id"] for alert in in_step_order(alerts)] == [2, 3, 4, 1]


def test_the_table_sets_both_runs_side_by_side() -> None:
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(outcome_table([PLAIN, FILTERED]))
    told = captured.get()
    assert "chance 0.125" in told
    assert "0.95 → 0.25" in told
    assert "0.95 → 0.96" in told
    assert "template collapse" in told
    assert "diverse reasoning" in told
    assert "warning at step 25" in told
    assert "72 s" in told


def test_an_alert_about_no_step_is_told_by_its_title() -> None:
    stall = AlertOutcome("batches_deferred", "info", "resolved", None, "Older batches are put off", "…", 30.0)
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(outcome_table([replace(PLAIN, alerts=[stall])]))
    told = " ".join(captured.get().split())
    assert "info: older batches are" in told
    assert "None" not in told


def test_a_run_without_numbers_still_has_its_column() -> None:
    empty = replace(FILTERED, regime=None, first_metrics={}, last_metrics={})
    console = Console(width=120, force_terminal=False)
    with console.capture() as captured:
        console.print(outcome_table([empty]))
    assert "–" in captured.get()
