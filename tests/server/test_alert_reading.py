"""The inbox is read: filtered, page by page, one item with its evidence, and live."""

from typing import Any

import pytest

from tests.server.alerted import act, changes, log, opened, save_rule
from tests.server.live import LiveServer, result_body


def test_the_inbox_is_filtered_and_read_page_by_page(quiet: LiveServer) -> None:
    save_rule(quiet, name="Loss is high")
    save_rule(quiet, name="Loss is very high", threshold=5.0, severity="critical", project="q")
    runs = [quiet.start_run(project=project, name=f"run of {project}") for project in ("p", "q", "q")]
    for run_id in runs:
        log(quiet, run_id, {1: 9.0})
    everything = quiet.get("/alerts", limit=500)
    assert [one["alert_id"] for one in everything["items"]] == [5, 4, 3, 2, 1]
    assert everything["next_cursor"] is None
    first = quiet.get("/alerts", limit=2)
    rest = quiet.get("/alerts", limit=3, cursor=first["next_cursor"])
    assert first["items"] + rest["items"] == everything["items"]
    act(quiet, 1, "acknowledge")

    def found(**filters: Any) -> list[int]:
        return [one["alert_id"] for one in quiet.get("/alerts", **filters)["items"]]

    assert found(severity="critical") == [5, 3]
    assert found(project="p") == [1]
    assert found(run=runs[1]) == [3, 2]
    assert found(rule="own/2") == [5, 3]
    assert found(status=["acknowledged", "snoozed"]) == [1]
    assert found(text="very HIGH") == [5, 3]
    assert found(text="of q", status="open") == [5, 4, 3, 2]
    assert found(text="100%_") == []
    assert quiet.get("/alerts", project="q", status="acknowledged")["counts"] == {
        "open": 4,
        "acknowledged": 0,
        "snoozed": 0,
        "resolved": 0,
    }
    assert everything["rules"] == ["own/1", "own/2"]


def test_a_page_of_another_origin_may_change_nothing(quiet: LiveServer) -> None:
    _, alert_id = opened(quiet)
    for path in (f"/alerts/{alert_id}/resolve", "/alerts/acknowledge", "/alert-rules", "/alert-rules/import"):
        response = quiet.call("POST", path, json={}, headers={"Origin": "https://elsewhere.example"})
        assert (response.status_code, response.json()["error"]["code"]) == (403, "cross_site")
    assert changes(quiet) == ["opened"]


def test_every_change_is_a_live_event(quiet: LiveServer) -> None:
    _, alert_id = opened(quiet)
    act(quiet, alert_id, "acknowledge", by="Ada")
    events = [
        event.data
        for event in quiet.services.reading.events_after(0, None, 1000)
        if event.kind == "alert_change"
    ]
    assert [(one["change"], one["status"], one["by"], one["alert_id"]) for one in events] == [
        ("opened", "open", None, alert_id),
        ("acknowledged", "acknowledged", "Ada", alert_id),
    ]


def test_the_detail_shows_what_was_measured_around_the_alert(quiet: LiveServer) -> None:
    save_rule(quiet, metric="retrieval_skill", scope="first_turn", operator="<", threshold=0.3)
    run_id = quiet.start_run()
    for step in range(1, 31):
        quiet.score(run_id, step, result_body(0.1 if step == 26 else 0.6))
    result = result_body(0.1)
    prompts = result["evaluations"][0]["prompts"]
    prompts[3] |= {"accuracy": 0.0, "retrieved": [0.0, 0.75, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0]}
    quiet.score(run_id, 31, result)
    alert_id = next(one["alert_id"] for one in quiet.get("/alerts")["items"] if one["opened_step"] == 31)
    evidence = quiet.get(f"/alerts/{alert_id}")["evidence_around"]
    assert evidence["step"] == 31
    (series,) = evidence["series"]
    assert series["series"]["retrieval_skill"]["steps"] == list(range(11, 32))
    worst = evidence["prompts"][0]
    assert (worst["group_ids"], worst["accuracy"]) == (["g3"], 0.0)
    assert (worst["taken_for"], worst["taken_for_share"]) == ("g1", 0.75)
    assert worst["baseline_accuracy"] == pytest.approx(0.65)
    assert evidence["link"] == {
        "run_id": run_id,
        "step": 31,
        "scope": "first_turn",
        "attempt_id": "default",
        "batch_id": "b31",
    }
