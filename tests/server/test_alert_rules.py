"""Rules of one's own on a real server: saved, tried out, shared; and the settings of the others."""

from typing import Any

import pytest

from tests.server.live import Json, LiveServer, result_body

STARTED_AT = 1_700_000_000.0
RULE: Json = {"name": "high", "metric": "loss", "scope": "trainer", "operator": ">", "threshold": 1.0}


@pytest.fixture
def quiet(start_server: Any) -> LiveServer:
    """A server whose watch sees nothing of its own accord."""
    return start_server(watch_seconds=60, stall_seconds=86_400, lag_seconds=86_400)  # type: ignore[no-any-return]


def log(live: LiveServer, run_id: str, values: dict[int, float]) -> None:
    points = [{"step": step, "values": {"loss": value}} for step, value in values.items()]
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
    assert response.status_code == 200, response.text


def save(live: LiveServer, method: str = "POST", path: str = "/alert-rules", **changes: Any) -> Json:
    response = live.call(method, path, json={**RULE, **changes})
    assert response.status_code in (200, 201), response.text
    found: Json = response.json()
    return found


def alerts(live: LiveServer, run_id: str) -> list[tuple[int | None, int | None, str]]:
    """(opened, resolved, severity) in the order of opening."""
    found = live.get(f"/runs/{run_id}/alerts")["alerts"]
    return sorted((one["opened_step"], one["resolved_step"], one["severity"]) for one in found)


def inbox(live: LiveServer, **filters: Any) -> list[tuple[str, str, str | None]]:
    items = live.get("/alerts", **filters)["items"]
    return [(one["rule"], one["state"], one["ended"]) for one in items]


def preview(live: LiveServer, **changes: Any) -> Json:
    response = live.call("POST", "/alert-rules/preview", json={**RULE, **changes})
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def test_a_rule_is_kept_changed_and_removed(quiet: LiveServer) -> None:
    saved = save(quiet, tag="a", for_evaluations=2)
    assert {
        **RULE,
        "tag": "a",
        "for_evaluations": 2,
        "rule": f"own/{saved['rule_id']}",
    }.items() <= saved.items()
    assert quiet.get("/alert-rules")["rules"] == [saved]
    path = f"/alert-rules/{saved['rule_id']}"
    changed = save(quiet, "PUT", path, threshold=2.0)
    assert (changed["threshold"], changed["tag"]) == (2.0, None)
    save(quiet, name="other")
    taken = quiet.call("PUT", path, json={**RULE, "name": "other"})
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "alert_rule_conflict")
    assert quiet.call("POST", "/alert-rules", json=RULE).status_code == 409
    assert quiet.call("DELETE", path).json() == {"removed": True}
    assert [one["name"] for one in quiet.get("/alert-rules")["rules"]] == ["other"]
    assert quiet.call("DELETE", path).status_code == quiet.call("PUT", path, json=RULE).status_code == 404


def test_a_wrong_rule_is_refused_by_its_field(quiet: LiveServer) -> None:
    response = quiet.call("POST", "/alert-rules", json={**RULE, "operator": "==", "severity": "fatal"})
    assert response.status_code == 422
    assert {one["loc"] for one in response.json()["error"]["details"]} == {"operator", "severity"}


