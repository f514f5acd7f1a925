"""Reads the audit log, as far as whoever asks can see it."""

from collections.abc import Iterator

from collapsewatch_server.accounts.audit_views import AuditEntryView, AuditPage
from collapsewatch_server.db import Database
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import audit
from collapsewatch_server.repositories.audit import Entry

_ENTRIES_AT_ONCE = 2_000


class AuditReading:
    """Reads, and changes nothing."""

    def __init__(self, database: Database, *, entries_at_once: int = _ENTRIES_AT_ONCE) -> None:
        self._database = database
        self._entries_at_once = entries_at_once

    def page(
        self, *, before_id: int | None, limit: int, project_id: int | None, action: str | None
    ) -> AuditPage:
        """Some entries, newest first."""
        with self._database.read_session() as session:
            found = audit.page(
                session, before_id=before_id, limit=limit + 1, project_id=project_id, action=action
            )
        entries = [_view(entry) for entry in found[:limit]]
        return AuditPage(entries=entries, next_before_id=entries[-1].id if len(found) > limit else None)

    def all(self, *, project_id: int | None, action: str | None) -> Iterator[list[AuditEntryView]]:
        """Every entry, newest first, some at a time."""
        before_id: int | None = None
        while True:
            # A session each: whoever reads slowly holds no transaction open.
            found = self.page(
                before_id=before_id, limit=self._entries_at_once, project_id=project_id, action=action
            )
            if found.entries:
                yield found.entries
            before_id = found.next_before_id
            if before_id is None:
                return


def _view(entry: Entry) -> AuditEntryView:
    row = entry.row
    return AuditEntryView(
        id=row.id,
        at=iso(row.at),
        actor=row.actor,
        action=row.action,
        target=row.target,
        project=entry.project,
        address=row.address,
        outcome=row.outcome,
    )
