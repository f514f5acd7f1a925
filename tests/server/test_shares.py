"""Links: what they show, what they hide, how they end, and what a snapshot keeps."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard
from sqlalchemy import update

from collapsewatch_server.share_tables import Share
from collapsewatch_server.sharing.freezing import MAX_POINTS, MAX_STEPS, kept_steps
from collapsewatch_server.tables import Base
from tests.server.live import Json, LiveServer, result_body

STEPS = 3
CHART = {"chart": "retrieval", "series": {"first_turn": ["retrieval_accuracy"]}}


@pytest.fixture
def server(quiet: LiveServer) -> LiveServer:
    return quiet


def scored_run(server: LiveServer, **start: Any) -> str:
    run_id = server.start_run(scorer={"kind": "lexical"}, config={"secret": "s3"}, **start)
    for step in range(STEPS):
        server.score(run_id, step, result_body(skill=0.6))
    return run_id


def share(server: LiveServer, run_ids: list[str], **draft: Any) -> Json:
    kind = "run" if len(run_ids) == 1 else "comparison"
    body = {"title": "Look", "kind": kind, "run_ids": run_ids, **draft}
    response = server.call("POST", "/shares", json=body)
    assert response.status_code == 201, response.text
    return dict(response.json())


def shared(server: LiveServer, receipt: Json, path: str = "", **params: Any) -> Any:
    return server.call("GET", f"/shared/{receipt['token']}{path}", params=params)


def refused(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def test_a_link_to_a_run_answers_as_the_page_does_and_nothing_of_other_runs(server: LiveServer) -> None:
    mine, other = scored_run(server), scored_run(server)
    receipt = share(server, [mine], view=f"#/runs/{mine}?scope=first_turn")
    page = shared(server, receipt).json()
    assert page["view"] == f"#/runs/{mine}?scope=first_turn"
    assert [run["run_id"] for run in page["runs"]] == [mine]
    for path in (f"/runs/{mine}/series", f"/runs/{mine}/trajectory", f"/runs/{mine}/alerts"):
        assert shared(server, receipt, path).json() == server.get(path)
    step = f"/runs/{mine}/steps/{STEPS - 1}"
    assert shared(server, receipt, step).json() == server.get(step)
    assert shared(server, receipt, f"/runs/{mine}").json()["config"] == {"secret": "s3"}
    assert [run["run_id"] for run in shared(server, receipt, "/runs").json()["runs"]] == [mine]
    for path in ("", "/series", "/trajectory", "/alerts", "/steps/0"):
        assert refused(shared(server, receipt, f"/runs/{other}{path}")) == (404, "not_shared")
    # What no link shows is not there at all.
    for path in ("/shares", "/projects", "/service", "/channels", "/alerts", f"/runs/{mine}/jobs"):
        assert shared(server, receipt, path).status_code == 404


def test_a_link_changes_nothing(server: LiveServer) -> None:
    run_id = scored_run(server)
    receipt = share(server, [run_id])
    paths = ["", "/runs", f"/runs/{run_id}", f"/runs/{run_id}/series", f"/runs/{run_id}/alerts"]
    for path in paths:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            response = server.call(method, f"/shared/{receipt['token']}{path}", json={})
            assert response.status_code == 405, (method, path)


def test_a_link_to_a_comparison_shows_its_runs_in_their_order(server: LiveServer) -> None:
    first, second, other = (scored_run(server) for _ in range(3))
    receipt = share(server, [second, first])
    assert [run["run_id"] for run in shared(server, receipt, "/runs").json()["runs"]] == [second, first]
    assert shared(server, receipt, f"/runs/{first}/series").is_success
    assert refused(shared(server, receipt, f"/runs/{other}/series")) == (404, "not_shared")


def test_a_link_to_a_chart_shows_its_values_and_nothing_beside_them(server: LiveServer) -> None:
    run_id = scored_run(server)
    about = {"notes": "not for everybody", "tags": ["nor", "these"]}
    assert server.call("PATCH", f"/runs/{run_id}/about", json=about).is_success
    receipt = share(server, [run_id], kind="chart", limits=CHART)
    series = shared(server, receipt, f"/runs/{run_id}/series", metric="retrieval_accuracy").json()
    assert list(series["series"]) == ["retrieval_accuracy"]
    hidden: list[Json] = [
        {},
        {"metric": "retrieval_skill"},
        {"metric": ["retrieval_accuracy", "retrieval_skill"]},
        {"metric": "reward", "scope": "batch"},
        {"metric": "retrieval_accuracy", "scope": "trajectory"},
    ]
    for params in hidden:
        assert refused(shared(server, receipt, f"/runs/{run_id}/series", **params)) == (404, "not_shared")
    for path in ("/trajectory", "/alerts", "/steps/0"):
        assert refused(shared(server, receipt, f"/runs/{run_id}{path}")) == (404, "not_shared")
    run = shared(server, receipt, f"/runs/{run_id}").json()
    assert run["metrics"] == {"first_turn": ["retrieval_accuracy"]}
    told = {name for name, value in run.items() if value not in (None, "", 0, False, {}, [])}
    assert told - {"open_alerts", "sparkline", "jobs", "buckets"} == {
        *("run_id", "name", "state", "created_at", "updated_at", "last_seen_at", "last_step", "attempts"),
        *("scopes", "metrics"),
    }
    assert not any([*run["open_alerts"].values(), *run["sparkline"].values(), *run["jobs"].values()])
    assert not any(run["buckets"].values())
    quadrant = {"chart": "quadrant", "trajectories": ["first_turn"]}
    receipt = share(server, [run_id], kind="chart", limits=quadrant)
    assert shared(server, receipt, f"/runs/{run_id}/trajectory").json() == server.get(
        f"/runs/{run_id}/trajectory"
    )
    assert shared(server, receipt, f"/runs/{run_id}").json()["regime"] is not None


@pytest.mark.parametrize("mode", ["live", "snapshot"])
def test_a_link_to_a_chart_of_a_comparison_shows_its_values_and_nothing_beside_them(
    server: LiveServer, mode: str
) -> None:
    first, second, other = (scored_run(server) for _ in range(3))
    runs = {"run": [first, second]}
    receipt = share(server, runs["run"], kind="chart", limits=CHART, mode=mode)
    asked = {**runs, "metric": "retrieval_accuracy"}
    answer = shared(server, receipt, "/compare/series", **asked).json()
    assert answer == server.get("/compare/series", **asked)
    assert len(answer["series"]["retrieval_accuracy"]) == 2
    hidden: list[Json] = [
        {**runs, "metric": "retrieval_skill"},
        {**runs, "metric": ["retrieval_accuracy", "retrieval_skill"]},
        {**asked, "scope": "batch"},
        {**asked, "group_by": "secret"},
        {**asked, "axis": "tokens"},
        {**asked, "run": [first, other]},
    ]
    for params in hidden:
        assert refused(shared(server, receipt, "/compare/series", **params)) == (404, "not_shared")
    for path in ("/compare/paths", "/export/series.csv", "/export/report.html"):
        assert not shared(server, receipt, path, **runs).is_success
    assert refused(shared(server, receipt, "/compare", **runs, group_by="*")) == (404, "not_shared")
    compared = shared(server, receipt, "/compare", **runs).json()
    for run in compared["runs"]:
        assert run["metrics"] == {"first_turn": ["retrieval_accuracy"]}
        assert {scope: list(ends) for scope, ends in run["ends"].items() if ends} == {
            "first_turn": ["retrieval_accuracy"]
        }
        beside = ("config", "tags", "project", "regime", "thresholds", "newest", "scorer", "tokens_from")
        assert not any(run[name] for name in beside)
    assert "s3" not in json.dumps(compared)


def test_a_link_to_the_quadrant_of_a_comparison_groups_as_it_was_shared(server: LiveServer) -> None:
    runs = {"run": [scored_run(server), scored_run(server)]}
    limits = {"chart": "compare-quadrant", "trajectories": ["first_turn"], "group_by": ["secret"]}
    receipt = share(server, runs["run"], kind="chart", limits=limits)
    for path in ("/compare/paths", "/compare"):
        (group,) = shared(server, receipt, path, **runs, group_by="secret").json()["groups"]
    assert not any(group["ends"].values())
    paths = shared(server, receipt, "/compare/paths", **runs).json()
    assert paths == server.get("/compare/paths", **runs)
    compared = shared(server, receipt, "/compare", **runs).json()
    assert [run["regime"] is not None for run in compared["runs"]] == [True, True]
    assert [run["newest"] is not None for run in compared["runs"]] == [True, True]
    elsewhere = share(server, runs["run"], kind="chart", limits=limits | {"trajectories": ["turn/0"]})
    for run in shared(server, elsewhere, "/compare", **runs).json()["runs"]:
        assert not any(run[name] for name in ("regime", "newest", "thresholds", "metrics", "scopes"))
    assert compared["runs"][0]["ends"].get("first_turn", {}) == {}
    series = shared(server, receipt, "/compare/series", **runs, metric="retrieval_accuracy")
    assert refused(series) == (404, "not_shared")


def test_a_live_link_follows_the_run_and_a_snapshot_does_not(server: LiveServer) -> None:
    run_id = scored_run(server)
    live, frozen = share(server, [run_id]), share(server, [run_id], mode="snapshot")
    paths = (f"/runs/{run_id}/series", f"/runs/{run_id}/trajectory", f"/runs/{run_id}/steps/1")
    before = [server.get(path) for path in paths]
    detail = shared(server, frozen, f"/runs/{run_id}").json()
    server.score(run_id, STEPS, result_body(skill=0.1))
    # A replayed step changes what was there as well.
    server.score(run_id, 1, result_body(skill=0.2), batch_id="again", logged_at=4e9)
    assert server.get(paths[2]) != before[2]
    assert [shared(server, frozen, path).json() for path in paths] == before
    assert shared(server, frozen, f"/runs/{run_id}").json() == detail
    assert [shared(server, live, path).json() for path in paths] == [server.get(path) for path in paths]
    assert shared(server, frozen).json()["frozen_at"] is not None
    assert refused(shared(server, frozen, "/stream")) == (404, "not_shared")


def test_what_the_model_wrote_is_read_only_by_links_that_say_so(server: LiveServer) -> None:
    run_id = scored_run(server)
    paths = ["/rollouts", "/rollouts/0/0", "/template", "/rollout-search"]
    without, with_rollouts = share(server, [run_id]), share(server, [run_id], with_rollouts=True)
    for path in paths:
        answer = shared(server, without, f"/runs/{run_id}{path}", q="reason")
        assert refused(answer) == (404, "not_shared"), path
        assert shared(server, with_rollouts, f"/runs/{run_id}{path}", q="reason").is_success, path


def test_the_stream_of_a_link_tells_of_its_runs_alone_and_ends_with_it(server: LiveServer) -> None:
    mine, other = server.start_run(), server.start_run()
    receipt = share(server, [mine])
    heard: list[tuple[str, Json]] = []
    with server.http.stream("GET", f"/api/v1/shared/{receipt['token']}/stream") as stream:
        kind = ""
        for line in stream.iter_lines():
            name, _, value = line.partition(":")
            kind = value.strip() if name == "event" else kind
            if name == "data":
                heard.append((kind, json.loads(value)))
                if kind == "hello":
                    for run_id in (other, mine):
                        server.score(run_id, 0, result_body())
                elif kind == "metrics":
                    server.call("DELETE", f"/shares/{receipt['share']['share_id']}")
    assert heard[0][0] == "hello"
    assert {kind for kind, _ in heard[1:]} >= {"batch", "metrics"}
    assert {told["run_id"] for _, told in heard[1:]} == {mine}
    assert all(set(told) <= {"run_id", "step", "scope"} for _, told in heard[1:])


def test_a_snapshot_answers_as_the_run_did(server: LiveServer) -> None:
    run_id = scored_run(server)
    assert server.ingest(
        "POST", f"/runs/{run_id}/scalars", json={"points": [{"step": 1, "values": {"kl": 0.5}}]}
    ).is_success
    receipt = share(server, [run_id], mode="snapshot")
    live = share(server, [run_id])
    for scope in ("first_turn", "batch", "trainer"):
        path, params = f"/runs/{run_id}/series", {"scope": scope}
        assert shared(server, receipt, path, **params).json() == server.get(path, **params)
    now = shared(server, live, f"/runs/{run_id}").json()
    assert shared(server, receipt, f"/runs/{run_id}").json() == now


def test_a_snapshot_holds_its_runs_and_nothing_else(server: LiveServer, tmp_path: Path) -> None:
    mine, other = scored_run(server), scored_run(server)
    share(server, [mine], mode="snapshot")
    blobs = server.services.settings.home / "blobs" / "snapshots"
    (packed,) = blobs.iterdir()
    path = tmp_path / "look.db"
    path.write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed.read_bytes()))
    with sqlite3.connect(path) as database:
        for table in Base.metadata.sorted_tables:
            rows = database.execute(f"SELECT * FROM {table.name}").fetchall()  # noqa: S608
            assert not any(other in map(str, row) for row in rows), table.name
        assert [row[0] for row in database.execute("SELECT run_id FROM runs")] == [mine]
        for empty in ("api_keys", "shares", "channels", "jobs", "writers", "events"):
            assert database.execute(f"SELECT count(*) FROM {empty}").fetchone() == (0,)  # noqa: S608
    database.close()


def test_a_link_that_was_withdrawn_opens_nothing_and_its_snapshot_is_gone(server: LiveServer) -> None:
    run_id = scored_run(server)
    receipt = share(server, [run_id], mode="snapshot")
    assert shared(server, receipt, f"/runs/{run_id}/series").is_success
    folder = server.services.settings.home / "blobs" / "snapshots"
    assert len(list(folder.iterdir())) == 1
    answer = server.call("DELETE", f"/shares/{receipt['share']['share_id']}")
    assert answer.json()["status"] == "revoked"
    for path in ("", "/runs", f"/runs/{run_id}", f"/runs/{run_id}/series", "/metrics-info"):
        assert refused(shared(server, receipt, path)) == (410, "share_ended")
    assert list(folder.iterdir()) == []
    assert server.call("DELETE", f"/shares/{receipt['share']['share_id']}").is_success
    (listed,) = server.get("/shares")["shares"]
    assert (listed["status"], listed["mode"]) == ("revoked", "snapshot")


def test_a_link_expires_by_the_databases_clock(server: LiveServer) -> None:
    run_id = scored_run(server)
    receipt = share(server, [run_id], expires_in_seconds=60, mode="snapshot")
    assert shared(server, receipt).is_success
    with server.services.database.write_session() as session:
        session.execute(update(Share).values(expires_at=Share.created_at - 1))
    assert refused(shared(server, receipt, f"/runs/{run_id}")) == (410, "share_ended")
    assert server.get("/shares")["shares"][0]["status"] == "expired"
    server.services.shares.look()
    assert list((server.services.settings.home / "blobs" / "snapshots").iterdir()) == []
    with server.services.database.write_session() as session:
        session.execute(update(Share).values(expires_at=1.0))
    server.services.shares.look()
    assert server.get("/shares")["shares"] == []


def test_a_run_that_takes_the_id_of_a_deleted_one_is_not_shown(server: LiveServer) -> None:
    run_id = server.start_run()
    receipts = [share(server, [run_id]), share(server, [run_id], mode="snapshot")]
    assert shared(server, receipts[0], f"/runs/{run_id}").is_success
    assert server.call("DELETE", f"/runs/{run_id}").is_success
    assert server.ingest("POST", "/runs", json={"run_id": run_id, "project": "p", "name": "new"}).is_success
    for receipt in receipts:
        assert refused(shared(server, receipt, f"/runs/{run_id}")) == (410, "share_ended")
    server.services.shares.look()
    assert list((server.services.settings.home / "blobs" / "snapshots").iterdir()) == []


def test_a_snapshot_of_a_long_series_keeps_its_ends_and_its_spike(server: LiveServer) -> None:
    run_id = server.start_run()
    values = [0.5] * 15_000
    values[7_777] = 9.0
    for start in range(0, len(values), 5_000):
        points = [{"step": at, "values": {"kl": values[at]}} for at in range(start, start + 5_000)]
        assert server.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points}).is_success
    receipt = share(server, [run_id], mode="snapshot")
    choice = {"scope": "trainer", "max_points": 20_000}
    series = shared(server, receipt, f"/runs/{run_id}/series", **choice).json()["series"]["kl"]
    assert len(series["steps"]) <= MAX_POINTS
    assert {0, 7_777, 14_999} <= set(series["steps"])
    assert series["values"][series["steps"].index(7_777)] == 9.0


def test_a_deleted_run_leaves_the_snapshot_of_a_comparison(server: LiveServer, tmp_path: Path) -> None:
    kept, gone = scored_run(server, name="kept"), scored_run(server, name="gone for good")
    receipt = share(server, [kept, gone], mode="snapshot")
    before = shared(server, receipt, f"/runs/{kept}/series").json()
    assert server.call("DELETE", f"/runs/{gone}").is_success
    assert refused(shared(server, receipt, f"/runs/{gone}")) == (404, "not_shared")
    server.services.shares.look()
    (packed,) = (server.services.settings.home / "blobs" / "snapshots").iterdir()
    held = zstandard.ZstdDecompressor().decompressobj().decompress(packed.read_bytes())
    assert b"gone for good" not in held
    assert gone.encode() not in held
    assert shared(server, receipt, f"/runs/{kept}/series").json() == before
    assert [run["run_id"] for run in shared(server, receipt).json()["runs"]] == [kept]


def test_the_token_is_answered_once_and_stored_nowhere(server: LiveServer) -> None:
    run_id = server.start_run()
    receipt = share(server, [run_id])
    token = receipt["token"]
    assert receipt["path"] == f"/s/{token}"
    assert token not in server.call("GET", "/shares").text
    with server.services.database.read_session() as session:
        (row,) = session.query(Share).all()
        assert token not in str(vars(row))
    # One that shares its start with a good one is as good as any other.
    wrong = token[:8] + "x" * (len(token) - 8)
    assert refused(server.call("GET", f"/shared/{wrong}")) == (404, "share_not_found")


def test_links_are_listed_by_run_and_say_how_often_they_were_opened(server: LiveServer) -> None:
    first, second = server.start_run(), server.start_run()
    receipt = share(server, [first])
    share(server, [first, second])
    for _ in range(2):
        assert shared(server, receipt).is_success
    assert [one["num_opened"] for one in server.get("/shares", run=first)["shares"]] == [0, 2]
    assert len(server.get("/shares", run=second)["shares"]) == 1


@pytest.mark.parametrize(
    "draft",
    [
        {"kind": "chart"},
        {"limits": CHART},
        {"mode": "snapshot", "with_rollouts": True},
        {"kind": "chart", "limits": CHART, "with_rollouts": True},
        {"expires_in_seconds": 1},
        {"view": "https://elsewhere.example/"},
        {"view": "#/x y"},
        {"title": "  "},
        {"run_ids": []},
    ],
)
def test_what_makes_no_sense_is_refused(server: LiveServer, draft: Json) -> None:
    body = {"title": "Look", "kind": "run", "run_ids": [server.start_run()], **draft}
    assert server.call("POST", "/shares", json=body).status_code == 422
    assert server.get("/shares")["shares"] == []


def test_a_page_of_another_origin_can_neither_make_nor_end_links(server: LiveServer) -> None:
    run_id = server.start_run()
    receipt = share(server, [run_id])
    foreign = {"Origin": "https://elsewhere.example"}
    body = {"title": "Look", "kind": "run", "run_ids": [run_id]}
    assert server.call("POST", "/shares", json=body, headers=foreign).status_code == 403
    path = f"/shares/{receipt['share']['share_id']}"
    assert server.call("DELETE", path, headers=foreign).status_code == 403
    assert shared(server, receipt).is_success


def test_a_link_to_a_run_that_is_not_there_is_refused(server: LiveServer) -> None:
    body = {"title": "Look", "kind": "run", "run_ids": ["nowhere"]}
    assert refused(server.call("POST", "/shares", json=body)) == (404, "run_not_found")


def test_a_long_run_keeps_its_ends_and_what_was_named() -> None:
    assert kept_steps(range(MAX_STEPS), {3}) is None
    kept = kept_steps(range(0, 10 * MAX_STEPS, 2), {7, 9})
    assert kept is not None
    assert {0, 10 * MAX_STEPS - 2, 7, 9} <= kept
    assert len(kept - {7, 9}) == MAX_STEPS
