"""Limits as callers meet them: of requests, bytes, guesses, long addresses and costly questions."""

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

import collapsewatch
from collapsewatch_server import db
from collapsewatch_server.access.rules import RULES, Door
from collapsewatch_server.alerting import rules as rule_book
from collapsewatch_server.app import create_app
from collapsewatch_server.auth import Purpose
from collapsewatch_server.db import Database, is_away
from collapsewatch_server.reading import series as series_module
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.throttling import traffic as traffic_module
from collapsewatch_server.web import traffic as web_traffic
from tests.conftest import WaitUntil
from tests.server.live import batch_body
from tests.server.team import PASSWORD, Team, team_of

MEBIBYTE = 2**20
URL = "http://127.0.0.1"


class Service:
    """A service with small limits, called from whatever address."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.app = create_app(services.settings, services)
        self.ingest = services.keyring.create(Purpose.ingest, project=None, label="trainer")

    def call(self, method: str, path: str, *, address: str, key: str | None = None, **more: Any) -> Any:
        client = TestClient(self.app, base_url=URL, client=(address, 40_000))
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return client.request(method, path, headers={**headers, **more.pop("headers", {})}, **more)

    def codes(self, number: int, method: str, path: str, **more: Any) -> list[int]:
        return [self.call(method, path, **more).status_code for _ in range(number)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One for all tests, each of which comes from addresses of its own; its minute never ends."""
    settings = ServerSettings(
        home=tmp_path_factory.mktemp("home"),
        rate_reads=4,
        rate_writes=3,
        rate_ingest=5,
        rate_worker=5,
        rate_links=4,
        rate_entry=3,
        rate_bytes=2 * MEBIBYTE,
        max_request_bytes=MEBIBYTE,
        rate_address_times=2,
    )
    services = build_services(settings)
    services.prepare()
    services.throttle.traffic._clock = lambda: 1_800_000_010.0
    yield Service(services)
    services.close()


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """A service in which people sign in."""
    with team_of({"home": tmp_path_factory.mktemp("team")}) as team:
        yield team


def routes_of(app: Any) -> list[RouteContext]:
    return [one for one in iter_route_contexts(app.routes) if isinstance(one.original_route, APIRoute)]


def test_a_reader_is_told_which_limit_it_met_and_when_to_come_again(service: Service) -> None:
    answers = [service.call("GET", "/api/v1/runs", address="10.1.0.1", key="a") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429]
    assert answers[-1].headers["retry-after"] == "50"
    error = answers[-1].json()["error"]
    assert error["code"] == "too_many_requests"
    assert error["message"] == (
        "this caller may send 4 reading requests a minute; come later, or raise `COLLAPSEWATCH_RATE_READS`"
    )
    # Another caller of that address goes on, until the address has had its share.
    assert service.codes(5, "GET", "/api/v1/runs", address="10.1.0.1", key="b") == [200] * 4 + [429]
    assert service.codes(1, "GET", "/api/v1/runs", address="10.1.0.1", key="c") == [429]
    assert service.codes(1, "GET", "/api/v1/runs", address="10.1.0.2", key="c") == [200]
    # What was used up is the share of reading alone.
    body = {"toml": ""}
    assert service.codes(1, "POST", "/api/v1/alert-rules/import", address="10.1.0.1", json=body) == [200]


def test_the_page_and_the_question_whether_it_lives_are_never_refused(service: Service) -> None:
    service.codes(9, "GET", "/api/v1/runs", address="10.2.0.1")
    for path in ("/", "/healthz", "/static/css/app.css", "/favicon.ico"):
        answers = service.codes(12, "GET", path, address="10.2.0.1")
        assert 429 not in answers, path
    # This one writes to find out, so that a flood of it would be work.
    assert 429 in service.codes(12, "GET", "/readyz", address="10.2.0.9")


