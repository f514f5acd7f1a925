"""Several runs on one axis, on either deployment: what is drawn, means over groups, where runs stand."""

import random
from collections.abc import Iterable
from statistics import mean
from typing import Any

import pytest

from collapsewatch_server.repositories import curves
from collapsewatch_server.repositories.stretches import Window
from tests.server.live import LiveServer, result_body

Json = dict[str, Any]
STARTED = 1_700_000_000.0


@pytest.fixture
def live(start_server: Any) -> LiveServer:
    """A server that does nothing of its own accord."""
    server: LiveServer = start_server(lease_seconds=3600, reconcile_seconds=60, watch_seconds=60)
    return server


def run_of(live: LiveServer, points: Iterable[tuple[int, Json]], **about: Any) -> str:
    """A run with these values of its trainer, ten seconds apart."""
    run_id = live.start_run(**about)
    sent = [
        {"step": step, "values": values, "logged_at": STARTED + 10 * number}
        for number, (step, values) in enumerate(points)
    ]
    for start in range(0, len(sent), 1000):
        response = live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": sent[start : start + 1000]})
        assert response.status_code == 200, response.text
    return run_id


def series(live: LiveServer, runs: list[str], metric: str = "kl", **more: Any) -> Json:
    answer: Json = live.get("/compare/series", run=runs, scope="trainer", metric=metric, **more)
    return answer


def test_short_series_are_told_point_by_point(live: LiveServer) -> None:
    one = run_of(live, [(step, {"kl": step / 10}) for step in (0, 3, 7)])
    other = run_of(live, [(2, {"kl": 5.0})])
    answer = series(live, [other, one])
    found = answer["series"]["kl"]
    assert [each["run_id"] for each in found] == [other, one]
    assert (found[1]["steps"], found[1]["values"]) == ([0, 3, 7], [0.0, 0.3, 0.7])
    assert found[1]["places"] is None
    assert found[1]["low"] is None
    assert answer["groups"] == {}


def test_a_long_series_keeps_its_ends_and_the_extremes_of_every_stretch(live: LiveServer) -> None:
    draw = random.Random(4)
    values = [draw.gauss(0, 1) for _ in range(2_000)]
    values[777], values[1311] = 50.0, -50.0
    run = run_of(live, [(step, {"kl": value}) for step, value in enumerate(values)])
    short = run_of(live, [(0, {"kl": 1.0}), (1_999, {"kl": 2.0})])
    long_one, short_one = series(live, [run, short], max_points=100)["series"]["kl"]
    assert len(long_one["steps"]) <= 102
    # By hand: 50 stretches of 40 steps, of each the lowest and the highest, and both ends.
    wanted = {0, 1_999}
    for start in range(0, 2_000, 40):
        stretch = range(start, start + 40)
        wanted |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
    assert long_one["steps"] == sorted(wanted)
    assert long_one["values"] == [values[step] for step in sorted(wanted)]
    assert short_one["steps"] == [0, 1_999]


def test_a_part_of_the_axis_is_told_in_full(live: LiveServer) -> None:
    run = run_of(live, [(step, {"kl": float(step % 7)}) for step in range(1_000)])
    (part,) = series(live, [run], max_points=100, from_place=300.4, to_place=349)["series"]["kl"]
    assert part["steps"] == list(range(300, 350))
    assert series(live, [run], from_place=5_000, to_place=6_000)["series"]["kl"] == []
    assert series(live, [run], from_place=20, to_place=10)["series"]["kl"] == []


def test_on_the_axis_of_time_steps_stand_where_they_were_logged(live: LiveServer) -> None:
    run = run_of(live, [(5, {"kl": 1.0, "num_tokens": 100.0}), (9, {"kl": 2.0, "num_tokens": 400.0})])
    silent = live.start_run()
    answer = series(live, [run, silent], axis="time")
    (found,) = answer["series"]["kl"]
    assert (found["steps"], found["places"]) == ([5, 9], [0.0, 10.0])
    answer = series(live, [run], axis="tokens")
    assert answer["series"]["kl"][0]["places"] == [100.0, 400.0]


