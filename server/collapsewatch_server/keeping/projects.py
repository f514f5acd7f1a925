"""Acts on how long projects keep what they have."""

import time
from collections.abc import Callable

from collapsewatch_server.accounts.audit import BY_ITSELF, Audit
from collapsewatch_server.curation.desk import RunDesk
from collapsewatch_server.db import Database
from collapsewatch_server.errors import RunNotFound
from collapsewatch_server.keeping.texts import TextRetention
from collapsewatch_server.repositories import project_retention, spent_runs
from collapsewatch_server.repositories.spent_texts import Cursor

_LOOK_SECONDS = 2.0
_RUNS_AT_ONCE = 50


class ProjectRetention:
    """Removes what is due, in pieces that nobody has to wait for. Any number of servers may look."""

    def __init__(
        self,
        database: Database,
        texts: TextRetention,
        desk: RunDesk,
        audit: Audit,
        *,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        self._database = database
        self._texts = texts
        self._desk = desk
        self._audit = audit
        self._look_seconds = look_seconds

    def look(self) -> None:
        """Removes what is due, for a second or two; the rest waits for the next look."""
        until = time.monotonic() + self._look_seconds

        def has_time() -> bool:
            return time.monotonic() < until

        with self._database.read_session() as session:
            projects = project_retention.all_terms(session)
        for project_id, terms in projects:
            if not has_time():
                return
            # Runs first: of those that go anyway, nobody need remove the text batch by batch.
            if terms.run_days is not None:
                self._delete_runs(project_id, terms.run_days, has_time)
            if terms.text_days is not None:
                self._remove_texts(project_id, terms.text_days, has_time)

    def _delete_runs(self, project_id: int, days: float, has_time: Callable[[], bool]) -> None:
        with self._database.read_session() as session:
            due = spent_runs.due(session, project_id, days, _RUNS_AT_ONCE)
        for run in due:
            if not has_time():
                return
            try:
                is_gone = self._desk.delete_if(
                    run.run_id, lambda session, run_pk: spent_runs.is_due(session, run_pk, days)
                )
            except RunNotFound:
                # Another server was quicker, or somebody deleted it by hand.
                continue
            if is_gone:
                self._note(
                    "retention.run", f"run {run.name!r} ({run.run_id}), after {days:g} days", project_id
                )

    def _remove_texts(self, project_id: int, days: float, has_time: Callable[[], bool]) -> None:
        num_batches, num_runs = 0, 0
        try:
            for run_pk in self._texts.runs(project_id, days):
                removed = self._remove_texts_of(run_pk, days, has_time)
                num_batches, num_runs = num_batches + removed, num_runs + (removed > 0)
                if not has_time():
                    return
        finally:
            if num_batches:
                words = f"text of {num_batches} batches of {num_runs} runs, after {days:g} days"
                self._note("retention.text", words, project_id)

    def _remove_texts_of(self, run_pk: int, days: float, has_time: Callable[[], bool]) -> int:
        num_batches, after = 0, Cursor()
        while has_time():
            removed, last = self._texts.remove_some(run_pk, days, after=after)
            num_batches += removed
            if last is None:
                break
            after = last
        return num_batches

    def _note(self, action: str, words: str, project_id: int) -> None:
        self._audit.note(action, actor=BY_ITSELF, target=words, project_id=project_id)
