"""Runs the folds of one scope along the lineages of a run and stores what they say; part of a transaction."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from collapsewatch.contracts.scoring import MetricValue, ScopeEvaluation, ScorerLabel
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.attempts import Lineages
from collapsewatch_server.folds.run_fold import Evaluation, FoldOutput, FoldState, fold, initial_state
from collapsewatch_server.inbox.threads import settle
from collapsewatch_server.repositories import alert_threads, alerts, clock, evaluations, late_folds, metrics
from collapsewatch_server.repositories.evaluations import FoldInput
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.repositories.metrics import Place
from collapsewatch_server.results.alert_book import Alert, Key, Said, alerts_along, changes
from collapsewatch_server.results.thread_book import Thread, threads_of
from collapsewatch_server.tables import Json

log = logging.getLogger(__name__)

# A late step of a long run folds thousands of evaluations: neither all in memory nor a statement for each.
_CHUNK = 200


class _OldState(Exception):
    """A stored state was written by another version of the folds."""


@dataclass(frozen=True)
class ScopeOfRun:
    """Whose evaluations are folded."""

    run_pk: int
    run_id: str
    project: str
    scope: str
    lineages: Lineages


def refold(
    session: Session, target: ScopeOfRun, from_steps: Mapping[int, int], *, alerts_changed: bool
) -> list[Event]:
    """Folds evaluations as if none of them had been folded before: of each attempt those from its step on.

    The usual call finds one evaluation, the newest. A late one takes the state of the evaluation before it
    in its lineage, and all that build on it are folded again: what is derived is that of an arrival in order.

    Args:
        from_steps: First step to fold by attempt.
        alerts_changed: What the alert rules said may have changed apart from what is folded here.

    Returns:
        Events of the alerts that opened, changed or vanished.
    """
    try:
        said_otherwise = _fold_attempts(session, target, from_steps)
    except _OldState:
        _begin_anew(session, target, from_steps)
        return []
    if not said_otherwise and not alerts_changed:
        return []
    # While a late step is folded, the rules' words are partly old; alerts are derived at the end of it.
    is_mixed = late_folds.progress(session, target.run_pk, target.scope)
    return [] if is_mixed else sync_alerts(session, target)


def fold_some(session: Session, target: ScopeOfRun, attempt_pk: int, step: int, num: int) -> int | None:
    """Folds `num` evaluations of the attempt from `step` on; the step after them, none at the end."""
    own_from = target.lineages.own_from(attempt_pk)
    if own_from is None:
        return None
    try:
        inputs, _, _ = _fold_inputs(session, target, attempt_pk, max(step, own_from), num, None)
    except _OldState:
        _begin_anew(session, target, {attempt_pk: step}, is_lost=True)
        return step
    return inputs[-1].step + 1 if len(inputs) == num else None


def _begin_anew(
    session: Session, target: ScopeOfRun, from_steps: Mapping[int, int], *, is_lost: bool = False
) -> None:
    """Has everything folded from the start, in a pass; one that goes on comes to these steps by itself."""
    going_on = late_folds.progress(session, target.run_pk, target.scope)
    if going_on and not is_lost:
        steps = {attempt_pk: step for attempt_pk, step in from_steps.items() if attempt_pk not in going_on}
    else:
        steps = {attempt.pk: 0 for attempt in target.lineages.attempts}
    late_folds.note(session, target.run_pk, target.scope, steps, begun=True)


def _fold_attempts(session: Session, target: ScopeOfRun, from_steps: Mapping[int, int]) -> bool:
    """Whether the alert rules said anything that they had not said before."""
    said_otherwise, num_folded = False, 0
    # In order: an attempt begins with the state that an earlier one had.
    for attempt in target.lineages.attempts:
        own_from = target.lineages.own_from(attempt.pk)
        if attempt.pk not in from_steps or own_from is None:
            continue
        step = max(from_steps[attempt.pk], own_from)
        said, count = _fold_attempt(session, target, attempt.pk, step)
        said_otherwise, num_folded = said_otherwise or said, num_folded + count
    if num_folded > 1:
        facts = {"run": target.run_id, "scope": target.scope, "num_evaluations": num_folded}
        log.info("late step folded", extra=facts)
    return said_otherwise


def _fold_attempt(session: Session, target: ScopeOfRun, attempt_pk: int, step: int) -> tuple[bool, int]:
    said_otherwise, count = False, 0
    state: FoldState | None = None
    while True:
        inputs, said, state = _fold_inputs(session, target, attempt_pk, step, _CHUNK, state)
        said_otherwise, count = said_otherwise or said, count + len(inputs)
        if len(inputs) < _CHUNK:
            return said_otherwise, count
        step = inputs[-1].step + 1


def _fold_inputs(
    session: Session, target: ScopeOfRun, attempt_pk: int, step: int, num: int, state: FoldState | None
) -> tuple[list[FoldInput], bool, FoldState | None]:
    """(the evaluations that were folded, whether the rules said anything new, the state after them)."""
    inputs = evaluations.to_fold(session, target.run_pk, target.scope, attempt_pk, step, num)
    said_otherwise, folds, derived = False, [], {}
    if inputs and state is None:
        state = _state_before(session, target, attempt_pk, step)
    for given in inputs:
        assert state is not None
        state, output = fold(state, _evaluation(given))
        place = Place(target.run_pk, target.scope, given.step, attempt_pk, given.superseded)
        derived[place] = _derived(session, place, given.fold_output, output)
        moves = [asdict(transition) for transition in output.transitions] or None
        said_otherwise = said_otherwise or moves != given.alert_moves
        folds.append(_columns_of_fold(given.evaluation_id, state, output, moves))
    metrics.put(session, derived)
    evaluations.save_folds(session, folds)
    return inputs, said_otherwise, state


def unfold(session: Session, target: ScopeOfRun, attempt_pk: int) -> None:
    """Takes back what folds made of the attempt's evaluations that its own lineage does not hold any more."""
    own_from = target.lineages.own_from(attempt_pk)
    if not own_from:
        return
    found = evaluations.folded_before(session, target.run_pk, target.scope, attempt_pk, own_from)
    for _, step, superseded, output in found:
        place = Place(target.run_pk, target.scope, step, attempt_pk, superseded)
        metrics.remove(session, place, output["derived"])
    evaluations.save_folds(session, [{"row_id": row_id, **evaluations.NOT_FOLDED} for row_id, *_ in found])


