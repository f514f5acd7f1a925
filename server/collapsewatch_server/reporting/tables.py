"""Series as a table of one row per value, in text that spreadsheets read. Pure."""

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

from collapsewatch_server.reporting.series import Part
from collapsewatch_server.repositories.columns import Floats

COLUMNS = ("run_id", "scope", "metric", "step", "value", "low", "high")
_ROWS_AT_ONCE = 20_000
# A spreadsheet takes text that begins so for a formula; the quote before it shows it as text.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_chunks(parts: Iterable[Part]) -> Iterator[str]:
    """The table as CSV with a header; numbers to their last digit, an absent limit as an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    yield _taken(text)
    for part in parts:
        names = [as_text_cell(name) for name in (part.run_id, part.scope, part.metric)]
        for start in range(0, len(part.columns.steps), _ROWS_AT_ONCE):
            piece = part.columns.part(start, start + _ROWS_AT_ONCE)
            num = len(piece.steps)
            fixed = (repeat(name, num) for name in names)
            limits = (_cells(piece.low, num), _cells(piece.high, num))
            writer.writerows(zip(*fixed, piece.steps.tolist(), piece.values.tolist(), *limits, strict=True))
            yield _taken(text)


def as_text_cell(name: str) -> str:
    """The name as a cell that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(_FORMULA) else name


def _taken(text: io.StringIO) -> str:
    piece = text.getvalue()
    text.seek(0)
    text.truncate()
    return piece


def _cells(limit: Floats | None, num: int) -> list[Any]:
    if limit is None:
        return [""] * num
    return ["" if value != value else value for value in limit.tolist()]
