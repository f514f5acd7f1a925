"""What a request may name in its body: projects and runs of which its caller may decide."""

from sqlalchemy.orm import Session

from collapsewatch_server.access.visible import sees_everything
from collapsewatch_server.errors import Forbidden, ProjectNotFound, RunNotFound
from collapsewatch_server.repositories import runs


def check_named(session: Session, *, project: str | None, run_id: str | None = None) -> None:
    """Comes back if the request in hand may decide about what holds for this project or run.

    One of both that says nothing leaves it open; what names neither holds for every project.

    Raises:
        ProjectNotFound, RunNotFound: they are not there, or not for this caller.
        Forbidden: it would hold for every project, and so for those of others.
    """
    # Whoever decides about all may also name what is still to come.
    if sees_everything():
        return
    if project is None and run_id is None:
        raise Forbidden("this would hold for every project; name one of yours")
    if project is not None and not runs.can_see_project(session, project):
        raise ProjectNotFound(project)
    if run_id is not None and runs.find(session, run_id) is None:
        raise RunNotFound(run_id)
