"""Ids of another project in every place where an id may stand, and fields that nobody asked for."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from collapsewatch_server.auth import Purpose
from tests.server.guarded import PASSWORD, newcomer, stranger
from tests.server.live import LiveServer, batch_body, result_body
from tests.server.test_fuzz import contents

UNWANTED = {
    "is_operator": True,
    "makes_operator": True,
    "role": "admin",
    "roles": {"1": "admin"},
    "project_id": 2,
    "account_id": 1,
    "id": 1,
    "key": "cw_read_x",
    "owner": "olga",
}


@pytest.fixture(scope="module")
def theirs(guarded: LiveServer) -> dict[str, Any]:
    """Ids of a project in which Mona has no role."""
    run_id = guarded.start_run(project="secret", name="hidden", scorer={"kind": "lexical"})
    guarded.score(run_id, 0, result_body())
    guarded.send_batch(run_id, 1)
    job_id = guarded.claim("w9")["job_id"]
    guarded.worker(f"/jobs/{job_id}/fail", {"worker": "w9", "error": "e", "retry": False})
    rule = {"name": "high", "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 0.1}
    rule_id = guarded.call("POST", "/alert-rules", json={**rule, "project": "secret"}).json()["rule_id"]
    share = {"title": "Look", "kind": "run", "run_ids": [run_id]}
    return {
        "run_id": run_id,
        "job_id": job_id,
        "rule_id": rule_id,
        "share_id": guarded.call("POST", "/shares", json=share).json()["share"]["share_id"],
    }


@pytest.fixture(scope="module")
def mine(guarded: LiveServer) -> str:
    return guarded.start_run(project="own", name="mine")


@pytest.fixture(scope="module")
def mona(guarded: LiveServer, theirs: dict[str, Any], mine: str) -> Iterator[httpx.Client]:
    """Somebody who may do everything in her own project."""
    with closing(newcomer(guarded, "mona", own="admin")) as browser:
        yield browser


def test_a_job_of_another_project_is_not_reached_under_a_run_of_the_own(
    guarded: LiveServer, mona: httpx.Client, theirs: dict[str, Any], mine: str
) -> None:
    answer = mona.post(f"/runs/{mine}/jobs/{theirs['job_id']}/retry")
    assert answer.status_code == 404, answer.text
    assert len(guarded.get(f"/runs/{theirs['run_id']}/jobs", status="dead")["jobs"]) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/compare?run={mine}&run={run_id}",
        "/compare/series?run={run_id}&metric=kl",
        "/compare/paths?run={run_id}",
        "/exports/series.csv?run={mine}&run={run_id}",
        "/exports/series.parquet?run={run_id}",
        "/exports/chart.svg?run={run_id}&chart=retrieval",
        "/exports/report.html?run={run_id}",
    ],
)
def test_a_run_of_another_project_is_not_read_by_its_id_in_a_query(
    mona: httpx.Client, theirs: dict[str, Any], mine: str, path: str
) -> None:
    answer = mona.get(path.format(**theirs, mine=mine))
    assert (answer.status_code == 404) == ("/compare" not in path), answer.text
    assert "hidden" not in answer.text
    unknown = mona.get(path.format(**{**theirs, "run_id": "f" * 32}, mine=mine))
    # It is answered like one that is not there.
    assert answer.text.replace(theirs["run_id"], "") == unknown.text.replace("f" * 32, "")


@pytest.mark.parametrize(
    "path", ["/runs", "/run-list", "/alerts", "/alert-rules", "/shares", "/channels", "/projects"]
)
def test_lists_hold_nothing_of_another_project_whatever_is_asked_for(
    mona: httpx.Client, theirs: dict[str, Any], path: str
) -> None:
    for query in (
        "",
        "?project=secret",
        f"?run={theirs['run_id']}",
        f"?run_id={theirs['run_id']}",
        "?limit=100",
    ):
        answer = mona.get(path + query)
        assert answer.status_code in (200, 404, 422), answer.text
        if answer.status_code == 200:
            assert "hidden" not in answer.text
            assert theirs["run_id"] not in answer.text, (path, query)
            assert "secret" not in answer.text, (path, query)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/shares", {"title": "x", "kind": "run", "run_ids": ["{run_id}"]}),
        ("POST", "/shares", {"title": "x", "kind": "comparison", "run_ids": ["{mine}", "{run_id}"]}),
        ("DELETE", "/shares/{share_id}", None),
        ("POST", "/alert-rules", {"project": "secret"}),
        ("PUT", "/alert-rules/{rule_id}", {"project": "own"}),
        ("POST", "/alert-rules", {}),
        ("DELETE", "/alert-rules/{rule_id}", None),
        ("PUT", "/alert-rules/detectors", {"rule": "no_worker", "project": "secret", "enabled": False}),
        ("DELETE", "/alert-rules/detectors/no_worker?project=secret", None),
        (
            "POST",
            "/channels",
            {"name": "c", "kind": "webhook", "url": "http://127.0.0.1:9/", "project": "secret"},
        ),
        ("PATCH", "/runs/{run_id}/about", {"notes": "x"}),
        ("DELETE", "/runs/{run_id}", None),
    ],
)
def test_nothing_of_another_project_is_changed_by_its_id_in_a_body_or_a_path(
    guarded: LiveServer,
    mona: httpx.Client,
    theirs: dict[str, Any],
    mine: str,
    method: str,
    path: str,
    body: Any,
) -> None:
    rule = {"name": "r", "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 0.1}
    before = contents(guarded, without=("audit_log", "login_sessions", "accounts"))
    if body is not None:
        body = {
            name: [one.format(**theirs, mine=mine) for one in value]
            if isinstance(value, list)
            else value.format(**theirs)
            if isinstance(value, str)
            else value
            for name, value in body.items()
        }
        if path.startswith("/alert-rules") and "detectors" not in path:
            body = {**rule, **body}
    answer = mona.request(method, path.format(**theirs, mine=mine), json=body)
    assert answer.status_code in (403, 404), answer.text
    assert contents(guarded, without=("audit_log", "login_sessions", "accounts")) == before


def test_a_key_of_one_project_writes_to_no_other(
    guarded: LiveServer, theirs: dict[str, Any], mine: str
) -> None:
    key = guarded.services.keyring.create(Purpose.ingest, project="own", label="x")
    run_id = theirs["run_id"]
    calls: list[tuple[str, str, Any]] = [
        ("POST", "/runs", {"run_id": run_id, "project": "own", "name": "n"}),
        ("POST", "/runs", {"run_id": "fresh", "project": "secret", "name": "n"}),
        ("PATCH", f"/runs/{run_id}", {"state": "finished"}),
        ("POST", f"/runs/{run_id}/batches", batch_body(5)),
        ("POST", f"/runs/{run_id}/scalars", {"points": [{"step": 2, "values": {"kl": 0.5}}]}),
        ("GET", f"/runs/{run_id}/alerts/standing", None),
    ]
    for method, path, body in calls:
        answer = guarded.call(method, path, key=key, json=body)
        assert answer.status_code in (403, 404, 409, 422), (path, answer.text)
        assert "hidden" not in answer.text
    assert guarded.call("POST", f"/runs/{mine}/batches", key=key, json=batch_body(5)).status_code == 202


def test_no_key_does_what_only_people_do(guarded: LiveServer, mine: str) -> None:
    for purpose in Purpose:
        key = guarded.services.keyring.create(purpose, project=None, label="x")
        for method, path in [
            ("POST", "/invitations"),
            ("POST", "/keys"),
            ("GET", "/accounts"),
            ("GET", "/channels"),
            ("DELETE", f"/runs/{mine}"),
            ("PATCH", f"/runs/{mine}/about"),
            ("POST", "/session/password"),
        ]:
            answer = guarded.call(method, path, key=key, json={})
            assert answer.status_code == 403, (purpose, path, answer.text)


def test_no_body_of_the_api_takes_a_field_that_it_does_not_name(guarded: LiveServer) -> None:
    schemas = guarded.http.get("/openapi.json").json()
    names = list(body_names(schemas))
    assert len(names) > 20
    open_ones = []
    seen = set(names)
    while names:
        name = names.pop()
        schema = schemas["components"]["schemas"][name]
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            open_ones.append(name)
        found = set(references(schema)) - seen
        seen |= found
        names += found
    assert open_ones == []


def body_names(document: dict[str, Any]) -> Iterator[str]:
    for methods in document["paths"].values():
        for operation in methods.values():
            if "requestBody" in operation:
                yield from references(operation["requestBody"])


def references(schema: Any) -> Iterator[str]:
    """Names of the models that a schema is made of."""
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for name, value in schema.items():
            if name != "discriminator":
                yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


@pytest.mark.parametrize("name", UNWANTED)
def test_whoever_joins_gets_what_the_link_gives_and_nothing_that_they_ask_for(
    guarded: LiveServer, name: str
) -> None:
    token = guarded.services.people.invite("x").token
    body = {"token": token, "name": f"eve{len(name)}", "password": PASSWORD, name: UNWANTED[name]}
    with stranger(guarded) as browser:
        assert browser.post("/session/join", json=body).status_code == 422
        del body[name]
        me = browser.post("/session/join", json={**body, "name": f"eve-{name.replace('_', '-')}"}).json()
    assert (me["is_operator"], me["roles"]) == (False, {})


def test_an_admin_makes_nobody_an_operator_and_nobody_a_member_elsewhere(
    guarded: LiveServer, mona: httpx.Client
) -> None:
    ids = {one["name"]: one["id"] for one in guarded.get("/projects")["projects"]}
    own, secret = ids["own"], ids["secret"]
    refused = [
        mona.post(f"/projects/{secret}/invitations", json={"label": "x", "role": "viewer"}),
        mona.get(f"/projects/{secret}/members"),
        mona.get(f"/projects/{secret}/keys"),
        mona.post(f"/projects/{secret}/keys", json={"purpose": "read", "label": "x", "days": None}),
        mona.get(f"/projects/{secret}/retention"),
        mona.post("/invitations", json={"label": "x", "makes_operator": True}),
        mona.patch("/accounts/1", json={"is_operator": False}),
        mona.get("/accounts"),
        mona.get("/keys"),
    ]
    assert [answer.status_code for answer in refused if answer.status_code not in (403, 404)] == []
    wide = {"label": "x", "role": "admin", "makes_operator": True}
    assert mona.post(f"/projects/{own}/invitations", json=wide).status_code == 422
    worker = {"purpose": "worker", "label": "x", "days": None}
    assert mona.post(f"/projects/{own}/keys", json=worker).status_code == 422
