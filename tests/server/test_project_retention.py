"""What a project does not keep any longer goes, in pieces, and nothing else does."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event, select, text, update
from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore
from collapsewatch.contracts.runs import RunStart
from collapsewatch_server.account_tables import AuditEntry
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.db import now
from collapsewatch_server.keeping.desk import RetentionTerms
from collapsewatch_server.keeping.projects import ProjectRetention
from collapsewatch_server.keeping.texts import TextRetention
from collapsewatch_server.repositories import spent_runs, spent_texts
from collapsewatch_server.repositories.spent_texts import Cursor
from collapsewatch_server.services import Services
from collapsewatch_server.tables import Batch, Project, Run
from tests.server.live import Json, LiveServer, result_body

_TRAINER = Caller(1, Purpose.ingest, None)
_DAY = 86_400.0
_SECRET = "the model wrote this"
_PROMPT = "what the prompt began with"


def retention(services: Services, blobs: BlobStore | None = None, at_once: int = 20) -> ProjectRetention:
    texts = TextRetention(services.database, blobs or services.blobs, batches_at_once=at_once)
    return ProjectRetention(services.database, texts, services.run_desk, services.audit, look_seconds=30)


def project_id(live: LiveServer, name: str) -> int:
    with live.services.database.read_session() as session:
        return session.execute(select(Project.id).where(Project.name == name)).scalar_one()


def keep(live: LiveServer, project: str, **days: float | None) -> None:
    terms = RetentionTerms(**{"text_days": None, "run_days": None, **days})
    live.services.retention.set(project_id(live, project), terms)


def age(live: LiveServer, run_id: str, days: float, *, steps: tuple[int, ...] = ()) -> None:
    """Has the run, and its batches or those of some steps, arrived so long ago."""
    moment = now() - days * _DAY
    with live.services.database.write_session() as session:
        run_pk = session.execute(select(Run.id).where(Run.run_id == run_id)).scalar_one()
        which = [Batch.run_pk == run_pk, *([Batch.step.in_(steps)] if steps else [])]
        session.execute(update(Batch).where(*which).values(created_at=moment))
        times = {"created_at": moment, "last_seen_at": moment, "last_data_at": moment}
        session.execute(update(Run).where(Run.id == run_pk).values(**times))


def scored_run(live: LiveServer, project: str, steps: int = 3) -> str:
    """A run of which every step has text in every place where text can lie, and was scored."""
    run_id = live.start_run(project=project)
    for step in range(steps):
        turn = {"prompt": f"{_PROMPT} <think>", "response": f"{_SECRET}</think>act"}
        rollouts = [{"group_id": "g0", "reward": 1.0, "turns": [turn]}]
        live.score(run_id, step, telling_result(), rollouts=rollouts)
    return run_id


def telling_result() -> Json:
    result = result_body()
    for prompt in result["evaluations"][0]["prompts"]:
        prompt["preview"] = _PROMPT
    phrase = {"text": _SECRET, "num_words": 4, "coverage": 0.9, "num_prompts": 8}
    evidence = {"phrases": [phrase], "min_words": 4, "min_prompts": 4, "num_prompts": 8, "num_reasonings": 64}
    tokens = {"rollout": 0, "turn": 0, "log_probs": [-5, -9], "lengths": [10, 10], "text": _SECRET}
    return {**result, "template_evidence": evidence, "token_log_probs": [tokens]}


def places_of_text(live: LiveServer, run_id: str) -> list[str]:
    """Tables that still hold what the model wrote in the run, or how its prompts begin; and its blobs."""
    run_pk = pk_of(live, run_id)
    with live.services.database.read_session() as session:
        found = [
            table
            for table in ("batches", "batch_results", "batch_tokens", "evaluations", "alerts", "events")
            for row in session.execute(text(f"SELECT * FROM {table} WHERE run_pk = {run_pk}"))  # noqa: S608
            if _SECRET in str(row) or _PROMPT in str(row)
        ]
    folder = live.services.settings.home / "blobs"
    return found + [kind for kind in ("batches", "tokens") for _ in folder.glob(f"{kind}/{run_pk}/**/*.zst")]


def pk_of(live: LiveServer, run_id: str) -> int:
    with live.services.database.read_session() as session:
        return session.execute(select(Run.id).where(Run.run_id == run_id)).scalar_one()


def keys_of(live: LiveServer, run_id: str) -> list[str]:
    with live.services.database.read_session() as session:
        statement = select(Batch.blob_key).join(Run, Run.id == Batch.run_pk).where(Run.run_id == run_id)
        return list(session.scalars(statement.order_by(Batch.step)))


def noted(live: LiveServer) -> list[tuple[str, str]]:
    with live.services.database.read_session() as session:
        rows = session.execute(select(AuditEntry).where(AuditEntry.actor == "collapsewatch"))
        return [(row[0].action, row[0].target) for row in rows]


def refusal(live: LiveServer, path: str, method: str = "GET") -> tuple[int, str]:
    response = live.call(method, path)
    return response.status_code, response.json()["error"]["code"]


class Faulty:
    """A store in which some blobs cannot be deleted, or at which the process ends."""

    def __init__(self, blobs: BlobStore, error: BaseException, *, after: int = 0, only: str = "") -> None:
        self._blobs, self._error, self._left, self._only = blobs, error, after, only

    def delete(self, key: str) -> None:
        if self._only in key:
            self._left -= 1
            if self._left < 0:
                raise self._error
        self._blobs.delete(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)


@pytest.fixture
def small(start_sqlite_server: Callable[..., LiveServer]) -> LiveServer:
    """For what has nothing to do with the database."""
    return start_sqlite_server(stall_seconds=86_400, lag_seconds=86_400)


# Text.


def test_text_goes_from_everywhere_and_every_number_stays(quiet: LiveServer) -> None:
    run_id, other = scored_run(quiet, "short"), scored_run(quiet, "long")
    quiet.send_batch(run_id, 3)
    numbers = [f"/runs/{run_id}{path}" for path in ("/series", "/trajectory", "/clock", "/alerts")]
    before = [quiet.get(path) for path in numbers]
    of_other = places_of_text(quiet, other)
    assert {"batch_results", "evaluations", "batches", "tokens"} <= set(of_other)
    for one in (run_id, other):
        age(quiet, one, 31)
    keep(quiet, "short", text_days=30)
    assert quiet.services.retention.of_project(project_id(quiet, "short")).num_texts_due == 3
    retention(quiet.services).look()
    # The last step still waits to be scored.
    assert places_of_text(quiet, run_id) == ["batches"]
    assert [bool(key) for key in keys_of(quiet, run_id)] == [False, False, False, True]
    assert places_of_text(quiet, other) == of_other
    assert [quiet.get(path) for path in numbers] == before
    assert noted(quiet) == [("retention.text", "text of 3 batches of 1 runs, after 30 days")]
    retention(quiet.services).look()
    assert len(noted(quiet)) == 1
    assert quiet.done(quiet.claim()["job_id"], telling_result())
    retention(quiet.services).look()
    assert places_of_text(quiet, run_id) == []


def test_whoever_asks_for_it_is_told_why_it_is_not_there(small: LiveServer) -> None:
    run_id = scored_run(small, "short")
    age(small, run_id, 31, steps=(0, 1))
    keep(small, "short", text_days=30)
    retention(small.services).look()
    gone = small.get(f"/runs/{run_id}/rollouts", step=1)
    assert (gone["num_rollouts"], gone["rollouts"], gone["text_removed"]) == (1, [], True)
    assert "no longer kept" in gone["reason"]
    assert (gone["previous_step"], gone["next_step"]) == (0, 2)
    there = small.get(f"/runs/{run_id}/rollouts", step=2)
    assert (len(there["rollouts"]), there["reason"], there["text_removed"]) == (1, None, False)
    assert refusal(small, f"/runs/{run_id}/rollouts/1/0") == (410, "text_removed")
    assert refusal(small, f"/runs/{run_id}/rollouts/1/7") == (404, "rollout_not_found")
    found = small.get(f"/runs/{run_id}/rollout-search", q=_SECRET)
    assert [hit["step"] for hit in found["hits"]] == [2]
    assert (found["num_steps"], found["unreadable_steps"], found["num_removed_steps"]) == (3, [], 2)
    template = small.get(f"/runs/{run_id}/template", step=1, phrase=_SECRET)
    assert (template["text_removed"], "removed" in template["reason"]) == (True, True)
    assert [one["shares"] for one in template["phrases"]] == [[None, None, 1.0]]
    at = small.get(f"/runs/{run_id}/steps/1")
    evidence = at["template_evidence"]
    assert (evidence["phrases"], evidence["phrases_removed"], evidence["num_prompts"]) == ([], True, 8)
    assert small.get(f"/runs/{run_id}/steps/2")["template_evidence"]["phrases_removed"] is False
    assert [prompt["preview"] for prompt in at["evaluation"]["prompts"]] == [""] * 8


def test_a_shared_link_says_the_same(small: LiveServer) -> None:
    run_id = scored_run(small, "short", steps=1)
    share = {"title": "t", "kind": "run", "run_ids": [run_id], "with_rollouts": True}
    token = small.call("POST", "/shares", json=share).json()["token"]
    assert small.get(f"/shared/{token}/runs/{run_id}/rollouts")["text_removed"] is False
    age(small, run_id, 2)
    keep(small, "short", text_days=1)
    retention(small.services).look()
    assert small.get(f"/shared/{token}/runs/{run_id}/rollouts")["text_removed"] is True
    assert refusal(small, f"/shared/{token}/runs/{run_id}/rollouts/0/0") == (410, "text_removed")


def test_what_cannot_be_scored_any_more_is_not_queued_again(small: LiveServer) -> None:
    run_id = small.start_run(project="short")
    small.send_batch(run_id, 0)
    job = small.claim("w")
    failure = {"worker": "w", "error": "no", "retry": False}
    assert small.worker(f"/jobs/{job['job_id']}/fail", failure).is_success
    age(small, run_id, 2)
    keep(small, "short", text_days=1)
    retention(small.services).look()
    assert refusal(small, f"/runs/{run_id}/jobs/{job['job_id']}/retry", "POST") == (410, "text_removed")
    assert refusal(small, f"/runs/{run_id}/jobs/999999/retry", "POST") == (404, "job_not_found")
    assert [one["status"] for one in small.get(f"/runs/{run_id}/jobs")["jobs"]] == ["dead"]


@pytest.mark.parametrize("at_once", [1, 3])
def test_it_goes_in_pieces_of_any_size(small: LiveServer, at_once: int) -> None:
    run_ids = [scored_run(small, "short"), scored_run(small, "short", steps=1)]
    for run_id in run_ids:
        age(small, run_id, 2)
    keep(small, "short", text_days=1)
    retention(small.services, at_once=at_once).look()
    assert [places_of_text(small, run_id) for run_id in run_ids] == [[], []]
    assert noted(small) == [("retention.text", "text of 4 batches of 2 runs, after 1 days")]


def test_an_end_in_the_middle_costs_nothing_and_the_next_look_goes_on(small: LiveServer) -> None:
    run_id, other = scored_run(small, "short"), scored_run(small, "short")
    age(small, run_id, 2)
    keep(small, "short", text_days=1)
    # Tokens and batch of step 0 are gone, and the tokens of step 1; no row says so yet.
    killed = Faulty(small.services.blobs, KeyboardInterrupt(), after=3)
    with pytest.raises(KeyboardInterrupt):
        retention(small.services, killed).look()
    assert all(keys_of(small, run_id))
    said = small.get(f"/runs/{run_id}/rollouts", step=0)
    assert (said["text_removed"], "no longer stored" in said["reason"]) == (False, True)
    assert len(small.get(f"/runs/{run_id}/rollouts", step=1)["rollouts"]) == 1
    retention(small.services).look()
    assert places_of_text(small, run_id) == []
    assert small.get(f"/runs/{run_id}/rollouts", step=0)["text_removed"] is True
    assert all(keys_of(small, other))


def test_a_blob_that_cannot_be_removed_stops_no_other(small: LiveServer) -> None:
    run_id = scored_run(small, "short")
    age(small, run_id, 2)
    keep(small, "short", text_days=1)
    stuck = keys_of(small, run_id)[0]
    retention(small.services, Faulty(small.services.blobs, PermissionError(13, "no"), only=stuck), 1).look()
    assert keys_of(small, run_id) == [stuck, "", ""]
    retention(small.services).look()
    assert places_of_text(small, run_id) == []


def test_servers_that_look_at_once_remove_and_count_everything_once(quiet: LiveServer) -> None:
    run_id, old = scored_run(quiet, "short", steps=6), scored_run(quiet, "brief", steps=1)
    age(quiet, run_id, 2)
    end_run(quiet, old)
    age(quiet, old, 2)
    keep(quiet, "short", text_days=1)
    keep(quiet, "brief", run_days=1)
    faults: list[BaseException] = []

    def look() -> None:
        try:
            retention(quiet.services, at_once=1).look()
        except BaseException as fault:  # noqa: BLE001 (shown by the assertion below)
            faults.append(fault)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert places_of_text(quiet, run_id) == []
    told = noted(quiet)
    counts = [int(words.split()[2]) for action, words in told if action == "retention.text"]
    assert (sum(counts), [action for action, _ in told].count("retention.run")) == (6, 1)


def test_what_is_due_is_found_by_its_index(start_sqlite_server: Callable[..., LiveServer]) -> None:
    database = start_sqlite_server().services.database
    asked: list[str] = []

    def listen(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        asked.append(statement)

    event.listen(database.engine, "before_cursor_execute", listen)
    with database.read_session() as session:
        spent_texts.due(session, 1, 30.0, after=Cursor(), limit=20)
        spent_texts.runs_with_due(session, 1, 30.0)
        spent_texts.num_due(session, 1, days=30.0, limit=20)
    event.remove(database.engine, "before_cursor_execute", listen)
    asked = [statement for statement in asked if "batches" in statement]
    assert len(asked) == 3
    with database.engine.connect() as connection:
        for statement in asked:
            values = (1,) * statement.count("?")
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values).all()
            assert "ix_batches_text" in str(plan), plan


# Runs.


def end_run(live: LiveServer, run_id: str, state: str = "finished") -> None:
    assert live.ingest("PATCH", f"/runs/{run_id}", json={"state": state}).is_success


def test_runs_that_ended_long_ago_are_deleted_and_no_others(quiet: LiveServer) -> None:
    old, failed, young, going, elsewhere = (
        scored_run(quiet, project, steps=1) for project in ("a", "a", "a", "a", "b")
    )
    for run_id, state in ((old, "finished"), (failed, "failed"), (young, "finished"), (elsewhere, "failed")):
        end_run(quiet, run_id, state)
    for run_id, days in ((old, 91), (failed, 95), (young, 89), (going, 95), (elsewhere, 400)):
        age(quiet, run_id, days)
    keep(quiet, "a", run_days=90)
    assert quiet.services.retention.of_project(project_id(quiet, "a")).num_runs_due == 2
    retention(quiet.services).look()
    left = {row["run_id"] for row in quiet.get("/run-list")["rows"]}
    assert left == {young, going, elsewhere}
    assert quiet.call("GET", f"/runs/{old}").status_code == 404
    assert noted(quiet) == [
        ("retention.run", f"run 'n' ({old}), after 90 days"),
        ("retention.run", f"run 'n' ({failed}), after 90 days"),
    ]


def test_a_run_whose_trainer_came_back_meanwhile_stays(quiet: LiveServer) -> None:
    run_id = scored_run(quiet, "a", steps=1)
    end_run(quiet, run_id)
    age(quiet, run_id, 91)

    def due(session: Session, run_pk: int) -> bool:
        return spent_runs.is_due(session, run_pk, 90)

    with quiet.services.database.read_session() as session:
        assert due(session, pk_of(quiet, run_id))
    quiet.services.runs.start_run(_TRAINER, RunStart(run_id=run_id, project="a", name="n", resume="must"))
    assert quiet.services.run_desk.delete_if(run_id, due) is False
    assert quiet.get(f"/runs/{run_id}")["run_id"] == run_id


# The terms.


def test_the_terms_are_set_for_one_project_and_can_be_taken_back(small: LiveServer) -> None:
    small.start_run(project="a")
    small.start_run(project="b")
    path = f"/projects/{project_id(small, 'a')}/retention"
    for_ever = {"text_days": None, "run_days": None, "num_texts_due": 0, "num_runs_due": 0}
    assert small.get(path) == for_ever
    for terms in ({"text_days": 30, "run_days": None}, {"text_days": 1.5, "run_days": 365}):
        assert small.call("PUT", path, json=terms).json() == {**for_ever, **terms}
        assert small.get(path) == {**for_ever, **terms}
    assert small.get(f"/projects/{project_id(small, 'b')}/retention") == for_ever
    for wrong in ({"text_days": 0, "run_days": None}, {"text_days": 5}, {"text_days": -1, "run_days": 2}):
        assert small.call("PUT", path, json=wrong).status_code == 422
    assert small.call("PUT", path, json={"text_days": None, "run_days": None}).json() == for_ever
    assert refusal(small, "/projects/987654/retention") == (404, "project_not_found")


def test_the_server_looks_by_itself(
    start_sqlite_server: Callable[..., LiveServer],
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
) -> None:
    monkeypatch.setattr("collapsewatch_server.services.SECONDS_BETWEEN_LOOKS", 0.05)
    live = start_sqlite_server()
    run_id = scored_run(live, "short", steps=1)
    keep(live, "short", text_days=1)
    age(live, run_id, 2)
    wait_until(lambda: not places_of_text(live, run_id), "the text is gone")
