"""Traces of an alert as the API answers them, from batches that trainers sent."""

from typing import Any

import pytest
from sqlalchemy import select

from collapsewatch.blobs import pack_batch, unpack_batch
from collapsewatch_server.reading.alert_traces import AlertTraceReading
from collapsewatch_server.tables import Batch
from tests.server.alerted import act, log, only, opened, save_rule
from tests.server.live import Json, LiveServer, result_body

HOSTILE = "<script>window.owned = 1</script>"
LAST = 16


def rollouts(step: int, groups: list[str]) -> list[Json]:
    """Two rollouts of each group; the prompts are the same at every step."""
    return [
        {
            "group_id": group,
            "reward": number / 2,
            "turns": [
                {"prompt": f"where is {group}? <think>", "response": f"{HOSTILE} {group} {step} {number}"}
            ],
        }
        for group in groups
        for number in range(2)
    ]


def groups_of(step: int) -> list[Json]:
    return rollouts(step, [f"g{number}" for number in range(8)])


def collapse(live: LiveServer) -> tuple[str, int]:
    """A run with a baseline, whose skill falls below the limit of a rule at the step after it."""
    save_rule(live, metric="retrieval_skill", scope="first_turn", operator="<", threshold=0.3)
    run_id = live.start_run()
    for step in range(1, LAST):
        live.score(run_id, step, result_body(0.6), rollouts=groups_of(step))
    result = result_body(0.1)
    result["evaluations"][0]["prompts"][3]["accuracy"] = 0.0
    live.score(run_id, LAST, result, rollouts=groups_of(LAST))
    items = live.get("/alerts", rule="own/1")["items"]
    return run_id, next(int(one["alert_id"]) for one in items if one["opened_step"] == LAST)


def blob_key(live: LiveServer, step: int) -> str:
    with live.services.database.read_session() as session:
        return session.scalars(select(Batch.blob_key).where(Batch.step == step)).one()


def test_an_alert_shows_what_was_answered_then_and_at_baseline(quiet: LiveServer) -> None:
    run_id, alert_id = collapse(quiet)
    found = quiet.get(f"/alerts/{alert_id}/traces")
    evidence = quiet.get(f"/alerts/{alert_id}")["evidence_around"]
    assert (found["step"], found["reason"], found["baseline_reason"]) == (LAST, None, None)
    driving = [one["group_ids"] for one in evidence["prompts"][:4]]
    assert [one["group_ids"] for one in found["prompts"]] == driving
    worst = found["prompts"][0]
    assert [one["response"] for one in worst["traces"]] == [
        f"{HOSTILE} g3 {LAST} 0",
        f"{HOSTILE} g3 {LAST} 1",
    ]
    assert [one["reward"] for one in worst["traces"]] == [0.0, 0.5]
    assert {(one["prompt"], one["attempt_id"], one["turn"]) for one in worst["traces"]} == {
        ("where is g3? <think>", "default", 0)
    }
    step = found["baseline_step"]
    assert step < LAST
    assert step == quiet.get(f"/runs/{run_id}/trajectory", scope="first_turn")["baseline"]["last_step"]
    assert (worst["baseline"]["response"], worst["is_same_prompt"]) == (f"{HOSTILE} g3 {step} 0", True)


