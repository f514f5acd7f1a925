"""When something counts as wrong, by the values of one moment."""

from dataclasses import replace
from typing import Any

import pytest

from collapsewatch_server.alerts.watch import (
    SEVERITIES,
    ChannelFacts,
    Condition,
    Dropped,
    Limits,
    QueueFacts,
    RunFacts,
    Snapshot,
    WorkerFacts,
    channel_scope,
    conditions,
    next_state,
)
from collapsewatch_server.liveness.earshot import Earshot

NOW = 1_000_000.0
LONG_AGO = 0.0
LIMITS = Limits()


def run(**changes: Any) -> RunFacts:
    values = {"run_pk": 1, "run_id": "r", "project": "p", "state": "running", "seen_at": NOW, "data_at": NOW}
    return RunFacts(**{**values, **changes})


def worker(**changes: Any) -> WorkerFacts:
    values = {"name": "w1", "host": "h", "device": "cuda:0", "started_at": NOW - 9000, "seen_at": NOW}
    return WorkerFacts(**{**values, **changes})


def found(heard_since: float = LONG_AGO, **parts: Any) -> dict[str, Condition]:
    return {one.rule: one for one in conditions(Snapshot(NOW, **parts), heard_since, LIMITS)}


@pytest.mark.parametrize(
    ("silent_seconds", "state"), [(0, "running"), (60, "running"), (61, "stalled"), (601, "crashed")]
)
def test_a_silent_run_stalls_and_then_crashes(silent_seconds: float, state: str) -> None:
    assert next_state(run(seen_at=NOW - silent_seconds), NOW, LONG_AGO, LIMITS) == state


@pytest.mark.parametrize("state", ["finished", "failed", "crashed"])
def test_a_run_that_has_ended_is_left_alone(state: str) -> None:
    assert next_state(run(state=state, seen_at=LONG_AGO), NOW, LONG_AGO, LIMITS) == state
    assert "run_stalled" not in found(runs=[run(state=state, seen_at=LONG_AGO)])


@pytest.mark.parametrize(("deaf_until", "state"), [(30, "running"), (61, "stalled"), (601, "crashed")])
def test_silence_counts_from_when_the_server_could_hear(deaf_until: float, state: str) -> None:
    assert next_state(run(seen_at=LONG_AGO), NOW, NOW - deaf_until, LIMITS) == state


def test_a_stalled_run_does_not_revive_because_the_server_restarts() -> None:
    assert next_state(run(state="stalled", seen_at=LONG_AGO), NOW, NOW, LIMITS) == "stalled"


def test_a_silent_run_raises_the_alert_of_its_state_alone() -> None:
    assert list(found(runs=[run(state="stalled", seen_at=NOW - 61)])) == ["run_stalled"]
    crashed = found(runs=[run(state="crashed", seen_at=NOW - 3700, last_step=12)])
    assert list(crashed) == ["run_crashed"]
    assert crashed["run_crashed"].severity == "critical"
    assert "62 min; its last step is 12" in crashed["run_crashed"].message


def test_a_trainer_that_hangs_has_no_new_steps() -> None:
    assert "no_new_steps" not in found(runs=[run(data_at=NOW - 599)])
    assert found(runs=[run(data_at=NOW - 601)])["no_new_steps"].may_open
    # Its steps take two minutes each: ten of them are twenty minutes.
    assert "no_new_steps" not in found(runs=[run(data_at=NOW - 1199, interval_seconds=120.0)])
    assert (
        "every 2 min" in found(runs=[run(data_at=NOW - 1201, interval_seconds=120.0)])["no_new_steps"].message
    )
    assert "no_new_steps" not in found(runs=[run(state="finished", data_at=LONG_AGO)])
    assert not found(NOW - 30, runs=[run(data_at=NOW - 601)])["no_new_steps"].may_open


def test_what_waits_on_a_trainers_disk_for_too_long_is_told() -> None:
    assert not found(runs=[run(spool_records=5, spool_oldest_seconds=119.0)])
    assert (
        "5 records" in found(runs=[run(spool_records=5, spool_oldest_seconds=121.0)])["spool_backlog"].message
    )
    # Also of a run that has ended: nobody ships it any more.
    assert "spool_backlog" in found(runs=[run(state="finished", spool_records=5, spool_oldest_seconds=121.0)])


