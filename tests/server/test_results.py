"""Results: stored once, folded in step order whatever the order of arrival, with the alerts that follow."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import update

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.scoring import ClaimRequest, ScoringResult
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.tables import EvaluationRow
from tests.server.live import Json, LiveServer, batch_body, result_body

STEADY = [(step, 0.6) for step in range(1, 16)]
COLLAPSE = [(step, 0.01) for step in range(16, 23)]
RECOVERY = [(step, 0.6) for step in range(23, 30)]


def send(live: LiveServer, run_id: str, history: Sequence[tuple[int, float]]) -> None:
    """Scores the history, past HTTP: it is long, and what is tested comes behind it."""
    services = live.services
    run, project = services.runs.open_run(Caller(1, Purpose.ingest, None), run_id)
    for step, skill in history:
        services.batches.add(run, project, RolloutBatch.model_validate(batch_body(step)))
        job = services.queue.claim(ClaimRequest(worker="w1"))
        assert job is not None
        assert services.results.accept(job.job_id, ScoringResult.model_validate(result_body(skill)))


def story(live: LiveServer, run_id: str) -> Json:
    """All that the run's page shows, without ids and times."""
    alerts = live.get(f"/runs/{run_id}/alerts")["alerts"]
    for alert in alerts:
        for name in ("alert_id", "opened_at", "resolved_at"):
            del alert[name]
    run = live.get(f"/runs/{run_id}")
    return {
        "series": live.get(f"/runs/{run_id}/series")["series"],
        "batch": live.get(f"/runs/{run_id}/series", scope="batch")["series"],
        "trajectory": live.get(f"/runs/{run_id}/trajectory"),
        "alerts": alerts,
        "regime": run["regime"],
        "baseline": run["baseline"],
        "open_alerts": run["open_alerts"],
    }


@pytest.fixture
def quiet(start_server: Any) -> LiveServer:
    """A server on which no lease ends during a test."""
    server: LiveServer = start_server(lease_seconds=60)
    return server


