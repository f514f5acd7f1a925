"""The audit log as a table that spreadsheets read. Pure."""

import csv
import io
from collections.abc import Iterable, Iterator

from collapsewatch_server.accounts.audit_views import AuditEntryView
from collapsewatch_server.reporting.tables import as_text_cell

COLUMNS = ("id", "at", "actor", "action", "target", "project", "address", "outcome")


def csv_chunks(pages: Iterable[list[AuditEntryView]]) -> Iterator[str]:
    """The table as CSV with a header, a page at a time."""
    yield _rows([COLUMNS])
    for entries in pages:
        yield _rows([_cells(entry) for entry in entries])


def _cells(entry: AuditEntryView) -> tuple[str, ...]:
    values = (getattr(entry, name) for name in COLUMNS)
    return tuple("" if value is None else as_text_cell(str(value)) for value in values)


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
