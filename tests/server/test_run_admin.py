"""What people do about runs: name them, put them away, delete them for good."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, func, select

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.curation.deletions import Deletions
from collapsewatch_server.errors import RunNotFound
from collapsewatch_server.repositories import run_purge
from collapsewatch_server.tables import Base, JobRow, Run
from tests.server.live import Json, LiveServer, batch_body, result_body

STRANGER = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}


@pytest.fixture
def live(start_server: Any) -> LiveServer:
    """A server that takes nothing away of its own accord."""
    return start_server(watch_seconds=60, stall_seconds=86_400, lease_seconds=600)  # type: ignore[no-any-return]


def change(live: LiveServer, run_id: str, **about: Any) -> Json:
    response = live.call("PATCH", f"/runs/{run_id}/about", json=about)
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


def delete(live: LiveServer, run_id: str) -> None:
    response = live.call("DELETE", f"/runs/{run_id}")
    assert (response.status_code, response.json()) == (200, {"run_id": run_id})


def pk_of(live: LiveServer, run_id: str) -> int:
    with live.services.database.read_session() as session:
        return session.execute(select(Run.id).where(Run.run_id == run_id)).scalar_one()


def num_rows(live: LiveServer) -> dict[str, int]:
    with live.services.database.read_session() as session:
        return {
            table.name: session.execute(select(func.count()).select_from(table)).scalar_one()
            for table in Base.metadata.sorted_tables
        }


def blobs(live: LiveServer) -> list[str]:
    folder = live.services.settings.home / "blobs"
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def take_away(live: LiveServer) -> None:
    Deletions(live.services.database, live.services.blobs).look()


def furnish(live: LiveServer, **about: Any) -> str:
    """A run with a row in every table that knows runs."""
    rule = {"metric": "kl", "scope": "trainer", "operator": ">", "threshold": 0.1}
    run_id = live.start_run(scorer={"kind": "lexical"}, writer_id="w-0", **about)
    live.score(run_id, 0, result_body())
    assert live.send_batch(run_id, 1).is_success
    live.claim()
    rule_name = {"name": f"kl of {run_id}", "run": run_id}
    assert live.call("POST", "/alert-rules", json={**rule, **rule_name}).is_success
    values = {"points": [{"step": 2, "values": {"kl": 0.5}}]}
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json=values).is_success
    (item,) = live.get("/alerts", run=run_id)["items"]
    assert live.call("POST", f"/alerts/{item['alert_id']}/acknowledge", json={"by": "Ada"}).is_success
    return run_id


def test_a_renamed_run_is_resumed_under_the_name_that_its_trainer_gave(live: LiveServer) -> None:
    run_id = live.start_run(name="grpo-1", tags=["baseline"])
    row = change(live, run_id, name="  GRPO, no filter ", notes="since step 90", tags=["a", "b", "a"])
    assert (row["name"], row["given_name"], row["notes"]) == ("GRPO, no filter", "grpo-1", "since step 90")
    assert row["tags"] == ["a", "b"]
    start = {"run_id": run_id, "project": "p", "resume": "must"}
    again = live.ingest("POST", "/runs", json={**start, "name": "grpo-1"})
    assert (again.status_code, again.json()["name"]) == (200, "grpo-1")
    assert live.ingest("POST", "/runs", json={**start, "name": "GRPO, no filter"}).status_code == 409
    assert live.get(f"/runs/{run_id}")["name"] == "GRPO, no filter"
    assert change(live, run_id, tags=[])["name"] == "GRPO, no filter"


def test_what_people_say_of_a_run_is_no_news_of_its_training(live: LiveServer) -> None:
    run_id = live.start_run()
    before = live.get(f"/runs/{run_id}")["updated_at"]
    assert change(live, run_id, name="other", archived=True)["updated_at"] == before


def test_an_archived_run_is_complete_and_out_of_the_list_until_somebody_asks(live: LiveServer) -> None:
    kept, archived = live.start_run(), live.start_run()
    assert change(live, archived, archived=True)["archived"] is True
    listed = live.get("/run-list")
    assert [row["run_id"] for row in listed["rows"]] == [kept]
    assert (listed["num_active"], listed["num_archived"]) == (1, 1)
    assert [row["run_id"] for row in live.get("/run-list", archived=True)["rows"]] == [archived]
    assert live.get(f"/runs/{archived}")["archived"] is True
    assert live.send_batch(archived, 0).is_success
    assert change(live, archived, archived=False)["archived"] is False
    assert len(live.get("/run-list")["rows"]) == 2


@pytest.mark.parametrize(
    "body",
    [{"name": ""}, {"name": " "}, {"name": "a\x00"}, {"tags": [""]}, {"notes": "\x00"}, {"state": "running"}],
)
def test_what_cannot_be_said_of_a_run_is_refused(live: LiveServer, body: Json) -> None:
    run_id = live.start_run(name="n")
    assert live.call("PATCH", f"/runs/{run_id}/about", json=body).status_code == 422
    assert live.get(f"/runs/{run_id}")["name"] == "n"


def test_pages_of_other_origins_change_and_delete_nothing(live: LiveServer) -> None:
    run_id = live.start_run(name="n")
    for method, path, body in (("PATCH", "/about", {"name": "x"}), ("DELETE", "", None)):
        response = live.call(method, f"/runs/{run_id}{path}", json=body, headers=STRANGER)
        assert response.status_code == 403
    assert live.get(f"/runs/{run_id}")["name"] == "n"
    assert live.call("PATCH", "/runs/nobody/about", json={"name": "x"}).status_code == 404
    assert live.call("DELETE", "/runs/nobody").status_code == 404


def test_a_deleted_run_leaves_nothing_and_takes_nothing_with_it(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = furnish(live)
    rows, files = num_rows(live), blobs(live)
    story = [live.get(f"/runs/{other}{path}") for path in ("", "/series", "/alerts", "/jobs")]
    run_id = furnish(live)
    run_pk = pk_of(live, run_id)
    delete(live, run_id)
    assert live.call("GET", f"/runs/{run_id}").status_code == 404
    assert [item["run_id"] for item in live.get("/alerts")["items"]] == [other]
    assert [row["run_id"] for row in live.get("/run-list")["rows"]] == [other]
    assert [row["run_id"] for row in live.get("/runs")["runs"]] == [other]
    (project,) = live.get("/projects")["projects"]
    assert (project["name"], project["num_runs"], project["role"]) == ("p", 1, "admin")
    monkeypatch.setattr(run_purge, "_UNDER_WAY_SECONDS", -1.0)
    take_away(live)
    assert blobs(live) == files
    # On SQLite the last ids of all are not free to be given again before later ones are.
    later = furnish(live)
    take_away(live)
    assert not any(left_of(live, run_pk))
    assert live.call("DELETE", f"/runs/{later}").is_success
    take_away(live)
    furnish(live)
    take_away(live)
    assert [live.get(f"/runs/{other}{path}") for path in ("", "/series", "/alerts", "/jobs")] == story
    after = num_rows(live)
    # Two runs of the same kind, the news that two others are gone, and where rules that came later begin.
    more = {"events": 2, "alert_rule_starts": after["alert_rule_starts"] - 2 * rows["alert_rule_starts"]}
    for table in run_purge.tables_of_runs():
        assert after[table.name] == 2 * rows[table.name] + more.get(table.name, 0), table.name


def left_of(live: LiveServer, run_pk: int) -> Iterator[Any]:
    with live.services.database.read_session() as session:
        for table in Base.metadata.sorted_tables:
            if "run_pk" in table.c:
                yield from session.execute(select(table).where(table.c.run_pk == run_pk))
        yield from session.execute(select(Run).where(Run.id == run_pk))


def test_the_id_of_a_deleted_run_is_free_at_once(live: LiveServer) -> None:
    run_id = furnish(live)
    delete(live, run_id)
    body = {"run_id": run_id, "project": "p", "name": "another"}
    assert live.ingest("POST", "/runs", json=body).status_code == 201
    take_away(live)
    assert live.get(f"/runs/{run_id}")["name"] == "another"
    assert live.get(f"/runs/{run_id}")["jobs"]["queued"] == 0
    assert live.call("GET", f"/runs/{run_id}/steps/0").status_code == 404


def test_what_the_trainer_of_a_deleted_run_still_sends_is_refused_and_not_kept(live: LiveServer) -> None:
    run_id = live.start_run()
    services = live.services
    run, project = services.runs.open_run(Caller(1, Purpose.ingest, None), run_id)
    delete(live, run_id)
    assert live.send_batch(run_id, 0).json()["error"]["code"] == "run_not_found"
    # The run was there when this one was let in.
    with pytest.raises(RunNotFound):
        services.batches.add(run, project, RolloutBatch.model_validate(batch_body(1)))
    assert blobs(live) == []


def test_the_worker_of_a_deleted_run_is_told_that_its_job_is_done(live: LiveServer) -> None:
    run_id = live.start_run()
    assert live.send_batch(run_id, 0).is_success
    job = live.claim("w1")
    delete(live, run_id)
    assert live.worker(f"/jobs/{job['job_id']}/beat", {"worker": "w1"}).json() == {"held": False}
    assert live.done(job["job_id"], result_body()) is False
    assert live.try_claim() is None


def test_an_id_that_a_worker_may_still_hold_is_never_given_again(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_purge, "_UNDER_WAY_SECONDS", -1.0)
    run_id = live.start_run()
    assert live.send_batch(run_id, 0).is_success
    job, run_pk = live.claim("w1"), pk_of(live, run_id)
    delete(live, run_id)
    take_away(live)
    second = live.start_run()
    assert pk_of(live, second) > run_pk
    assert live.send_batch(second, 0).is_success
    assert live.claim("w2")["job_id"] > job["job_id"]
    # The first worker is late, and what it found out is not the second run's.
    response = live.worker(f"/jobs/{job['job_id']}/done", result_body())
    assert response.status_code == 404 or response.json() == {"accepted": False}
    assert live.get(f"/runs/{second}")["jobs"]["done"] == 0
    take_away(live)
    with live.services.database.read_session() as session:
        assert session.scalars(select(JobRow.run_pk).distinct()).all() == [pk_of(live, second)]


def test_open_pages_are_told_of_a_deleted_run(live: LiveServer) -> None:
    run_id = live.start_run()
    delete(live, run_id)
    events = live.services.reading.events_after(0, None, 100)
    assert (events[-1].kind, events[-1].data) == (
        "run",
        {"run_id": run_id, "project": "p", "state": "deleted"},
    )


def test_every_table_that_hangs_from_a_run_is_known(tmp_path: Path) -> None:
    reached, grows = {"runs"}, True

    def hangs(table: Table) -> bool:
        return any(key.column.table.name in reached for key in table.foreign_keys)

    while grows:
        found = {table.name for table in Base.metadata.sorted_tables if hangs(table)}
        grows, reached = not found <= reached, reached | found
    names = [table.name for table in run_purge.tables_of_runs()]
    assert set(names) == reached
    assert names[-1] == "runs"
    assert {"metric_points", "planned_changes", "events"} <= reached
