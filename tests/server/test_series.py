"""Series of any length: windows, and what is kept in memory beside what is stored."""

from typing import Any

import numpy as np
import pytest

from collapsewatch_server.reading.series_cache import SeriesCache
from collapsewatch_server.repositories import columns, events, metrics, runs
from tests.server.live import LiveServer, result_body


def send(live: LiveServer, run_id: str, values: dict[int, float], **changes: Any) -> None:
    points = [{"step": step, "values": {"x": value, "y": -value}} for step, value in values.items()]
    answer = live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points, **changes})
    assert answer.status_code == 200, answer.text


def shown(live: LiveServer, run_id: str, scope: str = "trainer", **query: Any) -> dict[str, Any]:
    series: dict[str, Any] = live.get(f"/runs/{run_id}/series", scope=scope, **query)["series"]
    return series


def stored(live: LiveServer, run_id: str, scope: str = "trainer") -> dict[str, Any]:
    """The same read from the rows, whatever is kept in memory."""
    with live.services.database.read_session() as session:
        found = runs.find(session, run_id)
        assert found is not None
        run_pk = found[0].id
        names = metrics.names(session, run_pk).get(scope, [])
        read = {name: columns.read(session, run_pk, scope, name, 0) for name in names}
    return {name: (one.steps.tolist(), one.values.tolist()) for name, one in read.items()}


def points(series: dict[str, Any]) -> dict[str, Any]:
    return {name: (one["steps"], one["values"]) for name, one in series.items()}


