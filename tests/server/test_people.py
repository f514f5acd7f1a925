"""Accounts, members, invitations and passwords: whole journeys, and what nobody may do."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from collapsewatch_server.account_tables import Invitation
from collapsewatch_server.accounts import passwords
from collapsewatch_server.accounts.invitations import MOST_PENDING
from collapsewatch_server.accounts.people import NewLink
from collapsewatch_server.repositories import accounts
from tests.server.team import PASSWORD, URL, Team, team_of

OTHER = "another five words for tests"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One service for all tests, each of which has its own people."""
    with team_of({"home": tmp_path_factory.mktemp("home")}) as team:
        yield team


@pytest.fixture
def own_team(tmp_path: Path) -> Iterator[Team]:
    """A service of a test's own, in which nobody has an account."""
    with team_of({"home": tmp_path}) as team:
        yield team


def token_of(answer: Any) -> str:
    assert answer["url"].startswith(f"{URL}/#/join/")
    return str(answer["url"].rpartition("/")[2])


def age(team: Team, made: NewLink) -> None:
    with team.services.database.write_session() as session:
        session.execute(update(Invitation).where(Invitation.id == made.invitation.id).values(expires_at=1.0))


# The first operator.


def test_the_first_link_makes_one_operator_once_and_dies_at_the_next_start(own_team: Team) -> None:
    people = own_team.services.people
    assert people.needs_first()
    dead = people.first_link()
    good = people.first_link()
    assert 86_000 < good.invitation.expires_at - good.invitation.created_at < 86_500
    nobody = own_team.browser()
    body = {"token": dead.token, "name": "olga", "password": PASSWORD}
    assert nobody.refusal("POST", "/session/join", body) == (410, "invitation_ended")
    assert nobody.refusal("GET", "/accounts") == (401, "unauthorised")
    look = nobody.ok("POST", "/session/link", {"token": good.token})
    assert look == {"purpose": "join", "label": "operator", "makes_operator": True, "role": None}
    first = own_team.joined(good.token, "olga")
    assert first.ok("GET", "/session")["is_operator"]
    assert not people.needs_first()
    again = {"token": good.token, "name": "eve", "password": PASSWORD}
    assert nobody.refusal("POST", "/session/join", again) == (410, "invitation_ended")
    assert [one["name"] for one in first.ok("GET", "/accounts")["accounts"]] == ["olga"]


def test_a_link_that_is_too_old_is_worthless(team: Team) -> None:
    made = team.services.people.invite("late")
    age(team, made)
    body = {"token": made.token, "name": "late", "password": PASSWORD}
    assert team.browser().refusal("POST", "/session/join", body) == (410, "invitation_ended")
    assert team.browser().refusal("POST", "/session/link", {"token": made.token}) == (410, "invitation_ended")


# Joining a project.


def test_an_invitation_to_a_project_gives_its_role_there_and_nowhere_else(team: Team) -> None:
    project, other = team.project("joined"), team.project("not-joined")
    ada = team.member("ada", joined="admin")
    made = ada.ok("POST", f"/projects/{project}/invitations", {"label": "Ben", "role": "editor"})
    (listed,) = ada.ok("GET", f"/projects/{project}/invitations")["invitations"]
    assert listed == {key: value for key, value in made.items() if key != "url"}
    assert (listed["label"], listed["role"], listed["invited_by"]) == ("Ben", "editor", "ada")
    ben = team.joined(token_of(made), "Ben@Lab.example")
    me = ben.ok("GET", "/session")
    assert (me["name"], me["roles"], me["is_operator"]) == (
        "ben@lab.example",
        {str(project): "editor"},
        False,
    )
    assert ada.ok("GET", f"/projects/{project}/invitations") == {"invitations": []}
    found = ben.ok("GET", "/projects")["projects"]
    assert found == [{"id": project, "name": "joined", "num_runs": 0, "role": "editor"}]
    members = ada.ok("GET", f"/projects/{project}/members")["members"]
    assert [(one["name"], one["role"]) for one in members] == [
        ("ada", "admin"),
        ("ben@lab.example", "editor"),
    ]
    assert all(one["last_seen_at"] for one in members)
    assert ben.refusal("GET", f"/projects/{project}/members") == (403, "forbidden")
    assert ada.call("GET", f"/projects/{other}/members").status_code in (403, 404)


