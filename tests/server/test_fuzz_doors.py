"""The API fuzzed where people sign in: by nobody, by a viewer, by an operator and by a program with a key.

Whatever comes, the server makes no mistake of its own, and nobody gets past a door without what opens it.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from requests import Session
from schemathesis import GenerationMode

from collapsewatch_server.access.rules import RULES, Door
from collapsewatch_server.auth import Purpose
from tests.server.guarded import newcomer
from tests.server.live import LiveServer
from tests.server.test_fuzz import (
    MANY,
    AnyCase,
    Operation,
    contents,
    explore,
    furnish,
    matching,
    operations,
    refuse_server_errors,
)

pytestmark = [
    pytest.mark.timeout(300 * MANY),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:schemathesis"),
]

_NUM_EXAMPLES = 2
# Throttling refuses those who try too often.
_CLOSED = {401, 403, 404, 405, 422, 429}


@pytest.fixture(scope="module")
def known(guarded: LiveServer) -> dict[str, Any]:
    """What paths name; the account is one that is not used here."""
    named = furnish(guarded)
    newcomer(guarded, "nora", p="viewer").close()
    ids = {one["name"]: one["id"] for one in guarded.get("/accounts")["accounts"]}
    return {"project_id": 1, "account_id": ids["nora"], "invitation_id": 1, "key_id": 10**6, **named}


@pytest.fixture(scope="module")
def viewer(guarded: LiveServer) -> Iterator[str]:
    """The cookie of somebody who may look at the one project."""
    with closing(newcomer(guarded, "vera", p="viewer")) as browser:
        yield cookie_of(dict(browser.cookies))


def cookie_of(cookies: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def fuzz(live: LiveServer, known: dict[str, Any], headers: dict[str, str], seen: Any) -> None:
    """Calls everything but the routes of sessions, which would end the one in hand, and tells `seen`."""
    with Session() as session:
        session.trust_env = False
        session.headers.update({"Origin": live.url, **headers})

        def call(operation: Operation, case: AnyCase, names_known: bool) -> None:
            case.path_parameters = {**(case.path_parameters or {}), **matching(operation, known)}
            response = case.call(base_url=live.url, session=session, timeout=30)
            refuse_server_errors(case, response)
            seen(operation, response)

        for operation in operations(live):
            # A link opens its own, and that it was opened is noted for whoever made it.
            if not operation.path.startswith(("/api/v1/session", "/api/v1/shared/")):
                explore(operation, GenerationMode.POSITIVE, _NUM_EXAMPLES, call)


def rule_of(operation: Operation) -> Any:
    return RULES[operation.method.upper(), operation.path]


def test_without_credentials_every_door_is_closed(guarded: LiveServer, known: dict[str, Any]) -> None:
    before = contents(guarded, without=("audit_log",))
    refused: set[int] = set()

    def seen(operation: Operation, response: Any) -> None:
        if rule_of(operation) not in (Door.everybody, Door.link):
            assert response.status_code in _CLOSED, f"{operation.label}: {response.status_code}"
            refused.add(response.status_code)

    fuzz(guarded, known, {}, seen)
    assert 401 in refused
    assert contents(guarded, without=("audit_log",)) == before


def test_a_viewer_changes_nothing_whatever_is_sent(
    guarded: LiveServer, known: dict[str, Any], viewer: str
) -> None:
    noted = ("audit_log", "login_sessions", "accounts")
    before = contents(guarded, without=noted)
    answered: set[str] = set()

    def seen(operation: Operation, response: Any) -> None:
        if operation.method.upper() != "GET":
            assert response.status_code >= 400, (
                f"{operation.label}: {response.status_code} {response.text[:500]}"
            )
        elif response.status_code == 200:
            answered.add(operation.path)

    fuzz(guarded, known, {"Cookie": viewer}, seen)
    assert "/api/v1/runs/{run_id}" in answered
    assert contents(guarded, without=noted) == before


@pytest.mark.parametrize("purpose", list(Purpose))
def test_a_key_opens_the_doors_of_its_purpose_and_no_others(
    guarded: LiveServer, known: dict[str, Any], purpose: Purpose
) -> None:
    key = guarded.services.keyring.create(purpose, project=None, label="x")
    own = {Purpose.ingest: Door.trainers, Purpose.worker: Door.workers}.get(purpose)

    def seen(operation: Operation, response: Any) -> None:
        rule = rule_of(operation)
        may = rule == own or rule in (Door.everybody, Door.link) or purpose in getattr(rule, "keys", ())
        if not may:
            assert response.status_code in _CLOSED, f"{operation.label}: {response.status_code}"

    # What is fuzzed may end runs and fail jobs, so each key has a run of its own.
    mine = {**known, "run_id": guarded.start_run()}
    fuzz(guarded, mine, {"Authorization": f"Bearer {key}"}, seen)


def test_an_operator_meets_no_mistake_of_the_server(guarded: LiveServer, known: dict[str, Any]) -> None:
    answered: set[int] = set()
    cookie = cookie_of(dict(guarded.http.cookies))
    mine = {**known, "run_id": guarded.start_run()}
    fuzz(guarded, mine, {"Cookie": cookie}, lambda operation, response: answered.add(response.status_code))
    assert 200 in answered