def test_dropped_data_is_told_at_each_loss_and_the_alert_goes_by_itself() -> None:
    lost = run(dropped={"batches_spool_full": 3, "values_invalid": 1})
    first = found(runs=[lost])["data_dropped"]
    assert (first.evidence["num_dropped"], first.evidence["dropped_at"]) == (4, NOW)
    assert "3 batches (no room in the spool), 1 values (invalid)" in first.message
    diverged = found(runs=[run(dropped={"values_not_finite": 7})])["data_dropped"]
    assert "7 values (NaN or infinite)" in diverged.message
    recently = replace(lost, known_drop=Dropped(4, NOW - 599))
    assert found(runs=[recently])["data_dropped"].evidence["dropped_at"] == NOW - 599
    assert not found(runs=[replace(lost, known_drop=Dropped(4, NOW - 601))])
    again = found(runs=[replace(lost, known_drop=Dropped(3, NOW - 601))])["data_dropped"]
    assert again.evidence["dropped_at"] == NOW


def test_batches_that_failed_or_are_put_off_are_told() -> None:
    alerts = found(runs=[run(state="finished", num_dead=1, num_deferred=7)])
    assert {rule: one.severity for rule, one in alerts.items()} == {
        "batches_dead": "warning",
        "batches_deferred": "info",
    }
    assert found(runs=[run(state="finished", num_thinned=3)])["batches_thinned"].severity == "warning"


def test_jobs_without_any_worker_are_critical() -> None:
    waiting = QueueFacts(num_waiting=2, oldest_seconds=16.0)
    assert found(queue=waiting)["no_worker"].severity == "critical"
    assert not found(queue=waiting, workers=[worker()])
    assert "no_worker" in found(queue=waiting, workers=[worker(is_stopping=True)])
    assert "no_worker" in found(queue=waiting, workers=[worker(seen_at=NOW - 16)])
    # Somebody keeps up a lease: a worker that sends no heartbeat works all the same.
    assert not found(queue=replace(waiting, num_held=1))
    assert not found(queue=QueueFacts(num_waiting=2, oldest_seconds=14.0))
    assert "no_worker" in found(queue=QueueFacts(num_waiting=2, oldest_deferred_seconds=16.0))
    assert not found(queue=QueueFacts())


def test_a_queue_that_does_not_move_is_told_and_deferred_batches_are_no_lag() -> None:
    assert "queue_lag" in found(queue=QueueFacts(2, oldest_seconds=121.0), workers=[worker()])
    assert not found(queue=QueueFacts(2, oldest_deferred_seconds=9999.0), workers=[worker()])


def test_a_worker_that_vanished_is_missed_until_another_takes_its_place() -> None:
    gone = worker(seen_at=NOW - 16)
    assert found(workers=[gone])["worker_gone"].scope == "w1"
    assert not found(workers=[replace(gone, is_stopping=True)])
    successor = worker(name="w2", started_at=NOW - 5)
    assert not found(workers=[gone, successor])
    assert "worker_gone" in found(workers=[gone, replace(successor, device="cuda:1")])
    assert not found(NOW - 10, workers=[gone])["worker_gone"].may_open


def test_every_rule_has_a_severity() -> None:
    assert set(SEVERITIES.values()) == {"info", "warning", "critical"}
    assert len(SEVERITIES) == 12


def test_a_server_knows_since_when_it_could_hear() -> None:
    earshot = Earshot(longest_gap_seconds=15.0)
    assert [earshot.since(now) for now in (100.0, 105.0, 120.0)] == [100.0, 100.0, 100.0]
    # The machine slept, or the database was away for a while.
    assert [earshot.since(now) for now in (500.0, 505.0)] == [500.0, 500.0]
    earshot.lost()
    assert [earshot.since(now) for now in (510.0, 515.0)] == [510.0, 510.0]


def test_a_channel_that_gave_up_a_message_is_told_with_the_reason() -> None:
    condition = found(channels=[ChannelFacts(3, "on call", NOW - 5, "HTTP 403: revoked")])["channel_failing"]
    assert (condition.scope, condition.run_pk, condition.severity) == (channel_scope(3), None, "warning")
    assert "on call was given up (HTTP 403: revoked)" in condition.message
    assert condition.evidence["channel_id"] == 3
    assert "channel_failing" not in found()
