"""What is believed of a proxy in front, and of whoever passes for one."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.testclient import TestClient

from collapsewatch_server.account_tables import Account, LoginSession
from collapsewatch_server.accounts.arrivals import Arrival
from collapsewatch_server.auth import Purpose
from collapsewatch_server.repositories import accounts
from collapsewatch_server.settings import ServerSettings
from tests.server.live import LiveServer
from tests.server.team import PASSWORD, Person, Team, team_of

USER = "X-Forwarded-User"
PROXY, ELSEWHERE = "10.0.0.2", "192.0.2.7"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    settings = {
        "home": tmp_path_factory.mktemp("proxies"),
        "trusted_proxies": "10.0.0.0/24, 127.0.0.1",
        "proxy_user_header": USER,
        "proxy_operators": "boss",
    }
    with team_of(settings) as team:
        yield team


def through(team: Team, peer: str, **headers: str) -> Person:
    """A browser, or a program, whose requests come from this address with these headers."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    # The address of the service within: the proxy speaks HTTP to it, and hands the outer name on.
    app = team.browser().client.app
    client = TestClient(app, base_url="http://cw.example", headers=given, client=(peer, 50000))
    return Person(client)


def user(team: Team, name: str, **headers: str) -> Person:
    """Somebody whom the proxy has signed in."""
    return through(team, PROXY, X_Forwarded_User=name, Origin="http://cw.example", **headers)


def test_whom_the_proxy_has_signed_in_has_an_account_without_roles(team: Team) -> None:
    alice = user(team, "Alice")
    found = alice.ok("GET", "/session")
    assert (found["name"], found["roles"], found["is_operator"]) == ("alice", {}, False)
    assert alice.ok("GET", "/runs")["runs"] == []
    team.give("alice", "sokoban", "editor")
    # The same person, however the proxy spells the name.
    assert list(user(team, "ALICE").ok("GET", "/session")["roles"].values()) == ["editor"]
    assert user(team, "Boss").ok("GET", "/session")["is_operator"]
    with team.services.database.read_session() as session:
        alone = accounts.named(session, "alice")
    assert alone is not None
    assert (alone.subject, alone.password_hash) == ("proxy alice", None)
    assert alone.last_seen_at is not None


@pytest.mark.parametrize("peer", [ELSEWHERE, "10.0.1.2", "::1", "testclient"])
def test_nobody_else_can_say_who_sent_a_request(team: Team, peer: str) -> None:
    forger = through(team, peer, X_Forwarded_User="boss")
    assert forger.refusal("GET", "/session") == (403, "proxy_not_trusted")
    assert forger.refusal("GET", "/accounts") == (403, "proxy_not_trusted")
    assert forger.client.get("/").status_code == 403
    # Without the header they are nobody, and may sign in like anybody.
    assert through(team, peer).refusal("GET", "/runs") == (401, "unauthorised")


def test_an_address_that_the_client_chose_opens_no_door(team: Team) -> None:
    # Through the proxy, which adds the real address at the end.
    through_it = through(team, PROXY, X_Forwarded_For=f"127.0.0.1, {ELSEWHERE}", X_Forwarded_User="bob")
    assert through_it.ok("GET", "/session")["name"] == "bob"
    # Past the proxy: what it says of its address is not listened to.
    past_it = through(team, ELSEWHERE, X_Forwarded_For=PROXY, X_Forwarded_User="boss")
    assert past_it.refusal("GET", "/session") == (403, "proxy_not_trusted")


def test_two_names_are_none(team: Team) -> None:
    forger = user(team, "eve")
    response = forger.client.get("/api/v1/session", headers=[(USER, "boss"), (USER, "eve")])
    assert response.status_code == 403
    assert "twice" in response.json()["error"]["message"]


def test_an_empty_name_is_nobody_s(team: Team) -> None:
    assert user(team, " ").ok("GET", "/session")["name"] is None
    assert user(team, "two words").refusal("GET", "/session") == (403, "not_let_in")
    assert user(team, "x" * 101).refusal("GET", "/session") == (403, "not_let_in")


def test_an_account_of_the_name_is_the_person_s_but_not_an_operator_s(team: Team) -> None:
    earlier = team.member("carl", sokoban="viewer")
    assert list(user(team, "carl").ok("GET", "/session")["roles"].values()) == ["viewer"]
    assert earlier.ok("GET", "/session")["name"] is None
    team.operator("root")
    assert user(team, "root").refusal("GET", "/session") == (403, "not_let_in")


def test_a_closed_account_stays_closed(team: Team) -> None:
    user(team, "dora").ok("GET", "/session")
    with team.services.database.write_session() as session:
        accounts.close(session, team.account_id("dora"))
    assert user(team, "dora").refusal("GET", "/session") == (403, "not_let_in")


def test_the_link_for_the_first_operator_is_nobody_s_by_its_label(team: Team) -> None:
    team.services.people.first_link()
    assert not user(team, "operator").ok("GET", "/session")["is_operator"]