def test_somebody_with_an_account_accepts_an_invitation_to_another_project(team: Team) -> None:
    team.project("first")
    second = team.project("second")
    cleo = team.member("cleo", first="viewer")
    made = team.operator("opal").ok(
        "POST", f"/projects/{second}/invitations", {"label": "Cleo", "role": "editor"}
    )
    token = token_of(made)
    me = cleo.ok("POST", "/session/accept", {"token": token})
    assert me["roles"] == {str(team.project("first")): "viewer", str(second): "editor"}
    assert cleo.refusal("POST", "/session/accept", {"token": token}) == (410, "invitation_ended")
    # Without any role there is nothing that it could see yet.
    dora = team.member("dora")
    made = team.services.people.invite("Dora", makes_operator=True)
    assert dora.ok("POST", "/session/accept", {"token": made.token})["is_operator"]


def test_an_invitation_takes_no_role_away(team: Team) -> None:
    project = team.project("kept")
    eli = team.member("eli", kept="admin")
    made = eli.ok("POST", f"/projects/{project}/invitations", {"label": "myself", "role": "viewer"})
    assert eli.ok("POST", "/session/accept", {"token": token_of(made)})["roles"] == {str(project): "admin"}


def test_a_withdrawn_invitation_is_worthless_and_another_projects_cannot_be_withdrawn(team: Team) -> None:
    mine, other = team.project("mine"), team.project("other")
    fay = team.member("fay", mine="admin")
    olga = team.operator("odette")
    theirs = olga.ok("POST", f"/projects/{other}/invitations", {"label": "x", "role": "viewer"})
    ours = fay.ok("POST", f"/projects/{mine}/invitations", {"label": "x", "role": "viewer"})
    assert fay.refusal("DELETE", f"/projects/{mine}/invitations/{theirs['id']}")[0] == 404
    assert olga.refusal("DELETE", f"/invitations/{ours['id']}") == (404, "invitation_not_found")
    assert fay.ok("DELETE", f"/projects/{mine}/invitations/{ours['id']}") == {"deleted": True}
    assert fay.refusal("DELETE", f"/projects/{mine}/invitations/{ours['id']}")[0] == 404
    body = {"token": token_of(ours), "name": "gus", "password": PASSWORD}
    assert team.browser().refusal("POST", "/session/join", body) == (410, "invitation_ended")
    assert team.browser().ok("POST", "/session/link", {"token": token_of(theirs)})["role"] == "viewer"


def test_a_name_that_is_taken_leaves_the_link_good(team: Team) -> None:
    team.member("hana")
    made = team.services.people.invite("second Hana")
    body = {"token": made.token, "name": "HANA", "password": PASSWORD}
    assert team.browser().refusal("POST", "/session/join", body) == (409, "account_conflict")
    team.joined(made.token, "hana2")


def test_only_so_many_links_wait_to_be_used(team: Team) -> None:
    project = team.project("crowded")
    ida = team.member("ida", crowded="admin")
    for number in range(MOST_PENDING):
        team.services.people.invite(str(number), project_id=project)
    body = {"label": "one more", "role": "viewer"}
    refusal = ida.refusal("POST", f"/projects/{project}/invitations", body)
    assert refusal == (409, "invitation_conflict")


# Passwords.