def _state_before(session: Session, target: ScopeOfRun, attempt_pk: int, step: int) -> FoldState:
    lineage = target.lineages.before(attempt_pk, step)
    stored = evaluations.state_before(session, target.run_pk, target.scope, lineage)
    if stored is None:
        return initial_state()
    try:
        return FoldState.from_json(stored)
    except ValueError as error:
        raise _OldState from error


def _evaluation(given: FoldInput) -> Evaluation:
    return Evaluation(
        step=given.step,
        scorer=ScorerLabel.model_validate(given.scorer).label,
        evaluation=ScopeEvaluation.model_validate(given.result),
        batch_metrics={
            name: MetricValue.model_validate(value) for name, value in given.batch_metrics.items()
        },
    )


def _document(output: FoldOutput) -> dict[str, Any]:
    return {
        "regime": output.regime,
        "reason": output.reason,
        "derived": dict(output.derived),
        "thresholds": None if output.thresholds is None else dict(output.thresholds),
        "baseline": None if output.baseline is None else dict(output.baseline),
        "diversity": output.diversity,
        "diversity_low": output.diversity_low,
        "diversity_high": output.diversity_high,
        "dependence": output.dependence,
        "dependence_low": output.dependence_low,
        "dependence_high": output.dependence_high,
    }


def _columns_of_fold(
    evaluation_id: int, state: FoldState, output: FoldOutput, moves: list[Json] | None
) -> Json:
    return {
        "row_id": evaluation_id,
        "fold_state": state.to_json(),
        "fold_output": _document(output),
        "alert_moves": moves,
        "regime": output.regime,
        "reason": output.reason,
    }


def _derived(
    session: Session, place: Place, before: Json | None, output: FoldOutput
) -> dict[str, MetricValue]:
    gone = set() if before is None else set(before["derived"]) - set(output.derived)
    if gone:
        metrics.remove(session, place, gone)
    return {name: MetricValue(value=value) for name, value in output.derived.items()}


