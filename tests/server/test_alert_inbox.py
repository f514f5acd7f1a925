"""The inbox: what people did survives late steps and resumes, and every change is told exactly once."""

import threading
from typing import Any

from sqlalchemy import select, update

from collapsewatch_server.alert_tables import AlertAction, AlertRow, AlertThread
from collapsewatch_server.inbox.threads import settle
from collapsewatch_server.repositories import alert_threads
from tests.conftest import WaitUntil
from tests.server.alerted import STARTED_AT, act, changes, log, only, opened, save_rule, told, validity
from tests.server.live import LiveServer


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


def test_a_run_that_stalls_and_then_counts_as_crashed_is_one_item(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live = start_server(
        watch_seconds=0.05, stall_seconds=0.5, crash_seconds=600, worker_seconds=0.2, lag_seconds=86_400
    )
    run_id = live.start_run()
    wait_until(lambda: [one["rule"] for one in live.get("/alerts")["items"]] == ["run_stalled"], "it stalls")
    act(live, only(live)["alert_id"], "acknowledge")
    live.watch_with(crash_seconds=1.0)
    wait_until(lambda: only(live)["rule"] == "run_crashed", "it counts as crashed")
    crashed = only(live)
    assert (crashed["severity"], crashed["state"], crashed["num_alerts"]) == ("critical", "open", 2)
    assert (crashed["run_id"], crashed["opened_step"]) == (run_id, None)
    live.watch_with(stall_seconds=3600, crash_seconds=7200)
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