def test_a_reset_link_sets_a_new_password_and_ends_all_sessions(team: Team) -> None:
    jan = team.member("jan")
    operator = team.operator("oprah")
    account = team.account_id("jan")
    dead = token_of(operator.ok("POST", f"/accounts/{account}/reset"))
    made = operator.ok("POST", f"/accounts/{account}/reset")
    nobody = team.browser()
    look = nobody.ok("POST", "/session/link", {"token": token_of(made)})
    assert (look["purpose"], look["label"]) == ("password", "jan")
    body = {"token": dead, "name": "jan", "password": OTHER}
    assert nobody.refusal("POST", "/session/join", body) == (410, "invitation_ended")
    # It is for one account, whatever name comes with it, and not for somebody who is signed in.
    assert operator.refusal("POST", "/session/accept", {"token": token_of(made)}) == (410, "invitation_ended")
    fresh = team.joined(token_of(made), "oprah", OTHER)
    assert fresh.ok("GET", "/session")["name"] == "jan"
    assert jan.ok("GET", "/session")["name"] is None
    assert jan.refusal("GET", "/projects") == (401, "unauthorised")
    old = {"name": "jan", "password": PASSWORD}
    assert nobody.refusal("POST", "/session", old) == (401, "wrong_credentials")
    nobody.ok("POST", "/session", {"name": "Jan", "password": OTHER})


def test_a_new_password_signs_out_all_other_browsers(team: Team) -> None:
    here = team.member("kim")
    there = team.browser()
    there.ok("POST", "/session", {"name": "kim", "password": PASSWORD})
    wrong = {"old": OTHER, "new": OTHER}
    assert here.refusal("POST", "/session/password", wrong) == (401, "wrong_credentials")
    assert there.ok("GET", "/session")["name"] == "kim"
    weak = {"old": PASSWORD, "new": "kim's password"}
    assert here.refusal("POST", "/session/password", weak) == (422, "weak_password")
    pending = team.services.people.reset_link(team.account_id("kim"))
    here.ok("POST", "/session/password", {"old": PASSWORD, "new": OTHER})
    assert here.refusal("POST", "/session/link", {"token": pending.token}) == (410, "invitation_ended")
    assert here.ok("GET", "/session")["name"] == "kim"
    assert there.ok("GET", "/session")["name"] is None


@pytest.mark.parametrize("password", ["short", "aaaaaaaaaaaaaaa", "x" * 201, "lou lou lou lou"])
def test_a_weak_password_opens_no_account_and_leaves_the_link_good(team: Team, password: str) -> None:
    made = team.services.people.invite("lou")
    body = {"token": made.token, "name": "lou", "password": password}
    assert team.browser().refusal("POST", "/session/join", body) == (422, "weak_password")
    team.services.people.invitation(made.token)


