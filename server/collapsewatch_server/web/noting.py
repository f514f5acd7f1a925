"""What the audit log is told of requests."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.accounts.audit import Subject
from collapsewatch_server.errors import InvalidRequest, ServerError, TooBusy
from collapsewatch_server.repositories.audit_subjects import Place
from collapsewatch_server.services import Services


def note_target(
    request: Request,
    words: str,
    *,
    project_id: int | None = None,
    project: str | None = None,
    run_ids: Iterable[str] = (),
    alert_ids: Iterable[int] = (),
) -> None:
    """Adds to the request's entry what only the route knows, such as the name of what it makes.

    Call it before something is done, and again when it is known what came of it. Never hand in a secret,
    nor what a model wrote.

    Args:
        words: for people; what the parameters in the path name is there already.
        project_id: the project that it concerns, beside those of the path.
        project: the same by its name.
        run_ids: the same by its runs.
        alert_ids: the same by its alerts.
    """
    subject: Subject | None = getattr(request.state, "subject", None)
    if subject is None:
        return
    subject.words.append(words)
    subject.project_ids |= set() if project_id is None else {project_id}
    subject.places += [Place("run_id", run_id) for run_id in run_ids]
    subject.places += [Place("alert_id", str(alert_id)) for alert_id in alert_ids]
    subject.places += [] if project is None else [Place("project", project)]


@asynccontextmanager
async def noting(request: Request, action: str, *, actor: str, address: str) -> AsyncIterator[None]:
    """Notes what the block does and how it ends, for routes at which everybody may knock."""
    request.state.subject = Subject()
    outcome = "failed"
    try:
        yield
        outcome = "done"
    except Exception as error:
        outcome = outcome_of(error)
        raise
    finally:
        await noted(request, action, actor, address=address, outcome=outcome)


async def noted(request: Request, action: str, actor: str, *, address: str, outcome: str) -> None:
    """Comes back when the request's entry is written.

    What was refused because there was too much of it gets none: whoever floods the server would push
    everything else out of the log.
    """
    if not outcome:
        return
    services: Services = request.app.state.services
    subject: Subject = request.state.subject
    await run_in_threadpool(
        lambda: services.audit.note_subject(subject, action, actor=actor, address=address, outcome=outcome)
    )


def outcome_of(error: BaseException) -> str:
    """How a request ended that raised this; empty when it was one too many."""
    if isinstance(error, ServerError):
        return "" if error.status_code == TooBusy.status_code else error.code
    return InvalidRequest.code if isinstance(error, RequestValidationError) else "failed"
