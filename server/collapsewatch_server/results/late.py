"""Late results: stored at once, folded together, a few evaluations at a time.

Folding one late step again means folding all that came after it. A backlog that is scored oldest first would
do that for every batch, and hold the one write lock all the while. So the folds of a late result are put off:
until then they are those of a run in which it has not arrived yet.

A pass begins at the first step that waits and goes on to the end of each attempt. What arrives behind it
meanwhile waits for the next one. While it goes on, what the alert rules said is partly old and partly new,
and so alerts are only derived at its end.
"""

import logging
import time
from collections.abc import Callable, Mapping

from sqlalchemy.orm import Session

from collapsewatch_server.attempts import Lineages
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import attempts, clock, evaluations, events, jobs, late_folds, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.repositories.late_folds import Behind
from collapsewatch_server.results.folding import ScopeOfRun, fold_some, refold, sync_alerts
from collapsewatch_server.results.own_rules import judge_all

log = logging.getLogger(__name__)

# A step that is overtaken by a few others, as with several workers, is folded at once.
MOST_AT_ONCE = 32
_LOOK_SECONDS = 1.0
# A pass may begin once so much time has passed for each evaluation, about 2 ms of work.
_PATIENCE_PER_EVALUATION = 0.002
_MOST_COUNTED = 1_000_000


def fold_or_put_off(
    session: Session,
    target: ScopeOfRun,
    from_steps: Mapping[int, int],
    *,
    is_replaced: bool,
    most_at_once: int = MOST_AT_ONCE,
) -> list[Event]:
    """Events of the alerts that changed; the folds are put off when there is much to fold.

    Args:
        is_replaced: An evaluation that was folded does not stand for its step any more.
    """
    if _num_to_fold(session, target, from_steps, most_at_once + 1) <= most_at_once:
        return refold(session, target, from_steps, alerts_changed=is_replaced)
    # What the rules said at a step that lost its evaluation is gone: no alert may be derived from the rest.
    late_folds.note(session, target.run_pk, target.scope, from_steps, begun=is_replaced)
    return []


def _num_to_fold(session: Session, target: ScopeOfRun, from_steps: Mapping[int, int], limit: int) -> int:
    num = 0
    for attempt_pk, step in from_steps.items():
        own_from = target.lineages.own_from(attempt_pk)
        if own_from is not None and num < limit:
            first = max(step, own_from)
            num += evaluations.num_from(session, target.run_pk, target.scope, attempt_pk, first, limit - num)
    return num


class LateFolds:
    """Any number of servers may look; who holds the run does the next piece."""

    def __init__(
        self, database: Database, ring: Callable[[], None], *, chunk: int = 50, patience_seconds: float = 10.0
    ) -> None:
        """The service.

        Args:
            chunk: evaluations folded in one transaction.
            patience_seconds: how long the folds wait, at least, for a run that has more jobs; each piece of
                a backlog may be late as well.
        """
        self._database = database
        self._ring = ring
        self._chunk = chunk
        self._patience_seconds = patience_seconds
        self._failed: set[tuple[int, str]] = set()

    def look(self) -> None:
        """Folds what is due, for about a second; the rest waits for the next look."""
        until = time.monotonic() + _LOOK_SECONDS
        with self._database.read_session() as session:
            due = [one for one in late_folds.behind(session) if self._is_due(session, one)]
        # One that cannot be folded ends the look each time, and nobody else's may wait for it.
        due.sort(key=lambda one: (one.run_pk, one.scope) in self._failed)
        for one in due:
            self._failed.add((one.run_pk, one.scope))
            while time.monotonic() < until and self._fold_piece(one.run_pk, one.scope):
                pass
            self._failed.discard((one.run_pk, one.scope))

    def _is_due(self, session: Session, one: Behind) -> bool:
        if one.has_begun or not jobs.any_open(session, one.run_pk):
            return True
        waited_seconds = clock.read(session) - one.noted_at
        if waited_seconds < self._patience_seconds:
            return False
        lineages = attempts.of_run(session, one.run_pk)
        steps = late_folds.steps(session, one.run_pk, one.scope)
        target = ScopeOfRun(one.run_pk, "", "", one.scope, lineages)
        num = _num_to_fold(session, target, steps, _MOST_COUNTED)
        return waited_seconds >= num * _PATIENCE_PER_EVALUATION * self._patience_seconds

    def _fold_piece(self, run_pk: int, scope: str) -> bool:
        """Whether there is more to fold."""
        with self._database.write_session() as session:
            runs.lock(session, run_pk)
            if not late_folds.progress(session, run_pk, scope):
                late_folds.begin(session, run_pk, scope)
            run, project = runs.named(session, run_pk)
            target = ScopeOfRun(run_pk, run.run_id, project, scope, attempts.of_run(session, run_pk))
            going_on = late_folds.progress(session, run_pk, scope)
            if not going_on:
                # Another server was quicker.
                return False
            first, step = _first(target.lineages, going_on)
            next_step = fold_some(session, target, first, step, self._chunk)
            # It may have found that everything has to be folded from the start.
            if late_folds.progress(session, run_pk, scope).get(first) == step:
                late_folds.proceed(session, run_pk, scope, first, next_step)
            if late_folds.progress(session, run_pk, scope):
                return True
            about = {"run_id": run.run_id, "project": project, "step": None, "scope": scope}
            told = [*sync_alerts(session, target), Event("metrics", about)]
            told += judge_all(session, target, {scope}, 0)
            runs.change(session, run_pk)
            events.add(session, run_pk, told)
        self._ring()
        log.info("late steps folded", extra={"run": run.run_id, "scope": scope})
        return False


def _first(lineages: Lineages, going_on: Mapping[int, int]) -> tuple[int, int]:
    # In order: an attempt begins with the state that an earlier one had.
    attempt_pk = next(one.pk for one in lineages.attempts if one.pk in going_on)
    return attempt_pk, going_on[attempt_pk]
