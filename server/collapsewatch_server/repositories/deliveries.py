"""What waits for the channels and what was sent to them, as rows."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, exists, func, literal_column, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertChange, AlertRow
from collapsewatch_server.channel_tables import Channel, Delivery, PlannedChange
from collapsewatch_server.db import insert, is_postgresql, now
from collapsewatch_server.repositories import clock
from collapsewatch_server.tables import Attempt, Project, Run

# Fewer than the parameters that either database takes.
_MOST_AT_ONCE = 500
_MOST_WAITING = 1000
_SWITCHED_OFF = "the channel was switched off"
# Written out, or SQLite would not know the index of just these.
_IS_WAITING = Delivery.status == literal_column("'waiting'")


class ChangeFacts(NamedTuple):
    """One change of an alert's state, and the alert as it is now."""

    change: AlertChange
    alert: AlertRow
    attempt_id: str | None
    run_id: str | None
    run_name: str | None
    project: str | None


class Waiting(NamedTuple):
    """A change that a channel has to be told of."""

    change_id: int
    planned_at: float


def any_unplanned(session: Session) -> bool:
    """Whether there are changes that nobody has looked at for the channels."""
    statement = select(AlertChange.id).where(AlertChange.planned_at.is_(None)).limit(1)
    return session.scalar(statement) is not None


def take_unplanned(session: Session) -> list[ChangeFacts]:
    """Changes that nobody has looked at, oldest first; they are this transaction's now."""
    statement = _facts().where(AlertChange.planned_at.is_(None)).order_by(AlertChange.id).limit(_MOST_AT_ONCE)
    if is_postgresql(session):
        # What another server is looking at is passed over.
        statement = statement.with_for_update(of=AlertChange, skip_locked=True)
    return [ChangeFacts(*row) for row in session.execute(statement)]


def plan(session: Session, change_ids: Collection[int], pairs: Iterable[tuple[int, int]]) -> None:
    """Marks the changes as looked at, and has each (channel, change) wait for its message."""
    statement = update(AlertChange).where(AlertChange.id.in_(change_ids)).values(planned_at=now())
    session.execute(statement, execution_options={"synchronize_session": False})
    moment = clock.read(session)
    rows = [{"channel_pk": pk, "change_id": change_id, "planned_at": moment} for pk, change_id in pairs]
    if rows:
        session.execute(insert(session, PlannedChange).on_conflict_do_nothing(), rows)


def channels_with_work(session: Session) -> Sequence[int]:
    """Ids of the channels for which something waits that no message tells of, or a message is due."""
    planned = select(PlannedChange.channel_pk).where(PlannedChange.delivery_pk.is_(None))
    due = select(Delivery.channel_pk).where(_IS_WAITING, Delivery.next_at <= now())
    later = exists().where(Delivery.channel_pk == Channel.id, _IS_WAITING, Delivery.next_at > now())
    statement = select(Channel.id).where(
        Channel.enabled, Channel.id.in_(due) | (Channel.id.in_(planned) & ~later)
    )
    return session.scalars(statement.order_by(Channel.id)).all()


def in_hand(session: Session, channel_pk: int) -> Delivery | None:
    """The channel's message that is not over yet; there is one at a time."""
    statement = select(Delivery).where(Delivery.channel_pk == channel_pk, _IS_WAITING)
    return session.scalar(statement.order_by(Delivery.id).limit(1))


def waiting(session: Session, channel_pk: int) -> list[Waiting]:
    """Changes that no message of the channel tells of yet, oldest first."""
    statement = select(PlannedChange.change_id, PlannedChange.planned_at).where(
        PlannedChange.channel_pk == channel_pk, PlannedChange.delivery_pk.is_(None)
    )
    rows = session.execute(statement.order_by(PlannedChange.change_id).limit(_MOST_WAITING))
    return [Waiting(*row) for row in rows]


def made_since(session: Session, channel_pk: int, since: float, limit: int) -> Sequence[float]:
    """When the channel's messages after `since` were made, tests apart; the newest `limit` of them."""
    statement = select(Delivery.created_at).where(
        Delivery.channel_pk == channel_pk, Delivery.created_at > since, Delivery.kind != "test"
    )
    return session.scalars(statement.order_by(Delivery.created_at.desc()).limit(limit)).all()


def facts(session: Session, change_ids: Collection[int]) -> list[ChangeFacts]:
    """These changes, in order."""
    statement = _facts().where(AlertChange.id.in_(change_ids)).order_by(AlertChange.id)
    return [ChangeFacts(*row) for row in session.execute(statement)]


