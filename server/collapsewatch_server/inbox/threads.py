"""Brings threads to where rule, actions and clock say that they stand; part of a transaction."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import cast

from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertAction, AlertRow, AlertThread
from collapsewatch_server.alerts.lifecycle import (
    Action,
    ActionKind,
    Change,
    RuleWord,
    Standing,
    State,
    Told,
    news,
    standing,
    told_by,
)
from collapsewatch_server.alerts.transitions import Severity
from collapsewatch_server.repositories import alert_threads, alerts, clock, detector_settings
from collapsewatch_server.repositories.alert_threads import Subject
from collapsewatch_server.repositories.detector_settings import EVERY_PROJECT, Setting
from collapsewatch_server.repositories.events import Event


def settle(
    session: Session,
    thread_pks: Iterable[int],
    *,
    by: str | None = None,
    passed: Collection[int] = (),
) -> list[tuple[int | None, Event]]:
    """Events of what changed, each with its run; the caller stores them at the end of its transaction.

    Every change leaves one row in the outbox, written here and nowhere else. A thread that stands as it was
    told leaves none, however often it comes here: refolding and redelivery repeat nothing.

    Args:
        by: Who did it; none for a rule or the clock.
        passed: Threads whose replay has come further than they reached.
    """
    pks = sorted(set(thread_pks))
    if not pks:
        return []
    threads = alert_threads.held(session, pks)
    # Read behind the lock: what another transaction did to these threads is known from here on.
    rows = alert_threads.alerts_of(session, pks)
    actions = alert_threads.actions_of(session, pks)
    subjects = alert_threads.subjects(session, {one.run_pk for one in threads if one.run_pk is not None})
    settings = detector_settings.for_rules(session, sorted({one.rule for one in threads}))
    moment = clock.read(session)
    found = []
    for thread in threads:
        subject = subjects.get(thread.run_pk or 0, Subject())
        head = newest(rows[thread.id]) if rows[thread.id] else _lost(session, thread)
        setting = setting_of(settings, thread.rule, subject.project)
        word = rule_word(head, setting)
        if head.thread_pk != thread.id:
            word = replace(word, withdrawn=True)
        stands = standing(word, [action_of(row) for row in actions[thread.id]], moment)
        change = news(_told(thread), stands, by_hand=by is not None, is_passed=thread.id in passed)
        event = _store(session, thread, head, stands, change, subject, by=by, at=moment)
        if event is not None:
            found.append((thread.run_pk, event))
    return found


def newest(rows: Sequence[AlertRow]) -> AlertRow:
    """The alert that speaks for its thread: the last that still counts, else the last of all."""
    return max(rows, key=lambda one: (not one.withdrawn, not one.superseded, one.opened_step or 0, one.id))


def rule_word(alert: AlertRow, setting: Setting) -> RuleWord:
    """What the rule says, as the project wants it."""
    return RuleWord(
        severity=cast(Severity, setting.severity or alert.severity),
        is_open=alert.status == "open",
        superseded=alert.superseded,
        withdrawn=alert.withdrawn,
        switched_off=not setting.enabled,
    )


def action_of(row: AlertAction) -> Action:
    """What the person did, as the lifecycle knows it."""
    return Action(
        kind=cast(ActionKind, row.kind),
        severity=cast(Severity, row.severity),
        until=row.until,
        over_rule=row.over_rule,
    )


def setting_of(settings: dict[tuple[str, str], Setting], rule: str, project: str | None) -> Setting:
    """The project's own setting, else that for every project, else none."""
    everywhere = settings.get((EVERY_PROJECT, rule), Setting())
    return everywhere if project is None else settings.get((project, rule), everywhere)


def _lost(session: Session, thread: AlertThread) -> AlertRow:
    """The last alert of a thread that has none any more: seen in step order, it belongs to another one."""
    return alerts.row(session, thread.alert_id)


def _told(thread: AlertThread) -> Told | None:
    if thread.told_state is None:
        return None
    return Told(cast(State, thread.told_state), cast(Severity, thread.told_severity))


def _store(
    session: Session,
    thread: AlertThread,
    head: AlertRow,
    stands: Standing,
    change: Change | None,
    subject: Subject,
    *,
    by: str | None,
    at: float,
) -> Event | None:
    thread.alert_id, thread.severity = head.id, stands.severity
    thread.state, thread.ended, thread.snoozed_until = stands.state, stands.ended, stands.snoozed_until
    if change is None:
        session.flush()
        return None
    after = told_by(_told(thread), stands)
    thread.told_state, thread.told_severity = after.state, after.severity
    reason = stands.ended if change == "resolved" else None
    change_id = alert_threads.add_change(session, thread, change, by=by, reason=reason, at=at)
    data = {
        "run_id": subject.run_id,
        "project": subject.project,
        "step": head.opened_step if head.resolved_step is None else head.resolved_step,
        "scope": head.scope,
        "alert_id": head.id,
        "thread_id": thread.id,
        "change_id": change_id,
        "change": change,
        "rule": thread.rule,
        "severity": thread.severity,
        "status": thread.state,
        "title": head.title,
        "by": by,
    }
    return Event("alert_change", data)
