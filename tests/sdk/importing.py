"""What the tests of the importers share."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from collapsewatch.importers.files import Reading, Watch
from collapsewatch.importers.registry import chosen_format
from collapsewatch.importers.steps import Problems, Step

DATA = Path(__file__).parents[1] / "data" / "importers"
RECORDED = DATA.parent / "collapsing_run.jsonl.gz"


def reading(*, strict: bool = False, **options: Any) -> tuple[Reading, list[str]]:
    """What a reader works with, and the lines that it will tell."""
    told: list[str] = []
    return Reading(Problems(told.append, strict=strict), **options), told


def steps_of(path: Path, format_name: str = "auto", **options: Any) -> tuple[list[Step], Reading, list[str]]:
    """All steps of a path, and what was told about it."""
    look, told = reading(**options)
    look.is_folder = path.is_dir()
    found = chosen_format(format_name, path, has_mapping=bool(look.mapping))
    return list(found.steps(path, look)), look, told


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """A JSONL file of the rows; text goes in as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def following(idle_seconds: float = 0.4) -> Watch:
    """A watch over something that is still written."""
    return Watch(follows=True, idle_seconds=idle_seconds, poll_seconds=0.02)
