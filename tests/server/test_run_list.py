"""The list of runs: what a line shows, and lines that are read from the ends of series alone."""

import random
from typing import Any

import pytest
from sqlalchemy import select

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.repositories import metrics, run_list
from collapsewatch_server.repositories.metrics import Place
from collapsewatch_server.tables import Run
from tests.server.live import Json, LiveServer, result_body

SKILL = "retrieval_skill"


def rows(live: LiveServer, **params: Any) -> list[Json]:
    found: list[Json] = live.get("/run-list", **params)["rows"]
    return found


def put_skill(live: LiveServer, run_id: str, values: dict[int, float], *, superseded: bool = False) -> int:
    """Stores the values as a fold would; the run's row id."""
    with live.services.database.write_session() as session:
        run_pk = session.execute(select(Run.id).where(Run.run_id == run_id)).scalar_one()
        attempt_pk = 2 if superseded else 1
        points = {
            Place(run_pk, FIRST_TURN_SCOPE, step, attempt_pk, superseded): {SKILL: MetricValue(value=value)}
            for step, value in values.items()
        }
        metrics.put(session, points)
    return run_pk


def test_a_line_says_where_the_run_stands(live: LiveServer) -> None:
    run_id = live.start_run(name="grpo", tags=["a"], config={"lr": 1e-6})
    live.score(run_id, 3, result_body(0.4))
    (row,) = rows(live)
    assert (row["run_id"], row["name"], row["project"], row["tags"]) == (run_id, "grpo", "p", ["a"])
    assert (row["state"], row["last_step"], row["archived"]) == ("running", 3, False)
    assert row["regime"]["step"] == 3
    assert row["regime"]["regime"] == "insufficient"
    assert row["regime"]["reason"]
    chance = 1 / 8
    expected = {SKILL: 0.4, "retrieval_chance": chance, "retrieval_accuracy": chance + (1 - chance) * 0.4}
    assert row["latest"] == pytest.approx({**expected, "reward": 0.5})
    assert row["group"] is None
    assert "config" not in row


def test_a_run_without_first_turns_is_judged_by_what_it_has(live: LiveServer) -> None:
    run_id = live.start_run()
    for step, skill in ((1, 0.6), (2, 0.5)):
        live.score(run_id, step, result_body(skill, scope="trajectory"))
    (row,) = rows(live)
    assert (row["regime"]["scope"], row["regime"]["step"]) == ("trajectory", 2)
    assert row["latest"][SKILL] == pytest.approx(0.5)
    live.score(run_id, 0, result_body(0.3))
    (row,) = rows(live)
    assert (row["regime"]["scope"], row["regime"]["step"]) == ("first_turn", 0)
    assert live.get(f"/runs/{run_id}")["regime"] == row["regime"]


def test_runs_are_grouped_by_any_plain_value_of_their_configs(live: LiveServer) -> None:
    configs: list[Json] = [
        {"lr": 1e-6, "optimiser": {"name": "adamw", "betas": [0.9, 0.95]}, "parts": [{"a": 1}]},
        {"lr": 2e-6, "optimiser": {"name": "muon"}, "use_filter": True, "none": None},
    ]
    first, second = (live.start_run(config=config) for config in configs)
    listed = live.get("/run-list", group_by="optimiser.name")
    assert {row["run_id"]: row["group"] for row in listed["rows"]} == {first: "adamw", second: "muon"}
    keys = ["lr", "none", "optimiser.betas", "optimiser.name", "use_filter"]
    assert listed["config_keys"] == keys
    by_flag = live.get("/run-list", group_by="use_filter", run=[first, second])
    assert {row["run_id"]: row["group"] for row in by_flag["rows"]} == {first: None, second: True}
    assert by_flag["config_keys"] == []
    assert [row["group"] for row in rows(live, group_by="optimiser.betas", run=first)] == ["0.9, 0.95"]


def test_only_what_was_asked_for_is_listed(live: LiveServer) -> None:
    ids = [live.start_run(project=project) for project in ("p", "q", "p")]
    listed = live.get("/run-list", project="p", limit=1)
    assert [row["run_id"] for row in listed["rows"]] == [ids[2]]
    assert (listed["num_active"], listed["num_archived"]) == (2, 0)
    assert [row["run_id"] for row in rows(live, run=[ids[0], "nobody"])] == [ids[0]]
    assert rows(live, project="p", run=ids[1]) == []
    assert rows(live, project="nothing") == []
    assert live.call("GET", "/run-list", params={"run": "%"}).status_code == 422


@pytest.mark.parametrize("num_points", [1, 2, 61, 700])
def test_a_sparkline_is_what_a_walk_along_the_series_finds(live: LiveServer, num_points: int) -> None:
    chooser = random.Random(num_points)
    steps = sorted(chooser.sample(range(5_000), num_points))
    values = {step: chooser.uniform(-0.1, 1) for step in steps}
    run_id, without = live.start_run(), live.start_run()
    run_pk = put_skill(live, run_id, values)
    replayed = {step: 9.0 for step in range(0, 6_000, 7) if step not in values}
    put_skill(live, run_id, replayed, superseded=True)
    max_points = 60
    walked = set()
    for k in range(max_points):
        target = steps[0] + (steps[-1] - steps[0]) * k // (max_points - 1)
        walked.add(max(step for step in steps if step <= target))
    with live.services.database.read_session() as session:
        found = run_list.sparklines(session, [run_pk], FIRST_TURN_SCOPE, SKILL, max_points)
    assert found == {run_pk: [(step, values[step]) for step in sorted(walked)]}
    answer = live.get("/run-list/sparklines", run=[run_id, without, "nobody"], max_points=20)["sparklines"]
    assert list(answer) == [run_id]
    line = answer[run_id]
    assert (line["steps"][0], line["steps"][-1]) == (steps[0], steps[-1])
    assert len(line["steps"]) == len(line["values"]) <= 20
    assert line["values"][-1] == pytest.approx(values[steps[-1]], abs=1e-4)
