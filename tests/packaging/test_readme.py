"""The README tells the truth: its settings table, its commands, its links."""

import re
from pathlib import Path

from scripts.settings_table import README, with_table

ROOT = README.parent


def test_the_settings_table_is_that_of_the_settings_classes() -> None:
    text = README.read_text()
    assert text == with_table(text), "run: python scripts/settings_table.py"


def test_every_setting_says_what_it_is_for() -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| `COLLAPSEWATCH_")]
    assert len(rows) > 20
    assert all(row.split("|")[4].strip().endswith(".") for row in rows)


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / name).read_text(), flags=re.MULTILINE))
        assert named
        assert named <= targets


def test_every_local_link_of_the_documents_leads_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for target in re.findall(r"(?:\]\(|src(?:set)?=\")([^)#:\"]+)[)\"]", document.read_text()):
            assert (document.parent / Path(target)).exists(), f"{document.name}: {target}"