def add(session: Session, channel_pk: int, change_ids: Collection[int], **values: Any) -> Delivery:
    """The new message, which tells of these changes."""
    row = Delivery(channel_pk=channel_pk, num_changes=len(change_ids), **values)
    row.created_at = now()
    if row.status == "waiting":
        row.next_at = now()
    else:
        row.finished_at = now()
    session.add(row)
    session.flush()
    statement = update(PlannedChange).where(
        PlannedChange.channel_pk == channel_pk,
        PlannedChange.change_id.in_(change_ids),
        PlannedChange.delivery_pk.is_(None),
    )
    session.execute(statement.values(delivery_pk=row.id), execution_options={"synchronize_session": False})
    session.refresh(row)
    return row


def forget_waiting(session: Session, channel_pk: int) -> None:
    """Nothing waits for the channel any more: nobody wants to hear of it once the channel is off."""
    session.execute(
        delete(PlannedChange).where(
            PlannedChange.channel_pk == channel_pk, PlannedChange.delivery_pk.is_(None)
        )
    )
    statement = update(Delivery).where(Delivery.channel_pk == channel_pk, _IS_WAITING)
    session.execute(statement.values(status="failed", next_at=None, finished_at=now(), answer=_SWITCHED_OFF))


def note_attempt(
    session: Session,
    delivery_pk: int,
    *,
    status: str,
    answer: str,
    status_code: int | None,
    wait_seconds: float | None,
) -> bool:
    """Whether the message was still waiting; what became of one attempt is noted."""
    values: dict[str, Any] = {
        "attempts": Delivery.attempts + 1,
        "status": status,
        "answer": answer,
        "status_code": status_code,
        "next_at": None if wait_seconds is None else now() + wait_seconds,
        "finished_at": None if status == "waiting" else now(),
    }
    statement = update(Delivery).where(Delivery.id == delivery_pk, _IS_WAITING)
    return session.scalar(statement.values(values).returning(Delivery.id)) is not None


def of_channel(session: Session, channel_pk: int, before: int | None, limit: int) -> Sequence[Delivery]:
    """The channel's messages, newest first, of those with a smaller id than `before`."""
    statement = select(Delivery).where(Delivery.channel_pk == channel_pk)
    if before is not None:
        statement = statement.where(Delivery.id < before)
    return session.scalars(statement.order_by(Delivery.id.desc()).limit(limit)).all()


class Tally(NamedTuple):
    """How a channel stands."""

    num_waiting: int = 0
    """Changes that no message got through with yet."""
    last_sent_at: float | None = None


def tallies(session: Session) -> dict[int, Tally]:
    """By channel."""
    open_message = select(Delivery.id).where(_IS_WAITING)
    counts = select(PlannedChange.channel_pk, func.count()).where(
        PlannedChange.delivery_pk.is_(None) | PlannedChange.delivery_pk.in_(open_message)
    )
    num_waiting: dict[int, int] = {
        row[0]: row[1] for row in session.execute(counts.group_by(PlannedChange.channel_pk))
    }
    last = select(Delivery.channel_pk, func.max(Delivery.finished_at)).where(Delivery.status == "sent")
    sent_at: dict[int, float | None] = {
        row[0]: row[1] for row in session.execute(last.group_by(Delivery.channel_pk))
    }
    found = num_waiting.keys() | sent_at.keys()
    return {pk: Tally(num_waiting.get(pk, 0), sent_at.get(pk)) for pk in found}


def forget(session: Session, seconds: float) -> None:
    """Removes what was sent, or given up, longer ago than that."""
    old = select(Delivery.id).where(Delivery.status != "waiting", Delivery.finished_at < now() - seconds)
    session.execute(delete(PlannedChange).where(PlannedChange.delivery_pk.in_(old)))
    session.execute(delete(Delivery).where(Delivery.id.in_(old)))


def _facts() -> "Select[AlertChange, AlertRow, str, str, str, str]":
    return (
        select(AlertChange, AlertRow, Attempt.attempt_id, Run.run_id, Run.name, Project.name)
        .join(AlertRow, AlertRow.id == AlertChange.alert_id)
        .outerjoin(Attempt, Attempt.id == AlertRow.attempt_pk)
        .outerjoin(Run, Run.id == AlertRow.run_pk)
        .outerjoin(Project, Project.id == Run.project_id)
    )
