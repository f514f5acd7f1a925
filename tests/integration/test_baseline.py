"""A baseline scan of the service as it is started, by somebody who has not signed in and by a viewer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.baseline import scan
from tests.integration.service import Service, base_environment
from tests.server.receivers import Answer, http_receiver

pytestmark = pytest.mark.integration
PASSWORD = "four words nobody guesses"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home: Path = tmp_path_factory.mktemp("baseline")
    running = Service(home, base_environment(home, home), scaled_out=False)
    try:
        running.spawn("server", "serve", "--login", "--port", str(running.port), "--no-worker")
        running.wait_until(running.is_ready, "the server is ready", timeout_seconds=120)
        yield running
    finally:
        running.stop()


def browser(service: Service) -> httpx.Client:
    return httpx.Client(base_url=service.url, headers={"Origin": service.url}, timeout=30, trust_env=False)


def join(client: httpx.Client, token: str, name: str) -> None:
    body = {"token": token, "name": name, "password": PASSWORD}
    client.post("/api/v1/session/join", json=body).raise_for_status()


@pytest.fixture(scope="module")
def run_id(service: Service) -> str:
    key = {"Authorization": f"Bearer {service.local_key()}"}
    body = {"run_id": "scanned", "project": "p", "name": "n"}
    httpx.post(f"{service.url}/api/v1/runs", json=body, headers=key, timeout=60).raise_for_status()
    points = {"points": [{"step": 1, "values": {"kl": 0.5}}]}
    path = "/api/v1/runs/scanned/scalars"
    httpx.post(f"{service.url}{path}", json=points, headers=key, timeout=60).raise_for_status()
    return "scanned"


@pytest.fixture(scope="module")
def viewer(service: Service, run_id: str) -> Iterator[httpx.Client]:
    """Somebody whom the operator invited to look."""
    first = re.search(r"#/join/([\w-]+)", service.log("server").read_text())
    assert first is not None
    with browser(service) as operator, browser(service) as client:
        join(operator, first[1], "olga")
        (project,) = operator.get("/api/v1/projects").json()["projects"]
        invited = operator.post(
            f"/api/v1/projects/{project['id']}/invitations", json={"label": "Vera", "role": "viewer"}
        )
        join(client, invited.json()["url"].rpartition("/")[2], "vera")
        yield client


def test_nothing_is_found_by_somebody_who_has_not_signed_in(service: Service, run_id: str) -> None:
    with browser(service) as client:
        assert scan(client, anonymous=True, known={"run_id": run_id, "picture_format": "svg"}) == []


def test_nothing_is_found_by_a_viewer(viewer: httpx.Client, run_id: str) -> None:
    assert viewer.get(f"/api/v1/runs/{run_id}").json()["name"] == "n"
    assert scan(viewer, known={"run_id": run_id, "picture_format": "svg"}) == []


def test_a_careless_server_is_found_out() -> None:
    page = (
        b"<script>1</script><img src='http://evil.example/x' onerror='1'><a href='javascript:1'>x</a>"
        b'<script src="/static/app.js"></script>'
    )
    document = b'{"paths": {"/api/v1/runs": {"get": {}}, "/api/v1/session": {"get": {}}}}'
    with http_receiver() as careless:

        def answer(got: Any) -> Answer:
            headers = {"Content-Type": "text/html", "Set-Cookie": "session=1; Path=/", "X-Powered-By": "luck"}
            if got.path == "/openapi.json":
                return Answer(body=document, headers=headers | {"Content-Type": "application/json"})
            return Answer(
                body=page + b'Traceback (most recent call last): File "a.py", line 1', headers=headers
            )

        careless.answer = answer
        with httpx.Client(base_url=careless.url("").rstrip("/"), timeout=60, trust_env=False) as client:
            found = "\n".join(scan(client, anonymous=True))
    for sign in (
        "/: x-content-type-options is None",
        "/: the policy's script-src is None",
        "/: the policy's frame-ancestors is None",
        "/: it says server: ",
        "/: it says x-powered-by: luck",
        "/: the cookie session lacks httponly, samesite=strict",
        "/: inline script: <script>…</script>",
        "/: inline script: <img onerror=…>",
        "/: inline script: <a href=javascript:…>",
        "/: content from elsewhere: http://evil.example/x",
        "/: shows the inside: Traceback",
        "/static/app.js: is text/html, expected text/javascript",
        "/api/v1/runs: answers 200 to whoever has not signed in",
        "/api/v1/runs: an answer of the API may be kept",
        "/api/v1/runs: an answer of the API opens as a page",
    ):
        assert sign in found, sign
    assert "/api/v1/session: answers 200" not in found
