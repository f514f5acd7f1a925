"""Runs that are started again: what is replayed is superseded, and every attempt stays readable."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.server.live import Json, LiveServer, result_body

STARTED_AT = 1_769_860_800.0


def attempt(number: int, from_step: int | None = None) -> Json:
    given = {"attempt_id": f"a{number}", "started_at": STARTED_AT + number}
    return given if from_step is None else {**given, "from_step": from_step}


def open_run(live: LiveServer, run_id: str, **changes: Any) -> Any:
    body = {"run_id": run_id, "project": "p", "name": "n", **changes}
    return live.ingest("POST", "/runs", json=body)


def begin(live: LiveServer, run_id: str, number: int, from_step: int | None = None) -> None:
    response = open_run(live, run_id, attempt=attempt(number, from_step))
    assert response.status_code in (200, 201), response.text


def log_scalars(live: LiveServer, run_id: str, number: int | None, values: dict[int, float]) -> None:
    points = [{"step": step, "values": {"x": value}} for step, value in values.items()]
    body: Json = {"points": points}
    if number is not None:
        body["attempt_id"] = f"a{number}"
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json=body)
    assert response.status_code == 200, response.text


def scalars(live: LiveServer, run_id: str, number: int | None = None) -> dict[int, float]:
    where = {} if number is None else {"attempt": f"a{number}"}
    series = live.get(f"/runs/{run_id}/series", scope="trainer", **where)["series"].get("x")
    return {} if series is None else dict(zip(series["steps"], series["values"], strict=True))


def score(live: LiveServer, run_id: str, number: int, step: int, skill: float) -> None:
    about = {"attempt_id": f"a{number}", "batch_id": f"a{number}-{step}", "policy_version": f"v{number}"}
    live.score(run_id, step, result_body(skill), **about)


@pytest.fixture
def quiet(start_server: Any) -> LiveServer:
    """A server on which no lease ends during a test."""
    server: LiveServer = start_server(lease_seconds=60)
    return server


@pytest.fixture
def small(start_sqlite_server: Any) -> LiveServer:
    """The same for what has nothing to do with the database."""
    server: LiveServer = start_sqlite_server(lease_seconds=60)
    return server


def test_a_run_that_must_be_there_is_not_opened(small: LiveServer) -> None:
    missing = open_run(small, "r1", resume="must", attempt=attempt(1))
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "run_not_found")
    assert small.get("/projects")["projects"] == []
    assert open_run(small, "r1", attempt=attempt(1)).status_code == 201
    assert open_run(small, "r1", resume="must", attempt=attempt(2)).status_code == 200


def test_a_run_that_must_be_new_is_opened_by_one_attempt_alone(small: LiveServer) -> None:
    assert open_run(small, "r1", resume="never", attempt=attempt(1)).status_code == 201
    # Its other ranks, and the same request again.
    assert open_run(small, "r1", resume="never", attempt=attempt(1)).status_code == 200
    for other in ({"attempt": attempt(2)}, {}):
        refused = open_run(small, "r1", resume="never", **other)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_conflict")
    assert [one["attempt_id"] for one in small.get("/runs/r1")["attempts"]] == ["a1"]


def test_a_resumed_run_supersedes_what_it_replays_and_keeps_it(quiet: LiveServer) -> None:
    run_id = uuid.uuid4().hex
    begin(quiet, run_id, 1)
    for step in range(1, 5):
        score(quiet, run_id, 1, step, 0.5 + step / 100)
        log_scalars(quiet, run_id, 1, {step: step})
    assert quiet.ingest("PATCH", f"/runs/{run_id}", json={"state": "failed"}).status_code == 200
    assert quiet.get(f"/runs/{run_id}")["last_step"] == 4

    begin(quiet, run_id, 2, from_step=3)
    resumed = quiet.get(f"/runs/{run_id}")
    assert (resumed["state"], resumed["last_step"], resumed["regime"]["step"]) == ("running", 2, 2)
    assert [(one["first_step"], one["last_step"], one["superseded_from"]) for one in resumed["attempts"]] == [
        (1, 4, 3),
        (3, None, None),
    ]
    score(quiet, run_id, 2, 3, 0.9)
    log_scalars(quiet, run_id, 2, {3: 30, 4: 40})
    assert scalars(quiet, run_id) == {1: 1, 2: 2, 3: 30, 4: 40}
    assert scalars(quiet, run_id, 1) == {1: 1, 2: 2, 3: 3, 4: 4}
    assert scalars(quiet, run_id, 2) == {3: 30, 4: 40}
    path = f"/runs/{run_id}"
    assert [point["step"] for point in quiet.get(f"{path}/trajectory")["points"]] == [1, 2, 3]
    assert [point["step"] for point in quiet.get(f"{path}/trajectory", attempt="a1")["points"]] == [
        1,
        2,
        3,
        4,
    ]
    skills = quiet.get(f"{path}/series", metric="retrieval_skill")["series"]["retrieval_skill"]["values"]
    assert skills == pytest.approx([0.51, 0.52, 0.9])
    run = quiet.get(path)
    assert (run["last_step"], run["regime"]["step"], run["latest"]["retrieval_skill"]) == (4, 3, 0.9)
    assert run["sparkline"]["values"] == pytest.approx([0.51, 0.52, 0.9])
    for where, expected in (({}, ("a2", "v2")), ({"attempt": "a1"}, ("a1", "v1"))):
        step = quiet.get(f"{path}/steps/3", **where)
        assert (step["attempt_id"], step["policy_version"]) == expected
    assert quiet.call("GET", f"{path}/steps/4").status_code == 404
    assert quiet.get(f"{path}/steps/4", attempt="a1")["attempt_id"] == "a1"
    for room in ("series", "trajectory", "steps/3"):
        unknown = quiet.call("GET", f"{path}/{room}", params={"attempt": "a9"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "attempt_not_found")


def test_leftovers_of_an_attempt_that_come_after_the_next_one_are_superseded(quiet: LiveServer) -> None:
    run_id = uuid.uuid4().hex
    begin(quiet, run_id, 2)
    log_scalars(quiet, run_id, 2, {5: 50, 6: 60})
    assert quiet.ingest("PATCH", f"/runs/{run_id}", json={"state": "finished"}).status_code == 200
    begin(quiet, run_id, 1)
    log_scalars(quiet, run_id, 1, {4: 4, 5: 5})
    score(quiet, run_id, 1, 7, 0.5)
    assert scalars(quiet, run_id) == {4: 4, 5: 50, 6: 60}
    run = quiet.get(f"/runs/{run_id}")
    assert (run["state"], run["last_step"], run["regime"]) == ("finished", 6, None)
    assert [one["attempt_id"] for one in run["attempts"]] == ["a1", "a2"]
    # The first step of an attempt that declared none is the smallest that has arrived so far.
    log_scalars(quiet, run_id, 2, {4: 40})
    assert scalars(quiet, run_id) == {4: 40, 5: 50, 6: 60}
    assert quiet.get(f"/runs/{run_id}")["attempts"][0]["superseded_from"] == 4


def test_an_alert_of_steps_that_were_replayed_is_history(quiet: LiveServer) -> None:
    run_id = uuid.uuid4().hex
    begin(quiet, run_id, 1)
    for step in range(1, 23):
        score(quiet, run_id, 1, step, 0.6 if step < 16 else 0.01)
    assert quiet.get(f"/runs/{run_id}")["open_alerts"]["critical"] == 1
    _, newest = quiet.services.reading.kept_event_ids()
    begin(quiet, run_id, 2, from_step=15)
    run = quiet.get(f"/runs/{run_id}")
    assert run["open_alerts"] == {"critical": 0, "warning": 0, "info": 0}
    assert run["regime"]["regime"] == "diverse_reasoning"
    alerts = quiet.get(f"/runs/{run_id}/alerts")["alerts"]
    assert {(alert["superseded"], alert["attempt_id"]) for alert in alerts} == {(True, "a1")}
    told = quiet.services.reading.events_after(newest, run_id, 100)
    assert {event.data["status"] for event in told if event.kind == "alert"} == {"superseded"}
    reloaded = {(event.data["scope"], event.data["step"]) for event in told if event.kind == "metrics"}
    assert reloaded == {("first_turn", 15), ("batch", 15), ("trainer", 15)}


def test_what_names_no_attempt_belongs_to_the_first_one(small: LiveServer) -> None:
    run_id = small.start_run()
    log_scalars(small, run_id, None, {1: 1, 2: 2})
    begin(small, run_id, 1, from_step=2)
    (default, named) = sorted(small.get(f"/runs/{run_id}")["attempts"], key=lambda one: one["from_step"] or 0)
    assert (default["attempt_id"], default["last_step"], named["first_step"]) == ("default", 2, 2)
    unknown = small.send_batch(run_id, 1, attempt_id="a9")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "attempt_not_found")
    body = {"attempt_id": "a9", "points": [{"step": 1, "values": {"x": 1}}]}
    assert small.ingest("POST", f"/runs/{run_id}/scalars", json=body).status_code == 404


def test_ranks_that_open_a_run_at_once_share_its_attempt(quiet: LiveServer) -> None:
    run_id = uuid.uuid4().hex
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda rank: (
                    open_run(
                        quiet, run_id, resume="never", attempt=attempt(1), writer_id=f"rank-{rank}"
                    ).status_code
                ),
                range(8),
            )
        )
    assert sorted(answers) == [200] * 7 + [201]
    (only,) = quiet.get(f"/runs/{run_id}")["attempts"]
    assert (only["attempt_id"], only["first_step"]) == ("a1", None)


def test_a_run_of_a_hundred_attempts_is_its_newest_values(small: LiveServer) -> None:
    run_id = "r1"
    for number in range(100):
        begin(small, run_id, number, from_step=number)
        log_scalars(small, run_id, number, dict.fromkeys(range(number, number + 3), number))
    assert scalars(small, run_id) == {**{step: step for step in range(100)}, 100: 99, 101: 99}
    assert scalars(small, run_id, 50) == {50: 50, 51: 50, 52: 50}
    attempts = small.get(f"/runs/{run_id}")["attempts"]
    assert [one["superseded_from"] for one in attempts] == [*range(1, 100), None]


def test_of_values_of_one_step_the_one_logged_last_counts(quiet: LiveServer) -> None:
    run_id = quiet.start_run()

    def send(*points: tuple[float, float | None]) -> None:
        body = [{"step": 1, "values": {"x": value}, "logged_at": logged_at} for value, logged_at in points]
        assert quiet.ingest("POST", f"/runs/{run_id}/scalars", json={"points": body}).status_code == 200

    send((1, 20.0), (2, 30.0), (3, 10.0))
    assert scalars(quiet, run_id) == {1: 2}
    send((4, 29.0))
    assert scalars(quiet, run_id) == {1: 2}
    send((5, None), (6, None))
    assert scalars(quiet, run_id) == {1: 6}


def test_a_state_that_the_server_sees_is_not_for_clients_to_say(small: LiveServer) -> None:
    run_id = small.start_run()
    refused = small.ingest("PATCH", f"/runs/{run_id}", json={"state": "crashed"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "invalid_body")


def test_what_is_late_is_no_sign_of_life(small: LiveServer) -> None:
    run_id = small.start_run()
    begin(small, run_id, 1)

    def last_seen_at() -> float | None:
        with small.services.database.read_session():
            return small.services.reading.find_run(run_id).last_seen_at

    seen = last_seen_at()
    late = {"X-Collapsewatch-Late": "1"}
    body = {"run_id": run_id, "project": "p", "name": "n", "attempt": attempt(1)}
    points = {"attempt_id": "a1", "points": [{"step": 1, "values": {"x": 1}}]}
    assert small.ingest("POST", "/runs", json=body, headers=late).status_code == 200
    assert small.ingest("POST", f"/runs/{run_id}/scalars", json=points, headers=late).status_code == 200
    assert last_seen_at() == seen
    assert small.ingest("POST", f"/runs/{run_id}/scalars", json=points).status_code == 200
    assert last_seen_at() != seen
