"""People handle alerts here: acknowledge, snooze, resolve, reopen. And the clock ends snoozes."""

import logging
from collections.abc import Callable, Sequence
from typing import cast

from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertThread
from collapsewatch_server.alerts.lifecycle import (
    ActionKind,
    Ended,
    Standing,
    State,
    changes_nothing,
    refusal,
)
from collapsewatch_server.alerts.transitions import Severity
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AlertConflict, AlertNotFound, wrong
from collapsewatch_server.inbox.threads import settle
from collapsewatch_server.repositories import alert_threads, attempts, clock, evaluations, events
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.folding import alert_of
from collapsewatch_server.results.own_rules import WITHOUT_EVALUATIONS
from collapsewatch_server.results.thread_book import last_known_step

log = logging.getLogger(__name__)

ANYBODY = "somebody"
"""Who it was when nobody gave a name."""
_MOST_AT_ONCE = 200


class AlertDesk:
    """Any number of servers may handle alerts of one database: each change is made, and told, once."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def handle(
        self,
        alert_ids: Sequence[int],
        kind: ActionKind,
        *,
        by: str = "",
        note: str = "",
        seconds: float | None = None,
    ) -> int:
        """Number of threads that stand otherwise now; the others were so already.

        Args:
            alert_ids: Any alerts of the threads.
            seconds: Of a snooze, from now on.

        Raises:
            AlertNotFound: there is no such alert; nothing was done to any.
            AlertConflict: what one of them is does not allow it; nothing was done to any.
        """
        with self._database.write_session() as session:
            pks = _threads(session, alert_ids)
            threads = alert_threads.held(session, pks)
            # What ran out between two looks has run out.
            told = settle(session, pks)
            num_changed = 0
            for thread in threads:
                if _note_action(session, thread, kind, by=by, note=note, seconds=seconds):
                    num_changed += 1
            told += settle(session, pks, by=by or ANYBODY)
            _store(session, told)
        if told:
            self._ring()
            facts = {"kind": kind, "num_alerts": len(pks), "num_changed": num_changed}
            log.info("alerts handled", extra=facts)
        return num_changed

    def look(self) -> None:
        """Ends the snoozes whose time is over, and tells of the end of what a replay has left behind.

        An alert that is still open when its snooze ends tells of itself again.
        """
        with self._database.read_session() as session:
            if not alert_threads.overdue(session, 1) and not _passed(session):
                return
        with self._database.write_session() as session:
            passed = _passed(session)
            told = settle(session, [*alert_threads.overdue(session, _MOST_AT_ONCE), *passed], passed=passed)
            _store(session, told)
        if told:
            self._ring()


def _passed(session: Session) -> set[int]:
    """Threads that were superseded, and whose replay has come further than they were known to reach.

    Until then the same alert may open again at one of the replayed steps, and nobody needs to be told.
    """
    found = set()
    for pk, run_pk in alert_threads.left_behind(session, _MOST_AT_ONCE):
        lineages = attempts.of_run(session, run_pk)
        rows = [row for row in alert_threads.alerts_of(session, [pk])[pk] if not row.withdrawn]
        reached = lineages.last_step
        if rows and rows[0].scope not in WITHOUT_EVALUATIONS:
            reached = evaluations.last_step(session, run_pk, rows[0].scope)
        known = max((last_known_step(alert_of(row), lineages) for row in rows), default=-1)
        if reached is not None and reached > known:
            found.add(pk)
    return found


def _threads(session: Session, alert_ids: Sequence[int]) -> set[int]:
    found = alert_threads.threads_of(session, alert_ids)
    for alert_id in alert_ids:
        if alert_id not in found:
            raise AlertNotFound(alert_id)
    return set(found.values())


def _note_action(
    session: Session, thread: AlertThread, kind: ActionKind, *, by: str, note: str, seconds: float | None
) -> bool:
    """Whether it changes anything."""
    stands = standing_of(thread)
    problem = refusal(stands, kind)
    if problem is not None:
        message = f"alert {thread.alert_id} cannot be handled like this: {problem}"
        raise AlertConflict(message, [wrong("alert_id", problem, thread.alert_id)])
    if changes_nothing(stands, kind):
        return False
    moment = clock.read(session)
    alert_threads.add_action(
        session,
        thread_pk=thread.id,
        alert_id=thread.alert_id,
        kind=kind,
        severity=thread.severity,
        over_rule=kind == "reopen" and stands.ended == "rule",
        at=moment,
        by=by,
        note=note,
        until=None if seconds is None else moment + seconds,
    )
    return True


def standing_of(thread: AlertThread) -> Standing:
    """Where the thread stands, as it is stored."""
    return Standing(
        cast(State, thread.state),
        cast(Severity, thread.severity),
        cast(Ended | None, thread.ended),
        thread.snoozed_until,
    )


def _store(session: Session, told: Sequence[tuple[int | None, Event]]) -> None:
    # All at the end: on PostgreSQL they take a lock, behind which no row may be waited for.
    for run_pk, event in told:
        events.add(session, run_pk, [event])
