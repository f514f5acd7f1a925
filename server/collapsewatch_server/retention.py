"""What the service does not have to keep for ever, whatever projects decide."""

import time
from typing import Protocol

from sqlalchemy.orm import Session

from collapsewatch_server.db import Database
from collapsewatch_server.repositories import audit, events

SECONDS_BETWEEN_LOOKS = 60.0
# Events only serve pages that come back after a broken connection; whoever was away for longer loads anew.
_KEEP_SECONDS = 86_400.0
_MAX_KEPT = 1_000_000
_MOST_AT_ONCE = 5_000
_LOOK_SECONDS = 2.0


class _Log(Protocol):
    """Rows that are only ever added; see `repositories.events` and `repositories.audit`."""

    def last_spare_id(
        self, session: Session, *, keep_seconds: float, max_kept: int, limit: int
    ) -> int | None: ...

    def remove_up_to(self, session: Session, last_id: int, /) -> None: ...


class Retention:
    """Removes the oldest rows of a log. Any number of servers may look."""

    def __init__(
        self,
        database: Database,
        *,
        log: _Log = events,
        keep_seconds: float = _KEEP_SECONDS,
        max_kept: int = _MAX_KEPT,
        most_at_once: int = _MOST_AT_ONCE,
    ) -> None:
        """The service.

        Args:
            log: the events, when none is given.
            most_at_once: rows removed in one transaction: on SQLite all other writers wait for it.
        """
        self._database = database
        self._log = log
        self._keep_seconds = keep_seconds
        self._max_kept = max_kept
        self._most_at_once = most_at_once

    def look(self) -> None:
        """Removes what is due, for a second or two; the rest waits for the next look."""
        until = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < until and self._remove_some():
            pass

    def _remove_some(self) -> bool:
        """Whether anything was removed."""
        with self._database.read_session() as session:
            last_id = self._log.last_spare_id(
                session,
                keep_seconds=self._keep_seconds,
                max_kept=self._max_kept,
                limit=self._most_at_once,
            )
        if last_id is None:
            return False
        with self._database.write_session() as session:
            self._log.remove_up_to(session, last_id)
        return True


def audit_retention(database: Database, *, days: float) -> Retention:
    """What removes entries of the audit log that are older than so many days, or too many."""
    return Retention(database, log=audit, keep_seconds=days * 86_400.0)
