"""Steps of a run that go from one attempt to another, and all that is derived from them."""

import logging

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, TRAINER_SCOPE
from collapsewatch_server.attempts import Lineages, Segment, changed_from, moved
from collapsewatch_server.repositories import batches, evaluations, late_folds, metrics, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.folding import ScopeOfRun, unfold
from collapsewatch_server.results.late import fold_or_put_off
from collapsewatch_server.results.own_rules import after_replay
from collapsewatch_server.tables import Run

log = logging.getLogger(__name__)


def change_hands(session: Session, run: Run, project: str, before: Lineages, after: Lineages) -> list[Event]:
    """Events of what changed for the page: nothing while every step keeps its owner.

    Marks what other attempts replayed, and folds again along every lineage that changed: at once if it is
    little, else piece by piece after this transaction. What a single attempt sends stays its own, so a run
    that was never resumed pays nothing for this.
    """
    from_steps = changed_from(before, after) if len(after.attempts) > 1 else {}
    if not from_steps:
        return []
    runs.take_time(session)
    moves = moved(before, after)
    for move in moves:
        if move.before_pk is not None:
            _supersede(session, run, Segment(move.from_step, move.until_step, move.before_pk), True)
        if move.after_pk is not None:
            _supersede(session, run, Segment(move.from_step, move.until_step, move.after_pk), False)
    scopes = evaluations.scopes(session, run.id)
    found: list[Event] = []
    for scope in scopes:
        target = ScopeOfRun(run.id, run.run_id, project, scope, after)
        for attempt_pk in from_steps:
            unfold(session, target, attempt_pk)
        # What is put off would otherwise not reach those who build on it from now on.
        if late_folds.is_behind(session, run.id, scope):
            late_folds.note(session, run.id, scope, from_steps)
        # What is put off begins at once: what the rules said of the steps that moved is partly gone.
        found += fold_or_put_off(session, target, from_steps, is_replaced=True)
    of_run = ScopeOfRun(run.id, run.run_id, project, TRAINER_SCOPE, after)
    found += after_replay(session, run, of_run, min(from_steps.values()))
    if not moves or all(move.before_pk is None for move in moves):
        return found
    log.info("steps superseded", extra={"run": run.run_id, "step": moves[0].from_step})
    about = {"run_id": run.run_id, "project": project, "step": moves[0].from_step}
    return found + [
        Event("metrics", {**about, "scope": one}) for one in (*scopes, BATCH_SCOPE, TRAINER_SCOPE)
    ]


def _supersede(session: Session, run: Run, segment: Segment, superseded: bool) -> None:
    for rows in (metrics, evaluations, batches):
        rows.supersede(session, run.id, segment, superseded=superseded)
