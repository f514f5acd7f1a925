"""The audit log: what changes something stands there once, people understand it, and no secret is in it."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from collapsewatch.contracts.runs import RunStart
from collapsewatch_server.access.rules import RULES, Door, Rule
from collapsewatch_server.accounts.audit import AT_THE_MACHINE, Audit, Subject
from collapsewatch_server.accounts.audit_reading import AuditReading
from collapsewatch_server.audit_command import audit_app
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.reporting.audit_table import csv_chunks
from collapsewatch_server.repositories import runs
from collapsewatch_server.repositories.audit_subjects import Place
from collapsewatch_server.services import Services
from collapsewatch_server.settings import ServerSettings
from tests.server.team import PASSWORD, Person, Team, team_of

Json = dict[str, Any]
_TRAINER = Caller(1, Purpose.ingest, None)
_NOTED = [
    (method, path, rule)
    for (method, path), rule in sorted(RULES.items())
    if isinstance(rule, Rule) and rule.action
]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One service for all tests, each of which has projects of its own."""
    with team_of({"home": tmp_path_factory.mktemp("home")}) as team:
        yield team


@pytest.fixture(scope="module")
def olga(team: Team) -> Person:
    """Who operates the service."""
    return team.operator("olga")


@pytest.fixture
def database(deployment: Any) -> Iterator[Database]:
    database = Database(ServerSettings(**deployment.settings()).effective_database_url)
    upgrade(database.engine)
    yield database
    database.close()


def start_run(services: Services, run_id: str, project: str, name: str) -> None:
    services.runs.start_run(_TRAINER, RunStart(run_id=run_id, project=project, name=name))


def entries(who: Person, query: str = "") -> list[Json]:
    found: list[Json] = who.ok("GET", f"/audit?limit=500{query}")["entries"]
    return found


def newest(who: Person) -> Json:
    return entries(who)[0]


def said(entry: Json) -> tuple[str | None, ...]:
    return tuple(entry[name] for name in ("actor", "action", "target", "project", "outcome"))


# What is noted.


def test_every_rule_of_a_route_that_changes_something_has_an_action() -> None:
    silent = {
        (method, path)
        for (method, path), rule in RULES.items()
        if method not in ("GET", "HEAD") and isinstance(rule, Rule) and not rule.action
    }
    assert silent == set()
    # What people who are not known yet do is noted by the routes themselves; see below.
    doors = {path for (method, path), rule in RULES.items() if rule is Door.everybody and method != "GET"}
    ways_in = {"", "/link", "/join", "/provider"}
    assert doors == {f"/api/v1/session{way}" for way in ways_in}
    assert all(re.fullmatch(r"[a-z_]+\.[a-z_]+", rule.action) for _, _, rule in _NOTED)
    assert len(_NOTED) > 30


@pytest.mark.parametrize(("method", "path", "rule"), _NOTED)
def test_each_such_request_is_noted_once_with_how_it_ended(
    team: Team, olga: Person, method: str, path: str, rule: Rule
) -> None:
    before = len(entries(olga))
    filled = re.sub(r"\{run_id\}", "nobodys", path.removeprefix("/api/v1"))
    response = olga.call(method, re.sub(r"\{[a-z_]+\}", "123456", filled), {})
    added = entries(olga)[: len(entries(olga)) - before]
    assert [entry["action"] for entry in added] == [rule.action]
    assert (added[0]["actor"], added[0]["address"]) == ("olga", "testclient")
    assert added[0]["outcome"] == ("done" if response.is_success else response.json()["error"]["code"])
    assert response.status_code != 500
    if "{" in path:
        assert "nobodys" in added[0]["target"] or "123456" in added[0]["target"]


def test_reading_is_not_noted(team: Team, olga: Person) -> None:
    before = entries(olga)
    for path in ("/runs", "/projects", "/alerts", "/audit", "/session"):
        olga.ok("GET", path)
    assert entries(olga) == before


