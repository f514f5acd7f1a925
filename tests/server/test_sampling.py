"""Runs of which only a part is scored: what is told of it, and that nothing is taken for late or missing."""

from dataclasses import replace
from typing import Any

import pytest

from collapsewatch.contracts.scoring import Sampling
from tests.server.live import Json, LiveServer, result_body
from tests.server.test_run_fold import _at, _folded, _happened, _healthy


@pytest.fixture
def quiet(start_server: Any) -> LiveServer:
    """A server on which no lease ends during a test."""
    server: LiveServer = start_server(lease_seconds=60)
    return server


def test_steps_left_out_by_choice_break_no_row_of_evaluations() -> None:
    """The same story, scored at every step and at every fifth, opens and clears the same alerts."""
    skills = [0.8] * 12 + [0.0] * 6 + [0.78] * 8
    rates = [1.0] * 20 + [0.7] * 3 + [1.0] * 3
    stories = []
    for every in (1, 5):
        told = Sampling(num_rows_available=64, num_rows=64, every_steps=every)
        evaluations = [
            # Made of its number, so that its interval, which is seeded by that, is the same in both.
            replace(
                _at(number, skill, p_value=0.001 if skill else 0.5, valid_rate=rate, sampling=told),
                step=number * every,
            )
            for number, (skill, rate) in enumerate(zip(skills, rates, strict=True))
        ]
        _, outputs = _folded(evaluations)
        stories.append(_happened(outputs))
    assert stories[0] == stories[1]
    assert [move for moves in stories[0] for move in moves][-1] == ("resolve", "critical")


def test_an_open_alert_outlives_a_change_of_sampling() -> None:
    capped = Sampling(num_rows_available=512, num_rows=64, num_samples=64)
    evaluations = [*_healthy(), *(_at(step, 0.0, p_value=0.5) for step in range(12, 16))]
    evaluations += [_at(step, 0.0, p_value=0.5, sampling=capped) for step in range(16, 30)]
    _, outputs = _folded(evaluations)
    assert _happened(outputs)[16:] == [[]] * 14
    assert "the sampling changed" in outputs[16].reason
    assert outputs[17].baseline is not None
    assert outputs[17].baseline["first_step"] == 17


def sampled(skill: float = 0.6, *, scope: str = "first_turn", **rule: Any) -> Json:
    """A result that says which part of the scope was scored."""
    body = result_body(skill, scope=scope)
    body["evaluations"][0]["sampling"] = {"num_rows_available": 512, "num_rows": 64, **rule}
    return body


def left_out(step: int, every_steps: int) -> Json:
    """The result of a step that is not scored by choice."""
    reason = f"left out by choice: the scorer takes the steps that {every_steps} divides"
    return {**result_body(), "evaluations": [], "absent": {"first_turn": f"{reason} ({step})"}}


def test_what_was_scored_of_each_scope_is_told_by_its_newest_evaluation(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    assert quiet.get(f"/runs/{run_id}")["samplings"] == {}
    # A worker of an earlier version does not say.
    quiet.score(run_id, 1, result_body())
    assert quiet.get(f"/runs/{run_id}")["samplings"] == {}
    quiet.score(run_id, 2, sampled(num_samples=64, seed=3))
    both = sampled(num_samples=32, every_steps=5, is_probe=True, num_probe_groups=16, probe_key="ab")
    both["evaluations"] += sampled(scope="trajectory")["evaluations"]
    quiet.score(run_id, 10, both)
    # A late one is not the newest.
    quiet.score(run_id, 5, sampled(num_samples=8))
    samplings = quiet.get(f"/runs/{run_id}")["samplings"]
    assert set(samplings) == {"first_turn", "trajectory"}
    told = samplings["first_turn"]
    assert (told["num_rows"], told["num_rows_available"], told["num_samples"], told["seed"]) == (
        64,
        512,
        32,
        0,
    )
    assert (told["every_steps"], told["is_probe"], told["num_probe_groups"]) == (5, True, 16)
    assert samplings["trajectory"]["num_samples"] is None
    step = quiet.get(f"/runs/{run_id}/steps/2")["evaluation"]["sampling"]
    assert (step["num_samples"], step["seed"]) == (64, 3)


def test_a_replayed_step_takes_its_sampling_with_it(quiet: LiveServer) -> None:
    first = {"attempt_id": "a1", "started_at": 1.0}
    run_id = quiet.start_run(attempt=first)
    quiet.score(run_id, 4, sampled(num_samples=64), attempt_id="a1")
    quiet.score(run_id, 6, sampled(num_samples=32), attempt_id="a1")
    again = {"attempt_id": "a2", "started_at": 2.0, "from_step": 5}
    body = {"run_id": run_id, "project": "p", "name": "n", "attempt": again}
    assert quiet.ingest("POST", "/runs", json=body).status_code == 200
    quiet.score(run_id, 5, result_body(), attempt_id="a2")
    assert quiet.get(f"/runs/{run_id}")["samplings"]["first_turn"]["num_samples"] == 64


def test_steps_left_out_by_choice_are_neither_scored_late_nor_missing(quiet: LiveServer) -> None:
    run_id, dense = quiet.start_run(), quiet.start_run()
    history = [0.6] * 12 + [0.01] * 8
    for number, skill in enumerate(history):
        quiet.score(dense, number, sampled(skill))
        for step in range(5 * number, 5 * number + 5):
            body = sampled(skill, every_steps=5) if step % 5 == 0 else left_out(step, 5)
            quiet.score(run_id, step, body)
    run = quiet.get(f"/runs/{run_id}")
    assert run["last_step"] == 99
    assert run["jobs"]["done"] == 100
    assert "left out by choice" in run["absent"]["first_turn"]
    assert (run["regime"]["step"], run["regime"]["regime"]) == (95, "template_collapse")
    assert run["samplings"]["first_turn"]["every_steps"] == 5
    batch = quiet.get(f"/runs/{run_id}/series", scope="batch", metric="reward")["series"]["reward"]
    assert len(batch["steps"]) == 100
    assert quiet.call("GET", f"/runs/{run_id}/steps/99").status_code == 404

    def told(run_id: str, every: int) -> list[tuple[Any, ...]]:
        alerts = quiet.get(f"/runs/{run_id}/alerts")["alerts"]
        assert alerts
        return [(a["rule"], a["severity"], a["opened_step"] // every, a["status"]) for a in alerts]

    assert told(run_id, 5) == told(dense, 1)
    rules = {alert["rule"] for alert in quiet.get("/service")["alerts"]}
    assert not rules & {"no_new_steps", "batches_dead", "queue_lag"}


def test_a_changed_sampling_begins_a_new_baseline(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(14):
        quiet.score(run_id, step, sampled(num_samples=64))
    assert quiet.get(f"/runs/{run_id}")["regime"]["regime"] == "diverse_reasoning"
    quiet.score(run_id, 14, sampled(num_samples=128))
    assert "sampling changed" in quiet.get(f"/runs/{run_id}")["regime"]["reason"]
    quiet.score(run_id, 15, sampled(num_samples=128))
    run = quiet.get(f"/runs/{run_id}")
    assert run["baseline"]["first_step"] == 15
    assert run["regime"]["reason"].endswith("baseline: 1 of 10 evaluations.")