def test_data_that_is_refused_is_not_even_read(service: Service) -> None:
    run = {"run_id": "limited", "project": "p", "name": "n"}
    where = {"address": "10.3.0.1", "key": service.ingest}
    assert service.codes(2, "POST", "/api/v1/runs", json=run, **where) == [201, 200]
    path = "/api/v1/runs/limited/scalars"
    assert service.codes(3, "POST", path, json={"points": []}, **where).count(429) == 0
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web_traffic.BodyCount, "come", lambda self, num_bytes: read.append(num_bytes))
        answer = service.call("POST", path, content=b"{}", **where)
    assert (answer.status_code, answer.json()["error"]["code"], read) == (429, "too_many_requests", [])
    # Signs of life are: whoever is told to wait would be taken for dead.
    beat = {"writer_id": "w"}
    answers = service.codes(9, "POST", "/api/v1/runs/limited/heartbeat", json=beat, **where)
    assert 429 not in answers


def test_bytes_are_counted_as_they_are_announced_or_come(service: Service) -> None:
    run = {"run_id": "bytes", "project": "p", "name": "n"}
    where = {"address": "10.4.0.1", "key": f"{service.ingest}"}
    opened = {**where, "address": "10.4.0.9"}
    service.services.throttle.traffic._counts.mine.clear()
    assert service.codes(1, "POST", "/api/v1/runs", json=run, **opened) == [201]
    path, large = "/api/v1/runs/bytes/scalars", b" " * (MEBIBYTE - 100)
    assert service.codes(1, "POST", path, content=large, **where) == [400]
    # Without a length they count as they come.
    assert service.codes(1, "POST", path, content=iter([large[:1000]] * 1000), **where) == [400]
    answer = service.call("POST", path, content=large, **where)
    assert answer.status_code == 429
    assert "2097152 bytes of bodies a minute" in answer.json()["error"]["message"]
    assert "COLLAPSEWATCH_RATE_BYTES" in answer.json()["error"]["message"]
    assert service.call("POST", path, content=b"{}", **where).status_code == 422


def test_a_link_is_one_caller_whoever_opens_it(service: Service) -> None:
    path = f"/api/v1/shared/{'x' * 30}"
    assert service.codes(2, "GET", path, address="10.5.0.1") == [404, 404]
    assert service.codes(3, "GET", path, address="10.5.0.2") == [404, 404, 429]
    assert service.codes(1, "GET", f"/api/v1/shared/{'y' * 30}", address="10.5.0.2") == [404]


def test_every_route_but_the_page_and_signs_of_life_is_counted(service: Service) -> None:
    uncounted = set()
    for method, path in RULES:
        bucket = web_traffic._bucket_of(method, path)
        if bucket is None and not path.endswith("/stream"):
            uncounted.add((method, path.removeprefix("/api/v1")))
    pages = {place for place, rule in RULES.items() if rule is Door.everybody and "/api/" not in place[1]}
    signs = {
        ("POST", "/runs/{run_id}/heartbeat"),
        ("POST", "/worker/heartbeat"),
        ("POST", "/worker/jobs/{job_id}/beat"),
        ("GET", "/runs/{run_id}/alerts/standing"),
    }
    assert uncounted == signs | pages - {("GET", "/readyz")}
    assert ("GET", web_traffic._BACK) in RULES


def test_live_streams_count_while_they_are_open(start_sqlite_server: Any, wait_until: WaitUntil) -> None:
    live = start_sqlite_server(max_streams=1, rate_address_times=1)
    streams = [one for one in routes_of(live.server.config.app) if str(one.path).endswith("/stream")]
    assert len(streams) == 2
    for one in streams:
        assert web_traffic.streaming in [each.call for each in one.dependant.dependencies]
    with live.http.stream("GET", "/api/v1/stream") as opened:
        assert next(opened.iter_lines()) is not None
        refused = live.call("GET", "/stream")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    traffic = live.services.throttle.traffic
    wait_until(lambda: not traffic._streams, "the stream that was closed counts no more")