def test_a_batch_too_large_or_broken_or_gone_is_said_to_be_so(quiet: LiveServer) -> None:
    _, alert_id = collapse(quiet)
    services, key = quiet.services, blob_key(quiet, LAST)
    # Small as it lies in the store, too large once it is unfolded.
    batch = unpack_batch(services.blobs.read(key), 1 << 20)
    turn = batch.rollouts[0].turns[0].model_copy(update={"response": "a" * (1 << 20)})
    long = batch.rollouts[0].model_copy(update={"turns": [turn]})
    packed = pack_batch(batch.model_copy(update={"rollouts": [long, *batch.rollouts[1:]]}))
    assert len(packed) < 1 << 16
    services.blobs.write(key, packed)
    reading = AlertTraceReading(services.database, services.blobs, max_bytes=1 << 20)
    found = reading.traces(alert_id)
    assert found.reason == f"the batch of step {LAST} is too large to read here (more than 1 MiB)"
    assert found.prompts == []
    # What is larger as it lies is not even read.
    found = AlertTraceReading(services.database, services.blobs, max_bytes=100).traces(alert_id)
    assert found.reason is not None
    assert "too large" in found.reason
    services.blobs.write(key, b"not zstd at all")
    assert quiet.get(f"/alerts/{alert_id}/traces")["reason"] == f"the batch of step {LAST} is not readable"
    services.blobs.write(key, pack_batch(batch))
    step = quiet.get(f"/alerts/{alert_id}/traces")["baseline_step"]
    quiet.services.blobs.delete(blob_key(quiet, step))
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert found["baseline_reason"] == f"the batch of step {step} is no longer stored"
    assert [one["baseline"] for one in found["prompts"]] == [None] * 4
    assert len(found["prompts"][0]["traces"]) == 2
    quiet.services.blobs.delete(blob_key(quiet, LAST))
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert (found["prompts"], found["reason"]) == ([], f"the batch of step {LAST} is no longer stored")


