"""Signing in by an OpenID provider: who gets which account, and what is not taken for a signing in."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from joserfc.jwk import RSAKey

from collapsewatch_server.access.roles import Role
from collapsewatch_server.repositories import accounts
from collapsewatch_server.web import provider as module
from collapsewatch_server.web.provider import Provider, ProviderProblem, _check
from tests.server.openid import CLIENT_ID, CLIENT_SECRET, OpenId, open_id
from tests.server.openid_browser import BACK, START, arriving, landed, me, returned, sent, signed_in
from tests.server.team import PASSWORD, URL, Team, team_of


@pytest.fixture(scope="module")
def openid() -> Iterator[OpenId]:
    with open_id() as provider:
        yield provider


@pytest.fixture(scope="module")
def team(openid: OpenId, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    settings = {
        "home": tmp_path_factory.mktemp("openid"),
        "oidc_issuer": openid.url,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_name": "Example",
        "oidc_operators": "boss@x.org,u-root",
    }
    with team_of(settings) as team:
        yield team


@pytest.fixture(autouse=True)
def provider(openid: OpenId, team: Team, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The service's own side, which asks anew what the provider, again an honest one, says of itself."""
    vars(openid).update(vars(OpenId(openid.url, key=openid.key)))
    provider = team.services.provider
    assert provider is not None
    monkeypatch.setattr(provider, "_known", None)
    return provider


def test_who_was_invited_by_the_address_has_the_role_at_once(team: Team, openid: OpenId) -> None:
    project_id = team.project("sokoban")
    team.services.people.invite("Ada@X.org", project_id=project_id, role=Role.editor)
    arriving(openid, "u1", "ada@x.org")
    browser = team.browser()
    assert me(browser)["provider"] == {"name": "Example"}
    assert signed_in(browser) == "../../../../"
    found = me(browser)
    assert (found["name"], found["roles"]) == ("ada@x.org", {str(project_id): "editor"})
    # The invitation is used up; the account is found again by the subject, whatever the address is now.
    arriving(openid, "u1", "ada@elsewhere.org", is_verified=False)
    again = team.browser()
    signed_in(again)
    assert me(again)["name"] == "ada@x.org"
    with team.services.database.read_session() as session:
        assert accounts.invitations_for(session, "ada@x.org") == []


def test_the_cookies_are_no_script_s_and_no_other_site_s(team: Team, openid: OpenId) -> None:
    arriving(openid, "u-root", "root@x.org")
    browser = team.browser()
    first = browser.client.get(START, follow_redirects=False)
    kept = first.headers["set-cookie"].lower()
    assert kept.startswith("__secure-collapsewatch_provider=")
    for part in ("httponly", "secure", "samesite=lax", f"path={START};", "max-age=600"):
        assert part in kept
    there = first.headers["location"]
    assert parse_qs(urlsplit(there).query)["redirect_uri"] == [URL + BACK]
    # Neither the nonce's check nor the secret half of PKCE can be read from it.
    assert parse_qs(urlsplit(there).query)["nonce"][0] not in kept
    last = browser.client.get(returned(there), follow_redirects=False)
    session, state = last.headers.get_list("set-cookie")
    assert session.startswith("__Host-collapsewatch_session=")
    assert "samesite=strict" in session.lower()
    assert state.startswith('__Secure-collapsewatch_provider=""')


def test_whom_nobody_has_invited_gets_no_account(team: Team, openid: OpenId) -> None:
    arriving(openid, "u2", "eve@x.org")
    browser = team.browser()
    assert signed_in(browser) == "../../../../#/sign-in/uninvited"
    assert me(browser)["name"] is None
    with team.services.database.read_session() as session:
        assert accounts.any_named(session, "eve@x.org") is None


