"""Channels as rows, and which server sends to which of them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.access.visible import SEES_ALL
from collapsewatch_server.channel_tables import Channel, Delivery, PlannedChange
from collapsewatch_server.db import is_postgresql, now


def all_rows(session: Session) -> Sequence[Channel]:
    """Every channel, by name."""
    return session.scalars(select(Channel).order_by(Channel.name)).all()


def kept_rows(session: Session) -> Sequence[Channel]:
    """Every channel; none of them is removed before the end of the transaction."""
    statement = select(Channel).order_by(Channel.id)
    if is_postgresql(session):
        statement = statement.with_for_update(read=True, key_share=True)
    return session.scalars(statement).all()


def find(session: Session, channel_id: int) -> Channel | None:
    """The channel of that id."""
    return session.get(Channel, channel_id)


def named(session: Session, name: str) -> int | None:
    """Id of the channel of that name, whosever it is: no two have the same."""
    return session.scalar(select(Channel.id).where(Channel.name == name), execution_options=SEES_ALL)


def count(session: Session) -> int:
    """Number of channels, of all projects."""
    return session.scalar(select(func.count(Channel.id)), execution_options=SEES_ALL) or 0


def add(session: Session, **values: Any) -> Channel:
    """The new channel."""
    row = Channel(**values, failed_at=None, problem="", owner=None, lease_until=None)
    row.created_at = row.updated_at = now()
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def change(session: Session, channel_id: int, **values: Any) -> None:
    """Sets the given columns."""
    session.execute(
        update(Channel).where(Channel.id == channel_id).values(**values, updated_at=now()),
        execution_options={"synchronize_session": False},
    )


def lock(session: Session, channel_id: int) -> bool:
    """Whether there is the channel; its row is held until the end of the transaction."""
    statement = select(Channel.id).where(Channel.id == channel_id)
    if is_postgresql(session):
        statement = statement.with_for_update()
    return session.scalar(statement) is not None


def remove(session: Session, channel_id: int) -> None:
    """Removes the channel with all that was sent to it."""
    session.execute(delete(PlannedChange).where(PlannedChange.channel_pk == channel_id))
    session.execute(delete(Delivery).where(Delivery.channel_pk == channel_id))
    session.execute(delete(Channel).where(Channel.id == channel_id))


def claim(session: Session, channel_id: int, *, owner: str, lease_seconds: float) -> Channel | None:
    """The channel, which `owner` alone sends to for so long; none when another does, or nobody may."""
    is_free = or_(Channel.owner.is_(None), Channel.owner == owner, Channel.lease_until < now())
    statement = update(Channel).where(Channel.id == channel_id, Channel.enabled, is_free)
    statement = statement.values(owner=owner, lease_until=now() + lease_seconds).returning(Channel)
    return session.scalar(statement, execution_options={"populate_existing": True})


def release(session: Session, channel_id: int, *, owner: str) -> None:
    """Lets others send to it, if `owner` still held it."""
    statement = update(Channel).where(Channel.id == channel_id, Channel.owner == owner)
    session.execute(statement.values(owner=None, lease_until=None))


def note_failure(session: Session, channel_id: int, problem: str) -> None:
    """Notes that a message was given up."""
    statement = update(Channel).where(Channel.id == channel_id)
    session.execute(statement.values(failed_at=now(), problem=problem))


def note_success(session: Session, channel_id: int) -> None:
    """Notes that a message got through."""
    statement = update(Channel).where(Channel.id == channel_id, Channel.failed_at.is_not(None))
    session.execute(statement.values(failed_at=None, problem=""))


def failing(session: Session) -> list[tuple[int, str, float, str]]:
    """(id, name, when, why) of the channels whose last message was given up."""
    statement = select(Channel.id, Channel.name, Channel.failed_at, Channel.problem)
    statement = statement.where(Channel.failed_at.is_not(None), Channel.enabled).order_by(Channel.id)
    return [(row[0], row[1], row[2] or 0.0, row[3]) for row in session.execute(statement)]
