"""The rows of a benchmark: as a table for people and as JSON for programs."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import markdown_table, shown


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


def write_json(path: Path, measured_on: dict[str, Any], rows: Iterable[Row]) -> None:
    """Leaves the rows in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": measured_on, "rows": [row.as_json() for row in rows]}
    path.write_text(json.dumps(document, indent=1) + "\n")


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, which reads well on a terminal too."""
    header = ["case", "metric", "ours", "peer", "their figure", "ours / theirs"]
    lines = [
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
    return markdown_table(header, lines)