def sync_alerts(session: Session, target: ScopeOfRun) -> list[Event]:
    """Events of the alerts that opened, changed or vanished, by what the rules said at every step."""
    said = [
        Said(attempt_pk, step, [AlertTransition(**move) for move in moves])
        for attempt_pk, step, moves in evaluations.alert_moves(session, target.run_pk, target.scope)
    ]
    stored = [alert_of(row) for row in alerts.of_scope(session, target.run_pk, target.scope)]
    return store_alerts(session, target, stored, alerts_along(target.lineages, said))


def store_alerts(
    session: Session, target: ScopeOfRun, stored: list[Alert], derived: list[Alert]
) -> list[Event]:
    """Events of what changed as the stored alerts, and their inbox items, became the derived ones."""
    todo = changes(stored, derived, clock.read(session))
    found: list[Event] = []
    touched: set[int | None] = set()
    ids: dict[Key, int] = {}
    for alert in todo.vanished:
        assert alert.alert_id is not None
        alerts.change(session, alert.alert_id, withdrawn=True, status="resolved")
        found.append(_event(target, alert, alert.alert_id, "withdrawn"))
        touched.add(alert.thread_pk)
    for alert in todo.changed:
        alert_id = ids[alert.key] = _store_alert(session, target, alert)
        found.append(_event(target, alert, alert_id, "superseded" if alert.superseded else alert.status))
        touched.add(alert.thread_pk)
    if not found:
        return []
    known = [replace(alert, alert_id=ids.get(alert.key, alert.alert_id)) for alert in todo.derived]
    touched |= _joined(session, threads_of(known, target.lineages))
    # Each item's events are of this run, since its alerts are.
    return found + [event for _, event in settle(session, (pk for pk in touched if pk is not None))]


def _joined(session: Session, threads: list[Thread]) -> set[int | None]:
    """The threads that alerts joined or left."""
    touched: set[int | None] = set()
    for thread in threads:
        ids = [alert.alert_id for alert in thread.alerts if alert.alert_id is not None]
        pk = thread.pk
        if pk is None:
            pk = alert_threads.add(session, alerts.row(session, ids[0]))
        moved = [alert for alert in thread.alerts if alert.thread_pk != pk]
        if moved:
            alert_threads.join(session, [alert.alert_id for alert in moved if alert.alert_id is not None], pk)
            touched |= {pk, *(alert.thread_pk for alert in moved)}
    return touched


def _store_alert(session: Session, target: ScopeOfRun, alert: Alert) -> int:
    values = _columns(alert)
    if alert.alert_id is not None:
        alerts.change(session, alert.alert_id, **values)
        return alert.alert_id
    if not alert.superseded:
        facts = {"run": target.run_id, "rule": alert.rule, "step": alert.opened_step}
        log.warning("alert opened", extra={**facts, "severity": alert.severity})
    return alerts.add(session, run_pk=target.run_pk, scope=target.scope, **values)


def _event(target: ScopeOfRun, alert: Alert, alert_id: int, status: str) -> Event:
    data: Json = {
        "run_id": target.run_id,
        "project": target.project,
        "step": alert.opened_step if alert.resolved_step is None else alert.resolved_step,
        "scope": target.scope,
        "alert_id": alert_id,
        "rule": alert.rule,
        "severity": alert.severity,
        "status": status,
        "title": alert.title,
    }
    return Event("alert", data)


def _columns(alert: Alert) -> dict[str, Any]:
    return {
        "attempt_pk": alert.attempt_pk,
        "rule": alert.rule,
        "severity": alert.severity,
        "status": alert.status,
        "opened_step": alert.opened_step,
        "resolved_step": alert.resolved_step,
        "superseded": alert.superseded,
        "withdrawn": alert.withdrawn,
        "opened_at": alert.opened_at,
        "resolved_at": alert.resolved_at,
        "title": alert.title,
        "message": alert.message,
        "evidence": alert.evidence,
    }


def alert_of(row: AlertRow) -> Alert:
    """The stored alert, as the book knows it."""
    assert row.opened_step is not None
    assert row.attempt_pk is not None
    return Alert(
        attempt_pk=row.attempt_pk,
        rule=row.rule,
        severity=row.severity,
        title=row.title,
        message=row.message,
        evidence=row.evidence,
        opened_step=row.opened_step,
        superseded=row.superseded,
        opened_at=row.opened_at,
        resolved_step=row.resolved_step,
        resolved_at=row.resolved_at,
        alert_id=row.id,
        withdrawn=row.withdrawn,
        thread_pk=row.thread_pk,
    )
