"""Opens and changes runs."""

import logging
from collections.abc import Callable

from collapsewatch.contracts.runs import RunReceipt, RunStart, RunUpdate
from collapsewatch_server.auth import Caller
from collapsewatch_server.db import Database
from collapsewatch_server.errors import RunConflict, RunNotFound, wrong
from collapsewatch_server.repositories import events, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Run

log = logging.getLogger(__name__)


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

    def start_run(self, caller: Caller, start: RunStart) -> RunReceipt:
        """Opens the run, or finds it open: the same id, project and name are the same run.

        Raises:
            RunConflict: the id belongs to a run of another project or name.
            Forbidden: the key belongs to another project.
        """
        with self._database.read_session() as session:
            found = runs.find(session, start.run_id)
        if found is None:
            found = self._add_run(caller, start)
            if found is None:
                self._ring()
                return _receipt(start, created=True)
        run, project = found
        caller.may_write(run.project_id)
        if (project, run.name) != (start.project, start.name):
            raise RunConflict(
                f"the run id {start.run_id} belongs to the run {run.name!r} of the project {project!r}",
                [
                    wrong("project", f"the run's project is {project!r}", start.project),
                    wrong("name", f"the run's name is {run.name!r}", start.name),
                ],
            )
        return _receipt(start, created=False)

    def _add_run(self, caller: Caller, start: RunStart) -> tuple[Run, str] | None:
        """None when the run is new; the run when another request was faster."""
        with self._database.write_session() as session:
            # A key of another project must not even leave a new, empty project behind.
            project_id = runs.project_id(session, start.project)
            caller.may_write(project_id)
            run_pk = runs.add(
                session,
                run_id=start.run_id,
                project_id=project_id,
                name=start.name,
                config=start.config,
                tags=list(start.tags),
                scorer=None if start.scorer is None else start.scorer.model_dump(mode="json"),
            )
            if run_pk is None:
                return runs.find(session, start.run_id)
            data = {"run_id": start.run_id, "project": start.project, "state": "running"}
            events.add(session, run_pk, [Event("run", data)])
        log.info("run opened", extra={"run": start.run_id, "project": start.project})
        return None

    def update_run(self, run: Run, project: str, update: RunUpdate) -> RunReceipt:
        """Changes what is given."""
        changes = update.model_dump(mode="json", exclude_none=True)
        if changes:
            with self._database.write_session() as session:
                runs.change(session, run.id, **changes)
                data = {"run_id": run.run_id, "project": project, "state": changes.get("state", run.state)}
                events.add(session, run.id, [Event("run", data)])
            self._ring()
        return RunReceipt(run_id=run.run_id, project=project, name=run.name, created=False)


def _receipt(start: RunStart, *, created: bool) -> RunReceipt:
    return RunReceipt(run_id=start.run_id, project=start.project, name=start.name, created=created)
