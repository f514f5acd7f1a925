"""Every route of the app has one rule, and every caller gets what it says, in its project and elsewhere."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from starlette.routing import Route

from collapsewatch_server.access.roles import LOCAL, Identity, Role
from collapsewatch_server.access.rules import RULES, Door, Rule
from collapsewatch_server.app import create_app
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.web.guard import guard
from collapsewatch_server.web.traffic import counted
from tests.server.two_projects import GONE, KEYS, OTHER, OWN, PEOPLE, World, sqlite_world, two_projects

API = "/api/v1"
STREAMS = ("/stream",)
RANK = {name: rank for rank, name in enumerate(PEOPLE)}
UNPROTECTED = {
    (method, path) for path in ("/openapi.json", "/static/{path:path}") for method in ("GET", "HEAD")
}
"""Of the framework itself; the description of the API is the same for everybody."""
CALLERS = ("nobody", "closed account", "ended session", "expired key", *KEYS, *PEOPLE)
ANYBODY = ("nobody", "viewer", "worker key")
ENDS_SOMETHING = ("DELETE",)
NAMES_NOTHING = {"step", "index", "picture_format", "token", "rule", "account_id"}
"""Parameters of paths that do not say of which project something is."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with two_projects(sqlite_world(tmp_path_factory.mktemp("home"))) as found:
        yield found


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[RouteContext]:
    app = create_app(ServerSettings(home=tmp_path_factory.mktemp("bare")))
    return list(iter_route_contexts(app.routes))


def test_every_route_has_a_rule_and_every_rule_a_route(routes: list[RouteContext]) -> None:
    found = {
        (method, str(one.path))
        for one in routes
        if isinstance(one.original_route, APIRoute)
        for method in one.methods or ()
    }
    assert found == set(RULES)


def test_at_every_route_the_guard_comes_before_all_that_the_route_does(routes: list[RouteContext]) -> None:
    of_app = [one for one in routes if isinstance(one.original_route, APIRoute)]
    assert len(of_app) > 100
    for one in of_app:
        # The one that only counts requests may come before it.
        assert [of.call for of in one.dependant.dependencies][:2] == [counted, guard], one.path


def test_nothing_else_is_served_but_the_files_of_the_page_and_the_description(
    routes: list[RouteContext],
) -> None:
    others = [one.original_route for one in routes if not isinstance(one.original_route, APIRoute)]
    named = {(method, one.path) for one in others if isinstance(one, Route) for method in one.methods or ()}
    assert named == UNPROTECTED
    assert all(isinstance(route, Route) for route in others)


def test_every_route_that_changes_something_for_people_is_named_in_the_log() -> None:
    for (method, path), rule in RULES.items():
        if isinstance(rule, Rule):
            assert bool(rule.action) == (method != "GET") or path.endswith("/export.csv"), (method, path)


def test_a_route_without_a_rule_answers_nobody(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(RULES, ("GET", f"{API}/runs"))
    for caller in ("nobody", "operator", "read key of all"):
        assert world.api(caller, "GET", "/runs").status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "least", "read_key"),
    [
        ("GET", "/runs", "viewer", True),
        ("GET", "/runs/{run_id}", "viewer", True),
        ("GET", "/runs/{run_id}/rollouts", "viewer", True),
        ("GET", "/alerts/{alert_id}/traces", "viewer", True),
        ("GET", "/exports/series.csv?run={run_id}", "viewer", True),
        ("PATCH", "/runs/{run_id}/about", "editor", False),
        ("POST", "/runs/{run_id}/jobs/{job_id}/retry", "editor", False),
        ("POST", "/alerts/{alert_id}/resolve", "editor", False),
        ("POST", "/alerts/acknowledge", "editor", False),
        ("POST", "/alert-rules", "editor", False),
        ("POST", "/alert-rules/import", "editor", False),
        ("PUT", "/alert-rules/{rule_id}", "editor", False),
        ("DELETE", "/alert-rules/{rule_id}", "editor", False),
        ("PUT", "/alert-rules/detectors", "editor", False),
        ("DELETE", "/shares/{share_id}", "editor", False),
        ("POST", "/shares", "editor", True),
        ("GET", "/shares", "editor", False),
        ("DELETE", "/runs/{run_id}", "admin", False),
        ("GET", "/channels", "admin", False),
        ("GET", "/channels/{channel_id}/deliveries", "admin", False),
        ("POST", "/channels", "admin", False),
        ("PATCH", "/channels/{channel_id}", "admin", False),
        ("DELETE", "/channels/{channel_id}", "admin", False),
        ("POST", "/channels/{channel_id}/test", "admin", False),
        ("GET", "/projects/{project_id}/members", "admin", False),
        ("PUT", "/projects/{project_id}/members/{account_id}", "admin", False),
        ("POST", "/projects/{project_id}/invitations", "admin", False),
        ("POST", "/projects/{project_id}/keys", "admin", False),
        ("DELETE", "/projects/{project_id}/keys/{key_id}", "admin", False),
        ("PUT", "/projects/{project_id}/retention", "admin", False),
        ("GET", "/audit", "admin", False),
        ("GET", "/accounts", "operator", False),
        ("PATCH", "/accounts/{account_id}", "operator", False),
        ("POST", "/accounts/{account_id}/reset", "operator", False),
        ("POST", "/invitations", "operator", False),
        ("POST", "/keys", "operator", False),
        ("GET", "/keys", "operator", False),
    ],
)
def test_who_may_not_is_refused_and_changes_nothing(
    world: World, method: str, path: str, least: str, *, read_key: bool
) -> None:
    before = world.stored()
    options: dict[str, Any] = {} if method == "GET" else {"json": {}}
    own, other = (API + path.format(**vars(world.places[one])) for one in (OWN, OTHER))
    for caller in GONE:
        assert world.call(caller, method, own, **options).status_code == 401, caller
    refused = ["ingest key", "worker key", *([] if read_key else ["read key", "read key of all"])]
    for caller in [*PEOPLE[: RANK[least]], *refused]:
        assert world.call(caller, method, own, **options).status_code == 403, caller
    if own != other:
        for caller in PEOPLE[:-1]:
            status = world.call(caller, method, other, **options).status_code
            assert _fits(status, "no" if RANK[caller] >= RANK[least] else "403") or status == 404, caller
    assert world.stored() == before


