"""The unit of systemd is what the documentation shows, and systemd understands it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy" / "collapsewatch.service"


def test_the_documentation_shows_the_unit() -> None:
    shown = re.search(r"```ini\n(.*?)```", (ROOT / "docs" / "deploy.md").read_text(), re.DOTALL)
    assert shown is not None
    assert shown[1] == UNIT.read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    # Its program is not installed where tests run; any other will do.
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/collapsewatch/bin/collapsewatch", "/bin/true"))
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    assert (found.returncode, [line for line in found.stderr.splitlines() if UNIT.name in line]) == (0, [])