def test_entries_name_what_it_was_about_as_people_call_it(team: Team, olga: Person) -> None:
    start_run(team.services, "r1", "maze", "GRPO, no filter")
    project_id = team.project("maze")
    share = {"title": "look here", "kind": "run", "run_ids": ["r1"]}
    share_id = olga.ok("POST", "/shares", share)["share"]["share_id"]
    made = newest(olga)
    words = f"'look here', live of r1, link {share_id}"
    assert said(made) == ("olga", "share.create", words, "maze", "done")
    olga.ok("DELETE", f"/shares/{share_id}")
    assert said(newest(olga)) == ("olga", "share.revoke", f"link {share_id} 'look here'", "maze", "done")
    key_id = olga.ok("POST", f"/projects/{project_id}/keys", {"purpose": "read", "label": "nb", "days": 2})[
        "id"
    ]
    words = f"project 'maze', read key 'nb', for 2 days, key {key_id}"
    assert said(newest(olga)) == ("olga", "key.create", words, "maze", "done")
    olga.ok("DELETE", f"/projects/{project_id}/keys/{key_id}")
    assert newest(olga)["target"] == f"project 'maze', read key {key_id} 'nb'"
    rule = {"name": "kl up", "metric": "kl", "operator": ">", "threshold": 1, "project": "maze"}
    rule_id = olga.ok("POST", "/alert-rules", rule)["rule_id"]
    assert said(newest(olga))[2:] == (f"'kl up', rule {rule_id}", "maze", "done")
    olga.ok("DELETE", f"/alert-rules/{rule_id}")
    assert said(newest(olga))[1:] == ("rule.delete", f"rule {rule_id} 'kl up'", "maze", "done")
    olga.ok("PATCH", "/runs/r1/about", {"name": "new", "archived": True, "notes": "long"})
    words = "run 'GRPO, no filter' (r1), name 'new', archived True, notes"
    assert said(newest(olga))[1:] == ("run.describe", words, "maze", "done")
    olga.ok("DELETE", "/runs/r1")
    # It has no name any more; the entry has.
    assert said(newest(olga))[1:] == ("run.delete", "run 'new' (r1)", "maze", "done")


def test_what_is_done_to_people_is_noted_with_their_names(team: Team, olga: Person) -> None:
    project_id = team.project("hanoi")
    team.member("hugo", hanoi="viewer")
    hugo = team.account_id("hugo")
    olga.ok("PUT", f"/projects/{project_id}/members/{hugo}", {"role": "editor"})
    words = "project 'hanoi', account 'hugo', as editor"
    assert said(newest(olga)) == ("olga", "member.set", words, "hanoi", "done")
    invitation = olga.ok("POST", f"/projects/{project_id}/invitations", {"label": "Ida", "role": "viewer"})
    words = f"project 'hanoi', 'Ida', as viewer, invitation {invitation['id']}"
    assert said(newest(olga))[1:4] == ("invitation.create", words, "hanoi")
    team.joined(invitation["url"].rpartition("/")[2], "ida")
    words = f"invitation {invitation['id']} 'Ida', as viewer"
    assert said(newest(olga)) == ("ida", "account.join", words, "hanoi", "done")
    olga.ok("PATCH", f"/accounts/{hugo}", {"closed": True})
    assert said(newest(olga))[1:] == ("account.change", "account 'hugo', closed True", None, "done")


def test_what_was_refused_is_noted_where_it_was_tried(team: Team, olga: Person) -> None:
    start_run(team.services, "r2", "chess", "guarded")
    vera = team.member("vera", chess="viewer", other="admin")
    assert vera.refusal("DELETE", "/runs/r2")[0] == 403
    assert said(newest(olga)) == ("vera", "run.delete", "run 'guarded' (r2)", "chess", "forbidden")
    assert "r2" not in str(entries(vera))