def test_programs_with_keys_pass_through_the_proxy_and_its_own_password_is_no_key(team: Team) -> None:
    key = team.services.keyring.create(Purpose.read, project=None, label="")
    assert user(team, "alice").call("GET", "/accounts").status_code == 403
    assert user(team, "alice").call("GET", "/runs", key=key).status_code == 200
    assert through(team, PROXY).call("GET", "/runs", key=key).status_code == 200
    assert user(team, "alice").refusal("GET", "/runs", key="cw_read_wrong") == (401, "unauthorised")
    basic = user(team, "alice", Authorization="Basic YWxpY2U6cHc=")
    assert basic.ok("GET", "/session")["name"] == "alice"


def test_the_proxy_s_word_comes_before_a_cookie_of_another(team: Team) -> None:
    hans = team.member("hans")
    mixed = user(team, "alice")
    for name, value in hans.client.cookies.items():
        mixed.client.cookies.set(name.removeprefix("__Host-"), value)
    assert mixed.ok("GET", "/session")["name"] == "alice"
    mixed.client.cookies.set("collapsewatch_session", "x" * 43)
    assert mixed.ok("GET", "/session")["name"] == "alice"


def test_a_page_elsewhere_cannot_use_the_proxy_s_word(team: Team) -> None:
    team.give("alice", "sokoban", "editor")
    body = {"operator": "drop"}
    foreign = through(team, PROXY, X_Forwarded_User="alice", Origin="https://evil.example")
    assert foreign.refusal("POST", "/alert-rules", body) == (403, "cross_site")
    silent = through(team, PROXY, X_Forwarded_User="alice")
    assert silent.refusal("POST", "/alert-rules", body) == (403, "cross_site")


def test_requests_that_come_together_make_one_account(deployment: Any) -> None:
    """As a page's do, the first time that somebody opens it."""
    arrival = Arrival("proxy zoe", "zoe", "zoe", is_operator=True, may_join=True)
    with team_of(deployment.settings()) as team, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: team.services.arrivals.identify(arrival), range(16)))
    assert {(one.id, one.name, one.is_operator) for one in found} == {(found[0].id, "zoe", True)}


def test_an_account_that_another_request_makes_between_the_two_looks_is_the_person_s(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = Arrival("proxy yan", "yan", "yan", is_operator=False, may_join=True)
    made = team.services.arrivals.account_of(arrival)
    look = accounts.of_subject
    looks: list[str] = []

    def missed_once(session: Session, subject: str) -> Account | None:
        looks.append(subject)
        return None if len(looks) == 1 else look(session, subject)

    monkeypatch.setattr(accounts, "of_subject", missed_once)
    assert team.services.arrivals.account_of(arrival).id == made.id


def test_the_scheme_and_the_address_are_the_proxy_s_to_say(team: Team) -> None:
    def joined(name: str, peer: str) -> tuple[str, str]:
        link = team.services.people.invite(name)
        person = through(team, peer, X_Forwarded_Proto="https", X_Forwarded_For=f"198.51.100.9, {ELSEWHERE}")
        response = person.client.post(
            "/api/v1/session/join", json={"token": link.token, "name": name, "password": PASSWORD}
        )
        assert response.is_success, response.text
        cookie = response.headers["set-cookie"]
        with team.services.database.read_session() as session:
            addresses = session.scalars(select(LoginSession.address).order_by(LoginSession.id)).all()
        return cookie.partition("=")[0], addresses[-1]

    assert joined("ida", PROXY) == ("__Host-collapsewatch_session", ELSEWHERE)
    assert joined("jon", "203.0.113.5") == ("collapsewatch_session", "203.0.113.5")


def test_no_program_of_this_machine_is_a_proxy_of_its_own_accord(start_sqlite_server: Any) -> None:
    """Uvicorn believes 127.0.0.1 unless it is told otherwise."""
    live: LiveServer = start_sqlite_server(login=True)
    link = live.services.people.invite("kay")
    response = live.call(
        "POST",
        "/session/join",
        json={"token": link.token, "name": "kay", "password": PASSWORD},
        headers={"X-Forwarded-For": "198.51.100.9", "X-Forwarded-Proto": "https"},
    )
    assert response.headers["set-cookie"].startswith("collapsewatch_session=")
    with live.services.database.read_session() as session:
        assert session.scalars(select(LoginSession.address)).all() == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"proxy_user_header": USER, "trusted_proxies": "10.0.0.1"}, "set `login` as well"),
        ({"proxy_user_header": USER, "login": True}, "needs `trusted_proxies`"),
        ({"trusted_proxies": "proxy.example"}, "proxy.example"),
        ({"proxy_user_header": "X Forwarded", "login": True, "trusted_proxies": "10.0.0.1"}, "pattern"),
        ({"oidc_issuer": "https://a.example", "oidc_client_id": "x"}, "set `login` as well"),
        ({"oidc_issuer": "https://a.example", "login": True}, "needs `oidc_client_id`"),
        ({"oidc_issuer": "http://a.example", "oidc_client_id": "x", "login": True}, "https://"),
        ({"oidc_issuer": "https://a.example/?x", "oidc_client_id": "x", "login": True}, "https://"),
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match="(?s)" + told.replace("?", r"\?")):
        ServerSettings(**given)


def test_networks_are_written_as_people_write_them() -> None:
    settings = ServerSettings(trusted_proxies="10.0.0.7/24, ::1,192.0.2.1")
    assert settings.trusted_proxies == ("10.0.0.0/24", "::1/128", "192.0.2.1/32")
