"""Nothing of a project reaches those who have no role in it, by whatever route, parameter or cache."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from collapsewatch_server.access.rules import RULES, Door
from collapsewatch_server.alerts.watch import Limits
from collapsewatch_server.app import create_app
from collapsewatch_server.liveness.earshot import Earshot
from collapsewatch_server.liveness.watch import Watch
from collapsewatch_server.repositories import channels
from collapsewatch_server.settings import ServerSettings
from tests.server.live import Json
from tests.server.two_projects import MARKS, OTHER, OWN, RUNS, World, sqlite_world, two_projects

SECRETS = (MARKS[OTHER], "zulu")
"""A word in everything that the other project holds, and in its name and the id of its run."""
READERS = ("viewer", "admin", "read key")
"""Those of the one project; who is admin reads by each route what a viewer reads, and more."""
_VALUES: dict[str, list[Any]] = {
    "run": [RUNS[OWN], RUNS[OTHER], [RUNS[OWN], RUNS[OTHER]]],
    "run_id": [RUNS[OWN], RUNS[OTHER]],
    "project": [OWN, OTHER],
    "scope": ["first_turn", "trainer", "batch"],
    "metric": ["retrieval_skill", "loss", "cobalt_loss"],
    "step": [1, 3],
    "index": [0],
    "picture_format": ["svg"],
    "chart": ["quadrant", "retrieval"],
    "group_by": ["cobalt_key"],
    "q": ["reason"],
    "where": ["all"],
    "group": ["cobalt-1"],
    "phrase": ["cobalt reason"],
    "text": ["alert", "cobalt"],
    "rule": ["own/1", "own/2", "channel_failing"],
    "archived": ["true"],
    "status": ["open", "acknowledged", "dead"],
    "severity": ["warning"],
    "limit": [500],
    "max_points": [10],
    "action": ["run.describe"],
    "job_id": [4, 8],
    "token": ["x" * 32],
    "title": ["report"],
    "theme": ["dark"],
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with two_projects(sqlite_world(tmp_path_factory.mktemp("home"))) as found:
        _shown_elsewhere(found)
        yield found


def _shown_elsewhere(world: World) -> None:
    """What a project leaves where the service tells of itself, and in what it keeps in memory."""
    live, other = world.live, world.places[OTHER]
    with live.services.database.write_session() as session:
        channels.note_failure(session, other.channel_id, "cobalt trouble")
    day = 86_400.0
    limits = Limits(
        stall_seconds=day, crash_seconds=day, worker_seconds=0.0, lag_seconds=day, quiet_seconds=day
    )
    Watch(live.services.database, lambda: None, Earshot(day), limits).look()
    alerts = world.api("operator", "GET", "/alerts").json()["items"]
    assert [one["rule"] for one in alerts if "cobalt" in one["message"]] == ["channel_failing"]
    live.start_run(run_id="r-zulu-gone", project=OTHER, name="cobalt gone")
    live.services.run_desk.delete("r-zulu-gone")
    # A worker that has a batch of it in hand.
    assert live.send_batch(other.run_id, 7).status_code == 202
    beat = {"worker": "w-busy", "host": "h", "device": "cpu", "version": "1", "started_at": 1.0}
    job = live.claim("w-busy")
    live.worker("/heartbeat", {**beat, "num_done": 0, "num_failed": 0, "job_id": job["job_id"]})
    of_run = ("/runs/r-zulu/series", "/runs/r-zulu/template", "/run-list/sparklines?run=r-zulu")
    for path in (*of_run, "/service"):
        assert world.api("operator", "GET", path).status_code == 200, path
    assert world.call("operator", "GET", "/metrics").status_code == 200


def readable_routes() -> list[tuple[str, Json]]:
    """(path, what the description says of it) of everything that people read."""
    app = create_app(ServerSettings())
    described = app.openapi()["paths"]
    paths = [path for (method, path), rule in RULES.items() if method == "GET" and rule is not Door.link]
    return [(path, described.get(path, {}).get("get", {})) for path in paths if not path.endswith("/stream")]


def _calls(path: str, described: Json, world: World, *, briefly: bool) -> Iterator[tuple[str, Json]]:
    """(path, parameters): of both projects; and of the own, if not briefly, with each parameter in turn."""
    optional: list[tuple[str, Any]] = []
    required: dict[str, list[Any]] = {}
    for one in described.get("parameters", []):
        if one["in"] != "query":
            continue
        if one.get("required"):
            required[one["name"]] = _VALUES[one["name"]]
        else:
            optional += [(one["name"], value) for value in _VALUES.get(one["name"], [])]
    in_path = re.findall(r"{(\w+)}", path)
    for project in (OWN, OTHER) if in_path else (OWN,):
        known = vars(world.places[project])
        chosen = [[known[name]] if name in known else _VALUES[name] for name in in_path]
        for values in itertools.product(*chosen):
            filled = path.format(**dict(zip(in_path, values, strict=True)))
            for wanted in itertools.product(*required.values()):
                yield filled, dict(zip(required, wanted, strict=True))
            # Once is enough of what takes long to draw.
            if not briefly and project == OWN and not path.endswith(".{picture_format}"):
                first = {name: values[0] for name, values in required.items()}
                yield from ((filled, {**first, name: value}) for name, value in optional)


@pytest.mark.parametrize("reader", ["admin", "read key"])
def test_no_byte_of_another_project_is_read_by_any_route(world: World, reader: str) -> None:
    leaks, num_read = [], 0
    for path, described in readable_routes():
        for filled, params in _calls(path, described, world, briefly=reader != "admin"):
            response = world.call(reader, "GET", filled, params=params)
            assert response.status_code < 500, (filled, params)
            num_read += response.status_code == 200
            # An error says again what was asked for.
            values = [
                one for value in params.values() for one in (value if isinstance(value, list) else [value])
            ]
            text = _without(
                _text(response), {str(one).lower() for one in (*filled.split("/"), *values)} - {""}
            )
            leaks += [(filled, params, response.status_code, one) for one in SECRETS if one in text]
    assert not leaks
    assert num_read > 30


def _text(response: httpx.Response) -> str:
    headers = " ".join(f"{name}: {value}" for name, value in response.headers.items())
    return f"{headers}\n{response.content.decode('utf-8', 'replace')}".lower()


def _without(text: str, asked: set[str]) -> str:
    for one in sorted(asked, key=len, reverse=True):
        text = text.replace(one, "")
    return text


def test_the_words_that_are_looked_for_are_there_for_those_who_may_see_them(world: World) -> None:
    """Else the test above would find nothing, whatever leaked."""
    found = set()
    for path, described in readable_routes():
        for filled, params in _calls(path, described, world, briefly=True):
            text = _without(_text(world.call("operator", "GET", filled, params=params)), {RUNS[OTHER]})
            if any(secret in text for secret in SECRETS):
                found.add(path)
    expected = {
        "/projects", "/runs", "/runs/{run_id}", "/run-list", "/alerts", "/alerts/{alert_id}",
        "/alert-rules", "/alert-rules/export", "/alert-rules/detectors", "/channels", "/shares", "/service",
        "/keys", "/accounts", "/runs/{run_id}/rollouts/{step}/{index}", "/runs/{run_id}/steps/{step}",
        "/compare", "/runs/{run_id}/jobs", "/exports/report.html", "/projects/{project_id}/members",
        "/projects/{project_id}/keys", "/audit",
    }  # fmt: skip
    assert {f"/api/v1{path}" for path in expected} <= found


def test_numbers_tell_of_the_callers_own_projects_alone(world: World) -> None:
    def seen(caller: str, path: str) -> Json:
        found: Json = world.api(caller, "GET", path).json()
        return found

    for reader in READERS:
        listed = seen(reader, "/run-list")
        assert (listed["num_active"], len(listed["rows"])) == (1, 1)
        assert [one["num_runs"] for one in seen(reader, "/projects")["projects"]] == [1]
        queue = seen(reader, "/service")["queue"]
        assert (queue["dead"], queue["leased"], queue["queued"]) == (1, 0, 0)
    everything = seen("operator", "/service")["queue"]
    assert (everything["dead"], everything["leased"]) == (2, 1)


def test_a_worker_is_seen_at_work_whoever_it_works_for(world: World) -> None:
    for caller, has_job in (("viewer", False), ("operator", True)):
        workers = world.api(caller, "GET", "/service").json()["workers"]
        (busy,) = [one for one in workers if one["name"] == "w-busy"]
        assert (busy["state"], busy["job"] is not None) == ("working", has_job)


def test_live_events_are_those_of_the_callers_projects(world: World) -> None:
    oldest = {"last_event_id": 0}
    own, other = world.places[OWN].run_id, world.places[OTHER].run_id
    headers = world.headers["viewer"]
    stream = world.live.http.stream("GET", "/api/v1/stream", params=oldest, headers=headers)
    with stream as response:
        lines = response.iter_lines()
        for run_id in (other, own):
            points = [{"step": 9, "values": {"loss": 0.1}}]
            sent = world.live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": points})
            assert sent.status_code == 200
        told = []
        for line in lines:
            told.append(line.lower())
            if line.startswith("data") and json.loads(line[5:]).get("step") == 9:
                break
    text = "\n".join(told)
    assert RUNS[OWN] in text
    assert not [secret for secret in SECRETS if secret in text]


def test_a_page_that_loaded_the_newest_events_goes_on_from_there(world: World) -> None:
    """The newest event may be of a project that the caller does not see: that is no reason to begin anew."""
    sent = world.live.send_batch(world.places[OTHER].run_id, 11)
    assert sent.status_code == 202
    newest = world.live.services.reading.kept_event_ids()[1]
    headers = world.headers["viewer"]
    params = {"last_event_id": newest}
    with world.live.http.stream("GET", "/api/v1/stream", params=params, headers=headers) as response:
        first = next(line for line in response.iter_lines() if line)
    assert first == ": resumed"


def test_what_a_share_of_both_projects_shows_is_seen_by_nobody_of_one_alone(world: World) -> None:
    runs = [world.places[OWN].run_id, world.places[OTHER].run_id]
    draft = {"title": "cobalt and amber", "kind": "comparison", "run_ids": runs}
    made = world.api("operator", "POST", "/shares", json=draft)
    assert made.status_code == 201, made.text
    share_id = made.json()["share"]["share_id"]
    listed = world.api("editor", "GET", "/shares").json()["shares"]
    assert share_id not in [one["share_id"] for one in listed]
    assert world.api("editor", "DELETE", f"/shares/{share_id}").status_code == 404
    assert world.api("operator", "DELETE", f"/shares/{share_id}").status_code == 200


def test_a_result_that_is_kept_in_memory_for_one_caller_is_not_handed_to_another(world: World) -> None:
    for path in ("/runs/r-zulu/series", "/runs/r-zulu/trajectory", "/runs/r-zulu/template"):
        assert world.api("operator", "GET", path).status_code == 200
        assert world.api("viewer", "GET", path).status_code == 404
    assert world.api("viewer", "GET", "/run-list/sparklines?run=r-zulu").json() == {"sparklines": {}}
