"""What an attempt's start, or data of it, changes about the run: who owns which step, and what follows."""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from collapsewatch.contracts.runs import AttemptStart
from collapsewatch_server.attempts import DEFAULT_ATTEMPT, Attempt, Lineages
from collapsewatch_server.errors import AttemptNotFound, RunNotFound
from collapsewatch_server.repositories import attempts, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.ownership import change_hands
from collapsewatch_server.tables import Run


@dataclass(frozen=True)
class Arrival:
    """Where something that arrived belongs."""

    attempt_pk: int
    events: list[Event]
    """For the page, when steps changed hands by it; the caller adds its own and stores them all."""
    lineages: Lineages
    """The run's attempts with this arrival."""
    is_new: bool = False
    """Whether the attempt was unknown before."""


def arrival(
    session: Session, run: Run, project: str, attempt_id: str | None, steps: tuple[int, int] | int
) -> Arrival:
    """Notes that something of these steps (first and last, or the only one) arrived in the attempt.

    Part of the caller's transaction: the run is held until its end, and its time and last step are set.

    Raises:
        AttemptNotFound: nobody has opened an attempt of this id.
        RunNotFound: somebody deleted the run while this was on its way.
    """
    _hold(session, run)
    lineages = attempts.of_run(session, run.id)
    attempt = lineages.named(DEFAULT_ATTEMPT if attempt_id is None else attempt_id)
    if attempt is None:
        if attempt_id is not None:
            raise AttemptNotFound(attempt_id)
        attempt = attempts.add(session, run.id, attempt_id=DEFAULT_ATTEMPT, started_at=run.created_at)
    first, last = (steps, steps) if isinstance(steps, int) else steps
    return _with(session, run, project, lineages, attempt.with_steps(first, last))


def open_attempt(session: Session, run: Run, project: str, start: AttemptStart | None) -> Arrival:
    """Opens the attempt, or the run's implicit one; of several processes that say it, the earliest counts.

    Part of the caller's transaction: the run is held until its end.

    Raises:
        RunNotFound: somebody deleted the run while this was on its way.
    """
    _hold(session, run)
    lineages = attempts.of_run(session, run.id)
    if start is None:
        start = AttemptStart(attempt_id=DEFAULT_ATTEMPT, started_at=run.created_at)
    attempt = lineages.named(start.attempt_id)
    if attempt is not None:
        return _with(session, run, project, lineages, attempt.as_declared(start.started_at, start.from_step))
    attempt = attempts.add(session, run.id, **start.model_dump())
    found = _with(session, run, project, lineages, attempt)
    return Arrival(found.attempt_pk, found.events, found.lineages, is_new=True)


def _hold(session: Session, run: Run) -> None:
    runs.lock(session, run.id)
    if runs.is_deleted(session, run.id):
        raise RunNotFound(run.run_id)


def _with(session: Session, run: Run, project: str, before: Lineages, attempt: Attempt) -> Arrival:
    after = before.with_attempt(attempt)
    if attempt not in before.attempts:
        attempts.save(session, attempt)
    runs.touch(session, run.id, after.last_step)
    return Arrival(attempt.pk, change_hands(session, run, project, before, after), after)