def test_everybody_may_get_an_account_without_roles(
    team: Team, openid: OpenId, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_everyone", True)
    arriving(openid, "u3", "new@x.org")
    browser = team.browser()
    signed_in(browser)
    found = me(browser)
    assert (found["name"], found["roles"], found["is_operator"]) == ("new@x.org", {}, False)
    assert browser.ok("GET", "/runs")["runs"] == []


def test_those_whom_the_settings_name_operate(team: Team, openid: OpenId) -> None:
    for sub, email in (("u4", "Boss@x.org"), ("u-root", "whoever@x.org")):
        arriving(openid, sub, email)
        browser = team.browser()
        signed_in(browser)
        assert me(browser)["is_operator"]


@pytest.mark.parametrize("is_verified", [False, None, "false", 1])
def test_an_address_that_is_not_verified_proves_nothing(
    team: Team, openid: OpenId, is_verified: object
) -> None:
    arriving(openid, "u5", "boss@x.org", is_verified=is_verified)
    browser = team.browser()
    assert signed_in(browser).endswith("#/sign-in/uninvited")
    assert me(browser)["name"] is None


def test_an_account_of_the_address_becomes_the_person_s_and_loses_its_password(
    team: Team, openid: OpenId
) -> None:
    # Whoever chose that name first may have been somebody else, and shall not be here any more.
    squatter = team.member("carl@x.org", sokoban="viewer")
    arriving(openid, "u6", "Carl@x.org")
    browser = team.browser()
    signed_in(browser)
    assert me(browser)["roles"] == {str(team.project("sokoban")): "viewer"}
    assert me(squatter)["name"] is None
    refused = team.browser().refusal("POST", "/session", {"name": "carl@x.org", "password": PASSWORD})
    assert refused == (401, "wrong_credentials")
    # Another person of the provider who has the address now is another person.
    arriving(openid, "u7", "carl@x.org")
    assert signed_in(team.browser()).endswith("#/sign-in/taken")


def test_an_operator_s_account_is_nobody_s_by_its_name_alone(team: Team, openid: OpenId) -> None:
    operator = team.operator("olga@x.org")
    arriving(openid, "u8", "olga@x.org")
    assert signed_in(team.browser()).endswith("#/sign-in/taken")
    assert me(operator)["is_operator"]


def test_the_label_of_a_link_is_no_address(team: Team, openid: OpenId) -> None:
    team.services.people.invite("operator", makes_operator=True)
    arriving(openid, "operator", "operator")
    browser = team.browser()
    assert signed_in(browser).endswith("#/sign-in/uninvited")


def test_who_joins_by_a_link_gets_an_account_and_then_accepts(team: Team, openid: OpenId) -> None:
    link = team.services.people.invite("Lena", project_id=team.project("sokoban"), role=Role.viewer)
    arriving(openid, "u11", "lena@x.org", is_verified=False)
    browser = team.browser()
    there = browser.ok("POST", "/session/provider", {"token": link.token})["url"]
    assert link.token not in there
    assert landed(browser, returned(there)) == "../../../../"
    host = urlsplit(openid.url).hostname
    found = me(browser)
    assert (found["name"], found["roles"]) == (f"u11@{host}", {})
    accepted = browser.ok("POST", "/session/accept", {"token": link.token})
    assert accepted["roles"] == {str(team.project("sokoban")): "viewer"}
    used = team.browser().refusal("POST", "/session/provider", {"token": link.token})
    assert used == (410, "invitation_ended")


def test_a_link_that_was_withdrawn_on_the_way_lets_nobody_in(team: Team, openid: OpenId) -> None:
    link = team.services.people.invite("Mia")
    arriving(openid, "u12", "mia@x.org")
    browser = team.browser()
    back = returned(browser.ok("POST", "/session/provider", {"token": link.token})["url"])
    with team.services.database.write_session() as session:
        accounts.use_invitation(session, link.invitation.id)
    assert landed(browser, back).endswith("#/sign-in/uninvited")


def test_a_link_for_a_new_password_is_none_to_join_by(team: Team, openid: OpenId) -> None:
    team.member("nora")
    link = team.services.people.reset_link(team_account(team, "nora"))
    arriving(openid, "u13", "other@x.org")
    browser = team.browser()
    there = browser.ok("POST", "/session/provider", {"token": link.token})["url"]
    assert landed(browser, returned(there)).endswith("#/sign-in/uninvited")


def test_a_closed_account_stays_closed(team: Team, openid: OpenId) -> None:
    team.services.people.invite("dora@x.org")
    arriving(openid, "u9", "dora@x.org")
    browser = team.browser()
    signed_in(browser)
    with team.services.database.write_session() as session:
        accounts.close(session, team_account(team, "dora@x.org"))
    assert me(browser)["name"] is None
    assert signed_in(browser).endswith("#/sign-in/closed")


def team_account(team: Team, name: str) -> int:
    with team.services.database.read_session() as session:
        account = accounts.any_named(session, name)
    assert account is not None
    return account.id


@pytest.fixture
def root(openid: OpenId) -> None:
    """Whoever comes is an operator, so that only the answer itself can be what is refused."""
    arriving(openid, "u-root", "root@x.org")


@pytest.mark.usefixtures("root")
def test_an_answer_is_good_once_and_in_the_browser_that_asked(team: Team) -> None:
    browser, other = team.browser(), team.browser()
    back = returned(sent(browser))
    state = dict(browser.client.cookies)
    sent(other)
    # Somebody else's answer in this browser, and this answer in another.
    assert landed(other, back).endswith("#/sign-in/expired")
    assert landed(team.browser(), back).endswith("#/sign-in/expired")
    assert landed(browser, back) == "../../../../"
    # Again: the browser has nothing to bring back any more; with a copy of it the code is used up.
    assert landed(browser, back).endswith("#/sign-in/expired")
    thief = team.browser()
    for name, value in state.items():
        thief.client.cookies.set(name, value)
    assert landed(thief, back).endswith("#/sign-in/failed")
    assert me(thief)["name"] is None


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("was", "becomes"), [("state=", "state=x"), ("code=", "cod="), ("code=", "iss=https://evil.org&code=")]
)
def test_an_answer_that_was_changed_on_the_way_is_none(team: Team, was: str, becomes: str) -> None:
    browser = team.browser()
    assert "#/sign-in/" in landed(browser, returned(sent(browser)).replace(was, becomes))
    assert me(browser)["name"] is None


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another"},
        {"aud": ["another", CLIENT_ID], "azp": "another"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"exp": 1_700_000_000},
        {"exp": None},
        {"nbf": 9_999_999_999},
        {"sub": None},
    ],
    ids=str,
)
def test_an_id_token_for_something_else_is_refused(
    team: Team, openid: OpenId, claims: dict[str, object]
) -> None:
    openid.claims = claims
    browser = team.browser()
    assert signed_in(browser) == "../../../../#/sign-in/failed"
    assert me(browser)["name"] is None


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("offered", [["RS256"], ["none", "HS256"]])
def test_an_id_token_that_another_has_signed_is_refused(
    team: Team, openid: OpenId, offered: list[str]
) -> None:
    openid.metadata = {"id_token_signing_alg_values_supported": offered}
    openid.signing_key = RSAKey.generate_key(2048, {"kid": "k1"})
    assert signed_in(team.browser()) == "../../../../#/sign-in/failed"


