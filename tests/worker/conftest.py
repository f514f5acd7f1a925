import shutil
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


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions of a tiny model, for all to copy."""
    # Not at the top: most tests here need no torch, which takes seconds to import.
    from tests.worker.versions import saved_versions

    return saved_versions(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def root(tmp_path: Path, saved: Path) -> Path:
    """A folder of its own with these versions."""
    shutil.copytree(saved, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def one(root: Path) -> int:
    """Bytes of one version in memory."""
    from safetensors.torch import load_file

    from collapsewatch_worker.models.folders import WEIGHTS_NAME

    return sum(tensor.nbytes for tensor in load_file(root / "v0" / WEIGHTS_NAME).values())