def test_exports_reports_previews_and_snapshots_take_turns(service: Service) -> None:
    takes_turns = {
        (method, str(one.path).removeprefix("/api/v1"))
        for one in routes_of(service.app)
        if web_traffic.costly in [each.call for each in one.dependant.dependencies]
        for method in one.methods or ()
    }
    exports = [f"/exports/{name}" for name in ("series.csv", "series.parquet", "report.html")]
    exports.append("/exports/chart.{picture_format}")
    assert takes_turns == {
        *(("GET", f"{before}{path}") for path in exports for before in ("", "/shared/{token}")),
        ("POST", "/alert-rules/preview"),
        ("POST", "/shares"),
        ("GET", "/audit/export.csv"),
    }


def test_every_body_of_the_api_has_a_limit(service: Service) -> None:
    """Every route reads its body through a gate: none lets the framework read one whole."""
    routes = routes_of(service.app)
    assert len(routes) > 100
    assert [one.path for one in routes if one.dependant.body_params] == []


# Guesses.


def test_who_guesses_a_password_waits_and_elsewhere_its_owner_signs_in(team: Team) -> None:
    team.operator("olga")
    app = team.browser().client.app

    def sign_in(password: str, address: str) -> Any:
        client = TestClient(app, base_url="https://cw.example", client=(address, 1))
        return client.post("/api/v1/session", json={"name": "Olga", "password": password})

    assert [sign_in("wrong", "10.6.0.1").status_code for _ in range(5)] == [401] * 5
    refused = sign_in(PASSWORD, "10.6.0.1")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_requests")
    assert 200 < int(refused.headers["retry-after"]) <= 300
    assert sign_in(PASSWORD, "10.6.0.2").status_code == 200


def test_the_old_password_and_links_to_join_by_cannot_be_guessed_either(team: Team) -> None:
    person = team.operator("wanda")
    guess = {"old": "wrong", "new": "another five words for tests"}
    assert [person.refusal("POST", "/session/password", guess)[0] for _ in range(6)] == [401] * 5 + [429]
    client = TestClient(person.client.app, base_url="https://cw.example", client=("10.7.0.1", 1))
    codes = [client.post("/api/v1/session/link", json={"token": "x" * 40}).status_code for _ in range(31)]
    assert codes == [410] * 30 + [429]


def test_who_only_asks_to_be_let_in_holds_up_no_trainer(service: Service) -> None:
    """Whoever is not signed in passes a gate of its own, with small bodies, and few times a minute."""
    answer = service.call("POST", "/api/v1/session", address="10.8.0.1", content=b" " * 70_000)
    assert answer.status_code == 413
    gate = service.services.gate
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "_max_requests", 0)
        body = {"name": "a", "password": "b"}
        codes = service.codes(7, "POST", "/api/v1/session", address="10.8.0.2", json=body)
    assert codes == [401] * 5 + [429] * 2


# Questions that cost much.


