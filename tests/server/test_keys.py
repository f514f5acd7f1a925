"""Keys: made for a purpose, shown once, good where and for as long as they say, and for nothing else."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text, update

from collapsewatch_server.access.rules import RULES, Door
from collapsewatch_server.accounts.keys import MOST_GOOD
from collapsewatch_server.auth import Keyring, Purpose
from collapsewatch_server.tables import ApiKey
from tests.server.live import LiveServer, batch_body, result_body
from tests.server.team import Person, Team, team_of

VALUES = {"run_id": "r", "project_id": "1", "picture_format": "svg"}


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One service for all tests, each of which has its own projects."""
    with team_of({"home": tmp_path_factory.mktemp("home")}) as team:
        yield team


@pytest.fixture(scope="module")
def operator(team: Team) -> Person:
    return team.operator()


@pytest.fixture(scope="module")
def program(team: Team) -> Person:
    """Something that has no session, only keys."""
    return team.browser()


def run_of(team: Team, program: Person, project: str, run_id: str) -> str:
    """A run of the project, opened with a key for it."""
    key = team.services.keyring.create(Purpose.ingest, project=project, label="")
    program.ok("POST", "/runs", {"run_id": run_id, "project": project, "name": "n"}, key=key)
    return run_id


def set_columns(team: Team, key_id: int, **values: Any) -> None:
    with team.services.database.write_session() as session:
        session.execute(update(ApiKey).where(ApiKey.id == key_id).values(**values))


def test_a_key_is_shown_once_and_only_its_hash_is_kept(team: Team) -> None:
    project = team.project("shown")
    ann = team.member("ann", shown="admin")
    made = ann.ok("POST", f"/projects/{project}/keys", {"purpose": "read", "label": "notebook", "days": 7})
    assert re.fullmatch(r"cw_read_[A-Za-z0-9_-]{43}", made["key"])
    assert made["key"].startswith(made["prefix"])
    assert (made["purpose"], made["label"], made["project"]) == ("read", "notebook", "shown")
    assert made["expires_at"] > made["created_at"]
    (listed,) = ann.ok("GET", f"/projects/{project}/keys")["keys"]
    assert listed == {name: value for name, value in made.items() if name != "key"}
    with team.services.database.read_session() as session:
        rows = session.execute(text("SELECT * FROM api_keys")).all()
    assert all(made["key"] not in str(value) for row in rows for value in row)
    assert ann.ok("GET", f"/projects/{team.project('shown')}/keys")["keys"] == [listed]


def test_keys_of_a_project_and_of_all_projects_are_kept_apart(team: Team, operator: Person) -> None:
    project, other = team.project("apart"), team.project("beside")
    abe = team.member("abe", apart="admin")
    mine = abe.ok("POST", f"/projects/{project}/keys", {"purpose": "ingest", "label": "trainer"})
    theirs = operator.ok("POST", f"/projects/{other}/keys", {"purpose": "ingest", "label": "x"})
    wide = operator.ok("POST", "/keys", {"purpose": "worker", "label": "GPU"})
    assert (wide["project"], wide["expires_at"]) == (None, None)
    assert [one["id"] for one in abe.ok("GET", f"/projects/{project}/keys")["keys"]] == [mine["id"]]
    assert {mine["id"], theirs["id"], wide["id"]} <= {
        one["id"] for one in operator.ok("GET", "/keys")["keys"]
    }
    for key_id in (theirs["id"], wide["id"]):
        assert abe.refusal("DELETE", f"/projects/{project}/keys/{key_id}") == (404, "key_not_found")
    assert abe.refusal("GET", "/keys") == (403, "forbidden")
    assert abe.refusal("POST", "/keys", {"purpose": "read", "label": "x"}) == (403, "forbidden")
    assert abe.refusal("DELETE", f"/keys/{mine['id']}") == (403, "forbidden")
    # Workers serve all projects, so nobody makes a key of theirs for one of them, not even an operator.
    body = {"purpose": "worker", "label": "x"}
    for person in (abe, operator):
        assert person.refusal("POST", f"/projects/{project}/keys", body) == (422, "invalid_body")


