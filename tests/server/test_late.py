"""What a dead process left behind brings data, and neither life nor alarm."""

from typing import Any

import pytest

from collapsewatch_server.alerts.watch import Limits
from collapsewatch_server.liveness.watch import plan
from collapsewatch_server.repositories import watch
from tests.server.live import Json, LiveServer
from tests.server.test_liveness import LATE, beat, end, start, state


def start_late(live: LiveServer, run_id: str, writer_id: str, attempt: str, at: float) -> None:
    body: Json = {
        "run_id": run_id,
        "project": "p",
        "name": "n",
        "writer_id": writer_id,
        "attempt": {"attempt_id": attempt, "started_at": at},
    }
    assert live.ingest("POST", "/runs", json=body, headers=LATE).status_code == 200


@pytest.fixture
def ended(live: LiveServer) -> LiveServer:
    """A server with a run that has finished."""
    start(live, "r1", "w1")
    end(live, "r1", "w1")
    assert state(live, "r1") == "finished"
    return live


def test_the_spool_of_a_writer_nobody_knew_leaves_a_finished_run_finished(ended: LiveServer) -> None:
    assert beat(ended, "r1", "w2", attempt_id="a1", is_alive=False) == "finished"
    start_late(ended, "r1", "w3", "a1", 100.0)
    assert state(ended, "r1") == "finished"
    # Nor does anybody wait for their ends.
    start(ended, "r1", "w4")
    assert state(ended, "r1") == "running"
    end(ended, "r1", "w4")
    assert state(ended, "r1") == "finished"


def test_a_late_attempt_makes_nothing_run_and_its_end_is_that_of_the_run(ended: LiveServer) -> None:
    start_late(ended, "r1", "w2", "a2", 200.0)
    assert state(ended, "r1") == "finished"
    end(ended, "r1", "w2", "running", headers=LATE)
    assert state(ended, "r1") == "finished"
    end(ended, "r1", "w2", "failed", headers=LATE)
    assert state(ended, "r1") == "failed"


def test_a_late_word_on_the_whole_run_does_not_begin_it_anew(ended: LiveServer) -> None:
    late = ended.ingest("PATCH", "/runs/r1", json={"state": "running"}, headers=LATE)
    assert (late.status_code, state(ended, "r1")) == (200, "finished")


def test_one_that_was_taken_for_dead_and_speaks_makes_the_run_run(ended: LiveServer) -> None:
    start_late(ended, "r1", "w2", "a1", 100.0)
    start(ended, "r1", "w2")
    assert state(ended, "r1") == "running"
    end(ended, "r1", "w2")
    assert state(ended, "r1") == "finished"


def test_with_the_end_of_a_writer_nothing_waits_any_more(live: LiveServer) -> None:
    start(live, "r1", "w1")
    waiting = {"spool_records": 3, "spool_bytes": 900, "spool_oldest_seconds": 200.0}
    beat(live, "r1", "w1", **waiting, dropped={"values_invalid": 2})
    end(live, "r1", "w1")
    found = live.get("/runs/r1")
    assert (found["spool_records"], found["spool_bytes"]) == (0, 0)
    assert found["dropped"] == {"values_invalid": 2}
    # A heartbeat that was overtaken on its way still counts what is lost, and nothing else.
    beat(live, "r1", "w1", **waiting, dropped={"values_invalid": 5})
    found = live.get("/runs/r1")
    assert (found["spool_records"], found["dropped"]) == (0, {"values_invalid": 5})


def test_a_run_whose_writer_left_nothing_behind_is_none_with_a_backlog(live: LiveServer) -> None:
    def with_backlog() -> list[str]:
        return [run["run_id"] for run in live.get("/service")["runs_with_backlog"]]

    start(live, "r1", "w1")
    beat(live, "r1", "w1", spool_records=3, spool_bytes=900, spool_oldest_seconds=2.0, dropped={})
    assert with_backlog() == ["r1"]
    end(live, "r1", "w1")
    assert with_backlog() == []
    # What is lost is told after the end as well.
    beat(live, "r1", "w1", dropped={"values_invalid": 5})
    assert with_backlog() == ["r1"]


def test_a_run_that_must_be_new_may_be_opened_by_its_writer_once_more(live: LiveServer) -> None:
    body: Json = {"run_id": "r2", "project": "p", "name": "n", "resume": "never", "writer_id": "w1"}
    codes: list[Any] = [live.ingest("POST", "/runs", json=body).status_code for _ in range(2)]
    other = live.ingest("POST", "/runs", json={**body, "writer_id": "w2"})
    assert [*codes, other.status_code] == [201, 200, 409]


def test_an_open_alert_says_what_is_the_case_and_not_what_was(live: LiveServer) -> None:
    start(live, "r1", "w1")
    beat(live, "r1", "w1", spool_records=1, spool_bytes=100, spool_oldest_seconds=500.0)
    database, limits = live.services.database, Limits()

    def planned(told_at: dict[int, float]) -> list[str]:
        with database.read_session() as session:
            seen = watch.snapshot(session, quiet_seconds=600.0)
            todo = plan(seen, watch.open_alerts(session), 0.0, limits, told_at)
        return [condition.message for _, condition in todo.to_refresh]

    with database.write_session() as session:
        (run,) = watch.snapshot(session, quiet_seconds=600.0).runs
        row = watch.open_alert(
            session,
            run_pk=run.run_pk,
            rule="spool_backlog",
            scope="spool",
            severity="warning",
            title="t",
            message="other words",
            evidence={},
        )
    # Its words are a second old, and then a minute.
    assert planned({}) == []
    (message,) = planned({row.id: row.opened_at - 60.0})
    assert message.startswith("1 records")