def test_the_parts_of_a_step_are_read_together(quiet: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    save_rule(quiet, metric="retrieval_skill", scope="first_turn", operator="<", threshold=0.3)
    run_id = quiet.start_run()
    for index, groups in enumerate((["g0", "g1"], ["g2", "g3"], ["g4"])):
        shard = {"index": index, "count": 3}
        sent = quiet.send_batch(run_id, 1, batch_id=f"b{index}", shard=shard, rollouts=rollouts(1, groups))
        assert sent.status_code == 202
    result = result_body(0.1, num_prompts=5)
    assert quiet.done(quiet.claim()["job_id"], result)
    alert_id = only(quiet, rule="own/1")["alert_id"]
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert [one["group_ids"] for one in found["prompts"]] == [["g0"], ["g1"], ["g2"], ["g3"]]
    assert {len(one["traces"]) for one in found["prompts"]} == {2}
    assert found["baseline_step"] is None
    assert "no baseline" in found["baseline_reason"]
    with quiet.services.database.read_session() as session:
        keys = session.scalars(select(Batch.blob_key).order_by(Batch.shard_index)).all()
    quiet.services.blobs.delete(keys[0])
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert [one["group_ids"] for one in found["prompts"]] == [["g2"], ["g3"]]
    assert found["reason"] == "parts of the batch of step 1 are missing here: 1 of 3 no longer stored"
    monkeypatch.setattr("collapsewatch_server.reading.stored_batches._MAX_PARTS", 2)
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert found["reason"].endswith("1 of 3 no longer stored; 1 of 3 beyond the first 2")


def test_an_alert_whose_step_was_replayed_shows_what_its_own_attempt_wrote(quiet: LiveServer) -> None:
    save_rule(quiet, metric="retrieval_skill", scope="first_turn", operator="<", threshold=0.3)
    for number, skill in ((1, 0.1), (2, 0.6)):
        attempt = {"attempt_id": f"a{number}", "started_at": 1_700_000_000.0 + number, "from_step": 1}
        body = {"run_id": "resumed", "project": "p", "name": "n", "attempt": attempt}
        assert quiet.ingest("POST", "/runs", json=body).status_code in (200, 201)
        batch = {"batch_id": f"b{number}", "attempt_id": f"a{number}", "rollouts": groups_of(number)}
        quiet.score("resumed", 1, result_body(skill), **batch)
        if number == 1:
            alert_id = only(quiet, rule="own/1")["alert_id"]
    assert only(quiet, rule="own/1")["ended"] == "superseded"
    (first, _) = quiet.get(f"/alerts/{alert_id}/traces")["prompts"][0]["traces"]
    assert (first["attempt_id"], first["response"]) == ("a1", f"{HOSTILE} {first['group_id']} 1 0")


def test_rollouts_sent_as_token_ids_have_no_text_to_show(quiet: LiveServer) -> None:
    turn = {"prompt_token_ids": [1, 2], "response_token_ids": [3, 4]}
    bare = [{"group_id": f"g{number}", "turns": [turn]} for number in range(8)]
    save_rule(quiet, metric="retrieval_skill", scope="first_turn", operator="<", threshold=0.3)
    quiet.score(quiet.start_run(), 1, result_body(0.1), rollouts=bare)
    alert_id = only(quiet, rule="own/1")["alert_id"]
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert found["prompts"] == []
    assert found["reason"] == "no response to these prompts is stored as text for step 1"


def test_one_alerts_traces_are_read_at_a_time(quiet: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    save_rule(quiet, metric="retrieval_skill", scope="first_turn", operator="<", threshold=0.3)
    quiet.score(quiet.start_run(), 1, result_body(0.1), rollouts=groups_of(1))
    alert_id = only(quiet, rule="own/1")["alert_id"]
    monkeypatch.setattr("collapsewatch_server.reading.alert_traces._WAIT_SECONDS", 0.01)
    with quiet.services.alert_traces._one_at_a_time:
        refused = quiet.call("GET", f"/alerts/{alert_id}/traces")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_busy")
        assert refused.headers["retry-after"] == "2"
    assert quiet.get(f"/alerts/{alert_id}/traces")["prompts"]


def test_an_alert_at_a_step_without_scores_says_why_it_has_no_traces(quiet: LiveServer) -> None:
    _, alert_id = opened(quiet)
    found = quiet.get(f"/alerts/{alert_id}/traces")
    assert (found["step"], found["prompts"]) == (3, [])
    assert found["reason"] == "no prompt was scored at step 3, so none is known to have driven the alert"


def test_an_alert_about_no_step_has_no_traces(start_server: Any, wait_until: Any) -> None:
    live = start_server(
        watch_seconds=0.05, stall_seconds=0.5, crash_seconds=86_400, worker_seconds=0.2, lag_seconds=86_400
    )
    live.start_run()
    wait_until(lambda: live.get("/alerts")["items"], "it stalls")
    found = live.get(f"/alerts/{only(live)['alert_id']}/traces")
    assert (found["step"], found["prompts"]) == (None, [])
    assert "about no step" in found["reason"]


def test_there_are_no_traces_of_an_unknown_alert(quiet: LiveServer) -> None:
    refused = quiet.call("GET", "/alerts/1/traces")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "alert_not_found")


def test_the_inbox_says_who_acted_last_by_one_query_for_all_items(
    quiet: LiveServer,
) -> None:
    run_id, alert_id = opened(quiet)
    assert only(quiet)["last_action"] is None
    act(quiet, alert_id, "acknowledge", by="Ada", note="mine")
    acted = act(quiet, alert_id, "snooze", by="Bob", seconds=60)
    last = only(quiet)["last_action"]
    assert (last["kind"], last["by"], last["note"], last["severity"]) == ("snooze", "Bob", "", "warning")
    assert last["until"] > last["at"]
    assert acted["items"][0]["last_action"] == last
    detail = quiet.get(f"/alerts/{alert_id}")
    assert detail["last_action"] == last == detail["actions"][-1]
    assert num_queries(quiet) == 1
    for number in range(5):
        save_rule(quiet, name=f"more {number}")
    log(quiet, run_id, {4: 3.0})
    items = quiet.get("/alerts")["items"]
    assert len(items) == 6
    act(quiet, items[0]["alert_id"], "acknowledge", by="Eve")
    people = [one["last_action"] and one["last_action"]["by"] for one in quiet.get("/alerts")["items"]]
    assert people == ["Eve", None, None, None, None, "Bob"]
    assert num_queries(quiet) == 1


def num_queries(live: LiveServer) -> int:
    """Questions for what people did that a page of the inbox takes."""
    with live.statements("FROM alert_actions") as seen:
        live.get("/alerts", limit=500)
    return len(seen)
