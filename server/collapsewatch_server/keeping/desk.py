"""People decide here how long a project keeps what it has."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from collapsewatch_server.db import Database
from collapsewatch_server.errors import ProjectNotFound
from collapsewatch_server.reading.views import View
from collapsewatch_server.repositories import project_retention, spent_runs, spent_texts
from collapsewatch_server.repositories.project_retention import Terms

# A day at least: what is removed cannot be brought back, and a slip of the finger shall not empty a project.
Days = Annotated[float, Field(ge=1, le=36_500)]
_MOST_COUNTED = 10_000


class RetentionTerms(BaseModel):
    """After how many days something of a project is removed for good; null keeps it for ever."""

    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid")

    text_days: Days | None
    """Of prompts and what the model wrote, counted from the moment that they arrived. Metrics stay, and what
    still waits to be scored stays until it is."""
    run_days: Days | None
    """Of runs that have ended, with everything that belongs to them, counted from their last sign of life."""


class RetentionView(View):
    """How long a project keeps what it has, and what goes next."""

    text_days: float | None
    run_days: float | None
    num_texts_due: int
    """Batches whose text is to be removed now: it goes within minutes. Of more than 10,000, that many."""
    num_runs_due: int
    """Runs that are to be deleted now, counted in the same way."""


class RetentionDesk:
    """Reads and sets the terms; `keeping.texts` and `keeping.runs` act on them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_project(self, project_id: int) -> RetentionView:
        """How long the project keeps what it has.

        Raises:
            ProjectNotFound: there is none of this id.
        """
        with self._database.read_session() as session:
            terms = project_retention.of_project(session, project_id)
            if terms is None:
                raise ProjectNotFound(str(project_id))
            texts, runs = (
                0 if days is None else count(session, project_id, days=days, limit=_MOST_COUNTED)
                for days, count in (
                    (terms.text_days, spent_texts.num_due),
                    (terms.run_days, spent_runs.num_due),
                )
            )
        return RetentionView(**terms._asdict(), num_texts_due=texts, num_runs_due=runs)

    def set(self, project_id: int, terms: RetentionTerms) -> RetentionView:
        """Has the project keep what it has for so long, from now on and for what is there already.

        Raises:
            ProjectNotFound: there is none of this id.
        """
        with self._database.write_session() as session:
            if project_retention.of_project(session, project_id) is None:
                raise ProjectNotFound(str(project_id))
            project_retention.set_terms(session, project_id, Terms(terms.text_days, terms.run_days))
        return self.of_project(project_id)
