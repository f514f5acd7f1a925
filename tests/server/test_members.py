"""Who may do what in a project: changed by its admins, and nobody reaches another's."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.team import Team, team_of


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """One service for all tests, each of which has its own people."""
    with team_of({"home": tmp_path_factory.mktemp("home")}) as team:
        yield team


def test_an_admin_changes_roles_and_removes_members_but_never_the_last_admin(team: Team) -> None:
    project = team.project("led")
    pia, rui = team.member("pia", led="admin"), team.member("rui", led="viewer")
    path = f"/projects/{project}/members"
    me, him = team.account_id("pia"), team.account_id("rui")
    for call in (("PUT", f"{path}/{me}", {"role": "editor"}), ("DELETE", f"{path}/{me}")):
        assert pia.refusal(*call) == (409, "account_conflict")
    assert pia.ok("PUT", f"{path}/{me}", {"role": "admin"})["role"] == "admin"
    assert pia.ok("PUT", f"{path}/{him}", {"role": "admin"})["role"] == "admin"
    left_behind = pia.ok("POST", f"/projects/{project}/invitations", {"label": "x", "role": "admin"})
    pia.ok("PUT", f"{path}/{me}", {"role": "viewer"})
    assert pia.refusal("PUT", f"{path}/{him}", {"role": "viewer"}) == (403, "forbidden")
    assert rui.ok("GET", f"/projects/{project}/invitations") == {"invitations": []}, left_behind
    rui.ok("DELETE", f"{path}/{me}")
    assert rui.refusal("DELETE", f"{path}/{me}") == (404, "account_not_found")
    assert pia.ok("GET", "/projects") == {"projects": []}
    # Operators can make another admin, so they may take the last one's role.
    team.operator("olaf").ok("DELETE", f"{path}/{him}")


def test_only_operators_give_a_role_to_somebody_who_has_none(team: Team) -> None:
    project = team.project("closed-shop")
    sam = team.member("sam", **{"closed-shop": "admin"})
    team.member("tom")
    path = f"/projects/{project}/members/{team.account_id('tom')}"
    # The same answer as for nobody at all: accounts cannot be counted by this.
    refused = sam.refusal("PUT", path, {"role": "viewer"})
    assert refused == sam.refusal("PUT", f"/projects/{project}/members/999999", {"role": "viewer"})
    assert refused == (404, "account_not_found")
    operator = team.operator("oscar")
    assert operator.ok("PUT", path, {"role": "viewer"})["name"] == "tom"
    assert operator.refusal("PUT", "/projects/999999/members/1", {"role": "viewer"})[0] == 404


def test_people_of_one_project_reach_nothing_of_another(team: Team) -> None:
    theirs = team.project("theirs")
    una = team.member("una", ours="admin")
    tim = team.member("tim", theirs="viewer")
    calls: list[tuple[str, str, Any]] = [
        ("GET", "/members", None),
        ("PUT", f"/members/{team.account_id('tim')}", {"role": "admin"}),
        ("DELETE", f"/members/{team.account_id('tim')}", None),
        ("GET", "/invitations", None),
        ("POST", "/invitations", {"label": "me", "role": "admin"}),
        ("DELETE", "/invitations/1", None),
        ("GET", "/keys", None),
        ("POST", "/keys", {"purpose": "read", "label": "me"}),
        ("DELETE", "/keys/1", None),
    ]
    for method, path, body in calls:
        status = una.call(method, f"/projects/{theirs}{path}", body).status_code
        assert status in (403, 404), (method, path)
        assert tim.call(method, f"/projects/{theirs}{path}", body).status_code == 403, (method, path)
    assert tim.ok("GET", "/session")["roles"] == {str(theirs): "viewer"}
