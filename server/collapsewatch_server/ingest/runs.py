"""Opens, resumes and changes runs."""

import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from collapsewatch.contracts.runs import ResumePolicy, RunReceipt, RunStart, RunState, RunUpdate
from collapsewatch_server.attempts import DEFAULT_ATTEMPT
from collapsewatch_server.auth import Caller
from collapsewatch_server.db import Database
from collapsewatch_server.errors import InvalidBody, RunConflict, RunNotFound, wrong
from collapsewatch_server.liveness import signs
from collapsewatch_server.repositories import attempts, events, runs, writers
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.attempts import open_attempt
from collapsewatch_server.tables import Run

log = logging.getLogger(__name__)

_SAID_BY_CLIENTS = (RunState.running, RunState.finished, RunState.failed)


class RunIntake:
    """Accepts runs and what changes about them."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def open_run(self, caller: Caller, run_id: str) -> tuple[Run, str]:
        """The run that the caller may write to, and its project's name.

        Raises:
            RunNotFound: there is none of this id.
            Forbidden: the key belongs to another project.
        """
        with self._database.read_session() as session:
            found = runs.find(session, run_id)
        if found is None:
            raise RunNotFound(run_id)
        caller.may_write(found[0].project_id)
        return found

    def start_run(self, caller: Caller, start: RunStart, *, late: bool = False) -> RunReceipt:
        """Opens the run, or finds it open: the same id, project and name are the same run.

        An attempt that is new goes on with the run, which is running again unless a later attempt is known.

        Args:
            late: it comes from the spool of a process that has ended, and so is no sign of life.

        Raises:
            RunNotFound: it must be there and is not.
            RunConflict: the id belongs to a run of another project or name; or it must be new and is not.
            Forbidden: the key belongs to another project.
        """
        with self._database.write_session() as session:
            run, project, created = _found_or_added(session, caller, start)
            runs.lock(session, run.id)
            state = runs.state_of(session, run.id)
            found: list[Event] = []
            attempt_pk: int | None
            if start.attempt is not None or created:
                opened = open_attempt(session, run, project, start.attempt)
                attempt_pk, found = opened.attempt_pk, opened.events
                is_newest = opened.is_new and opened.lineages.attempts[-1].pk == attempt_pk
                if is_newest and not late and state != "running":
                    runs.change(session, run.id, state="running")
            else:
                default = attempts.of_run(session, run.id).named(DEFAULT_ATTEMPT)
                attempt_pk = None if default is None else default.pk
            signs.started(session, run.id, attempt_pk, start.writer_id, late=late)
            becomes = runs.state_of(session, run.id)
            if created or found or becomes != state:
                data = {"run_id": run.run_id, "project": project, "state": becomes}
                events.add(session, run.id, [*found, Event("run", data)])
        self._ring()
        if created:
            log.info("run opened", extra={"run": start.run_id, "project": start.project})
        return RunReceipt(run_id=start.run_id, project=start.project, name=start.name, created=created)

    def update_run(self, run: Run, project: str, update: RunUpdate, *, late: bool = False) -> RunReceipt:
        """Changes what is given.

        Raises:
            InvalidBody: a state that only the server can see.
            RunNotFound: somebody has just deleted it.
        """
        if update.state is not None and update.state not in _SAID_BY_CLIENTS:
            message = f"the server itself sees that a run is {update.state}"
            raise InvalidBody(message, [wrong("state", "not for clients to say", update.state)])
        if update.state is not None or update.scorer is not None or update.config:
            with self._database.write_session() as session:
                runs.lock(session, run.id)
                if runs.is_deleted(session, run.id):
                    raise RunNotFound(run.run_id)
                becomes = runs.state_of(session, run.id)
                if update.scorer is not None:
                    runs.change(session, run.id, scorer=update.scorer.model_dump(mode="json"))
                if update.config:
                    # Read under the lock: several processes may set entries at once.
                    present, _ = runs.named(session, run.id)
                    runs.change(session, run.id, config={**present.config, **update.config})
                if update.state is not None:
                    becomes = signs.ended(session, run, update.writer_id, str(update.state), late=late)
                data = {"run_id": run.run_id, "project": project, "state": becomes}
                events.add(session, run.id, [Event("run", data)])
            self._ring()
        return RunReceipt(run_id=run.run_id, project=project, name=run.given_name, created=False)


def _found_or_added(session: Session, caller: Caller, start: RunStart) -> tuple[Run, str, bool]:
    """The run, its project, and whether it is new."""
    found = runs.find(session, start.run_id)
    if found is None:
        if start.resume is ResumePolicy.must:
            raise RunNotFound(start.run_id)
        # A key of another project must not even leave a new, empty project behind.
        project_id = runs.project_id(session, start.project)
        caller.may_write(project_id)
        added = runs.add(
            session,
            run_id=start.run_id,
            project_id=project_id,
            name=start.name,
            config=start.config,
            tags=list(start.tags),
            scorer=None if start.scorer is None else start.scorer.model_dump(mode="json"),
        )
        found = runs.find(session, start.run_id)
        assert found is not None
        if added is not None:
            return *found, True
    # It was there, or another request was faster.
    run, project = found
    caller.may_write(run.project_id)
    _check_same(run, project, start)
    if start.resume is ResumePolicy.never and not _knows(session, run, start):
        message = f"the run {start.run_id} is there already, and it had to be new"
        raise RunConflict(message, [wrong("resume", "the run is there already", start.resume)])
    return run, project, False


def _check_same(run: Run, project: str, start: RunStart) -> None:
    if (project, run.given_name) != (start.project, start.name):
        raise RunConflict(
            f"the run id {start.run_id} belongs to the run {run.given_name!r} of the project {project!r}",
            [
                wrong("project", f"the run's project is {project!r}", start.project),
                wrong("name", f"the run's name is {run.given_name!r}", start.name),
            ],
        )


def _knows(session: Session, run: Run, start: RunStart) -> bool:
    """Whether it is the same start again, or another process of it."""
    if start.attempt is None:
        return start.writer_id is not None and writers.find(session, run.id, start.writer_id) is not None
    return attempts.of_run(session, run.id).named(start.attempt.attempt_id) is not None
