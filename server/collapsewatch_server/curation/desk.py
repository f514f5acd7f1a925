"""People look after runs here: another name, tags, notes, put away, delete."""

import logging
from collections.abc import Callable

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from collapsewatch_server.db import Database
from collapsewatch_server.errors import RunNotFound
from collapsewatch_server.reading.run_list_views import RunAbout
from collapsewatch_server.repositories import events, run_list, run_purge, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Run

log = logging.getLogger(__name__)

_MOST_TRIES = 3


class RunDesk:
    """Changes what people may say of runs; what was measured is not theirs to change."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def change(self, run_id: str, about: RunAbout) -> None:
        """Changes what is given.

        Raises:
            RunNotFound: there is none of this id.
        """
        with self._database.write_session() as session:
            run, project = _held(session, run_id)
            run_list.change(session, run.id, about.given())
            data = {"run_id": run.run_id, "project": project, "state": runs.state_of(session, run.id)}
            events.add(session, run.id, [Event("run", data)])
        self._ring()

    def delete(self, run_id: str) -> None:
        """Deletes the run with all that was sent of it and found out about it.

        Nobody sees it from now on, and its id is free; its many rows and its blobs go within minutes.

        Raises:
            RunNotFound: there is none of this id.
        """
        self.delete_if(run_id, lambda session, run_pk: True)

    def delete_if(self, run_id: str, is_due: Callable[[Session, int], bool]) -> bool:
        """Whether the run was deleted.

        Args:
            is_due: decides it by the run's row id, once nobody else can change the run any more.

        Raises:
            RunNotFound: there is none of this id.
        """
        for attempt in range(_MOST_TRIES):
            try:
                if not self._delete(run_id, is_due):
                    return False
                break
            except IntegrityError:
                # Another server has just told of one of its alerts.
                if attempt == _MOST_TRIES - 1:
                    raise
        self._ring()
        log.info("run deleted", extra={"run": run_id})
        return True

    def _delete(self, run_id: str, is_due: Callable[[Session, int], bool]) -> bool:
        with self._database.write_session() as session:
            runs.take_time(session)
            run, project = _held(session, run_id)
            if not is_due(session, run.id):
                return False
            run_purge.mark(session, run.id)
            # No run's event: those go with their run.
            events.add(
                session, None, [Event("run", {"run_id": run_id, "project": project, "state": "deleted"})]
            )
        return True


def _held(session: Session, run_id: str) -> tuple[Run, str]:
    found = runs.find(session, run_id)
    if found is None:
        raise RunNotFound(run_id)
    runs.lock(session, found[0].id)
    # It may have been deleted while this waited for it.
    if runs.is_deleted(session, found[0].id):
        raise RunNotFound(run_id)
    return found
