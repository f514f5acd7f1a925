"""The commands `accounts` and `keys`: what whoever runs the service does on its own machine."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from sqlalchemy import text
from typer.testing import CliRunner, Result

from collapsewatch_server.account_commands import accounts_app
from collapsewatch_server.main import keys_app
from tests.server.team import PASSWORD, Team, team_of


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with team_of({"home": tmp_path}) as team:
        yield team


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path))
    return tmp_path


def run(app: typer.Typer, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def link(result: Result, page: str = "http://127.0.0.1:7788") -> str:
    """Token of the link that a command printed."""
    assert result.exit_code == 0, result.output
    found = re.fullmatch(re.escape(page) + r"/#/join/([A-Za-z0-9_-]{43})", result.stdout.strip())
    assert found is not None, result.stdout
    return found[1]


def noted(team: Team) -> list[tuple[str, int | None]]:
    """What the audit log says was done at the machine, and in which projects, oldest first."""
    statement = text(
        "SELECT action, project_id FROM audit_log WHERE actor = 'operator at the machine' ORDER BY id"
    )
    with team.services.database.read_session() as session:
        return [(action, project_id) for action, project_id in session.execute(statement)]


def test_a_person_is_invited_helped_and_closed_from_the_machine(team: Team, home: Path) -> None:
    project = team.project("p")
    person = team.joined(
        link(run(accounts_app, "invite", "Ada", "--project", "p", "--role", "editor")), "ada"
    )
    assert person.ok("GET", "/session")["roles"] == {str(project): "editor"}
    team.joined(link(run(accounts_app, "invite", "Olga", "--operator")), "olga")
    listed = run(accounts_app, "list").stdout
    assert re.search(r"olga +yes +password", listed)
    assert re.search(r"ada +password", listed)
    fresh = team.joined(link(run(accounts_app, "reset", "Ada")), "ada", "a new one that is long")
    assert person.ok("GET", "/session")["name"] is None
    assert run(accounts_app, "close", "ada").stdout == "ada is closed\n"
    assert fresh.refusal("GET", "/projects") == (401, "unauthorised")
    for command in ("reset", "close"):
        gone = run(accounts_app, command, "ada")
        assert (gone.exit_code, gone.stderr) == (1, "collapsewatch: there is no account 'ada' that is open\n")
    last = run(accounts_app, "close", "olga")
    assert last.exit_code == 1
    assert "the last account that can operate the service" in last.stderr
    assert noted(team) == [
        ("invitation.create", project),
        ("invitation.create", None),
        ("account.reset", None),
        ("account.change", None),
    ]


def test_a_link_has_the_address_under_which_people_reach_the_page(
    team: Team, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "credentials.json").write_text(json.dumps({"url": "http://10.0.0.1:8000", "api_key": "x"}))
    link(run(accounts_app, "invite", "x"), "http://10.0.0.1:8000")
    monkeypatch.setenv("COLLAPSEWATCH_PUBLIC_URL", "https://watch.example/cw/")
    link(run(accounts_app, "invite", "x"), "https://watch.example/cw")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["invite", "x", "--project", "nowhere"], "there is no project 'nowhere'"),
        (["invite", "x", "--project", "p", "--role", "king"], "viewer, editor or admin"),
        (["invite", "x", "--role", "admin"], "add --project"),
        (["invite", "  "], "1 to 200 characters"),
        (["reset", "nobody"], "there is no account 'nobody'"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(
    team: Team, home: Path, arguments: list[str], reason: str
) -> None:
    refused = run(accounts_app, *arguments)
    assert refused.exit_code != 0
    assert reason in refused.stderr
    assert noted(team) == []


def test_keys_for_reading_end_when_they_should(team: Team, home: Path) -> None:
    made = run(keys_app, "create", "--purpose", "read", "--project", "p", "--days", "30", "--label", "nb")
    key = made.stdout.strip()
    assert team.browser().ok("GET", "/projects", key=key)["projects"][0]["name"] == "p"
    run(keys_app, "create", "--label", "for ever")
    header, first, second = run(keys_app, "list").stdout.splitlines()
    assert header.split("  ")[0] == "id"
    assert [len(re.findall(r"\d{4}-\d\d-\d\d", line)) for line in (first, second)] == [3, 1]
    assert key[:18] in first
    assert key not in first
    assert run(keys_app, "create", "--days", "0").exit_code == 2
    assert run(keys_app, "revoke", "1").exit_code == 0
    assert run(keys_app, "revoke", "1").exit_code == 1
    refused = team.browser().call("GET", "/projects", key=key)
    assert refused.status_code == 401
    project = team.project("p")
    assert noted(team) == [("key.create", project), ("key.create", None), ("key.revoke", project)]


def test_somebody_who_signed_in_before_still_knows_the_password(team: Team, home: Path) -> None:
    link(run(accounts_app, "invite", "x"))
    team.member("eve")
    run(accounts_app, "reset", "eve")
    # The link alone changes nothing; whoever asked for it may have been wrong.
    team.browser().ok("POST", "/session", {"name": "eve", "password": PASSWORD})
