"""How long each project keeps what it has, as rows."""

from typing import NamedTuple

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from collapsewatch_server.account_tables import ProjectRetention
from collapsewatch_server.db import insert
from collapsewatch_server.tables import Project


class Terms(NamedTuple):
    """After how many days something goes; None keeps it for ever."""

    text_days: float | None
    run_days: float | None


class ProjectTerms(NamedTuple):
    """Terms of a project that does not keep everything."""

    project_id: int
    terms: Terms


def of_project(session: Session, project_id: int) -> Terms | None:
    """The project's terms; none when there is no such project, or it cannot be seen."""
    statement = (
        select(ProjectRetention.text_days, ProjectRetention.run_days)
        .select_from(Project)
        .outerjoin(ProjectRetention, ProjectRetention.project_id == Project.id)
        .where(Project.id == project_id)
    )
    row = session.execute(statement).first()
    return None if row is None else Terms(row[0], row[1])


def set_terms(session: Session, project_id: int, terms: Terms) -> None:
    """Gives the project these terms instead of those that it has."""
    if terms == Terms(None, None):
        session.execute(delete(ProjectRetention).where(ProjectRetention.project_id == project_id))
        return
    statement = insert(session, ProjectRetention).values(project_id=project_id, **terms._asdict())
    session.execute(statement.on_conflict_do_update(index_elements=["project_id"], set_=terms._asdict()))


def all_terms(session: Session) -> list[ProjectTerms]:
    """Terms of every project that does not keep everything."""
    statement = select(
        ProjectRetention.project_id, ProjectRetention.text_days, ProjectRetention.run_days
    ).where(or_(ProjectRetention.text_days.is_not(None), ProjectRetention.run_days.is_not(None)))
    rows = session.execute(statement.order_by(ProjectRetention.project_id))
    return [ProjectTerms(row[0], Terms(row[1], row[2])) for row in rows]