@pytest.mark.usefixtures("root")
def test_a_provider_that_has_changed_its_keys_is_asked_for_them(team: Team, openid: OpenId) -> None:
    assert signed_in(team.browser()) == "../../../../"
    openid.key = RSAKey.generate_key(2048, {"kid": "k2"})
    assert signed_in(team.browser()) == "../../../../"


@pytest.mark.usefixtures("root")
def test_whoever_takes_too_long_begins_again(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STATE_SECONDS", -1.0)
    browser = team.browser()
    assert signed_in(browser).endswith("#/sign-in/expired")


@pytest.mark.usefixtures("root")
def test_what_the_browser_brings_back_cannot_be_made_up(team: Team) -> None:
    browser = team.browser()
    back = returned(sent(browser))
    (name, value) = next(iter(dict(browser.client.cookies).items()))
    middle = len(value) // 2
    browser.client.cookies.clear()
    browser.client.cookies.set(
        name, value[:middle] + ("A" if value[middle] != "A" else "B") + value[middle + 1 :]
    )
    assert landed(browser, back).endswith("#/sign-in/expired")


def test_a_provider_that_refuses_has_no_words_on_the_page(team: Team, openid: OpenId) -> None:
    openid.refuses = True
    assert signed_in(team.browser()) == "../../../../#/sign-in/refused"


def test_the_address_may_be_where_only_the_userinfo_has_it(team: Team, openid: OpenId) -> None:
    team.services.people.invite("grace@x.org")
    arriving(openid, "u10", "grace@x.org")
    openid.in_userinfo_only = ("email", "email_verified")
    browser = team.browser()
    signed_in(browser)
    assert me(browser)["name"] == "grace@x.org"


def test_an_address_is_not_verified_by_what_is_said_of_another(team: Team, openid: OpenId) -> None:
    team.services.people.invite("heidi@x.org")
    # The ID token names one address, and only the userinfo says that one, another, is verified.
    arriving(openid, "u14", "mallory@x.org")
    openid.claims = {"email": "heidi@x.org", "email_verified": None}
    assert signed_in(team.browser()).endswith("#/sign-in/uninvited")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"issuer": "https://another.example"}, "failed"),
        ({"token_endpoint": "http://x.example/t"}, "failed"),
        ({"userinfo_endpoint": "http://x.example/u"}, "failed"),
    ],
    ids=["issuer", "token", "userinfo"],
)
def test_a_provider_that_is_another_or_can_be_listened_to_is_not_used(
    team: Team, openid: OpenId, change: dict[str, str], reason: str
) -> None:
    openid.metadata = change
    assert sent(team.browser()) == f"../../../#/sign-in/{reason}"


def test_without_the_provider_people_still_sign_in_by_their_passwords(
    team: Team, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "_issuer", "http://127.0.0.1:9")
    team.member("hans")
    browser = team.browser()
    assert sent(browser) == "../../../#/sign-in/unreachable"
    browser.ok("POST", "/session", {"name": "hans", "password": PASSWORD})
    assert me(browser)["name"] == "hans"


def test_metadata_that_lacks_what_is_needed_is_no_provider_s() -> None:
    about = {"issuer": "https://a.example", "authorization_endpoint": "https://a.example/a"}
    with pytest.raises(KeyError):
        _check(about, "https://a.example")
    assert ProviderProblem("failed", "why").reason == "failed"


def test_where_there_is_no_provider_nobody_is_sent_to_one(tmp_path: Any) -> None:
    with team_of({"home": tmp_path}) as team:
        browser = team.browser()
        assert me(browser)["provider"] is None
        assert browser.refusal("GET", "/session/provider") == (404, "no_provider")
        assert browser.refusal("GET", "/session/provider/back") == (404, "no_provider")
