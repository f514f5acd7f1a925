"""A service at which people sign in, with two projects of everything and callers of every sort."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import update

from collapsewatch_server.account_tables import LoginSession
from collapsewatch_server.auth import Purpose
from collapsewatch_server.db import now
from collapsewatch_server.repositories import accounts, runs
from collapsewatch_server.tables import ApiKey, EventRow
from tests.server.live import Json, LiveServer, result_body, started

OWN, OTHER = "p-alpha", "p-zulu"
"""The project of the people that are tried, and one of somebody else."""
MARKS = {OWN: "amber", OTHER: "cobalt"}
"""A word in everything that a project holds."""
RUNS = {OWN: "r-alpha", OTHER: "r-zulu"}
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}
PEOPLE = ("viewer", "editor", "admin", "operator")
GONE = ("nobody", "closed account", "ended session", "old session", "expired key", "revoked key")
"""Callers whom nobody knows, or no more."""
KEYS = ("read key", "read key of all", "ingest key", "worker key")
NOT_STORED = ("audit_log", "login_sessions")
NOT_COMPARED = ("last_used_at", "last_seen_at")


@dataclass
class Place:
    """Ids of what a project holds."""

    project_id: int
    run_id: str
    job_id: int = 0
    alert_id: int = 0
    rule_id: int = 0
    channel_id: int = 0
    share_id: int = 0
    invitation_id: int = 0
    key_id: int = 0
    account_id: int = 0
    token: str = ""


@dataclass
class World:
    """The service, its callers by name, and what the two projects hold."""

    live: LiveServer
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def call(self, caller: str, method: str, path: str, **options: Any) -> httpx.Response:
        """The answer of the API to this caller, as its browser or its program asks."""
        headers = {**self.headers[caller], **options.pop("headers", {})}
        return self.live.http.request(method, path, headers=headers, **options)

    def api(self, caller: str, method: str, path: str, **options: Any) -> httpx.Response:
        return self.call(caller, method, f"/api/v1{path}", **options)

    def person(self, name: str, roles: Mapping[str, str] | None = None, *, is_operator: bool = False) -> int:
        """Id of a new account that is signed in; its roles by project."""
        with self.live.services.database.write_session() as session:
            account_pk = accounts.add(
                session, name=name, password_hash=None, subject=None, is_operator=is_operator
            )
            assert account_pk is not None
            for project, role in (roles or {}).items():
                accounts.set_role(session, account_pk, runs.project_id(session, project), role)
        fresh = self.live.services.sessions.open(account_pk, address="::1", browser="test")
        self.headers[name] = {"Cookie": f"collapsewatch_session={fresh.token}", **SAME_SITE}
        return account_pk

    def key(self, name: str, purpose: Purpose, project: str | None = None) -> str:
        key = self.live.services.keyring.create(purpose, project=project, label=name)
        self.headers[name] = {"Authorization": f"Bearer {key}"}
        return key

    def stored(self) -> dict[str, list[Any]]:
        """All rows that people's requests may change, without the times of their last use."""
        found: dict[str, list[Any]] = {}
        with self.live.services.database.engine.connect() as connection:
            for table in EventRow.metadata.sorted_tables:
                if table.name in NOT_STORED:
                    continue
                columns = [column for column in table.c if column.name not in NOT_COMPARED]
                rows = connection.execute(table.select().with_only_columns(*columns)).all()
                found[table.name] = sorted(map(repr, rows))
        return found


@contextmanager
def two_projects(settings: Json) -> Iterator[World]:
    """The service while it runs; its clocks stand nearly still."""
    given = {
        "embedded_worker": False,
        "port": 0,
        "login": True,
        "allow_private_channels": True,
        "lease_seconds": 3600,
        "worker_seconds": 3600,
        "watch_seconds": 60,
        "notify_seconds": 60,
        # One address asks for everybody.
        "rate_entry": 0,
        "rate_writes": 0,
        **settings,
    }
    servers = started(lambda **changes: {**given, **changes})
    world = World(next(servers)())
    try:
        world.headers["nobody"] = dict(SAME_SITE)
        world.person("operator", is_operator=True)
        for project in (OWN, OTHER):
            world.places[project] = _filled(world, project)
        _callers(world)
        yield world
    finally:
        next(servers, None)


def sqlite_world(folder: Path) -> Json:
    """Settings of one on SQLite."""
    return {"home": folder}


def _callers(world: World) -> None:
    for role in PEOPLE[:-1]:
        world.person(role, {OWN: role})
    world.person("closed account", {OWN: "admin"})
    world.person("ended session", {OWN: "admin"})
    old = world.person("old session", {OWN: "admin"})
    world.key("read key", Purpose.read, OWN)
    world.key("read key of all", Purpose.read)
    world.key("ingest key", Purpose.ingest)
    world.key("worker key", Purpose.worker)
    for name in ("expired key", "revoked key"):
        world.key(name, Purpose.read)
    world.live.services.sessions.end(world.headers["ended session"]["Cookie"].partition("=")[2])
    with world.live.services.database.write_session() as session:
        closed = accounts.named(session, "closed account")
        assert closed is not None
        accounts.close(session, closed.id)
        expiry = update(LoginSession).where(LoginSession.account_pk == old)
        session.execute(expiry.values(expires_at=now() - 1))
        for label, column in (("expired key", "expires_at"), ("revoked key", "revoked_at")):
            session.execute(update(ApiKey).where(ApiKey.label == label).values({column: now() - 1}))