def test_a_window_is_answered_in_full_with_its_neighbours(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    send(quiet, run_id, {step: float(step % 7) for step in range(0, 2000, 2)})
    whole = shown(quiet, run_id, metric="x", max_points=100)["x"]
    assert whole["num_points"] == 1000
    assert len(whole["steps"]) <= 100
    part = shown(quiet, run_id, metric="x", max_points=100, from_step=501, to_step=540)["x"]
    assert part["steps"] == list(range(500, 544, 2))
    assert part["num_points"] == len(part["steps"])
    assert part["values"] == [float(step % 7) for step in part["steps"]]


def test_what_is_kept_in_memory_follows_every_change(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for changes in (
        {step: float(step) for step in range(50)},
        {50: 1.0, 51: 2.0},  # the newest steps
        {10: -5.0},  # an earlier step is logged again
        {200: 3.0, 20: 4.0},  # both at once
    ):
        send(quiet, run_id, changes)
        assert points(shown(quiet, run_id)) == stored(quiet, run_id)
    for attempt_id, started_at, from_step in (("a2", 1.9e9, 30), ("a3", 2e9, 5)):
        start = {"attempt_id": attempt_id, "started_at": started_at, "from_step": from_step}
        body = {"run_id": run_id, "project": "p", "name": "n", "attempt": start}
        assert quiet.ingest("POST", "/runs", json=body).status_code == 200
        assert points(shown(quiet, run_id)) == stored(quiet, run_id)
        send(quiet, run_id, {from_step + 1: 9.0, from_step + 2: 8.0}, attempt_id=attempt_id)
        assert points(shown(quiet, run_id)) == stored(quiet, run_id)
    assert shown(quiet, run_id)["x"]["steps"] == [0, 1, 2, 3, 4, 6, 7]


def test_scores_that_come_late_reach_what_is_kept(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    for step in (1, 3, 4, 2):
        quiet.score(run_id, step, result_body(0.1 * step))
        for scope in ("first_turn", "batch"):
            assert points(shown(quiet, run_id, scope)) == stored(quiet, run_id, scope)
    assert shown(quiet, run_id, "first_turn")["retrieval_skill"]["steps"] == [1, 2, 3, 4]


def test_long_runs_are_read_before_anybody_asks_and_short_ones_are_not(quiet: LiveServer) -> None:
    long, short = quiet.start_run(), quiet.start_run(run_id="short")
    quiet.score(long, 20_000, result_body(0.3))
    quiet.score(short, 200, result_body(0.4))
    quiet.services.reading.warm()
    assert [reads_of(quiet, run_id) for run_id in (long, short)] == [0, 1]
    quiet.score(long, 20_001, result_body(0.5))
    quiet.services.reading.warm()
    assert reads_of(quiet, long) == 0
    assert points(shown(quiet, long, "first_turn")) == stored(quiet, long, "first_turn")


def test_what_is_read_ahead_drives_nothing_out_and_goes_first(quiet: LiveServer) -> None:
    asked, ahead, other = (quiet.start_run(run_id=name) for name in ("asked", "ahead", "other"))
    for run_id in (asked, ahead, other):
        send(quiet, run_id, {step: float(step) for step in range(100)})
    pk = key_of(quiet, asked), key_of(quiet, ahead), key_of(quiet, other)
    cache = SeriesCache(quiet.services.database, max_bytes=8_000)
    cache.read(pk[0], "trainer", ["x"])
    assert not cache.read_ahead(pk[1], "trainer", "x", 1000)
    assert cache.num_bytes == 100 * 16
    assert cache.read_ahead(pk[1], "trainer", "x", 60)
    # It grew meanwhile; now there is no room for another, but what is here is kept up to date.
    assert not cache.read_ahead(pk[1], "trainer", "y", 60)
    send(quiet, ahead, {100: 1.0})
    assert cache.read_ahead(pk[1], "trainer", "x", 1000)
    assert cache.num_bytes == 100 * 16 + 101 * 16
    small = SeriesCache(quiet.services.database, max_bytes=3_300)
    small.read(pk[0], "trainer", ["x"])
    small.read_ahead(pk[1], "trainer", "x", 1)
    small.read(pk[2], "trainer", ["x"])
    assert list(vars(small)["_runs"]) == [pk[0], pk[2]]


def test_a_server_that_ends_reads_nothing_ahead(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    quiet.score(run_id, 20_000, result_body(0.3))
    quiet.services.reading.close()
    quiet.services.reading.warm()
    assert reads_of(quiet, run_id) == 1


def key_of(live: LiveServer, run_id: str) -> int:
    with live.services.database.read_session() as session:
        found = runs.find(session, run_id)
        assert found is not None
        return found[0].id


def reads_of(live: LiveServer, run_id: str) -> int:
    """Series read from the rows for a question about one metric."""
    with live.statements("metric_points.value") as seen:
        shown(live, run_id, "first_turn", metric="retrieval_skill")
    return len(seen)


def test_what_forgotten_events_told_is_read_again(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    send(quiet, run_id, {1: 1.0, 2: 2.0})
    assert points(shown(quiet, run_id)) == stored(quiet, run_id)
    send(quiet, run_id, {1: 7.0})
    send(quiet, run_id, {3: 3.0})
    with quiet.services.database.write_session() as session:
        events.remove_up_to(session, events.kept_ids(session)[1] - 1)
    assert shown(quiet, run_id, metric="x")["x"]["values"] == [7.0, 2.0, 3.0]


def test_no_more_is_kept_than_there_is_room_for(quiet: LiveServer) -> None:
    run_ids = [quiet.start_run() for _ in range(3)]
    for run_id in run_ids:
        send(quiet, run_id, dict.fromkeys(range(1000), 1.0))
    with quiet.services.database.read_session() as session:
        run_pks = [found[0].id for run_id in run_ids if (found := runs.find(session, run_id))]
    one_run = 3 * 8 * 1000  # the steps, which both share, and two columns of values
    cache = SeriesCache(quiet.services.database, max_bytes=2 * one_run)
    for run_pk in run_pks:
        read = cache.read(run_pk, "trainer", ["x", "y"])
        assert read["x"].steps is read["y"].steps
    assert cache.num_bytes == 2 * one_run


def test_a_name_that_only_superseded_steps_have_is_none_of_the_run(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    send(quiet, run_id, dict.fromkeys(range(3), 1.0))
    old = {"points": [{"step": 8, "values": {"gone": 1.0}}]}
    assert quiet.ingest("POST", f"/runs/{run_id}/scalars", json=old).status_code == 200
    assert quiet.get(f"/runs/{run_id}")["metrics"]["trainer"] == ["gone", "x", "y"]
    start = {"attempt_id": "a2", "started_at": 1.9e9, "from_step": 2}
    body = {"run_id": run_id, "project": "p", "name": "n", "attempt": start}
    assert quiet.ingest("POST", "/runs", json=body).status_code == 200
    assert quiet.get(f"/runs/{run_id}")["metrics"]["trainer"] == ["x", "y"]
    assert list(shown(quiet, run_id, attempt="default")) == ["gone", "x", "y"]


@pytest.fixture
def scored(quiet: LiveServer) -> tuple[LiveServer, str, list[float]]:
    run_id = quiet.start_run()
    skills = [round(0.5 + 0.01 * (step % 5), 3) for step in range(24)]
    skills[7], skills[15] = 0.9, 0.2
    for step, skill in enumerate(skills):
        quiet.score(run_id, step, result_body(skill))
    return quiet, run_id, skills


def test_a_long_way_through_the_quadrant_keeps_its_turns(
    scored: tuple[LiveServer, str, list[float]],
) -> None:
    live, run_id, skills = scored
    whole = live.get(f"/runs/{run_id}/trajectory")
    assert [point["step"] for point in whole["points"]] == list(range(24))
    assert whole["num_points"] == 24
    cut = live.get(f"/runs/{run_id}/trajectory", max_points=10)
    steps = [point["step"] for point in cut["points"]]
    assert {0, 7, 15, 23} <= set(steps)
    assert len(steps) < 24
    assert steps == sorted(set(steps))
    assert cut["num_points"] == 24
    assert cut["points"] == [whole["points"][step] for step in steps]
    assert cut["thresholds"] == whole["thresholds"]
    part = live.get(f"/runs/{run_id}/trajectory", from_step=5, to_step=9)
    assert [point["dependence"] for point in part["points"]] == skills[5:10]


def test_limits_that_only_some_points_have_stay_with_them(quiet: LiveServer) -> None:
    run_id = quiet.start_run()
    quiet.score(run_id, 1, result_body(0.5))
    bare = result_body(0.5)
    bare["evaluations"][0]["metrics"]["retrieval_skill"] = {"value": 0.4}
    quiet.score(run_id, 2, bare)
    series = shown(quiet, run_id, "first_turn", metric="retrieval_skill")["retrieval_skill"]
    assert (series["low"], series["high"]) == ([0.45, None], [0.55, None])
    assert np.array_equal(series["steps"], [1, 2])
