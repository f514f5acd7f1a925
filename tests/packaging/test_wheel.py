"""The wheel holds the whole product: four packages, the page, the migrations."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    [wheel] = target.glob("collapsewatch-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_tracked_file_of_the_packages_is_in_the_wheel(wheel_names: set[str]) -> None:
    for package in ("client_sdk", "server", "worker", "frontend"):
        [root] = (ROOT / package).glob("collapsewatch*")
        for path in root.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert str(path.relative_to(ROOT / package)) in wheel_names


def test_the_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    tops = {name.split("/")[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "collapsewatch",
        "collapsewatch_server",
        "collapsewatch_worker",
        "collapsewatch_frontend",
    }