def _filled(world: World, project: str) -> Place:
    """Puts something of everything into a project."""
    live, mark = world.live, MARKS[project]
    run_id = live.start_run(
        run_id=RUNS[project],
        project=project,
        name=f"{mark} run",
        tags=[f"{mark}-tag"],
        config={f"{mark}_key": f"{mark} value"},
    )
    with live.services.database.write_session() as session:
        place = Place(runs.project_id(session, project), run_id)
    _score(live, run_id, mark)
    place.job_id = _dead_job(live, run_id, mark)
    _alerts(world, place, project, mark)
    place.channel_id = _made(
        world, "/channels", "channel", name=f"{mark} channel", kind="webhook", project=project,
        url="http://127.0.0.1:9/hook", min_severity="info",
    )["channel_id"]  # fmt: skip
    draft = {"kind": "run", "run_ids": [run_id]}
    made = _made(world, "/shares", None, title=f"{mark} link", mode="snapshot", **draft)
    place.share_id, place.token = made["share"]["share_id"], made["token"]
    with live.services.database.write_session() as session:
        invited = accounts.invite(
            session, token_hash=mark, label=f"{mark} guest", expires_in=3600,
            project_id=place.project_id, role="viewer",
        )  # fmt: skip
        place.invitation_id = invited.id
    live.services.keyring.create(Purpose.ingest, project=project, label=f"{mark} trainer")
    place.key_id = live.services.keyring.all_keys()[-1][0].id
    place.account_id = world.person(f"{mark}-member", {project: "admin"})
    # People do something as well, so that the log and the inbox tell of it.
    about = {"notes": f"{mark} notes", "tags": [f"{mark}-tag"]}
    member = f"{mark}-member"
    said = world.api(member, "PATCH", f"/runs/{run_id}/about", json=about)
    assert said.status_code == 200, said.text
    note = {"note": f"{mark} note"}
    handled = world.api(member, "POST", f"/alerts/{place.alert_id}/acknowledge", json=note)
    assert handled.status_code == 200, handled.text
    return place


def _score(live: LiveServer, run_id: str, mark: str) -> None:
    for step in range(3):
        turn = {"prompt": f"{mark} prompt <think>", "response": f"{mark} reason</think>{mark} act"}
        rollouts = [
            {"group_id": f"{mark}-{group}", "reward": float(group), "turns": [turn]} for group in range(2)
        ]
        live.score(run_id, step, _result(mark), rollouts=rollouts)
    values = {f"{mark}_loss": 0.5, "loss": 0.5}
    points = [{"step": step, "values": values} for step in range(3)]
    assert live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points}).status_code == 200


def _result(mark: str) -> Json:
    result = result_body()
    for prompt in result["evaluations"][0]["prompts"]:
        prompt["group_ids"] = [f"{mark}-{one}" for one in prompt["group_ids"]]
        prompt["preview"] = f"{mark} prompt"
    for group in result["groups"]:
        group["group_id"] = f"{mark}-1"
    result["scorer"] = {"kind": "reference", "label": f"reference: {mark}"}
    result["filters"] = [{"rule": f"{mark} rule", "kept_group_ids": [f"{mark}-1"], "num_groups": 2}]
    return result


def _dead_job(live: LiveServer, run_id: str, mark: str) -> int:
    assert live.send_batch(run_id, 3).status_code == 202
    job_id = int(live.claim("killer")["job_id"])
    failure = {"worker": "killer", "error": f"{mark} error", "traceback": f"{mark} trace"}
    assert live.worker(f"/jobs/{job_id}/fail", {**failure, "retry": False}).status_code == 200
    return job_id


def _alerts(world: World, place: Place, project: str, mark: str) -> None:
    rule = {"metric": "loss", "scope": "trainer", "operator": ">", "threshold": 1.0, "project": project}
    place.rule_id = _made(world, "/alert-rules", None, name=f"{mark} alert", **rule)["rule_id"]
    points = [{"step": 4, "values": {"loss": 2.0}}]
    body = {"points": points}
    assert world.live.ingest("POST", f"/runs/{place.run_id}/scalars", json=body).status_code == 200
    found = world.api("operator", "GET", "/alerts", params={"run": place.run_id}).json()["items"]
    place.alert_id = found[0]["alert_id"]
    known = world.api("operator", "GET", "/alert-rules/detectors").json()["detectors"]
    choice = {"project": project, "rule": known[0]["rule"], "severity": "info"}
    assert world.api("operator", "PUT", "/alert-rules/detectors", json=choice).status_code == 200


def _made(world: World, path: str, part: str | None, **body: Any) -> Json:
    response = world.api("operator", "POST", path, json=body)
    assert response.status_code == 201, response.text
    found: Json = response.json()
    return found if part is None else dict(found[part])
