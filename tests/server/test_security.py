"""Which hosts are served, what a browser may do, and what every answer carries."""

from typing import Any

import pytest

from collapsewatch_server.settings import ServerSettings, is_loopback
from tests.server.live import LiveServer

ANYWHERE = "0.0.0.0"  # noqa: S104 (not bound)


@pytest.fixture
def live(start_sqlite_server: Any) -> LiveServer:
    server: LiveServer = start_sqlite_server(lease_seconds=30)
    return server


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "127.0.0.1@x"]
)
def test_a_name_that_is_not_of_this_machine_is_refused(live: LiveServer, host: str) -> None:
    response = live.http.get("/api/v1/runs", headers={"Host": host})
    assert response.status_code == 421
    assert response.json()["error"]["code"] == "wrong_host"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:7788", "127.0.0.1:9", "127.8.8.8", "[::1]:7788"])
def test_names_of_this_machine_are_served(live: LiveServer, host: str) -> None:
    assert live.http.get("/api/v1/runs", headers={"Host": host}).status_code == 200


def test_an_insecure_server_answers_to_any_name(start_sqlite_server: Any) -> None:
    live = start_sqlite_server(insecure=True)
    assert live.http.get("/api/v1/runs", headers={"Host": "gpu-host:7788"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/runs", "/nowhere", "/static/css/base.css", "/docs", "/healthz"]
)
def test_every_answer_carries_the_security_headers(live: LiveServer, path: str) -> None:
    headers = live.http.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_the_page_of_a_link_may_be_framed(live: LiveServer) -> None:
    headers = live.http.get(f"/s/{'x' * 32}").headers
    assert "frame-ancestors *" in headers["content-security-policy"]
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "x-frame-options" not in headers
    assert live.http.get("/").headers["x-frame-options"] == "DENY"


def test_another_origin_may_not_retry_a_job(live: LiveServer) -> None:
    run_id = live.start_run()
    live.send_batch(run_id, 1)
    job_id = live.claim()["job_id"]
    live.worker(f"/jobs/{job_id}/fail", {"worker": "w1", "error": "e", "retry": False})
    path = f"/runs/{run_id}/jobs/{job_id}/retry"
    foreign = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ]
    for headers in foreign:
        response = live.call("POST", path, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "cross_site")
    assert len(live.get(f"/runs/{run_id}/jobs", status="dead")["jobs"]) == 1
    own = {"Origin": live.url, "Sec-Fetch-Site": "same-origin"}
    assert live.call("POST", path, headers=own).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/nothing", 404, "not_found"),
        ("DELETE", "/api/v1/runs", 405, "method_not_allowed"),
        ("GET", "/static/../main.py", 404, "not_found"),
        ("GET", "/api/v1/runs/nobody", 404, "run_not_found"),
        ("GET", "/api/v1/runs/nobody/series", 404, "run_not_found"),
        ("GET", "/api/v1/runs/..%2f", 404, "not_found"),
        ("GET", "/api/v1/runs/a%00b", 422, "invalid_request"),
        ("GET", "/api/v1/runs?project=%00", 422, "invalid_request"),
        ("GET", "/api/v1/runs?limit=many", 422, "invalid_request"),
        ("GET", "/api/v1/runs/x/series?max_points=1", 422, "invalid_request"),
        ("GET", f"/api/v1/runs/x/steps/{2**70}", 422, "invalid_request"),
        ("GET", "/api/v1/runs/x/jobs?status=lost", 422, "invalid_request"),
        ("POST", f"/api/v1/runs/x/jobs/{2**70}/retry", 422, "invalid_request"),
    ],
)
def test_every_error_has_the_one_shape(
    live: LiveServer, method: str, path: str, status: int, code: str
) -> None:
    response = live.http.request(method, path)
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"code", "message", "details"}
    assert error["code"] == code


def test_a_mistake_of_the_server_has_the_shape_too_and_tells_nothing(
    live: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("the secret")

    monkeypatch.setattr(live.services.reading, "projects", fail)
    response = live.http.get("/api/v1/projects")
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "secret" not in response.text


@pytest.mark.parametrize("host", [ANYWHERE, "::", "192.168.1.5", "example.org", ""])
def test_people_sign_in_at_an_address_that_others_can_reach(host: str) -> None:
    assert ServerSettings(host=host).needs_login
    assert not ServerSettings(host=host, insecure=True).needs_login


def test_nobody_signs_in_on_a_machine_of_ones_own_unless_asked_to() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        assert not ServerSettings(host=host).needs_login
        assert ServerSettings(host=host, login=True).needs_login
    with pytest.raises(ValueError, match="not both"):
        ServerSettings(login=True, insecure=True)


def test_loopback_is_recognised() -> None:
    assert all(is_loopback(host) for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"))
    assert not any(is_loopback(host) for host in (ANYWHERE, "localhost.example", "10.0.0.1", "", "::"))
