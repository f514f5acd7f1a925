"""The rows of a benchmark: as a table for people and as JSON for programs."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of ours, beside a peer's where there is one."""

    case: str
    metric: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    higher_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's; none without a peer or when the peer's is 0."""
        return self.ours / self.peer if self.peer else None

    def as_json(self) -> dict[str, Any]:
        """The row in the form that all benchmarks share."""
        return {**asdict(self), "ratio": self.ratio}


def machine(versions: dict[str, str]) -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "libraries": versions,
    }


def write_json(path: Path, measured_on: dict[str, Any], rows: Iterable[Row]) -> None:
    """Leaves the rows in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": measured_on, "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(document, indent=1) + "\n")


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, which reads well on a terminal too."""
    header = ["case", "metric", "ours", "peer", "their figure", "ours / theirs"]
    cells = [header] + [
        [
            row.case,
            f"{row.metric} ({row.unit})",
            shown(row.ours),
            row.peer_name or "–",
            "–" if row.peer is None else shown(row.peer),
            "–" if row.ratio is None else shown(row.ratio),
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        for line in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def shown(value: float) -> str:
    """The number with three figures that count."""
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