def test_batches_tell_the_time_of_what_a_worker_measured(live: LiveServer) -> None:
    run = live.start_run()
    for step, seconds in ((0, 0.0), (1, 30.0), (2, 90.0)):
        live.score(run, step, result_body(0.5), logged_at=STARTED + seconds)
    answer = live.get("/compare/series", run=[run], metric="retrieval_skill", axis="time")
    (found,) = answer["series"]["retrieval_skill"]
    assert found["places"] == [0.0, 30.0, 90.0]
    assert found["low"] == [0.45, 0.45, 0.45]
    answer = live.get("/compare/series", run=[run], metric="retrieval_skill", intervals="false")
    (bare,) = answer["series"]["retrieval_skill"]
    assert (bare["values"], bare["low"], bare["high"]) == (found["values"], None, None)


def test_tokens_of_single_steps_are_added_up(live: LiveServer) -> None:
    run = run_of(live, [(step, {"kl": 0.5, "perf/total_num_tokens": 10.0 + step}) for step in range(4)])
    (found,) = series(live, [run], axis="tokens")["series"]["kl"]
    assert found["places"] == [10.0, 21.0, 33.0, 46.0]


def test_a_run_that_counts_no_tokens_says_what_to_log(live: LiveServer) -> None:
    counts = run_of(live, [(0, {"kl": 1.0, "num_tokens": 1.0})])
    does_not = run_of(live, [(0, {"kl": 1.0})])
    answer = series(live, [does_not, counts], axis="tokens")
    assert [each["run_id"] for each in answer["series"]["kl"]] == [counts]
    assert list(answer["unplaced"]) == [does_not]
    assert "num_tokens" in answer["unplaced"][does_not]
    heads = live.get("/compare", run=[does_not, counts])["runs"]
    assert [head["tokens_from"] for head in heads] == [None, "num_tokens"]


def test_a_group_is_its_mean_over_seeds_with_an_interval(live: LiveServer) -> None:
    values = {1: [0.0, 1.0, 2.0], 2: [2.0, 1.0, 6.0], 3: [4.0, 4.0, 4.0]}
    seeds = [
        run_of(live, [(s, {"kl": v}) for s, v in enumerate(kl)], config={"lr": 1, "seed": seed})
        for seed, kl in values.items()
    ]
    other = run_of(live, [(0, {"kl": 9.0})], config={"lr": 2, "seed": 1})
    first, second = series(live, [*seeds, other], group_by="*")["groups"]["kl"]
    assert first["places"] == [0.0, 1.0, 2.0]
    assert first["mean"] == [2.0, 2.0, 4.0]
    assert (first["lowest"], first["highest"]) == ([0.0, 1.0, 2.0], [4.0, 4.0, 6.0])
    # s = 2, n = 3: 4.302653 · 2 / √3
    assert first["high"][0] - 2.0 == pytest.approx(4.302653 * 2 / 3**0.5, rel=1e-6)
    assert (second["group"], second["mean"], second["high"], second["num_runs"]) == (1, [9.0], [None], [1])
    groups = live.get("/compare", run=[*seeds, other], group_by="*", scalar="kl")["groups"]
    assert [group["label"] for group in groups] == ["lr = 1", "lr = 2"]
    assert groups[0]["run_ids"] == seeds
    end = groups[0]["ends"]["trainer"]["kl"]
    assert (end["mean"], end["num_runs"]) == (4.0, 3)
    assert end["low"] == pytest.approx(4.0 - 4.302653 * 2 / 3**0.5, rel=1e-6)


def test_the_mean_of_long_runs_is_that_of_their_stretches(live: LiveServer) -> None:
    draw = random.Random(1)
    runs = [[draw.random() for _ in range(1_000)] for _ in range(2)]
    ids = [run_of(live, [(s, {"kl": v}) for s, v in enumerate(values)]) for values in runs]
    (group,) = series(live, ids, group_by="*", max_points=100)["groups"]["kl"]
    assert group["places"] == [20 * stretch + 9.5 for stretch in range(50)]
    for at, value in zip(range(0, 1_000, 20), group["mean"], strict=True):
        assert value == pytest.approx(mean([*runs[0][at : at + 20], *runs[1][at : at + 20]]))


