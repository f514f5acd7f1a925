"""A running service in either deployment, shared by the tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.service import Service, base_environment


@pytest.fixture(scope="module", params=["embedded", "scaled_out"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, golden_models: Path
) -> Iterator[Service]:
    """The service as `serve` starts it, then with PostgreSQL, Redis and a worker of its own."""
    home = tmp_path_factory.mktemp(request.param)
    running = Service(home, base_environment(home, golden_models), request.param == "scaled_out")
    if running.scaled_out:
        running.environment["COLLAPSEWATCH_DATABASE_URL"] = request.getfixturevalue("postgres_url")
        running.environment["COLLAPSEWATCH_REDIS_URL"] = request.getfixturevalue("redis_url")
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def golden_models() -> Path:
    return Path(__file__).parents[1] / "data" / "golden" / "model_cases"
