"""The inbox: what people did survives late steps and resumes, and every change is told exactly once."""

import threading
from typing import Any

import pytest
from sqlalchemy import select, update

from collapsewatch_server.alert_tables import AlertAction, AlertChange, AlertThread
from collapsewatch_server.inbox.threads import settle
from collapsewatch_server.repositories import alert_threads
from collapsewatch_server.tables import AlertRow
from tests.conftest import WaitUntil
from tests.server.live import Json, LiveServer, result_body

STARTED_AT = 1_700_000_000.0


@pytest.fixture
def quiet(start_server: Any) -> LiveServer:
    """A server whose watch sees nothing of its own accord."""
    return start_server(watch_seconds=0.1, stall_seconds=86_400, lag_seconds=86_400)  # type: ignore[no-any-return]


def log(live: LiveServer, run_id: str, values: dict[int, float], attempt: int | None = None) -> None:
    points = [{"step": step, "values": {"loss": value}} for step, value in values.items()]
    body: Json = {"points": points}
    if attempt is not None:
        body["attempt_id"] = f"a{attempt}"
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json=body)
    assert response.status_code == 200, response.text


def save_rule(live: LiveServer, **changes: Any) -> Json:
    rule = {"name": "high", "metric": "loss", "scope": "trainer", "operator": ">", "threshold": 1.0}
    response = live.call("POST", "/alert-rules", json={**rule, **changes})
    assert response.status_code == 201, response.text
    found: Json = response.json()
    return found


def act(live: LiveServer, alert_id: int, kind: str, **body: Any) -> Json:
    response = live.call("POST", f"/alerts/{alert_id}/{kind}", json=body)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def only(live: LiveServer, **filters: Any) -> Json:
    (item,) = live.get("/alerts", **filters)["items"]
    found: Json = item
    return found


def told(live: LiveServer) -> list[tuple[str, str, str | None, str | None]]:
    """The outbox: change, severity, by whom, and why it is resolved."""
    with live.services.database.read_session() as session:
        rows = session.scalars(select(AlertChange).order_by(AlertChange.id)).all()
    return [(row.change, row.severity, row.by, row.reason) for row in rows]


def changes(live: LiveServer) -> list[str]:
    return [change for change, *_ in told(live)]


def opened(live: LiveServer, **rule: Any) -> tuple[str, int]:
    """A run with an open alert since step 3."""
    save_rule(live, **rule)
    run_id = live.start_run()
    log(live, run_id, {1: 0.5, 2: 0.5})
    log(live, run_id, {3: 2.0})
    return run_id, int(only(live)["alert_id"])


def validity(rate: float) -> Json:
    metrics = {"reward": {"value": 0.5}, "valid_reasoning_rate": {"value": rate}}
    return result_body(batch_metrics=metrics)


def test_an_alert_is_handled_from_its_opening_to_its_end(quiet: LiveServer) -> None:
    run_id, alert_id = opened(quiet)
    item = only(quiet)
    assert (item["state"], item["run_id"], item["opened_step"], item["title"]) == ("open", run_id, 3, "high")
    acted = act(quiet, alert_id, "acknowledge", by="Ada", note="mine")
    assert (acted["num_changed"], acted["items"][0]["state"]) == (1, "acknowledged")
    # A second one changes nothing.
    assert act(quiet, alert_id, "acknowledge", by="Bob")["num_changed"] == 0
    act(quiet, alert_id, "resolve")
    assert (only(quiet)["state"], only(quiet)["ended"]) == ("resolved", "hand")
    act(quiet, alert_id, "reopen", by="Bob")
    assert only(quiet)["state"] == "open"
    log(quiet, run_id, {4: 0.1, 5: 0.1, 6: 0.1})
    assert (only(quiet)["state"], only(quiet)["ended"], only(quiet)["resolved_step"]) == (
        "resolved",
        "rule",
        6,
    )
    assert told(quiet) == [
        ("opened", "warning", None, None),
        ("acknowledged", "warning", "Ada", None),
        ("resolved", "warning", "somebody", "hand"),
        ("reopened", "warning", "Bob", None),
        ("resolved", "warning", None, "rule"),
    ]
    detail = quiet.get(f"/alerts/{alert_id}")
    assert [(one["kind"], one["by"], one["note"]) for one in detail["actions"]] == [
        ("acknowledge", "Ada", "mine"),
        ("resolve", "", ""),
        ("reopen", "Bob", ""),
    ]
    assert [one["change"] for one in detail["changes"]] == changes(quiet)


