"""The threat model names code and tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_the_threat_model_names_is_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    modules = set(re.findall(r"`([a-z_]+/[a-z_]+\.py|auth\.py)`", text))
    tests = set(re.findall(r"`(?:tests/packaging/)?(test_[a-z_]+\*?\.py)`", text))
    assert len(modules) > 8
    assert len(tests) > 15
    server = ROOT / "server" / "collapsewatch_server"
    assert [name for name in modules if not (server / name).is_file()] == []
    assert [name for name in tests if not list((ROOT / "tests").rglob(name))] == []
    targets = set(re.findall(r"`make ([a-z]+)", text))
    makefile = (ROOT / "Makefile").read_text()
    assert [name for name in targets if f"\n{name}: " not in makefile] == []
