"""Runs of which only a part is scored: what is told of it, and that nothing is taken for late or missing."""

from dataclasses import replace
from typing import Any

import pytest

from collapsewatch.contracts.scoring import Sampling
from collapsewatch_server.folds.evaluation import Evaluation
from collapsewatch_server.reading.unscored import never_due
from tests.server.fold_cases import evaluation_at, evaluation_of, folded, happened, healthy
from tests.server.live import Json, LiveServer, result_body


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
                evaluation_at(number, skill, p_value=0.001 if skill else 0.5, valid_rate=rate, sampling=told),
                step=number * every,
            )
            for number, (skill, rate) in enumerate(zip(skills, rates, strict=True))
        ]
        _, outputs = folded(evaluations)
        stories.append(happened(outputs))
    assert stories[0] == stories[1]
    assert [move for moves in stories[0] for move in moves][-1] == ("resolve", "critical")


def test_an_open_alert_outlives_a_change_of_sampling() -> None:
    capped = Sampling(num_rows_available=512, num_rows=64, num_samples=64)
    evaluations = [*healthy(), *(evaluation_at(step, 0.0, p_value=0.5) for step in range(12, 16))]
    evaluations += [evaluation_at(step, 0.0, p_value=0.5, sampling=capped) for step in range(16, 30)]
    _, outputs = folded(evaluations)
    assert happened(outputs)[16:] == [[]] * 14
    assert "the sampling changed" in outputs[16].reason
    assert outputs[17].baseline is not None
    assert outputs[17].baseline["first_step"] == 17


def _zscores(evaluations: list[Evaluation]) -> list[float]:
    return [output.derived["mi_zscore_ema"] for output in folded(evaluations)[1]]


def _spread(std: float) -> dict[str, float]:
    return {"mi_token": 0.2, "marginal_std": std}


@pytest.mark.parametrize(
    "changed",
    [
        {"sampling": Sampling(num_rows_available=512, num_rows=64, num_samples=64)},
        {"temperature": 0.7},
        {"scorer": "reference"},
    ],
)
def test_the_smoothed_spread_begins_again_with_what_begins_a_new_baseline(changed: dict[str, Any]) -> None:
    evaluations = [evaluation_at(step, 0.8, extra=_spread(0.5)) for step in range(3)]
    evaluations += [
        evaluation_at(3, 0.8, extra=_spread(1.5), **changed),
        evaluation_at(4, 0.8, extra=_spread(2.5), **changed),
    ]
    _, outputs = folded(evaluations)
    assert outputs[4].baseline is not None
    assert outputs[4].baseline["first_step"] == 4
    # 1.5 is the first value of the new average, and 2.5 enters with a tenth.
    assert _zscores(evaluations)[3:] == pytest.approx([0.2 / 1.501, 0.2 / 1.601])


def test_one_small_batch_leaves_the_smoothed_spread_and_the_baseline_alone() -> None:
    small = evaluation_of(3, [0.8] * 4 + [0.9] * 8, extra=_spread(1.5))
    evaluations = [*(evaluation_at(step, 0.8, extra=_spread(0.5)) for step in range(3)), small]
    again = replace(small, step=4)
    assert _zscores([*evaluations, evaluation_at(4, 0.8, extra=_spread(0.6))])[3:] == pytest.approx(
        [0.2 / 0.601, 0.2 / (0.9 * 0.6 + 0.1 * 0.6 + 1e-3)]
    )
    # The second of its kind begins a new baseline and a new average.
    assert _zscores([*evaluations, again])[4] == pytest.approx(0.2 / 1.501)


def test_a_slow_schedule_of_the_temperature_begins_both_anew_now_and_then() -> None:
    temperatures = [1.0 - 0.006 * step for step in range(10)]
    evaluations = [
        evaluation_at(step, 0.8, extra=_spread(1.0 + step), temperature=temperature)
        for step, temperature in enumerate(temperatures)
    ]
    zscores = _zscores(evaluations)
    begun = [step for step, z in enumerate(zscores) if z == pytest.approx(0.2 / (1.0 + step + 1e-3))]
    assert begun == [0, 4, 8]  # 1.0 to 0.976 is the first change of more than 2 %


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


@pytest.fixture
def small(start_server: Any) -> LiveServer:
    """A server that lets three batches of a run wait and defers two more."""
    live: LiveServer = start_server(lease_seconds=60, max_waiting_batches=3, max_deferred_batches=2)
    return live