def test_a_rule_speaks_from_the_next_step_on_and_a_preview_of_the_past(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    log(quiet, run_id, {1: 2.0, 2: 0.1, 3: 0.1, 4: 0.1, 5: 2.0, 6: 2.0})
    (of_run,) = preview(quiet)["runs"]
    assert of_run["run_id"] == run_id
    assert of_run["num_evaluations"] == 6
    assert [(one["opened_step"], one["resolved_step"]) for one in of_run["episodes"]] == [(1, 4), (5, None)]
    save(quiet)
    assert alerts(quiet, run_id) == []
    log(quiet, run_id, {7: 2.0})
    # A late value of a step that the rule was not there for opens nothing.
    log(quiet, run_id, {0: 3.0})
    assert alerts(quiet, run_id) == [(7, None, "warning")]


def test_the_order_of_arrival_does_not_show(quiet: LiveServer) -> None:
    save(quiet, for_evaluations=2)
    values = {1: 2.0, 2: 2.0, 3: 0.1, 4: 0.1, 5: 0.1, 6: 2.0, 7: 0.1, 8: 2.0, 9: 2.0}
    orders = [sorted(values), sorted(values, reverse=True), [5, 9, 1, 3, 7, 2, 8, 6, 4]]
    found = []
    for order in orders:
        run_id = quiet.start_run()
        for step in order:
            log(quiet, run_id, {step: values[step]})
        found.append(alerts(quiet, run_id))
    assert found[0] == [(2, 5, "warning"), (9, None, "warning")]
    assert found == [found[0]] * 3


def test_a_rule_is_about_the_runs_that_it_names(quiet: LiveServer) -> None:
    save(quiet, name="of project", project="q")
    save(quiet, name="of tag", tag="big")
    mine = quiet.start_run(project="q", tags=["big", "x"])
    other = quiet.start_run(project="p", tags=["small"])
    for run_id in (mine, other):
        log(quiet, run_id, {1: 2.0})
    assert len(alerts(quiet, mine)) == 2
    assert alerts(quiet, other) == []
    assert preview(quiet, project="p")["num_runs"] == 1
    assert [one["run_id"] for one in preview(quiet, tag="big")["runs"]] == [mine]


def test_a_drop_is_held_against_the_baseline_of_the_run(quiet: LiveServer) -> None:
    save(quiet, name="skill", metric="retrieval_skill", scope="first_turn", operator="drop", threshold=0.5)
    save(quiet, name="reward", metric="reward", scope="batch", operator="drop", threshold=0.5)
    run_id = quiet.start_run()
    for step in range(1, 16):
        reward = {"reward": {"value": 1.0}, "valid_reasoning_rate": {"value": 1.0}}
        quiet.score(run_id, step, result_body(0.6, batch_metrics=reward))
    # Between the limit of the skill, 0.3, and what would be noise.
    low = {"reward": {"value": 0.4}, "valid_reasoning_rate": {"value": 1.0}}
    quiet.score(run_id, 16, result_body(0.29, batch_metrics=low))
    found = quiet.get("/alerts", status="open", text="baseline")["items"]
    own = {one["title"]: one for one in found if one["rule"].startswith("own/")}
    assert set(own) == {"skill", "reward"}
    assert "retrieval_skill of first_turn is 0.29 < 0.3 (0.5 × its baseline)" in own["skill"]["message"]
    assert own["reward"]["opened_step"] == 16


def test_a_rule_that_is_switched_off_or_removed_ends_what_it_holds_open(quiet: LiveServer) -> None:
    first, second = save(quiet), save(quiet, name="other")
    run_id = quiet.start_run()
    log(quiet, run_id, {1: 2.0, 2: 2.0})
    assert quiet.get("/alert-rules")["rules"][0]["num_open"] == 1
    # Another threshold alone is the same matter.
    save(quiet, "PUT", f"/alert-rules/{first['rule_id']}", threshold=1.5)
    assert [state for _, state, _ in inbox(quiet)] == ["open", "open"]
    save(quiet, "PUT", f"/alert-rules/{first['rule_id']}", threshold=1.5, enabled=False)
    quiet.call("DELETE", f"/alert-rules/{second['rule_id']}")
    assert [(state, ended) for _, state, ended in inbox(quiet)] == [("resolved", "rule")] * 2
    log(quiet, run_id, {3: 2.0})
    assert alerts(quiet, run_id) == [(1, 2, "warning"), (1, 2, "warning")]


def test_rules_are_shared_as_a_file(quiet: LiveServer) -> None:
    save(quiet, for_evaluations=2)
    setting = {"project": "p", "rule": "queue_lag", "enabled": False}
    assert quiet.call("PUT", "/alert-rules/detectors", json=setting).status_code == 200
    text = quiet.get("/alert-rules/export")["toml"]
    again = quiet.call("POST", "/alert-rules/import", json={"toml": text})
    assert again.json() == {"created": [], "updated": [], "unchanged": ["high"], "num_detector_settings": 1}
    changed = text.replace("threshold = 1.0", "threshold = 3.0") + (
        '\n[[rule]]\nname = "new"\nmetric = "m"\noperator = "<"\nthreshold = 0\n'
    )
    done = quiet.call("POST", "/alert-rules/import", json={"toml": changed}).json()
    assert (done["created"], done["updated"]) == (["new"], ["high"])
    assert {one["name"]: one["threshold"] for one in quiet.get("/alert-rules")["rules"]} == {
        "high": 3.0,
        "new": 0.0,
    }


def test_a_file_with_a_fault_changes_nothing(quiet: LiveServer) -> None:
    text = '[[rule]]\nname = "good"\nmetric = "m"\noperator = "<"\nthreshold = 0\n\n[[rule]]\nname = "bad"\n'
    response = quiet.call("POST", "/alert-rules/import", json={"toml": text})
    assert response.status_code == 422
    assert response.json()["error"]["details"][0]["loc"] == "line 7: rule.2.metric"
    assert quiet.get("/alert-rules")["rules"] == []


def validity(rate: float) -> Json:
    return result_body(batch_metrics={"valid_reasoning_rate": {"value": rate}})


def test_a_project_can_switch_a_detector_off_and_on_again(quiet: LiveServer) -> None:
    runs = {project: quiet.start_run(project=project) for project in ("p", "q")}
    setting = {"project": "p", "rule": "valid_reasoning_rate"}
    quiet.call("PUT", "/alert-rules/detectors", json={**setting, "enabled": False})
    for run_id in runs.values():
        for step in (1, 2):
            quiet.score(run_id, step, validity(0.7))
    # What nobody heard of is not in the inbox at all; the run's own page still shows what was measured.
    assert [one["project"] for one in quiet.get("/alerts")["items"]] == ["q"]
    assert len(alerts(quiet, runs["p"])) == 1
    assert quiet.get(f"/runs/{runs['p']}")["open_alerts"]["critical"] == 0
    removed = quiet.call("DELETE", "/alert-rules/detectors/valid_reasoning_rate", params={"project": "p"})
    assert removed.json() == {"removed": True}
    assert {one["project"] for one in quiet.get("/alerts", status="open")["items"]} == {"p", "q"}
    quiet.call("PUT", "/alert-rules/detectors", json={"rule": "valid_reasoning_rate", "enabled": False})
    assert {ended for _, _, ended in inbox(quiet)} == {"switched_off"}
    # The project's own setting comes before that for all.
    quiet.call("PUT", "/alert-rules/detectors", json={**setting, "enabled": True})
    assert [one["project"] for one in quiet.get("/alerts", status="open")["items"]] == ["p"]


def test_a_project_can_give_a_detector_another_severity(quiet: LiveServer) -> None:
    setting = {"project": "p", "rule": "valid_reasoning_rate", "severity": "info"}
    quiet.call("PUT", "/alert-rules/detectors", json=setting)
    run_id = quiet.start_run()
    for step in (1, 2):
        quiet.score(run_id, step, validity(0.7))
    (item,) = quiet.get("/alerts")["items"]
    assert item["severity"] == "info"
    assert quiet.get(f"/runs/{run_id}")["open_alerts"] == {"critical": 0, "warning": 0, "info": 1}
    quiet.call("DELETE", "/alert-rules/detectors/valid_reasoning_rate", params={"project": "p"})
    (item,) = quiet.get("/alerts")["items"]
    assert item["severity"] == "critical"
    assert [one["change"] for one in quiet.get(f"/alerts/{item['alert_id']}")["changes"]] == [
        "opened",
        "escalated",
    ]
    unknown = quiet.call("PUT", "/alert-rules/detectors", json={"rule": "no_such"})
    assert unknown.status_code == 422


def test_the_detectors_declare_themselves(quiet: LiveServer) -> None:
    found = {one["rule"]: one for one in quiet.get("/alert-rules/detectors")["detectors"]}
    assert found["input_dependence"]["severities"] == ["info", "warning", "critical"]
    assert found["input_dependence"]["metrics"] == ["retrieval_skill"]
    assert all(0 < one["alpha"] < 0.01 for one in found["input_dependence"]["false_alarms"])
    assert found["queue_lag"]["false_alarms"] == []