def test_nobody_handles_an_alert_under_another_name(team: Team) -> None:
    start_run(team.services, "r4", "alerted", "n")
    edda = team.member("edda", alerted="editor")
    rule = {"name": "kl", "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 1, "run": "r4"}
    edda.ok("POST", "/alert-rules", rule)
    key = team.services.keyring.create(Purpose.ingest, project=None, label="")
    values = {"points": [{"step": 1, "values": {"kl": 2.0}}]}
    edda.ok("POST", "/runs/r4/scalars", values, key=key)
    (item,) = edda.ok("GET", "/alerts?run=r4")["items"]
    edda.ok("POST", f"/alerts/{item['alert_id']}/acknowledge", {"by": "olga", "note": "mine"})
    (item,) = edda.ok("GET", "/alerts?run=r4")["items"]
    assert (item["last_action"]["by"], item["last_action"]["note"]) == ("edda", "mine")


# Signing in.


def test_signing_in_and_out_is_noted_also_when_it_fails(team: Team, olga: Person) -> None:
    person = team.member("sina")
    browser = team.browser()
    assert browser.refusal("POST", "/session", {"name": "Sina", "password": "wrong"})[0] == 401
    assert said(newest(olga)) == ("sina", "session.open", "", None, "wrong_credentials")
    browser.ok("POST", "/session", {"name": "sina", "password": PASSWORD})
    assert said(newest(olga)) == ("sina", "session.open", "", None, "done")
    new = "nine other words for it"
    person.ok("POST", "/session/password", {"old": PASSWORD, "new": new})
    assert said(newest(olga))[:2] == ("sina", "password.change")
    person.ok("DELETE", "/session")
    assert said(newest(olga))[:2] == ("sina", "session.end")
    num = len(entries(olga))
    person.ok("DELETE", "/session")
    assert len(entries(olga)) == num


def test_a_password_in_the_field_of_the_name_is_not_noted(team: Team, olga: Person) -> None:
    assert team.browser().refusal("POST", "/session", {"name": PASSWORD, "password": "x"})[0] == 401
    assert said(newest(olga))[:2] == ("somebody", "session.open")


def test_a_flood_does_not_push_everything_else_out(team: Team, olga: Person) -> None:
    team.member("flo")
    browser, before = team.browser(), len(entries(olga))
    guess = {"name": "flo", "password": "guess"}
    codes = [browser.refusal("POST", "/session", guess)[0] for _ in range(40)]
    assert 429 in codes
    assert len(entries(olga)) - before == codes.count(401)


def test_no_secret_is_ever_in_the_log(team: Team, olga: Person) -> None:
    start_run(team.services, "r3", "secret", "n")
    project_id = team.project("secret")
    secrets = [PASSWORD]
    for path, body in (
        ("/invitations", {"label": "a", "makes_operator": False}),
        (f"/projects/{project_id}/invitations", {"label": "b", "role": "viewer"}),
    ):
        secrets.append(olga.ok("POST", path, body)["url"].rpartition("/")[2])
    for path in ("/keys", f"/projects/{project_id}/keys"):
        secrets.append(olga.ok("POST", path, {"purpose": "read", "label": "c", "days": None})["key"])
    share = {"title": "d", "kind": "run", "run_ids": ["r3"], "with_rollouts": True}
    secrets.append(olga.ok("POST", "/shares", share)["token"])
    team.joined(secrets[1], "sven")
    reset = olga.ok("POST", f"/accounts/{team.account_id('sven')}/reset")["url"].rpartition("/")[2]
    secrets += [reset, "a fine new password"]
    team.joined(reset, "sven", "a fine new password")
    assert newest(olga)["target"] == "new password for account 'sven'"
    channel = {"name": "e", "kind": "webhook", "url": "https://hooks.example/T0/s3cret", "secret": "k" * 20}
    assert olga.call("POST", "/channels", channel).status_code in (201, 422)
    assert newest(olga)["action"] == "channel.create"
    text = olga.call("GET", "/audit/export.csv").text
    assert [one for one in [*secrets, "s3cret", "k" * 20] if one in text] == []


# Reading it.


def test_admins_read_of_their_projects_and_operators_of_everything(team: Team, olga: Person) -> None:
    start_run(team.services, "p1", "north", "n")
    start_run(team.services, "p2", "south", "s")
    for run_id in ("p1", "p2"):
        olga.ok("PATCH", f"/runs/{run_id}/about", {"name": f"{run_id} renamed"})
    nora = team.member("nora", north="admin", south="viewer")
    assert {entry["project"] for entry in entries(nora)} == {"north"}
    assert {"north", "south"} <= {entry["project"] for entry in entries(olga)}
    assert "p2" not in nora.call("GET", "/audit/export.csv").text
    assert entries(nora, f"&project_id={team.project('south')}") == []
    assert team.member("vito", north="editor").refusal("GET", "/audit") == (403, "forbidden")
    assert team.browser().refusal("GET", "/audit/export.csv") == (401, "unauthorised")


def test_pages_and_filters(team: Team, olga: Person) -> None:
    everything = entries(olga)
    assert [entry["id"] for entry in everything] == sorted((e["id"] for e in everything), reverse=True)
    paged: list[Json] = []
    before = ""
    while True:
        page = olga.ok("GET", f"/audit?limit=7{before}")
        paged += page["entries"]
        if page["next_before_id"] is None:
            break
        before = f"&before_id={page['next_before_id']}"
    assert paged == everything
    kinds = {entry["action"] for entry in entries(olga, "&action=run")}
    assert kinds == {entry["action"] for entry in everything if entry["action"].startswith("run.")}
    assert {entry["action"] for entry in entries(olga, "&action=run.delete")} == {"run.delete"}
    assert olga.refusal("GET", "/audit?action=%25")[0] == 422
    assert entries(olga, "&action=ru") == []


def test_the_export_is_the_whole_log_and_no_cell_is_a_formula(team: Team, olga: Person) -> None:
    start_run(team.services, "f1", "=1+1", "n")
    olga.ok("PATCH", "/runs/f1/about", {"name": 'two "lines"\n, and a comma'})
    response = olga.call("GET", "/audit/export.csv")
    assert response.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(response.text)))
    # Who takes the log away stands in it as well, once the file is on its way.
    assert newest(olga)["action"] == "audit.export"
    everything = [entry for entry in entries(olga) if entry["id"] <= int(rows[0]["id"])]
    assert [row["target"] for row in rows] == [entry["target"] for entry in everything]
    assert [row["outcome"] for row in rows] == [entry["outcome"] for entry in everything]
    assert rows[0]["project"] == "'=1+1"