def test_a_result_becomes_series_intervals_and_labels(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    quiet.score(run_id, 4, result_body(0.6))
    series = quiet.get(f"/runs/{run_id}/series", metric=["retrieval_skill", "ragen/mi_estimate"])["series"]
    assert series["retrieval_skill"] == {
        "steps": [4],
        "values": [0.6],
        "low": [0.55],
        "high": [0.65],
        "num_points": 1,
    }
    assert series["ragen/mi_estimate"]["values"] == [0.2]
    batch = quiet.get(f"/runs/{run_id}/series", scope="batch")["series"]
    assert batch["valid_reasoning_rate"]["values"] == [1.0]

    run = quiet.get(f"/runs/{run_id}")
    assert run["scopes"] == ["batch", "first_turn"]
    assert run["scorer"]["label"] == "reference: tiny"
    assert run["regime"]["regime"] == "insufficient"
    assert run["latest"]["retrieval_skill"] == 0.6
    assert run["sparkline"] == {"steps": [4], "values": [0.6]}
    assert run["groups"][0]["group_id"] == "g1"
    assert run["filters"][0]["rule"] == "top_p 0.9 linear std"
    assert [run["run_id"] for run in quiet.get("/runs")["runs"]] == [run_id]

    step = quiet.get(f"/runs/{run_id}/steps/4")
    assert step["evaluation"]["prompts"][0]["group_ids"] == ["g0"]
    assert quiet.call("GET", f"/runs/{run_id}/steps/5").status_code == 404


def test_template_evidence_and_buckets_are_told_of_the_newest_batch_and_of_each_step(
    quiet: LiveServer,
) -> None:
    run_id = quiet.start_run()
    phrase = {"text": "a <b> c\x00 d", "num_words": 4, "coverage": 0.5, "num_prompts": 8}
    evidence = {
        "compression_ratio": 0.4,
        "phrases": [phrase],
        "min_words": 4,
        "min_prompts": 4,
        "num_prompts": 8,
        "num_reasonings": 64,
    }
    bucket = {"name": "Q1", "num_groups": 8, "reward_variance": 0.25, "reward_std": 0.5, "reward": 0.5}
    buckets = {"quantile": [bucket], "fixed": []}
    measured = {"reward": {"value": 0.5}, "compression_ratio": {"value": 0.4}}
    full = result_body(0.6, template_evidence=evidence, buckets=buckets, batch_metrics=measured)
    quiet.score(run_id, 1, full)
    expected = {**evidence, "compression_distance_ratio": None, "phrases_removed": False}
    for answer in (quiet.get(f"/runs/{run_id}"), quiet.get(f"/runs/{run_id}/steps/1")):
        assert answer["template_evidence"] == expected
        assert answer["buckets"] == buckets
    series = quiet.get(f"/runs/{run_id}/series", scope="batch")["series"]
    assert series["compression_ratio"]["values"] == [0.4]

    # A worker of an earlier version sends neither.
    why = {"compression_distance_ratio": "no scored first reasoning"}
    quiet.score(run_id, 2, result_body(0.6, absent=why))
    newest = quiet.get(f"/runs/{run_id}")
    assert newest["template_evidence"] is None
    assert newest["buckets"] == {"quantile": [], "fixed": []}
    assert newest["absent"]["compression_distance_ratio"] == "no scored first reasoning"
    assert quiet.get(f"/runs/{run_id}/steps/1")["template_evidence"] == expected


def test_a_collapse_raises_alerts_and_a_recovery_resolves_them(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    send(quiet, run_id, STEADY)
    assert quiet.get(f"/runs/{run_id}/alerts")["alerts"] == []
    assert quiet.get(f"/runs/{run_id}")["regime"]["regime"] == "diverse_reasoning"
    send(quiet, run_id, COLLAPSE)
    alerts = quiet.get(f"/runs/{run_id}/alerts")["alerts"]
    assert {alert["severity"] for alert in alerts} >= {"critical"}
    assert all(alert["opened_step"] > 15 and alert["evidence"] for alert in alerts)
    run = quiet.get(f"/runs/{run_id}")
    assert run["regime"]["regime"] == "template_collapse"
    assert run["open_alerts"]["critical"] == 1
    trajectory = quiet.get(f"/runs/{run_id}/trajectory")
    assert trajectory["baseline"]["complete"] is True
    assert set(trajectory["thresholds"]) == {
        "low_dependence", "high_dependence", "low_diversity", "high_diversity"
    }  # fmt: skip
    assert [point["step"] for point in trajectory["points"]] == list(range(1, 23))
    send(quiet, run_id, RECOVERY)
    assert quiet.get(f"/runs/{run_id}")["open_alerts"] == {"critical": 0, "warning": 0, "info": 0}
    assert {alert["status"] for alert in quiet.get(f"/runs/{run_id}/alerts")["alerts"]} == {"resolved"}


def test_late_steps_end_in_the_very_state_of_an_arrival_in_order(quiet: LiveServer) -> None:
    history = STEADY + COLLAPSE + RECOVERY
    in_order, shuffled = quiet.start_run(), quiet.start_run()
    send(quiet, in_order, history)
    mixed = list(history)
    # The collapse before its baseline, steps between others, one after everything.
    random.Random(0).shuffle(mixed)
    send(quiet, shuffled, mixed)
    expected = story(quiet, in_order)
    assert expected["alerts"]
    assert "mi_zscore_ema" in expected["series"]
    assert "log_evalue_critical" in expected["series"]
    assert story(quiet, shuffled) == expected


def test_a_late_step_keeps_the_ids_and_times_of_alerts_that_still_hold(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    late = STEADY[5]
    send(quiet, run_id, [item for item in STEADY + COLLAPSE if item != late])
    before = quiet.get(f"/runs/{run_id}/alerts")["alerts"]
    send(quiet, run_id, [late])
    after = quiet.get(f"/runs/{run_id}/alerts")["alerts"]
    kept = {(alert["rule"], alert["opened_step"]): alert for alert in after}
    same = [alert for alert in before if (alert["rule"], alert["opened_step"]) in kept]
    assert same
    for alert in same:
        now = kept[alert["rule"], alert["opened_step"]]
        assert (now["alert_id"], now["opened_at"]) == (alert["alert_id"], alert["opened_at"])


def test_the_batch_accepted_last_stands_for_its_step_whatever_is_scored_first(quiet: LiveServer) -> None:
    for order in ([0, 1], [1, 0]):
        run_id = quiet.start_run()
        quiet.score(run_id, 1, result_body(0.5))
        quiet.send_batch(run_id, 2, batch_id="first")
        quiet.send_batch(run_id, 2, batch_id="replay")
        jobs = {job["batch_id"]: job["job_id"] for job in (quiet.claim(), quiet.claim())}
        replayed = result_body(0.7, batch_metrics={"reward": {"value": 0.9}})
        replayed["evaluations"][0]["metrics"].pop("mi_token")
        results = [(jobs["first"], result_body(0.2)), (jobs["replay"], replayed)]
        for position in order:
            assert quiet.done(*results[position])
        series = quiet.get(f"/runs/{run_id}/series")["series"]
        assert series["retrieval_skill"]["values"] == [0.5, 0.7]
        assert series["mi_token"]["steps"] == [1]
        batch = quiet.get(f"/runs/{run_id}/series", scope="batch")["series"]
        assert batch["reward"]["values"] == [0.5, 0.9]
        assert batch["reward"]["steps"] == [1, 2]
        assert batch["valid_reasoning_rate"]["steps"] == [1]
        evaluation = quiet.get(f"/runs/{run_id}/steps/2")["evaluation"]
        assert evaluation["metrics"]["retrieval_skill"]["value"] == 0.7
        assert quiet.get(f"/runs/{run_id}")["regime"]["step"] == 2


def test_a_scope_that_the_last_batch_of_a_step_lacks_goes_with_the_batch_before(quiet: LiveServer) -> None:
    for order in ([0, 1], [1, 0]):
        run_id = quiet.start_run()
        quiet.score(run_id, 1, result_body(0.5))
        quiet.send_batch(run_id, 2, batch_id="first")
        quiet.send_batch(run_id, 2, batch_id="replay")
        jobs = {job["batch_id"]: job["job_id"] for job in (quiet.claim(), quiet.claim())}
        unscorable = {**result_body(), "evaluations": []}
        results = [(jobs["first"], result_body(0.2)), (jobs["replay"], unscorable)]
        for position in order:
            assert quiet.done(*results[position])
        series = quiet.get(f"/runs/{run_id}/series")["series"]
        assert series["retrieval_skill"]["steps"] == [1]
        assert all(points["steps"] == [1] for points in series.values())
        assert quiet.call("GET", f"/runs/{run_id}/steps/2").status_code == 404
        assert quiet.get(f"/runs/{run_id}")["regime"]["step"] == 1
        quiet.score(run_id, 3, result_body(0.6))
        assert [point["step"] for point in quiet.get(f"/runs/{run_id}/trajectory")["points"]] == [1, 3]


def test_a_bad_result_is_refused_and_the_job_can_still_be_done(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    quiet.send_batch(run_id, 1)
    job_id = quiet.claim()["job_id"]
    good = result_body()
    bad: list[Json] = [
        {**good, "evaluations": good["evaluations"] * 2},
        {**good, "evaluations": [{**good["evaluations"][0], "scope": "trainer"}]},
        {**good, "evaluations": [{**good["evaluations"][0], "scope": "a\x00b"}]},
        {**good, "evaluations": [{**good["evaluations"][0], "ragen": {"x" * 198: 1.0}}]},
        {**good, "batch_metrics": {"a\x00": {"value": 1}}},
        {**good, "seconds": None},
    ]
    for body in bad:
        response = quiet.worker(f"/jobs/{job_id}/done", body)
        assert response.status_code == 422, response.text
        assert response.json()["error"]["details"]
    assert quiet.get(f"/runs/{run_id}")["scopes"] == []
    assert quiet.worker("/jobs/4711/done", good).status_code == 404
    assert quiet.done(job_id, good)


def test_text_with_nul_from_a_worker_is_kept(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    body = result_body()
    body["evaluations"][0]["prompts"][0]["preview"] = "a\x00b"
    quiet.score(run_id, 1, body)
    step = quiet.get(f"/runs/{run_id}/steps/1")
    assert step["evaluation"]["prompts"][0]["preview"] == "a\x00b"


def test_a_fold_state_of_another_version_is_folded_from_the_start(quiet: LiveServer, wait_until: Any) -> None:
    expected, run_id = quiet.start_run(), quiet.start_run()
    send(quiet, expected, STEADY + COLLAPSE)
    send(quiet, run_id, STEADY + COLLAPSE[:-1])
    with quiet.services.database.write_session() as session:
        session.execute(update(EvaluationRow).values(fold_state={"version": "of another time"}))
    send(quiet, run_id, COLLAPSE[-1:])
    wait_until(lambda: story(quiet, run_id) == story(quiet, expected), "it was folded from the start")


def test_long_series_are_cut_down_and_show_their_extremes(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    points = [{"step": step, "values": {"x": 9.0 if step == 777 else 0.0}} for step in range(1000)]
    quiet.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
    series = quiet.get(f"/runs/{run_id}/series", scope="trainer", metric="x", max_points=50)["series"]["x"]
    assert len(series["steps"]) <= 50
    assert (series["steps"][0], series["steps"][-1]) == (0, 999)
    assert max(series["values"]) == 9.0
    recent = quiet.get(f"/runs/{run_id}/series", scope="trainer", since_step=998)["series"]["x"]
    assert recent["steps"] == [998, 999]
