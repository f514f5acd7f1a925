"""Projects and runs as rows."""

from typing import Any

from sqlalchemy import and_, func, select, text, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import insert, is_postgresql, now
from collapsewatch_server.tables import Json, Project, Run


def project_id(session: Session, name: str) -> int:
    """Id of the project, which is made when it is missing."""
    found = session.scalar(select(Project.id).where(Project.name == name))
    if found is not None:
        return found
    statement = insert(session, Project).values(name=name, created_at=now())
    session.execute(statement.on_conflict_do_nothing(index_elements=["name"]))
    return session.execute(select(Project.id).where(Project.name == name)).scalar_one()


def projects(session: Session) -> list[tuple[int, str, int]]:
    """Every project's id, name and number of runs, by name."""
    statement = (
        select(Project.id, Project.name, func.count(Run.id))
        .outerjoin(Run, and_(Run.project_id == Project.id, Run.deleted_at.is_(None)))
        .group_by(Project.id)
    )
    found = session.execute(statement.order_by(Project.name))
    return [(project_id, name, count) for project_id, name, count in found]


def can_see_project(session: Session, name: str) -> bool:
    """Whether there is such a project for the request in hand."""
    return session.scalar(select(Project.id).where(Project.name == name)) is not None


def project_names(session: Session) -> set[str]:
    """Names of all projects that there are for the request in hand."""
    return set(session.scalars(select(Project.name)))


def find(session: Session, run_id: str) -> tuple[Run, str] | None:
    """The run and its project's name."""
    statement = select(Run, Project.name).join(Project).where(Run.run_id == run_id)
    row = session.execute(statement).first()
    return None if row is None else (row[0], row[1])


def named(session: Session, run_pk: int) -> tuple[Run, str]:
    """The run of this row id and its project's name."""
    row = session.execute(select(Run, Project.name).join(Project).where(Run.id == run_pk)).one()
    return row[0], row[1]


def listed(session: Session, project: str | None, limit: int) -> list[tuple[Run, str]]:
    """Runs with their project's name, newest first."""
    statement = select(Run, Project.name).join(Project).where(Run.deleted_at.is_(None))
    statement = statement.order_by(Run.id.desc()).limit(limit)
    if project is not None:
        statement = statement.where(Project.name == project)
    return [(run, name) for run, name in session.execute(statement)]


def add(
    session: Session,
    *,
    run_id: str,
    project_id: int,
    name: str,
    config: Json,
    tags: list[Any],
    scorer: Json | None,
) -> int | None:
    """The new run's row id; none when a run of this id is there already."""
    statement = insert(session, Run).values(
        run_id=run_id,
        project_id=project_id,
        name=name,
        given_name=name,
        notes="",
        config=config,
        tags=tags,
        scorer=scorer,
        state="running",
        created_at=now(),
        updated_at=now(),
    )
    statement = statement.on_conflict_do_nothing(index_elements=["run_id"]).returning(Run.id)
    added: int | None = session.execute(statement).scalar()
    return added


def change(session: Session, run_pk: int, **values: Any) -> None:
    """Sets the given columns."""
    session.execute(update(Run).where(Run.id == run_pk).values(updated_at=now(), **values))


def state_of(session: Session, run_pk: int) -> str:
    """Where the run is in its life, as the transaction sees it now."""
    return session.execute(select(Run.state).where(Run.id == run_pk)).scalar_one()


def is_deleted(session: Session, run_pk: int) -> bool:
    """Whether somebody deleted the run, as the transaction sees it now."""
    statement = select(Run.id).where(Run.id == run_pk, Run.deleted_at.is_(None))
    return session.scalar(statement) is None


def touch(session: Session, run_pk: int, last_step: int | None) -> None:
    """Notes that something arrived now, and which step is the run's last."""
    session.execute(update(Run).where(Run.id == run_pk).values(updated_at=now(), last_step=last_step))


def lock(session: Session, run_pk: int) -> None:
    """Holds the run until the end of the transaction: one writer folds a run at a time.

    SQLite has one writer anyway. NO KEY UPDATE lets new batches refer to the run meanwhile.
    """
    if is_postgresql(session):
        session.execute(select(Run.id).where(Run.id == run_pk).with_for_update(key_share=True))


def take_time(session: Session) -> None:
    """Lets the statements of this transaction run for as long as they need.

    A long run has millions of values, and PostgreSQL marks 100,000 of them in a second. A statement that is
    given up is given up each time that the trainer tries again.
    """
    if is_postgresql(session):
        session.execute(text("SET LOCAL statement_timeout = 0"))


def project_of(session: Session, run_id: str) -> int | None:
    """The project of a run that is there."""
    return session.scalar(select(Run.project_id).where(Run.run_id == run_id))