def test_metrics_of_the_whole_service_are_for_those_who_see_all_of_it(world: World) -> None:
    for caller, status in {"nobody": 401, "admin": 403, "read key": 403, "worker key": 403}.items():
        assert world.call(caller, "GET", "/metrics").status_code == status
    for caller in ("operator", "read key of all"):
        assert world.call(caller, "GET", "/metrics").status_code == 200


def test_roles_hold_in_their_project_alone() -> None:
    someone = Identity("account", 1, "someone", roles={1: Role.admin, 2: Role.viewer})
    assert someone.projects(Role.viewer) == frozenset({1, 2})
    assert someone.projects(Role.editor) == frozenset({1})
    assert not someone.reaches_all(Role.viewer)
    assert (someone.role_in(1), someone.role_in(2), someone.role_in(3)) == (Role.admin, Role.viewer, None)
    assert LOCAL.reaches_all(Role.admin)


# What each caller is told, found out from the rule by other means than the service's.


def outcome(rule: Rule | Door, caller: str, *, names: bool, is_own: bool) -> str:
    """`in`, `401`, `403`, or `no` where it is not told whether there is anything."""
    if isinstance(rule, Door):
        return _at_door(rule, caller)
    if caller in GONE:
        return "401"
    if caller in KEYS:
        if caller not in ("read key", "read key of all") or "read" not in [str(one) for one in rule.keys]:
            return "403"
        if caller == "read key of all":
            return "in"
        return "403" if rule.service_wide else "in" if is_own or not names else "no"
    if caller == "operator" or rule.of_self:
        return "in"
    if rule.service_wide or RANK[caller] < RANK[rule.role.name]:
        return "403"
    return "in" if is_own or not names else "no"


def _at_door(door: Door, caller: str) -> str:
    if door in (Door.everybody, Door.link):
        return "in"
    wanted = {Door.trainers: "ingest key", Door.workers: "worker key"}[door]
    if caller == wanted:
        return "in"
    return "403" if caller in KEYS else "401"


# The last one, since it ends with doing what may be done: runs are deleted and sessions ended.
def test_the_rules_are_followed_for_every_caller_at_every_route(world: World) -> None:
    wrong: list[str] = []
    before = world.stored()
    calls = sorted(RULES.items(), key=_what_ends_something_last)
    # Those who are refused come first: what they did not do can be seen.
    for is_refused in (True, False):
        for ((method, path), rule), is_own in itertools.product(calls, (False, True)):
            if path.endswith(STREAMS):
                continue
            for caller in ANYBODY if rule in (Door.everybody, Door.link) else CALLERS:
                names = bool(set(re.findall(r"{(\w+)}", path)) - NAMES_NOTHING)
                expected = outcome(rule, caller, names=names, is_own=is_own)
                if (expected != "in") != is_refused or (not is_own and not is_refused):
                    continue
                status = _status(world, caller, method, path, is_own=is_own)
                if not _fits(status, expected):
                    wrong.append(f"{caller}, {method} {path}, {is_own=}: {status}, not {expected}")
        if is_refused:
            assert world.stored() == before
    assert not wrong, "\n".join(wrong)


def _what_ends_something_last(item: Any) -> tuple[bool, bool, bool]:
    (method, path), _ = item
    return path.endswith("/session"), path.endswith("/runs/{run_id}"), method in ENDS_SOMETHING


def _fits(status: int, expected: str) -> bool:
    if expected == "in":
        return status not in (401, 403) and status < 500
    # A body that cannot be read is refused before anything is looked for.
    return status in (403, 404, 422) if expected == "no" else status == int(expected)


def _status(world: World, caller: str, method: str, path: str, *, is_own: bool) -> int:
    place = world.places[OWN if is_own else OTHER]
    known = {"step": 1, "index": 0, "picture_format": "svg", "token": "x" * 32, "rule": "nobody_knows_it"}
    filled = re.sub(r"{(\w+)}", lambda one: str({**vars(place), **known}[one[1]]), path)
    params: dict[str, Any] = {}
    if path.endswith("/rollout-search"):
        params = {"q": "x"}
    if "/compare" in path or "/exports/" in path or path.endswith("/sparklines"):
        params = {"run": place.run_id, "chart": "retrieval"}
    if path.endswith("/detectors/{rule}"):
        params = {"project": OWN}
    options: dict[str, Any] = {} if method == "GET" else {"json": {}}
    return world.call(caller, method, filled, params=params, **options).status_code