def waiting(live: LiveServer, run_id: str) -> list[int]:
    return sorted(job["step"] for job in live.get(f"/runs/{run_id}/jobs", status="queued")["jobs"])


@pytest.mark.parametrize("every_steps", [5, 2**53])
def test_steps_that_are_left_out_anyway_are_laid_aside_first(small: LiveServer, every_steps: int) -> None:
    run_id = small.start_run(scorer={"every_steps": every_steps})
    for step in range(9):
        small.send_batch(run_id, step)
    # 6 to 8 keep their place. Of 0 to 5 the due ones are kept, and then the newest.
    assert waiting(small, run_id) == [0, 5, 6, 7, 8]
    for step in range(9, 14):
        small.send_batch(run_id, step)
    kept = [5, 10] if every_steps == 5 else [0, 10]
    assert waiting(small, run_id) == [*kept, 11, 12, 13]


def test_a_scorer_of_the_batch_itself_decides_what_is_due(small: LiveServer) -> None:
    run_id = small.start_run(scorer={"every_steps": 100})
    for step in range(1, 9):
        small.send_batch(run_id, step, scorer={"every_steps": 1} if step == 2 else None)
    assert waiting(small, run_id) == [2, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("steps", "every_steps", "is_told"),
    [
        ([1, 3], 2, False),  # too few to tell
        ([1, 3, 5], 2, True),
        ([1, 2, 3, 4], 5, False),  # the next one is due
        ([7, 14, 21, 28], 5, False),  # 35 is
        ([5, 15, 25], 10, True),
        ([20, 25, 35, 45], 20, True),  # it once was
        ([1, 3, 5, 6], 2, False),
        ([1, 2, 4, 5, 7, 8], 3, True),  # every third is never logged
        ([1, 2, 4, 5], 3, False),  # one of them may be lost
        ([3, 3, 3, 3, 3, 3], 2, False),  # one step
        ([1, 2, 3], 1, False),
        ([], 5, False),
    ],
)
def test_steps_that_are_never_due_are_told(steps: list[int], every_steps: int, is_told: bool) -> None:
    reason = never_due(steps[::-1], every_steps)
    assert (reason is not None) is is_told
    assert reason is None or f"the steps that {every_steps} divides" in reason


def test_a_trainer_whose_steps_are_never_due_is_told_so(quiet: LiveServer) -> None:
    run_id = quiet.start_run(scorer={"every_steps": 2})
    assert quiet.get(f"/runs/{run_id}")["why_unscored"] is None
    for step in (2, 3, 5):
        quiet.score(run_id, step, left_out(step, 2) if step % 2 else sampled(every_steps=2))
        assert quiet.get(f"/runs/{run_id}")["why_unscored"] is None
    quiet.send_batch(run_id, 7)
    told = quiet.get(f"/runs/{run_id}")["why_unscored"]
    assert "the steps that 2 divides" in told
    assert "(3, 5, 7)" in told
    quiet.send_batch(run_id, 8)
    assert quiet.get(f"/runs/{run_id}")["why_unscored"] is None


def test_a_matrix_of_the_trainer_is_scored_at_every_step(quiet: LiveServer) -> None:
    run_id = quiet.start_run(scorer={"every_steps": 2})
    for step in (1, 3, 5, 7):
        quiet.score(run_id, step, sampled(by_trainer=True))
    assert quiet.get(f"/runs/{run_id}")["why_unscored"] is None


def test_a_probe_set_that_never_occurs_is_told(quiet: LiveServer) -> None:
    run_id = quiet.start_run(scorer={"probe_group_ids": ["a", "b"], "every_steps": 2})
    absent = {"mi_seq": "no nats", "first_turn": "left out by choice: the batch has none of the 2 groups"}
    for step in range(19):
        assert quiet.get(f"/runs/{run_id}")["why_unscored"] is None
        body = left_out(step, 2) if step % 2 else {**left_out(step, 2), "absent": absent}
        quiet.score(run_id, step, body)
    told = quiet.get(f"/runs/{run_id}")["why_unscored"]
    assert told == f"None of the newest 10 batches was scored: {absent['first_turn']}."
    quiet.score(run_id, 20, sampled(is_probe=True))
    assert quiet.get(f"/runs/{run_id}")["why_unscored"] is None


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