def test_paths_lead_through_the_quadrant(live: LiveServer) -> None:
    run, other = (live.start_run(config={"seed": seed}) for seed in (1, 2))
    for step in range(3):
        live.score(run, step, result_body(0.6))
        live.score(other, step, result_body(0.2))
    answer = live.get("/compare/paths", run=[run, other], group_by="*")
    assert [path["dependence"] for path in answer["paths"]] == [[0.6] * 3, [0.2] * 3]
    assert answer["paths"][0]["diversity"] == [1.0, 1.0, 1.0]
    (group,) = answer["groups"]
    assert group["steps"] == [0, 1, 2]
    assert group["dependence"] == pytest.approx([0.4, 0.4, 0.4])
    assert group["diversity"] == pytest.approx([1.0, 1.0, 1.0])
    assert live.get("/compare/paths", run=[run], scope="turn/7") == {
        "scope": "turn/7",
        "paths": [],
        "groups": [],
    }


def test_heads_tell_where_runs_stand_and_which_are_missing(live: LiveServer) -> None:
    run = live.start_run(name="one", config={"filter": "none"})
    for step in range(12):
        live.score(run, step, result_body(0.6 - step / 100))
    answer = live.get("/compare", run=["gone", run, run], scope="first_turn")
    assert answer["missing"] == ["gone"]
    (head,) = answer["runs"]
    assert (head["name"], head["config"], head["scopes"]) == ("one", {"filter": "none"}, ["first_turn"])
    assert head["scorer"]["label"] == "reference: tiny"
    assert head["newest"]["dependence"] == 0.49
    end = head["ends"]["first_turn"]["retrieval_skill"]
    assert (end["step"], end["value"], end["low"], end["high"]) == (11, 0.49, 0.44, 0.54)
    assert end["recent_mean"] == pytest.approx(mean(0.6 - step / 100 for step in range(2, 12)))
    assert end["num_recent"] == 10
    assert head["ends"]["batch"]["reward"]["value"] == 0.5
    assert answer["groups"] == []


def test_what_a_later_attempt_replayed_is_not_compared(live: LiveServer) -> None:
    def body(attempt: str, started_at: float) -> Json:
        return {"attempt": {"attempt_id": attempt, "started_at": started_at}}

    run = live.start_run(**body("a1", STARTED))
    for step in range(4):
        live.score(run, step, result_body(0.9), batch_id=f"a1-{step}", attempt_id="a1")
    about = {"run_id": run, "project": "p", "name": "n", **body("a2", STARTED + 100), "resume": "must"}
    about["attempt"]["from_step"] = 2
    assert live.ingest("POST", "/runs", json=about).status_code == 200
    live.score(run, 2, result_body(0.1), batch_id="a2-2", attempt_id="a2")
    (found,) = live.get("/compare/series", run=[run], metric="retrieval_skill")["series"]["retrieval_skill"]
    assert (found["steps"], found["values"]) == ([0, 1, 2], [0.9, 0.9, 0.1])
    (path,) = live.get("/compare/paths", run=[run])["paths"]
    assert path["dependence"] == [0.9, 0.9, 0.1]
    end = live.get("/compare", run=[run])["runs"][0]["ends"]["first_turn"]["retrieval_skill"]
    assert (end["step"], end["value"], end["num_recent"]) == (2, 0.1, 3)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("", {}),
        ("", {"run": [f"r{i}" for i in range(21)]}),
        ("", {"run": ["a,b"]}),
        ("/series", {"run": ["a"]}),
        ("/series", {"run": ["a"], "metric": "kl", "axis": "moon"}),
        ("/series", {"run": ["a"], "metric": "kl", "from_place": "nan"}),
    ],
)
def test_a_wrong_question_is_refused(start_sqlite_server: Any, path: str, query: Json) -> None:
    live = start_sqlite_server()
    response = live.call("GET", f"/compare{path}", params=query)
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "invalid_request"


def test_only_what_is_drawn_leaves_the_database(live: LiveServer) -> None:
    ids = [run_of(live, [(s, {"kl": s % 13, "lr": 1.0}) for s in range(1_000)]) for _ in range(3)]
    with live.services.database.read_session() as session:
        windows = [Window(pk, 0, 999, 50) for pk in range(1, len(ids) + 1)]
        drawn = curves.drawn(session, windows, "trainer", ["kl"])
        # 20 stretches of two extremes each and the first and the last point, which may be one of these.
        assert len(drawn) <= 3 * 42
        assert curves.drawn(session, windows, "trainer", ["kl"], with_limits=False) == drawn
        assert curves.drawn(session, [], "trainer", ["kl"]) == []
        assert curves.drawn(session, windows, "trainer", []) == []