def test_a_read_key_reads_its_project_and_changes_nothing(team: Team, program: Person) -> None:
    project = team.project("read-me")
    run_id, other = run_of(team, program, "read-me", "read-1"), run_of(team, program, "not-me", "read-2")
    bea = team.member("bea", **{"read-me": "admin"})
    key = bea.ok("POST", f"/projects/{project}/keys", {"purpose": "read", "label": "x"})["key"]
    assert program.ok("GET", "/projects", key=key)["projects"] == [
        {"id": project, "name": "read-me", "num_runs": 1, "role": "viewer"}
    ]
    assert [run["run_id"] for run in program.ok("GET", "/runs", key=key)["runs"]] == [run_id]
    assert program.refusal("GET", f"/runs/{other}", key=key) == (404, "run_not_found")
    for method, path, body in (
        ("POST", "/runs", {"run_id": "x", "project": "read-me", "name": "n"}),
        ("POST", f"/runs/{run_id}/batches", batch_body(0)),
        ("PATCH", f"/runs/{run_id}/about", {"notes": "mine"}),
        ("DELETE", f"/runs/{run_id}", None),
        ("POST", "/alert-rules", {}),
        ("GET", f"/projects/{project}/keys", None),
        ("POST", f"/projects/{project}/keys", {"purpose": "ingest", "label": "more"}),
        ("GET", f"/projects/{project}/members", None),
        ("GET", "/accounts", None),
        ("GET", "/channels", None),
        ("POST", "/worker/claim", {"worker": "w"}),
    ):
        assert program.refusal(method, path, body, key=key) == (403, "forbidden"), (method, path)


@pytest.mark.parametrize("purpose", ["worker", "ingest"])
def test_keys_that_write_read_nothing_and_workers_reach_their_own_routes_alone(
    team: Team, program: Person, purpose: str
) -> None:
    key = team.services.keyring.create(Purpose(purpose), project=None, label="x")
    own = {"worker": Door.workers, "ingest": Door.trainers}[purpose]
    asked = 0
    for (method, path), rule in RULES.items():
        if rule in (own, Door.everybody, Door.link):
            continue
        address = re.sub(r"\{(\w+)\}", lambda match: VALUES.get(match[1], "1"), path)
        response = program.client.request(method, address, headers={"Authorization": f"Bearer {key}"})
        assert response.status_code == 403, (method, path, response.text)
        asked += 1
    assert asked > 50


def test_an_expired_key_says_so_and_a_revoked_one_too(team: Team, program: Person) -> None:
    project = team.project("ended")
    cai = team.member("cai", ended="admin")
    path = f"/projects/{project}/keys"
    made = cai.ok("POST", path, {"purpose": "read", "label": "x", "days": 1})
    program.ok("GET", "/runs", key=made["key"])
    assert cai.ok("GET", path)["keys"][0]["last_used_at"] is not None
    set_columns(team, made["id"], expires_at=1_000_000_000.0)
    expired = program.call("GET", "/runs", key=made["key"])
    assert expired.status_code == 401
    assert "expired on 2001-09-09" in expired.json()["error"]["message"]
    other = cai.ok("POST", path, {"purpose": "read", "label": "y"})
    program.ok("GET", "/runs", key=other["key"])
    gone = cai.ok("DELETE", f"{path}/{other['id']}")
    assert gone["revoked_at"] is not None
    assert cai.ok("DELETE", f"{path}/{other['id']}")["revoked_at"] == gone["revoked_at"]
    revoked = program.call("GET", "/runs", key=other["key"])
    assert revoked.status_code == 401
    assert "was revoked" in revoked.json()["error"]["message"]
    # Who has only the part that lists show learns nothing.
    guess = program.call("GET", "/runs", key=other["prefix"] + "x" * 33)
    assert guess.json()["error"]["message"] == "the key is unknown"


@pytest.mark.parametrize("days", [0, -1, 4000, "1e999"])
def test_days_are_a_time_that_a_key_can_be_good_for(team: Team, operator: Person, days: Any) -> None:
    body = {"purpose": "read", "label": "x", "days": days}
    assert operator.refusal("POST", "/keys", body)[0] == 422