def test_a_long_log_is_handed_out_piece_by_piece(database: Database) -> None:
    log = Audit(database)
    for number in range(7):
        log.note("run.delete", actor=f"a{number}")
    for at_once in (1, 3, 7, 100):
        reading = AuditReading(database, entries_at_once=at_once)
        rows = list(csv.reader(io.StringIO("".join(csv_chunks(reading.all(project_id=None, action=None))))))
        assert [row[2] for row in rows[1:]] == [f"a{number}" for number in reversed(range(7))]


# What is written.


def test_what_concerns_two_projects_stands_in_the_log_of_each(database: Database) -> None:
    with database.write_session() as session:
        ids = [runs.project_id(session, name) for name in ("a", "b")]
    subject = Subject(words=["both"], places=[Place("project", "a"), Place("project_id", str(ids[1]))])
    Audit(database).note_subject(subject, "alert.acknowledge", actor="x", address="", outcome="done")
    page = AuditReading(database).page(before_id=None, limit=9, project_id=None, action=None)
    assert sorted(str(entry.project) for entry in page.entries) == ["a", "b"]


def test_whatever_an_address_holds_can_be_noted(database: Database) -> None:
    log = Audit(database)
    given = ["\x00", "\ud800", "9" * 30, "-1", "٣", "x" * 10_000]
    for value in given:
        for kind in ("run_id", "project_id", "alert_id", "rule"):
            subject = log.subject_of({kind: value})
            log.note_subject(subject, "run.delete", actor=value, address=value, outcome="invalid_request")
    page = AuditReading(database).page(before_id=None, limit=99, project_id=None, action=None)
    assert len(page.entries) == 4 * len(given)
    assert all(len(entry.target) <= 500 and len(entry.actor) <= 200 for entry in page.entries)


def test_the_log_can_be_exported_at_the_machine(tmp_path: Path) -> None:
    with team_of({"home": tmp_path / "home"}) as team:
        team.operator("olga").ok("POST", "/keys", {"purpose": "worker", "label": "w", "days": None})
    file = tmp_path / "audit.csv"
    arguments = ["export", str(file), "--home", str(tmp_path / "home")]
    made = CliRunner().invoke(audit_app, arguments)
    assert made.exit_code == 0, made.output
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [(row["actor"], row["action"]) for row in rows] == [
        ("olga", "key.create"),
        ("olga", "account.join"),
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    again = CliRunner().invoke(audit_app, arguments)
    assert (again.exit_code, "exists already" in again.output) == (1, True)
    other = CliRunner().invoke(audit_app, [*arguments[:1], str(tmp_path / "b.csv"), *arguments[2:]])
    assert other.exit_code == 0
    first = next(csv.DictReader(io.StringIO((tmp_path / "b.csv").read_text())))
    assert (first["actor"], first["action"], first["target"]) == (AT_THE_MACHINE, "audit.export", "2 entries")
    nowhere = CliRunner().invoke(audit_app, ["export", "-", "--home", str(tmp_path / "nowhere")])
    assert (nowhere.exit_code, "no database" in nowhere.output) == (1, True)
    assert not (tmp_path / "nowhere").exists()
