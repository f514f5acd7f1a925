"""The OpenAPI document is complete: bodies, examples, errors and keys of every route."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from collapsewatch_server.app import create_app
from collapsewatch_server.settings import ServerSettings

KEYED = ("ingest", "worker")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home: Path = tmp_path_factory.mktemp("home")
    return create_app(ServerSettings(home=home)).openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_of_the_api_is_described(document: dict[str, Any]) -> None:
    found = {(method.upper(), path) for path, method, _ in operations(document)}
    assert found >= {
        ("POST", "/api/v1/runs"),
        ("PATCH", "/api/v1/runs/{run_id}"),
        ("POST", "/api/v1/runs/{run_id}/batches"),
        ("POST", "/api/v1/runs/{run_id}/scalars"),
        ("POST", "/api/v1/worker/claim"),
        ("POST", "/api/v1/worker/jobs/{job_id}/beat"),
        ("POST", "/api/v1/worker/jobs/{job_id}/done"),
        ("POST", "/api/v1/worker/jobs/{job_id}/fail"),
        ("GET", "/api/v1/runs"),
        ("GET", "/api/v1/runs/{run_id}/series"),
        ("GET", "/api/v1/runs/{run_id}/trajectory"),
        ("GET", "/api/v1/stream"),
        ("GET", "/readyz"),
    }
    for path, method, operation in operations(document):
        assert operation["tags"], (method, path)
        assert operation.get("description"), (method, path)


def test_every_json_body_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    checked = 0
    for path, method, operation in operations(document):
        holders = [operation.get("requestBody"), *operation["responses"].values()]
        for content in [holder["content"] for holder in holders if holder and "content" in holder]:
            body = content.get("application/json")
            if body is None:
                continue
            assert "example" in body, (method, path)
            schema = {**body["schema"], "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(body["example"])
            checked += 1
    assert checked > 50


def test_every_route_that_takes_a_body_or_a_key_says_so(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        if operation["tags"][0] not in KEYED:
            assert "security" not in operation
            continue
        assert ("requestBody" in operation) == (method != "get"), (method, path)
        (scheme,) = operation["security"]
        assert list(scheme) == [{"ingest": "IngestKey", "worker": "WorkerKey"}[operation["tags"][0]]]
        statuses = set(operation["responses"])
        if method == "get":
            assert {"401", "403", "404", "422"} <= statuses, (method, path)
            continue
        assert {"400", "401", "403", "404", "413", "415", "422"} <= statuses, (method, path)


def test_errors_have_the_one_shape(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        if "health" in operation["tags"]:
            continue
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                reference = response["content"]["application/json"]["schema"]["$ref"]
                assert reference.endswith("/ErrorBody"), (method, path, status)