def test_a_wrong_name_costs_as_much_as_a_wrong_password(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.member("max")
    verified = []
    verify = passwords._hasher.verify

    class Noting:
        def verify(self, stored: str, password: str) -> bool:
            verified.append(stored[:30])
            return verify(stored, password)

    monkeypatch.setattr(passwords, "_hasher", Noting())
    answers = [
        team.browser().call("POST", "/session", {"name": name, "password": "wrong wrong wrong"})
        for name in ("max", "nobody")
    ]
    assert [one.status_code for one in answers] == [401, 401]
    assert answers[0].json() == answers[1].json()
    # Algorithm, memory, time and lanes stand at the start of a hash: the same work for both.
    assert len(verified) == 2
    assert verified[0] == verified[1]


def test_no_more_than_four_passwords_are_hashed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    guard, full, most = threading.Lock(), threading.Event(), [0, 0]

    class Slow:
        def hash(self, password: str) -> str:
            with guard:
                most[0] += 1
                most[1] = max(most)
                if most[0] == passwords.AT_ONCE:
                    full.set()
            full.wait(10)
            with guard:
                most[0] -= 1
            return password

    monkeypatch.setattr(passwords, "_hasher", Slow())
    threads = [threading.Thread(target=passwords.hashed, args=("x",)) for _ in range(3 * passwords.AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == [0, passwords.AT_ONCE]


# Accounts.


def test_who_is_closed_is_out_at_once_with_all_links_for_and_by_that_person(team: Team) -> None:
    project = team.project("left")
    operator = team.operator("orla")
    nina = team.member("nina", left="admin")
    account = team.account_id("nina")
    reset = token_of(operator.ok("POST", f"/accounts/{account}/reset"))
    back_door = token_of(
        nina.ok("POST", f"/projects/{project}/invitations", {"label": "me again", "role": "admin"})
    )
    kept = token_of(operator.ok("POST", f"/projects/{project}/invitations", {"label": "x", "role": "viewer"}))
    closed = operator.ok("PATCH", f"/accounts/{account}", {"closed": True})
    assert closed["closed_at"] is not None
    assert nina.refusal("GET", "/projects") == (401, "unauthorised")
    nobody = team.browser()
    signing_in = {"name": "nina", "password": PASSWORD}
    assert nobody.refusal("POST", "/session", signing_in) == (401, "wrong_credentials")
    for token in (reset, back_door):
        body = {"token": token, "name": "nina9", "password": OTHER}
        assert nobody.refusal("POST", "/session/join", body) == (410, "invitation_ended")
    assert nobody.ok("POST", "/session/link", {"token": kept})["role"] == "viewer"
    assert operator.refusal("POST", f"/accounts/{account}/reset") == (404, "account_not_found")
    assert operator.ok("GET", f"/projects/{project}/members") == {"members": []}
    # The name stays that of this person, so that the audit log stays true.
    made = team.services.people.invite("another Nina")
    body = {"token": made.token, "name": "nina", "password": PASSWORD}
    assert nobody.refusal("POST", "/session/join", body) == (409, "account_conflict")
    operator.ok("PATCH", f"/accounts/{account}", {"closed": False})
    assert nina.ok("GET", "/session")["name"] is None
    nobody.ok("POST", "/session", signing_in)
    assert nobody.ok("GET", "/session")["roles"] == {str(project): "admin"}


def test_the_last_operator_can_neither_be_closed_nor_made_less(own_team: Team) -> None:
    first = own_team.operator("first")
    me = own_team.account_id("first")
    for change in ({"closed": True}, {"is_operator": False}):
        assert first.refusal("PATCH", f"/accounts/{me}", change) == (409, "account_conflict")
    second = own_team.operator("second")
    pending = first.ok("POST", "/invitations", {"label": "a third", "makes_operator": True})
    first.ok("PATCH", f"/accounts/{me}", {"is_operator": False})
    assert first.refusal("GET", "/accounts") == (403, "forbidden")
    # What the one invited who may no longer invite is worthless.
    body = {"token": token_of(pending), "name": "third", "password": PASSWORD}
    assert own_team.browser().refusal("POST", "/session/join", body) == (410, "invitation_ended")
    other = own_team.account_id("second")
    # A closed operator counts for nothing, and closing one twice is harmless.
    second.ok("PATCH", f"/accounts/{me}", {"closed": True, "is_operator": True})
    second.ok("PATCH", f"/accounts/{me}", {"closed": True})
    assert second.refusal("PATCH", f"/accounts/{other}", {"closed": True}) == (409, "account_conflict")


def test_accounts_say_how_people_sign_in_and_a_provider_s_have_no_password_to_reset(team: Team) -> None:
    operator = team.operator("otto")
    with team.services.database.write_session() as session:
        accounts.add(
            session, name="sso", password_hash=None, subject="https://id.example 7", is_operator=False
        )
        accounts.add(session, name="bare", password_hash=None, subject=None, is_operator=False)
    found = {one["name"]: one["signs_in_by"] for one in operator.ok("GET", "/accounts")["accounts"]}
    assert (found["otto"], found["sso"], found["bare"]) == ("password", "provider", "nothing")
    reset = operator.refusal("POST", f"/accounts/{team.account_id('sso')}/reset")
    assert reset == (409, "account_conflict")
