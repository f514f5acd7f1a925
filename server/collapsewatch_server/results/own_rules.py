"""Judges rules of one's own where points of a run changed; part of the transaction that stores them.

A rule is judged from the first step that changed on, in step order, on the run's own series: a late step is
judged in its place, and so is all that comes after it. Nothing is kept in the folds' state, for a rule may be
written or changed at any time and reads what the trainer logs as well, of which there is no fold.
"""

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, FIRST_TURN_SCOPE, TRAINER_SCOPE
from collapsewatch_server.alerts import custom
from collapsewatch_server.alerts.custom import BaselineSpan, Firing, Measured, RuleText, Told
from collapsewatch_server.repositories import alert_rules, alerts
from collapsewatch_server.repositories.alert_rules import StoredRule
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.alert_book import Alert
from collapsewatch_server.results.folding import ScopeOfRun, alert_of, store_alerts
from collapsewatch_server.tables import Run

WITHOUT_EVALUATIONS = (BATCH_SCOPE, TRAINER_SCOPE)
"""Scopes whose baseline is that of the first turns."""


def judge(session: Session, target: ScopeOfRun, from_step: int) -> list[Event]:
    """Events of the alerts that changed as points of the scope changed from the step on."""
    rules = alert_rules.enabled_in(session, target.scope)
    if not rules:
        return []
    run = alert_rules.run_to_judge(session, target.run_pk)
    found: list[Event] = []
    for rule in rules:
        if rule.text.applies_to(project=run.project, tags=run.tags, run_id=run.run_id):
            found += _judge_rule(session, target, rule, from_step)
    return found


def judge_all(session: Session, target: ScopeOfRun, scopes: Iterable[str], from_step: int) -> list[Event]:
    """The same for these scopes, and for those whose values they are the baseline of."""
    wanted = alert_rules.enabled_scopes(session)
    affected = {*scopes} | ({*WITHOUT_EVALUATIONS} if FIRST_TURN_SCOPE in scopes else set())
    found: list[Event] = []
    for scope in sorted(affected & wanted):
        found += judge(session, _in_scope(target, scope), from_step)
    return found


def after_replay(session: Session, run: Run, target: ScopeOfRun, from_step: int) -> list[Event]:
    """Events of what changed as steps went from one attempt to another, from the step on."""
    found: list[Event] = []
    for scope, rule in sorted(alert_rules.scopes_with_alerts(session, run.id)):
        there = _in_scope(target, scope)
        stored = [alert_of(row) for row in alerts.of_rule(session, run.id, scope, rule)]
        marked = [_marked(one, there) for one in stored if not one.withdrawn]
        found += store_alerts(session, there, [one for one in stored if not one.withdrawn], marked)
    for scope in sorted(alert_rules.enabled_scopes(session)):
        found += judge(session, _in_scope(target, scope), from_step)
    return found


def measured(
    session: Session, run_pk: int, rule: RuleText, from_step: int, num_before: int
) -> list[Measured]:
    """The points that the rule is judged on, with what each is held against."""
    points = alert_rules.points_from(session, run_pk, rule.scope, rule.metric, from_step, num_before)
    if not rule.is_relative or not points:
        return custom.limits(rule, points, [], [])
    scope = FIRST_TURN_SCOPE if rule.scope in WITHOUT_EVALUATIONS else rule.scope
    spans = alert_rules.baseline_spans(session, run_pk, scope, points[0][0])
    series = alert_rules.first_points(session, run_pk, rule.scope, rule.metric, custom.NUM_BASELINE)
    return custom.limits(rule, points, spans, _with_spans(session, run_pk, rule, series, spans))


def _with_spans(
    session: Session,
    run_pk: int,
    rule: RuleText,
    first: list[tuple[int, float]],
    spans: Iterable[BaselineSpan],
) -> list[tuple[int, float]]:
    """The first points of the series, and all within the baselines."""
    found = dict(first)
    for first_step, last_step in {(one.first_step, one.last_step) for one in spans if one.is_complete}:
        found |= dict(
            alert_rules.points_within(session, run_pk, rule.scope, rule.metric, first_step, last_step)
        )
    return sorted(found.items())


def _judge_rule(session: Session, target: ScopeOfRun, rule: StoredRule, from_step: int) -> list[Event]:
    points = measured(session, target.run_pk, rule.text, from_step, custom.num_before(rule.text))
    rows = alerts.of_rule(session, target.run_pk, target.scope, rule.rule)
    stored = [alert_of(row) for row in rows]
    kept, is_open = _before(stored, from_step)
    told = Told(is_open, alert_rules.begins_at(session, rule.rule_id, target.run_pk))
    derived = [_marked(alert, target) for alert in kept]
    for firing in custom.firings(rule.text, points, from_step=from_step, before=told):
        if is_open is not None and firing.opened_step == is_open.opened_step:
            derived = [_going_on(alert, firing) for alert in derived]
        else:
            derived.append(_alert(rule, firing))
    return store_alerts(session, target, stored, derived)


def _before(stored: Iterable[Alert], from_step: int) -> tuple[list[Alert], Firing | None]:
    """The alerts that what changed has no part in, and of these the one that was open when it begins."""
    kept, is_open = [], None
    for alert in stored:
        if alert.withdrawn or (alert.opened_step >= from_step and not alert.superseded):
            continue
        kept.append(alert)
        if not alert.superseded and (alert.resolved_step is None or alert.resolved_step >= from_step):
            evidence = alert.evidence
            is_open = Firing(
                alert.opened_step,
                evidence["first_step"],
                evidence["value"],
                evidence["limit"],
                alert.attempt_pk,
            )
    return kept, is_open


def _going_on(alert: Alert, firing: Firing) -> Alert:
    if alert.superseded or alert.opened_step != firing.opened_step:
        return alert
    return replace(alert, resolved_step=firing.resolved_step)


def _marked(alert: Alert, target: ScopeOfRun) -> Alert:
    superseded = target.lineages.is_superseded(alert.attempt_pk, alert.opened_step)
    return replace(alert, superseded=superseded)


def _alert(rule: StoredRule, firing: Firing) -> Alert:
    return Alert(
        attempt_pk=firing.attempt_pk,
        rule=rule.rule,
        severity=rule.text.severity,
        title=rule.text.name,
        message=custom.message_of(rule.text, firing),
        evidence=custom.evidence_of(rule.text, firing),
        opened_step=firing.opened_step,
        resolved_step=firing.resolved_step,
    )


def _in_scope(target: ScopeOfRun, scope: str) -> ScopeOfRun:
    return ScopeOfRun(target.run_pk, target.run_id, target.project, scope, target.lineages)