def test_only_so_many_keys_are_good_at_a_time(team: Team, operator: Person) -> None:
    project = team.project("many")
    with team.services.database.write_session() as session:
        session.add_all(
            ApiKey(
                prefix=f"p{number}",
                key_hash=f"h{number}",
                purpose="read",
                label="",
                project_id=project,
                created_at=0.0,
                expires_at=None,
            )
            for number in range(MOST_GOOD)
        )
    body = {"purpose": "read", "label": "one more"}
    assert operator.refusal("POST", f"/projects/{project}/keys", body) == (409, "key_conflict")
    (first, *_) = operator.ok("GET", f"/projects/{project}/keys")["keys"]
    operator.ok("DELETE", f"/projects/{project}/keys/{first['id']}")
    operator.ok("POST", f"/projects/{project}/keys", body)


# A claim gives a worker its job, and nothing else does. On both databases.


def test_a_worker_answers_for_no_job_that_its_key_did_not_claim(live: LiveServer) -> None:
    run_id = live.start_run(scorer={"kind": "lexical"})
    assert live.send_batch(run_id, 0).status_code == 202
    (job_id,) = [job["job_id"] for job in live.get(f"/runs/{run_id}/jobs")["jobs"]]
    stranger = live.services.keyring.create(Purpose.worker, project=None, label="another worker")

    def strange(path: str, body: Any) -> Any:
        return live.call("POST", f"/worker{path}", key=stranger, json=body)

    # Nobody has claimed it yet.
    refused = live.worker(f"/jobs/{job_id}/done", result_body())
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "job_conflict")
    job = live.claim("w1")
    # A key of another worker does not get it, not even under the name of the one that holds it.
    assert strange("/claim", {"worker": "w1"}).status_code == 204
    assert strange(f"/jobs/{job_id}/beat", {"worker": "w1"}).json() == {"held": False}
    failure = {"worker": "w1", "error": "none of yours", "retry": False}
    assert strange(f"/jobs/{job_id}/fail", failure).json() == {"status": "leased"}
    assert strange(f"/jobs/{job_id}/done", result_body()).status_code == 409
    assert live.worker(f"/jobs/{job_id}/beat", {"worker": "w1"}).json() == {"held": True}
    assert live.claim("w1") == job
    assert live.done(job_id, result_body())
    # By now there is nothing to forge, and so nothing to refuse.
    assert strange(f"/jobs/{job_id}/done", result_body()).json() == {"accepted": False}
    with live.services.database.read_session() as session:
        assert session.execute(text("SELECT count(*) FROM job_claims")).scalar_one() == 0


def test_a_worker_that_lost_its_lease_to_another_may_still_answer(live: LiveServer) -> None:
    run_id = live.start_run(scorer={"kind": "lexical"})
    assert live.send_batch(run_id, 0).status_code == 202
    job = live.claim("w1")
    other = live.services.keyring.create(Purpose.worker, project=None, label="another worker")
    live.worker(f"/jobs/{job['job_id']}/fail", {"worker": "w1", "error": "told to stop", "given_back": True})
    again = live.call("POST", "/worker/claim", key=other, json={"worker": "w2"}).json()
    assert again["job_id"] == job["job_id"]
    assert live.done(job["job_id"], result_body())


def test_the_time_of_a_key_counts_by_the_databases_clock(live: LiveServer) -> None:
    keyring = Keyring(live.services.database)
    brief = keyring.create(Purpose.worker, project=None, label="", seconds=-1.0)
    lasting = keyring.create(Purpose.worker, project=None, label="", seconds=60.0)
    assert not keyring.is_good(brief, Purpose.worker)
    assert keyring.is_good(lasting, Purpose.worker)
    assert live.call("POST", "/worker/claim", key=brief, json={"worker": "w"}).status_code == 401
    assert live.call("POST", "/worker/claim", key=lasting, json={"worker": "w"}).status_code == 204
