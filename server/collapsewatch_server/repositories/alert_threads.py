"""Threads of alerts as rows: where each stands, what people did, and the outbox of its changes."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertAction, AlertChange, AlertRow, AlertThread
from collapsewatch_server.db import now
from collapsewatch_server.tables import Project, Run


class Subject(NamedTuple):
    """The run that a thread is about; all none for what is about the service."""

    run_id: str | None = None
    project: str | None = None


def add(session: Session, alert: AlertRow) -> int:
    """Id of a new thread that begins with this alert; nothing is told of it yet."""
    thread = AlertThread(
        run_pk=alert.run_pk,
        alert_id=alert.id,
        rule=alert.rule,
        severity=alert.severity,
        state="resolved",
        num_changes=0,
    )
    session.add(thread)
    session.flush()
    join(session, [alert.id], thread.id)
    return thread.id


def join(session: Session, alert_ids: Sequence[int], thread_pk: int) -> None:
    """Makes the alerts part of the thread, with what people did to them."""
    session.execute(update(AlertRow).where(AlertRow.id.in_(alert_ids)).values(thread_pk=thread_pk))
    actions = update(AlertAction).where(AlertAction.alert_id.in_(alert_ids))
    session.execute(actions.values(thread_pk=thread_pk))


def held(session: Session, thread_pks: Iterable[int]) -> Sequence[AlertThread]:
    """The threads, which nobody else changes until the end of the transaction, in the order of their ids."""
    statement = select(AlertThread).where(AlertThread.id.in_(list(thread_pks))).order_by(AlertThread.id)
    return session.scalars(statement.with_for_update().execution_options(populate_existing=True)).all()


def alerts_of(session: Session, thread_pks: Iterable[int]) -> dict[int, list[AlertRow]]:
    """Alerts by thread, in the order in which they opened."""
    statement = (
        select(AlertRow)
        .where(AlertRow.thread_pk.in_(list(thread_pks)))
        .order_by(AlertRow.opened_step, AlertRow.id)
        .execution_options(populate_existing=True)
    )
    found: dict[int, list[AlertRow]] = defaultdict(list)
    for row in session.scalars(statement):
        assert row.thread_pk is not None
        found[row.thread_pk].append(row)
    return found


def subjects(session: Session, run_pks: Iterable[int]) -> dict[int, Subject]:
    """Id and project of the runs."""
    statement = select(Run.id, Run.run_id, Project.name).join(Project).where(Run.id.in_(list(run_pks)))
    return {run_pk: Subject(run_id, project) for run_pk, run_id, project in session.execute(statement)}


def actions_of(session: Session, thread_pks: Iterable[int]) -> dict[int, list[AlertAction]]:
    """What people did, by thread, oldest first."""
    statement = select(AlertAction).where(AlertAction.thread_pk.in_(list(thread_pks)))
    found: dict[int, list[AlertAction]] = defaultdict(list)
    for row in session.scalars(statement.order_by(AlertAction.id)):
        found[row.thread_pk].append(row)
    return found


def last_actions(session: Session, thread_pks: Iterable[int]) -> dict[int, AlertAction]:
    """What a person did last, by thread; threads that nobody has touched are left out."""
    newest = (
        select(func.max(AlertAction.id))
        .where(AlertAction.thread_pk.in_(list(thread_pks)))
        .group_by(AlertAction.thread_pk)
    )
    rows = session.scalars(select(AlertAction).where(AlertAction.id.in_(newest)))
    return {row.thread_pk: row for row in rows}


def add_action(session: Session, **values: object) -> None:
    """Notes something that a person did."""
    session.add(AlertAction(**values))
    session.flush()


def add_change(
    session: Session, thread: AlertThread, change: str, *, by: str | None, reason: str | None, at: float
) -> int:
    """Id of a new row of the outbox; the thread's own row is held by the caller."""
    thread.num_changes += 1
    row = AlertChange(
        thread_pk=thread.id,
        ordinal=thread.num_changes,
        alert_id=thread.alert_id,
        change=change,
        severity=thread.severity,
        at=at,
        by=by,
        reason=reason,
    )
    session.add(row)
    session.flush()
    return row.id


def changes_of(session: Session, thread_pk: int) -> Sequence[AlertChange]:
    """The thread's changes, oldest first."""
    statement = select(AlertChange).where(AlertChange.thread_pk == thread_pk)
    return session.scalars(statement.order_by(AlertChange.ordinal)).all()


def standing_on(session: Session, run_pk: int, *, limit: int) -> list[tuple[AlertThread, AlertRow]]:
    """Threads on the run that are not resolved, each with its newest alert; the newest first."""
    statement = (
        select(AlertThread, AlertRow)
        .join(AlertRow, AlertRow.id == AlertThread.alert_id)
        .where(AlertThread.run_pk == run_pk, AlertThread.state != "resolved")
        .order_by(AlertThread.id.desc())
        .limit(limit)
    )
    return [(thread, alert) for thread, alert in session.execute(statement)]


def thread_of(session: Session, alert_id: int) -> int | None:
    """The thread that the alert belongs to; none when there is no such alert."""
    return session.scalar(select(AlertRow.thread_pk).where(AlertRow.id == alert_id))


def threads_of(session: Session, alert_ids: Sequence[int]) -> dict[int, int]:
    """Thread of each of these alerts that is there."""
    statement = select(AlertRow.id, AlertRow.thread_pk).where(AlertRow.id.in_(alert_ids))
    return {alert_id: pk for alert_id, pk in session.execute(statement) if pk is not None}


def overdue(session: Session, limit: int) -> list[int]:
    """Snoozed threads whose time is over, the longest over first."""
    statement = select(AlertThread.id).where(
        AlertThread.state == "snoozed", AlertThread.snoozed_until <= now()
    )
    return list(session.scalars(statement.order_by(AlertThread.snoozed_until).limit(limit)))


def left_behind(session: Session, limit: int) -> list[tuple[int, int]]:
    """(thread, run) of those that later attempts replayed, and of whose end nothing was told."""
    is_open = (AlertThread.ended == "superseded") & (AlertThread.told_state != "resolved")
    statement = select(AlertThread.id, AlertThread.run_pk).where(is_open, AlertThread.run_pk.is_not(None))
    rows = session.execute(statement.order_by(AlertThread.id).limit(limit))
    return [(pk, run_pk) for pk, run_pk in rows if run_pk is not None]


def of_rule(session: Session, rule: str, project: str | None, *, only_live: bool) -> list[int]:
    """Threads of the rule, of one project's runs or of all.

    Args:
        only_live: without those that ended otherwise than by being switched off.
    """
    statement = select(AlertThread.id).where(AlertThread.rule == rule)
    if only_live:
        statement = statement.where((AlertThread.state != "resolved") | (AlertThread.ended == "switched_off"))
    if project is not None:
        statement = statement.join(Run, Run.id == AlertThread.run_pk).join(Project)
        statement = statement.where(Project.name == project)
    return list(session.scalars(statement.order_by(AlertThread.id)))