def test_an_address_that_is_too_long_is_refused(service: Service) -> None:
    answer = service.call("GET", f"/api/v1/runs?project={'x' * 33_000}", address="10.9.0.1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (414, "query_too_long")
    assert service.call("GET", f"/{'x' * 5_000}", address="10.9.0.1").status_code == 414
    longest = "&".join(f"run={'r' * 63}{n:03d}"[:68] for n in range(200))
    assert service.call("GET", f"/api/v1/run-list?{longest}", address="10.9.0.2").status_code in (200, 422)


def test_a_comparison_of_more_points_than_one_answer_holds_is_refused(service: Service) -> None:
    runs, metrics = [f"r{n}" for n in range(20)], [f"m{n}" for n in range(40)]
    params: dict[str, Any] = {"run": runs, "metric": metrics, "max_points": 1251}
    answer = service.call("GET", "/api/v1/compare/series", address="10.10.0.1", params=params)
    assert answer.status_code == 422
    assert "1000000 points at most; 20 runs, 40 metrics and 1251" in answer.json()["error"]["message"]
    params["max_points"] = 1250
    answer = service.call("GET", "/api/v1/compare/series", address="10.10.0.1", params=params)
    assert answer.status_code == 200


def test_very_many_series_are_cut_down_to_fewer_points_each(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.services.throttle.traffic._counts.mine.clear()
    where = {"address": "10.11.0.1", "key": service.ingest}
    run = {"run_id": "wide", "project": "p", "name": "n"}
    service.call("POST", "/api/v1/runs", json=run, **where)
    points = [{"step": step, "values": {f"m{n}": step % 7 for n in range(5)}} for step in range(200)]
    path = "/api/v1/runs/wide"
    assert service.call("POST", f"{path}/scalars", json={"points": points}, **where).status_code == 200
    monkeypatch.setattr(series_module, "_MOST_POINTS", 250)
    asked = {"scope": "trainer"}
    answer = service.call("GET", f"{path}/series", address="10.11.0.2", params=asked)
    found = answer.json()["series"]
    assert len(found) == 5
    assert all(len(one["steps"]) <= 54 and one["num_points"] == 200 for one in found.values())
    one = service.call("GET", f"{path}/series", address="10.11.0.2", params={**asked, "metric": "m0"})
    assert len(one.json()["series"]["m0"]["steps"]) == 200


def test_there_are_only_so_many_rules_that_look_at_every_step(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_book, "MOST_RULES", 1)
    rule = {"name": "one", "metric": "kl", "scope": "trainer", "operator": ">", "threshold": 1.0}
    path, where = "/api/v1/alert-rules", {"address": "10.12.0.1"}
    assert service.call("POST", path, json=rule, **where).status_code == 201
    answer = service.call("POST", path, json={**rule, "name": "two"}, **where)
    assert answer.status_code == 409
    assert "there are 1 rules already" in answer.json()["error"]["message"]


def test_a_statement_that_reads_for_too_long_ends_and_a_write_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path}/slow.db")
    counting = text(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :most)"
        " SELECT count(*) FROM n"
    )
    monkeypatch.setattr(db, "_READ_SECONDS", 0.05)
    started = time.monotonic()
    # To count so far would take more than a minute.
    with database.read_session() as session, pytest.raises(OperationalError, match="interrupted") as found:
        session.execute(counting, {"most": 10**9})
    assert time.monotonic() - started < 20
    assert is_away(found.value)
    with database.read_session() as session:
        assert session.scalar(counting, {"most": 10}) == 10
    with database.write_session() as session:
        assert session.scalar(counting, {"most": 10**6}) == 10**6
    database.close()


# Trainers.


def test_a_trainer_over_its_limit_loses_nothing_and_waits_for_nothing(
    start_sqlite_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(traffic_module, "WINDOW_SECONDS", 1)
    live = start_sqlite_server(rate_ingest=3)
    traffic = live.services.throttle.traffic
    # Until all is logged its second does not end: whatever is sent beyond its limit is refused.
    began, is_logged = time.time(), threading.Event()
    traffic._clock = lambda: time.time() if is_logged.is_set() else began
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path / "trainer"))
    run = collapsewatch.init("p", "n", url=live.url, api_key=live.ingest_key)
    seconds: list[float] = []
    for step in range(8):
        started = time.perf_counter()
        run.log_rollouts(step, batch_body(step)["rollouts"])
        seconds.append(time.perf_counter() - started)
    wait_until(lambda: traffic.num_refused > 0, "it sent too much")
    is_logged.set()
    run.finish()
    with live.services.database.read_session() as session:
        assert session.execute(text("SELECT count(DISTINCT step) FROM batches")).scalar() == 8
    # The server said to wait a second, and the spool waited; the machine may stand still in one of them.
    assert statistics.median(seconds) < 0.9
