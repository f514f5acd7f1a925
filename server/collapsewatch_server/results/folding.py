"""Runs the fold of one scope in step order and stores what it says; part of the results' transaction."""

import logging
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from collapsewatch.contracts.scoring import MetricValue, ScopeEvaluation, ScorerLabel
from collapsewatch_server.folds.run_fold import Evaluation, FoldOutput, FoldState, fold, initial_state
from collapsewatch_server.repositories import alerts, clock, evaluations, metrics
from collapsewatch_server.repositories.evaluations import FoldInput
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.alert_book import Alert, AlertBook
from collapsewatch_server.tables import AlertRow, Json

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScopeOfRun:
    """Whose evaluations are folded."""

    run_pk: int
    run_id: str
    project: str
    scope: str


def refold(session: Session, target: ScopeOfRun, from_step: int) -> list[Event]:
    """Folds every evaluation from `from_step` on, as if none of them had been folded before.

    The usual call finds one evaluation, the newest. A late one takes the state of the evaluation before it,
    and all after it are folded again: their derived metrics and alerts are those of an arrival in order.

    Returns:
        Events of the alerts that opened, changed or vanished.
    """
    state, from_step = _state_before(session, target, from_step)
    stored = [_alert(row) for row in alerts.touching(session, target.run_pk, target.scope, from_step)]
    book = AlertBook(stored, from_step, clock.read(session))
    inputs = evaluations.to_fold(session, target.run_pk, target.scope, from_step)
    for given in inputs:
        state, output = fold(state, _evaluation(given))
        _store_derived(session, target, given, output)
        evaluations.save_fold(session, given.evaluation_id, state.to_json(), _document(output))
        book.apply(given.step, output.transitions)
    if len(inputs) > 1:
        log.info(
            "late step folded", extra={"run": target.run_id, "step": from_step, "num_steps": len(inputs)}
        )
    return _store_alerts(session, target, book)


def _state_before(session: Session, target: ScopeOfRun, from_step: int) -> tuple[FoldState, int]:
    stored = evaluations.state_before(session, target.run_pk, target.scope, from_step)
    if stored is None:
        return initial_state(), from_step
    try:
        return FoldState.from_json(stored), from_step
    except ValueError:
        # Written by an older version of the folds: begin at the beginning, once.
        return initial_state(), 0


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


def _store_derived(session: Session, target: ScopeOfRun, given: FoldInput, output: FoldOutput) -> None:
    before = set() if given.fold_output is None else set(given.fold_output["derived"])
    gone = before - set(output.derived)
    if gone:
        metrics.remove(session, target.run_pk, target.scope, given.step, gone)
    values = {name: MetricValue(value=value) for name, value in output.derived.items()}
    metrics.put(session, target.run_pk, target.scope, given.step, values)


def _store_alerts(session: Session, target: ScopeOfRun, book: AlertBook) -> list[Event]:
    changed, vanished = book.changes()
    found = []
    for alert in vanished:
        assert alert.alert_id is not None
        alerts.remove(session, alert.alert_id)
        found.append(_event(target, alert, alert.alert_id, "withdrawn"))
    for alert in changed:
        values = _columns(alert)
        if alert.alert_id is None:
            alert_id = alerts.add(session, run_pk=target.run_pk, scope=target.scope, **values)
            facts = {"run": target.run_id, "rule": alert.rule, "step": alert.opened_step}
            log.warning("alert opened", extra={**facts, "severity": alert.severity})
        else:
            alert_id = alert.alert_id
            alerts.change(session, alert_id, **values)
        found.append(_event(target, alert, alert_id, alert.status))
    return found


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
        "rule": alert.rule,
        "severity": alert.severity,
        "status": alert.status,
        "opened_step": alert.opened_step,
        "resolved_step": alert.resolved_step,
        "opened_at": alert.opened_at,
        "resolved_at": alert.resolved_at,
        "title": alert.title,
        "message": alert.message,
        "evidence": alert.evidence,
    }


def _alert(row: AlertRow) -> Alert:
    assert row.opened_step is not None
    return Alert(
        rule=row.rule,
        severity=row.severity,
        title=row.title,
        message=row.message,
        evidence=row.evidence,
        opened_step=row.opened_step,
        opened_at=row.opened_at,
        resolved_step=row.resolved_step,
        resolved_at=row.resolved_at,
        alert_id=row.id,
    )
