"""What a body may name; what a narrowed request sets off is not narrowed; what ends with a session."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from collapsewatch_server.access.roles import Role
from collapsewatch_server.access.visible import Visible, seeing
from collapsewatch_server.account_tables import Account
from collapsewatch_server.alert_tables import AlertThread
from collapsewatch_server.auth import Purpose
from collapsewatch_server.channel_tables import Delivery
from collapsewatch_server.curation.deletions import Deletions
from collapsewatch_server.db import now
from collapsewatch_server.repositories import accounts, deliveries, detector_settings
from collapsewatch_server.repositories.detector_settings import EVERY_PROJECT, Setting
from collapsewatch_server.tables import ApiKey, Run
from tests.conftest import Deployment
from tests.server.live import Json
from tests.server.two_projects import OTHER, OWN, RUNS, World, sqlite_world, two_projects

RULE: Json = {"metric": "loss", "scope": "trainer", "operator": ">", "threshold": 1.0}
BOTH_RUNS = {"title": "t", "kind": "comparison", "run_ids": [RUNS[OWN], RUNS[OTHER]]}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with two_projects(sqlite_world(tmp_path_factory.mktemp("home"))) as found:
        yield found


def channel(**changes: Any) -> Json:
    return {"name": "ours", "kind": "webhook", "url": "http://127.0.0.1:9/hook", **changes}


def detector(**changes: Any) -> Json:
    return {"rule": "input_dependence", "enabled": True, "severity": "info", **changes}


def toml(**changes: Any) -> Json:
    """A file with a rule of the own project, and one with these changes."""
    rules = [{"name": "first of a file", "project": OWN}, {"name": "second of a file", **changes}]
    texts = []
    for rule in rules:
        lines = [f"{name} = {json.dumps(value)}" for name, value in {**RULE, **rule}.items()]
        texts.append("\n".join(["[[rule]]", *lines]))
    return {"toml": "\n\n".join(texts)}


@pytest.mark.parametrize(
    ("caller", "method", "path", "body", "status"),
    [
        ("editor", "POST", "/alert-rules", {**RULE, "name": "n", "project": OTHER}, 404),
        ("editor", "POST", "/alert-rules", {**RULE, "name": "n", "project": "nowhere"}, 404),
        ("editor", "POST", "/alert-rules", {**RULE, "name": "n", "run": RUNS[OTHER]}, 404),
        ("editor", "POST", "/alert-rules", {**RULE, "name": "n", "project": OWN, "run": RUNS[OTHER]}, 404),
        ("editor", "POST", "/alert-rules", {**RULE, "name": "n"}, 403),
        ("admin", "POST", "/alert-rules", {**RULE, "name": "n", "tag": "cobalt-tag"}, 403),
        ("editor", "POST", "/alert-rules", {**RULE, "name": "cobalt alert", "project": OWN}, 409),
        ("editor", "PUT", "/alert-rules/1", {**RULE, "name": "n", "project": OTHER}, 404),
        ("editor", "PUT", "/alert-rules/1", {**RULE, "name": "n"}, 403),
        ("editor", "PUT", "/alert-rules/1", {**RULE, "name": "cobalt alert", "project": OWN}, 409),
        ("editor", "PUT", "/alert-rules/2", {**RULE, "name": "n", "project": OWN}, 404),
        ("editor", "POST", "/alert-rules/import", toml(project=OTHER), 404),
        ("editor", "POST", "/alert-rules/import", toml(run=RUNS[OTHER]), 404),
        ("editor", "POST", "/alert-rules/import", toml(), 403),
        ("editor", "POST", "/alert-rules/import", toml(name="cobalt alert", project=OWN), 409),
        ("editor", "POST", "/alert-rules/preview", {**RULE, "name": "n", "project": OTHER}, 404),
        ("editor", "POST", "/alert-rules/preview", {**RULE, "name": "n", "run": RUNS[OTHER]}, 404),
        ("editor", "PUT", "/alert-rules/detectors", detector(project=OTHER), 404),
        ("editor", "PUT", "/alert-rules/detectors", detector(), 403),
        ("editor", "DELETE", "/alert-rules/detectors/input_dependence", None, 403),
        ("editor", "DELETE", f"/alert-rules/detectors/input_dependence?project={OTHER}", None, 404),
        ("admin", "POST", "/channels", channel(project=OTHER), 404),
        ("admin", "POST", "/channels", channel(), 403),
        ("admin", "POST", "/channels", channel(name="cobalt channel", project=OWN), 409),
        ("admin", "PATCH", "/channels/1", {"project": OTHER}, 404),
        ("admin", "PATCH", "/channels/1", {"all_projects": True}, 403),
        ("admin", "PATCH", "/channels/2", {"name": "taken over"}, 404),
        ("editor", "POST", "/shares", BOTH_RUNS, 404),
        ("read key", "POST", "/shares", BOTH_RUNS, 404),
        ("editor", "POST", "/alerts/acknowledge", {"alert_ids": [1, 2], "by": "me"}, 404),
        ("editor", "POST", "/alerts/2/resolve", {"by": "me"}, 404),
    ],
)
def test_a_body_names_only_what_its_sender_may_decide_of(
    world: World, caller: str, method: str, path: str, body: Json | None, status: int
) -> None:
    before = world.stored()
    response = world.api(caller, method, path, **({} if body is None else {"json": body}))
    assert response.status_code == status, response.text
    assert world.stored() == before


def test_what_is_of_the_own_project_may_be_named(world: World) -> None:
    calls: list[tuple[str, str, str, Json]] = [
        ("editor", "POST", "/alert-rules", {**RULE, "name": "of the project", "project": OWN}),
        ("editor", "POST", "/alert-rules", {**RULE, "name": "of the run", "run": RUNS[OWN]}),
        ("editor", "POST", "/alert-rules/import", toml(project=OWN)),
        ("editor", "POST", "/alert-rules/preview", {**RULE, "name": "tried"}),
        ("editor", "PUT", "/alert-rules/detectors", detector(project=OWN)),
        ("admin", "POST", "/channels", channel(project=OWN)),
        ("editor", "POST", "/shares", {"title": "t", "kind": "run", "run_ids": [RUNS[OWN]]}),
        ("read key", "POST", "/shares", {"title": "t", "kind": "run", "run_ids": [RUNS[OWN]]}),
    ]
    for caller, method, path, body in calls:
        assert world.api(caller, method, path, json=body).status_code in (200, 201), (path, body)
    tried = world.api("editor", "POST", "/alert-rules/preview", json={**RULE, "name": "tried"}).json()
    assert [tried["num_runs"], *(one["run_id"] for one in tried["runs"])] == [1, RUNS[OWN]]


def test_the_answer_to_a_change_shows_what_its_sender_can_read(world: World) -> None:
    everywhere = detector(severity="critical")
    assert world.api("operator", "PUT", "/alert-rules/detectors", json=everywhere).status_code == 200
    answer = world.api("editor", "PUT", "/alert-rules/detectors", json=detector(project=OWN)).json()
    assert answer == world.api("editor", "GET", "/alert-rules/detectors").json()
    (one,) = [one for one in answer["detectors"] if one["rule"] == everywhere["rule"]]
    assert {setting["project"] for setting in one["settings"]} == {None, OWN}


def test_a_rule_that_an_editor_wrote_opens_alerts_of_what_trainers_send(world: World) -> None:
    rule = {**RULE, "name": "by an editor", "threshold": 5.0, "run": RUNS[OWN]}
    made = world.api("editor", "POST", "/alert-rules", json=rule)
    assert made.status_code == 201
    points = [{"step": 20, "values": {"loss": 6.0}}]
    path = f"/runs/{RUNS[OWN]}/scalars"
    assert world.live.ingest("POST", path, json={"points": points}).status_code == 200
    found = world.api("viewer", "GET", "/alerts", params={"rule": made.json()["rule"]}).json()["items"]
    assert [one["opened_step"] for one in found] == [20]
    # Changed into another matter, it closes them again.
    changed = world.api(
        "editor", "PUT", f"/alert-rules/{made.json()['rule_id']}", json={**rule, "metric": "x"}
    )
    assert changed.json()["num_open"] == 0


def test_an_editor_who_handles_an_alert_leaves_it_as_grave_as_is_set_for_all(world: World) -> None:
    thread = select(AlertThread).where(AlertThread.rule == "own/1")
    with world.live.services.database.write_session() as session:
        detector_settings.put(session, EVERY_PROJECT, "own/1", Setting(enabled=True, severity="critical"))
    assert world.api("editor", "POST", "/alerts/1/resolve", json={"by": "me"}).status_code == 200
    with world.live.services.database.read_session() as session:
        found = session.scalars(thread).one()
        assert (found.state, found.severity) == ("resolved", "critical")


def test_a_snapshot_by_an_editor_holds_all_that_one_by_an_operator_does(world: World) -> None:
    answers = []
    for caller in ("editor", "operator"):
        draft = {"title": "t", "kind": "run", "run_ids": [RUNS[OWN]], "mode": "snapshot"}
        token = world.api(caller, "POST", "/shares", json=draft).json()["token"]
        paths = ("/series?scope=trainer", "/alerts", "/steps/1", "/trajectory")
        found = [world.api("nobody", "GET", f"/shared/{token}/runs/{RUNS[OWN]}{path}") for path in paths]
        assert [one.status_code for one in found] == [200] * len(paths)
        answers.append([one.json() for one in found])
    assert answers[0] == answers[1]
    assert answers[0][1]["alerts"]


def test_what_a_channel_told_before_it_was_of_a_project_stays_with_those_who_were_told(world: World) -> None:
    changes = [{"project": OWN, "title": "amber"}, {"project": OTHER, "title": "cobalt"}, {"project": None}]
    with world.live.services.database.write_session() as session:
        message: Any = {"changes": changes}
        given = {"kind": "digest", "status": "sent", "message": message, "attempts": 1, "answer": ""}
        kept: Delivery = deliveries.add(session, 1, [], delivery_id="d1", status_code=200, **given)
        assert kept.channel_pk == 1
    shown = world.api("admin", "GET", "/channels/1/deliveries").json()["deliveries"]
    assert [one["changes"] for one in shown if one["delivery_id"] == "d1"] == [changes[:1]]
    shown = world.api("operator", "GET", "/channels/1/deliveries").json()["deliveries"]
    assert [one["changes"] for one in shown if one["delivery_id"] == "d1"] == [changes]


def test_a_run_that_an_admin_deletes_goes_with_its_blobs_and_nobody_elses(
    world: World, tmp_path: Path
) -> None:
    live = world.live
    run_id = live.start_run(project=OWN)
    assert live.send_batch(run_id, 1).status_code == 202
    blobs = live.services.settings.home / "blobs"
    before = {path for path in blobs.rglob("*") if path.is_file()}
    assert world.api("editor", "DELETE", f"/runs/{run_id}").status_code == 403
    assert world.api("admin", "DELETE", f"/runs/{run_id}").status_code == 200
    Deletions(live.services.database, live.services.blobs).look()
    gone = before - {path for path in blobs.rglob("*") if path.is_file()}
    assert len(gone) == 1
    assert world.api("operator", "GET", f"/runs/{RUNS[OTHER]}/rollouts?step=1").status_code == 200


def test_what_runs_beside_the_requests_sees_every_project(world: World) -> None:
    """A thread that a narrowed request starts takes nothing of its bounds along."""
    found: list[list[str]] = []

    def look() -> None:
        with world.live.services.database.read_session() as session:
            found.append(sorted(session.scalars(select(Run.run_id).where(Run.deleted_at.is_(None)))))

    with seeing(Visible(frozenset(), service_wide=False)):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        look()
    assert set(found[0]) >= {RUNS[OWN], RUNS[OTHER]}
    assert found[1] == []


def test_somebody_without_a_role_takes_one_by_a_link(world: World) -> None:
    world.person("newcomer")
    assert world.api("newcomer", "GET", "/runs").json() == {"runs": []}
    made = world.live.services.people.invite(
        "newcomer", project_id=world.places[OTHER].project_id, role=Role.editor
    )
    accepted = world.api("newcomer", "POST", "/session/accept", json={"token": made.token})
    assert accepted.status_code == 200, accepted.text
    assert accepted.json()["roles"] == {str(world.places[OTHER].project_id): "editor"}
    runs = world.api("newcomer", "GET", "/runs").json()["runs"]
    assert [run["run_id"] for run in runs] == [RUNS[OTHER]]


# Streams stay open for days: each way in which their caller loses the right ends them, or narrows them.


def _ended_session(world: World, caller: str) -> None:
    world.live.services.sessions.end(world.headers[caller]["Cookie"].partition("=")[2])


def _closed_account(world: World, caller: str) -> None:
    with world.live.services.database.write_session() as session:
        session.execute(update(Account).where(Account.name == caller).values(closed_at=now()))


def _revoked_key(world: World, caller: str) -> None:
    with world.live.services.database.write_session() as session:
        session.execute(update(ApiKey).where(ApiKey.label == caller).values(revoked_at=now()))


@pytest.mark.parametrize("end", [_ended_session, _closed_account, _revoked_key])
def test_an_open_stream_ends_with_what_it_was_asked_for_with(
    world: World, end: Callable[[World, str], None]
) -> None:
    caller = f"streams until {end.__name__}"
    if end is _revoked_key:
        world.key(caller, Purpose.read, OWN)
    else:
        world.person(caller, {OWN: "viewer"})
    headers = world.headers[caller]
    with world.live.http.stream("GET", "/api/v1/stream", headers=headers, timeout=8) as response:
        assert response.status_code == 200
        lines = response.iter_lines()
        assert next(lines).startswith("event: hello")
        end(world, caller)
        # It ends: without that, reading would go on until the client's own time is over.
        assert "event: batch" not in list(lines)
    assert world.api(caller, "GET", "/runs").status_code == 401


def test_an_open_stream_tells_nothing_more_of_a_project_whose_role_was_taken(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collapsewatch_server.web.guard._LOOK_AGAIN_SECONDS", 0.0)
    own, other = world.places[OWN], world.places[OTHER]
    account_pk = world.person("of both", {OWN: "viewer", OTHER: "viewer"})
    with world.live.http.stream("GET", "/api/v1/stream", headers=world.headers["of both"]) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("event: hello")
        with world.live.services.database.write_session() as session:
            accounts.remove_role(session, account_pk, own.project_id)
        for run_id in (own.run_id, other.run_id):
            points = [{"step": 30, "values": {"loss": 0.1}}]
            path = f"/runs/{run_id}/scalars"
            assert world.live.ingest("POST", path, json={"points": points}).status_code == 200
        told = [json.loads(line[5:]) for line in _until(lines, other.run_id) if line.startswith("data")]
    assert {one.get("run_id") for one in told} <= {None, other.run_id}


def _until(lines: Iterator[str], word: str) -> Iterator[str]:
    for line in lines:
        yield line
        if word in line:
            return


def test_postgresql_is_narrowed_alike(fresh_postgres_url: str, tmp_path: Path) -> None:
    deployment = Deployment("postgresql", tmp_path, fresh_postgres_url, None)
    with two_projects(deployment.settings()) as world:
        for path in ("/runs", "/run-list", "/alerts", "/alert-rules", "/service", "/projects", "/channels"):
            response = world.api("admin", "GET", path)
            assert response.status_code == 200, response.text
            assert "zulu" not in response.text
            assert "cobalt" not in response.text
        world.live.services.run_desk.delete(RUNS[OTHER])
        headers = world.headers["editor"]
        params = {"last_event_id": 0}
        with world.live.http.stream("GET", "/api/v1/stream", params=params, headers=headers) as response:
            rule = {**RULE, "name": "n", "project": OWN, "threshold": 0.0}
            assert world.api("editor", "POST", "/alert-rules", json=rule).status_code == 201
            handled = world.api("editor", "POST", "/alerts/1/resolve", json={"note": "seen"})
            assert handled.status_code == 200, handled.text
            told = list(_until(response.iter_lines(), '"resolved"'))
        assert not [line for line in told if "zulu" in line]
        assert world.api("admin", "DELETE", f"/runs/{RUNS[OWN]}").status_code == 200
