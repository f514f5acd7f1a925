"""What does not have to be kept for ever."""

import time

from collapsewatch_server.db import Database
from collapsewatch_server.repositories import events

SECONDS_BETWEEN_LOOKS = 60.0
# Events only serve pages that come back after a broken connection; whoever was away for longer loads anew.
_KEEP_SECONDS = 86_400.0
_MAX_KEPT = 1_000_000
_MOST_AT_ONCE = 5_000
_LOOK_SECONDS = 2.0


class Retention:
    """Removes old events. Any number of servers may look."""

    def __init__(
        self,
        database: Database,
        *,
        keep_seconds: float = _KEEP_SECONDS,
        max_kept: int = _MAX_KEPT,
        most_at_once: int = _MOST_AT_ONCE,
    ) -> None:
        """The service.

        Args:
            most_at_once: events removed in one transaction: on SQLite all other writers wait for it.
        """
        self._database = database
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
            last_id = events.last_spare_id(
                session,
                keep_seconds=self._keep_seconds,
                max_kept=self._max_kept,
                limit=self._most_at_once,
            )
        if last_id is None:
            return False
        with self._database.write_session() as session:
            events.remove_up_to(session, last_id)
        return True