def test_what_the_rule_resolved_and_a_person_reopened_waits_for_a_person(quiet: LiveServer) -> None:
    run_id, alert_id = opened(quiet)
    log(quiet, run_id, {4: 0.1, 5: 0.1, 6: 0.1})
    act(quiet, alert_id, "reopen")
    log(quiet, run_id, {7: 0.1})
    assert only(quiet)["state"] == "open"
    # A late value that moves the rule's end takes nothing back.
    log(quiet, run_id, {0: 0.1})
    assert only(quiet)["state"] == "open"
    act(quiet, alert_id, "resolve")
    assert changes(quiet) == ["opened", "resolved", "reopened", "resolved"]


def test_an_alert_that_a_late_value_moves_stays_acknowledged(quiet: LiveServer) -> None:
    save_rule(quiet, for_evaluations=2)
    run_id = quiet.start_run()
    log(quiet, run_id, {1: 0.5, 5: 2.0, 6: 2.0})
    alert_id = only(quiet)["alert_id"]
    act(quiet, alert_id, "acknowledge")
    log(quiet, run_id, {4: 2.0})
    item = only(quiet)
    assert (item["alert_id"], item["opened_step"], item["state"]) == (alert_id, 5, "acknowledged")
    assert changes(quiet) == ["opened", "acknowledged"]


def test_an_alert_that_never_was_is_taken_back_and_comes_back_as_itself(quiet: LiveServer) -> None:
    save_rule(quiet, for_evaluations=2)
    run_id = quiet.start_run()
    log(quiet, run_id, {1: 0.5, 5: 2.0, 6: 2.0})
    alert_id = only(quiet)["alert_id"]
    log(quiet, run_id, {5: 0.1})
    assert (only(quiet)["state"], only(quiet)["ended"]) == ("resolved", "withdrawn")
    assert quiet.get(f"/runs/{run_id}/alerts")["alerts"] == []
    refused = quiet.call("POST", f"/alerts/{alert_id}/reopen", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "alert_conflict")
    # The value of step 5 is logged once more.
    log(quiet, run_id, {5: 3.0})
    assert (only(quiet)["alert_id"], only(quiet)["state"]) == (alert_id, "open")
    assert told(quiet)[1:] == [
        ("resolved", "warning", None, "withdrawn"),
        ("reopened", "warning", None, None),
    ]


def test_a_snooze_ends_by_itself_and_tells_of_an_alert_that_is_still_open(
    quiet: LiveServer, wait_until: WaitUntil
) -> None:
    _, alert_id = opened(quiet)
    item = act(quiet, alert_id, "snooze", seconds=3600)["items"][0]
    assert item["state"] == "snoozed"
    assert item["snoozed_until"] > item["changed_at"]
    quiet.services.desk.look()
    assert only(quiet)["state"] == "snoozed"
    let_snoozes_end(quiet)
    wait_until(lambda: only(quiet)["state"] == "open", "the watch ends the snooze")
    assert changes(quiet) == ["opened", "snoozed", "snooze_ended"]


def test_a_snoozed_alert_that_its_rule_resolves_is_quiet_at_the_end(quiet: LiveServer) -> None:
    run_id, alert_id = opened(quiet)
    act(quiet, alert_id, "snooze", seconds=3600)
    log(quiet, run_id, {4: 0.1, 5: 0.1, 6: 0.1})
    let_snoozes_end(quiet)
    quiet.services.desk.look()
    assert changes(quiet) == ["opened", "snoozed", "resolved"]


