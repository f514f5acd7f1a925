from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.job_server import JobServer, Workplace


@pytest.fixture
def server() -> Iterator[JobServer]:
    """Speaks the worker API."""
    server = JobServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    """A folder of blobs and the workers started in it."""
    workplace = Workplace(tmp_path)
    yield workplace
    workplace.close()
