"""When a run's steps were, which policies wrote them, and what filters kept of them."""

from typing import Any

import pytest

from collapsewatch_server.reading.kept import kept_history
from collapsewatch_server.repositories.steps import KeptStep
from tests.server.live import Json, LiveServer, result_body

STARTED_AT = 1_769_860_800.0


def seen(step: int, kept: dict[str, list[str]], **causes: str | None) -> KeptStep:
    """A step with the groups that `causes` names, and what each rule kept of them."""
    groups = [{"group_id": group, "cause": cause} for group, cause in causes.items()]
    filters = [
        {"rule": rule, "kept_group_ids": groups, "num_groups": len(causes)} for rule, groups in kept.items()
    ]
    return KeptStep(step, groups, filters)


def test_a_history_tells_whom_each_rule_starves() -> None:
    history = kept_history(
        [
            seen(9, {"top": ["a"], "all": ["a", "b"]}, a=None, b="too_hard"),
            seen(7, {"top": [], "all": ["a", "c"]}, a="too_easy", b="too_hard", c=None),
            seen(4, {"top": ["a", "b"], "all": ["a", "b"]}, a=None, b=None),
        ]
    )
    assert (history.step, history.from_step, history.num_steps) == (9, 4, 3)
    a, b = history.groups
    assert (a.group_id, a.num_seen, a.all_fail_since, a.last_kept) == ("a", 3, None, {"top": 9, "all": 9})
    assert (b.group_id, b.num_seen, b.all_fail_since, b.last_kept) == ("b", 3, 7, {"top": 4, "all": 9})
    top, every = history.rules
    # Seven groups were seen over the steps, three of them distinct.
    assert top.kept_ratio == pytest.approx(3 / 7)
    assert top.coverage == pytest.approx(2 / 3)
    assert every.kept_ratio == pytest.approx(6 / 7)
    assert every.coverage == 1.0


def test_a_group_that_never_varied_was_never_kept() -> None:
    history = kept_history([seen(2, {"top": []}, a="too_hard"), seen(1, {"top": []}, a="too_hard")])
    assert history.groups[0].last_kept == {"top": None}
    assert history.groups[0].all_fail_since == 1
    assert (history.rules[0].kept_ratio, history.rules[0].coverage) == (0.0, 0.0)


def test_steps_without_groups_or_rules_have_an_empty_history() -> None:
    history = kept_history([KeptStep(3, [], []), seen(2, {"top": ["a"]}, a=None)])
    assert (history.groups, history.rules, history.num_steps) == ([], [], 2)


def result_keeping(*kept: str) -> Json:
    groups = [
        {"group_id": f"g{i}", "num_rollouts": 8, "mean": 0.5, "minimum": 0, "maximum": 1, "std": 0.5}
        for i in range(2)
    ]
    filters = [{"rule": "top_k", "kept_group_ids": list(kept), "num_groups": 2}]
    return result_body(groups=groups, filters=filters)


def test_the_api_reads_as_many_scored_steps_as_it_is_told(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step, kept in ((1, ["g0", "g1"]), (3, ["g0"]), (5, ["g0"])):
        quiet.score(run_id, step, result_keeping(*kept))
    path = f"/runs/{run_id}/steps/5/kept"
    history = quiet.get(path)
    assert [group["last_kept"] for group in history["groups"]] == [{"top_k": 5}, {"top_k": 1}]
    assert (history["from_step"], history["num_steps"]) == (1, 3)
    short = quiet.get(path, window=2)
    assert [group["last_kept"] for group in short["groups"]] == [{"top_k": 5}, {"top_k": None}]
    assert (short["from_step"], short["num_steps"]) == (3, 2)
    before = quiet.get(f"/runs/{run_id}/steps/3/kept")
    assert [group["last_kept"] for group in before["groups"]] == [{"top_k": 3}, {"top_k": 1}]
    for missing, code in (
        (f"/runs/{run_id}/steps/4/kept", "step_not_found"),
        ("/runs/no/steps/5/kept", "run_not_found"),
    ):
        answer = quiet.call("GET", missing)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)


def send(live: LiveServer, run_id: str, step: int, *, attempt: int = 1, **more: Any) -> None:
    """A batch of an attempt, logged two seconds per step after its start."""
    at = STARTED_AT + 1000 * attempt + 2 * step
    about = {"attempt_id": f"a{attempt}", "batch_id": f"a{attempt}-{step}", "logged_at": at}
    assert live.send_batch(run_id, step, **about, **more).status_code == 202


def open_attempt(live: LiveServer, run_id: str, number: int, from_step: int | None = None) -> None:
    attempt = {"attempt_id": f"a{number}", "started_at": STARTED_AT + number}
    if from_step is not None:
        attempt["from_step"] = from_step
    body = {"run_id": run_id, "project": "p", "name": "n", "resume": "allow", "attempt": attempt}
    assert live.ingest("POST", "/runs", json=body).status_code in (200, 201)


def test_the_clock_follows_the_runs_own_attempts_and_names_its_policies(quiet: LiveServer) -> None:
    open_attempt(quiet, "r1", 1)
    for step in range(6):
        send(quiet, "r1", step, policy_version="v0" if step < 3 else "v3")
    open_attempt(quiet, "r1", 2, from_step=4)
    for step in range(4, 7):
        send(quiet, "r1", step, attempt=2, policy_version="v3" if step < 6 else "v6")
    clock = quiet.get("/runs/r1/clock")
    assert clock["steps"] == list(range(7))
    first = [STARTED_AT + 1000 + 2 * step for step in range(4)]
    second = [STARTED_AT + 2000 + 2 * step for step in range(4, 7)]
    assert clock["times"] == pytest.approx([*first, *second])
    assert clock["checkpoints"] == [
        {"step": 0, "policy_version": "v0"},
        {"step": 3, "policy_version": "v3"},
        {"step": 6, "policy_version": "v6"},
    ]
    assert clock["reason"] is None


def test_versions_that_only_count_steps_mark_nothing(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in range(201):
        assert quiet.send_batch(run_id, step, policy_version=f"v{step}").status_code == 202
    clock = quiet.get(f"/runs/{run_id}/clock")
    assert clock["checkpoints"] == []
    assert clock["reason"] == "its policy versions only count steps"


def test_a_run_without_batches_has_the_times_of_its_scalars(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    empty = quiet.get(f"/runs/{run_id}/clock")
    assert (empty["steps"], empty["times"], empty["checkpoints"]) == ([], [], [])
    points = [
        {"step": step, "logged_at": STARTED_AT + 3 * step, "values": {"kl": 0.1}} for step in range(2500)
    ]
    sent = quiet.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
    assert sent.status_code == 200, sent.text
    clock = quiet.get(f"/runs/{run_id}/clock")
    # Every third step and the last one: no more than a screen can show.
    assert clock["steps"] == [*range(0, 2500, 3)] + ([] if 2499 % 3 == 0 else [2499])
    assert clock["times"] == pytest.approx([STARTED_AT + 3 * step for step in clock["steps"]])
    assert clock["reason"] == "no batch names its policy version"