def let_snoozes_end(live: LiveServer) -> None:
    """As if more than an hour had passed."""
    with live.services.database.write_session() as session:
        session.execute(update(AlertThread).values(snoozed_until=AlertThread.snoozed_until - 4000))
        session.execute(update(AlertAction).values(until=AlertAction.until - 4000))


def test_a_graver_alert_goes_on_in_the_same_item_and_is_open_again(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in (1, 2):
        quiet.score(run_id, step, validity(0.85))
    warning = only(quiet)
    act(quiet, warning["alert_id"], "acknowledge")
    for step in (3, 4):
        quiet.score(run_id, step, validity(0.7))
    critical = only(quiet)
    assert (critical["state"], critical["severity"], critical["num_alerts"]) == ("open", "critical", 2)
    assert critical["thread_id"] == warning["thread_id"]
    assert [(change, severity) for change, severity, *_ in told(quiet)] == [
        ("opened", "warning"),
        ("acknowledged", "warning"),
        ("escalated", "critical"),
    ]
    # Each of its alerts leads to the item, with both of them in it.
    for alert_id in (warning["alert_id"], critical["alert_id"]):
        detail = quiet.get(f"/alerts/{alert_id}")
        assert [one["severity"] for one in detail["alerts"]] == ["warning", "critical"]
    assert quiet.get(f"/runs/{run_id}")["open_alerts"] == {"critical": 1, "warning": 0, "info": 0}


def test_a_resumed_run_that_meets_the_same_alert_again_tells_nothing(quiet: LiveServer) -> None:
    save_rule(quiet)
    run_id = "resumed"
    for number, from_step in ((1, None), (2, 2)):
        attempt = {"attempt_id": f"a{number}", "started_at": STARTED_AT + number, "from_step": from_step}
        body = {"run_id": run_id, "project": "p", "name": "n", "attempt": attempt}
        assert quiet.ingest("POST", "/runs", json=body).status_code in (200, 201)
        if number == 1:
            log(quiet, run_id, {1: 0.5, 3: 2.0, 6: 2.0}, attempt=1)
            act(quiet, only(quiet)["alert_id"], "acknowledge")
    assert (only(quiet)["state"], only(quiet)["ended"]) == ("resolved", "superseded")
    log(quiet, run_id, {2: 0.5, 4: 2.0}, attempt=2)
    item = only(quiet)
    assert (item["state"], item["opened_step"], item["num_alerts"]) == ("acknowledged", 4, 2)
    assert changes(quiet) == ["opened", "acknowledged"]


def test_an_alert_that_a_resumed_run_does_not_meet_again_ends_once_it_is_passed(
    quiet: LiveServer, wait_until: WaitUntil
) -> None:
    save_rule(quiet)
    run_id = "resumed"
    for number, from_step in ((1, None), (2, 2)):
        attempt = {"attempt_id": f"a{number}", "started_at": STARTED_AT + number, "from_step": from_step}
        body = {"run_id": run_id, "project": "p", "name": "n", "attempt": attempt}
        assert quiet.ingest("POST", "/runs", json=body).status_code in (200, 201)
        if number == 1:
            log(quiet, run_id, {1: 0.5, 3: 2.0, 6: 2.0}, attempt=1)
    log(quiet, run_id, dict.fromkeys(range(2, 7), 0.5), attempt=2)
    quiet.services.desk.look()
    assert changes(quiet) == ["opened"]
    log(quiet, run_id, {7: 0.5}, attempt=2)
    wait_until(lambda: changes(quiet) == ["opened", "resolved"], "nobody waits for it any longer")
    assert told(quiet)[-1] == ("resolved", "warning", None, "superseded")


def test_a_redelivered_result_and_a_refold_tell_nothing_anew(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in (1, 3, 4, 5):
        quiet.score(run_id, step, validity(0.7))
    before = told(quiet)
    assert [change for change, *_ in before] == ["opened"]
    quiet.score(run_id, 2, validity(0.7))
    assert told(quiet) == before


def test_two_people_at_once_make_one_change(quiet: LiveServer) -> None:
    _, alert_id = opened(quiet)
    results: list[int] = []

    def acknowledge() -> None:
        results.append(quiet.services.desk.handle([alert_id], "acknowledge", by="Ada"))

    threads = [threading.Thread(target=acknowledge) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [0, 0, 0, 1]
    assert changes(quiet) == ["opened", "acknowledged"]


def test_several_alerts_are_acknowledged_at_once_or_none(quiet: LiveServer) -> None:
    save_rule(quiet)
    runs = [quiet.start_run() for _ in range(3)]
    for run_id in runs:
        log(quiet, run_id, {1: 2.0})
    ids = [item["alert_id"] for item in quiet.get("/alerts")["items"]]
    refused = quiet.call("POST", "/alerts/acknowledge", json={"alert_ids": [*ids, 999]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "alert_not_found")
    assert quiet.get("/alerts")["counts"]["open"] == 3
    response = quiet.call("POST", "/alerts/acknowledge", json={"alert_ids": ids, "by": "Ada"})
    assert response.json()["num_changed"] == 3
    assert quiet.get("/alerts")["counts"] == {"open": 0, "acknowledged": 3, "snoozed": 0, "resolved": 0}


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


def test_a_run_that_stalls_and_then_counts_as_crashed_is_one_item(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(
        watch_seconds=0.05, stall_seconds=0.5, crash_seconds=1.5, worker_seconds=0.2, lag_seconds=86_400
    )
    run_id = live.start_run()
    wait_until(lambda: [one["rule"] for one in live.get("/alerts")["items"]] == ["run_stalled"], "it stalls")
    act(live, only(live)["alert_id"], "acknowledge")
    wait_until(lambda: only(live)["rule"] == "run_crashed", "it counts as crashed")
    crashed = only(live)
    assert (crashed["severity"], crashed["state"], crashed["num_alerts"]) == ("critical", "open", 2)
    assert (crashed["run_id"], crashed["opened_step"]) == (run_id, None)
    log(live, run_id, {1: 0.5})
    wait_until(lambda: only(live)["state"] == "resolved", "a sign of life resolves it")
    assert changes(live)[:4] == ["opened", "acknowledged", "escalated", "resolved"]


def test_there_is_no_alert_of_an_unknown_id(quiet: LiveServer) -> None:
    assert quiet.call("GET", "/alerts/1").status_code == 404
    assert quiet.call("POST", "/alerts/1/resolve", json={}).status_code == 404


def test_an_item_that_a_late_step_makes_part_of_another_one_ends(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in (1, 2):
        quiet.score(run_id, step, validity(0.85))
    with quiet.services.database.write_session() as session:
        warning = session.scalars(select(AlertRow)).one()
        critical = AlertRow(
            **{
                name: getattr(warning, name)
                for name in ("run_pk", "attempt_pk", "rule", "scope", "title", "message", "evidence")
            },
            severity="critical",
            status="open",
            opened_step=3,
            opened_at=warning.opened_at,
        )
        session.add(critical)
        session.flush()
        other = alert_threads.add(session, critical)
        settle(session, [other])
        warning_id, critical_id = warning.id, critical.id
    act(quiet, critical_id, "acknowledge", by="Ada")
    with quiet.services.database.write_session() as session:
        alert_threads.join(session, [critical_id], 1)
        settle(session, [1, other])
    # What was done to the alert goes with it.
    states = sorted(one["state"] for one in quiet.get("/alerts")["items"])
    assert states == ["acknowledged", "resolved"]
    detail = quiet.get(f"/alerts/{critical_id}")
    assert (detail["thread_id"], detail["num_alerts"]) == (1, 2)
    assert [one["by"] for one in detail["actions"]] == ["Ada"]
    assert quiet.get(f"/alerts/{warning_id}")["thread_id"] == 1
    assert told(quiet)[-1] == ("resolved", "critical", None, "withdrawn")
