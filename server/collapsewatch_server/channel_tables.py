"""Tables of the channels, of the changes that wait for them, and of what was sent."""

from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from collapsewatch_server.tables import Base, Json, RowId


class Channel(Base):
    """Somewhere to tell people what became of alerts."""

    __tablename__ = "channels"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    kind: Mapped[str]
    """`webhook` or `apprise`."""
    sealed: Mapped[str]
    """Address and secret, which nobody can read without the server's key."""
    target: Mapped[str]
    """As much of the address as may be seen."""
    project: Mapped[str | None]
    """Only what is about runs of this project; everything when absent."""
    min_severity: Mapped[str]
    changes: Mapped[list[Any]]
    """Only these kinds of changes; all when empty."""
    digest_after: Mapped[int]
    """When more changes than this wait within a window, one message lists them."""
    window_seconds: Mapped[float]
    enabled: Mapped[bool]
    failed_at: Mapped[float | None]
    """When a message was given up; none once a later one was sent."""
    problem: Mapped[str]
    """Why it was given up."""
    owner: Mapped[str | None]
    """The server that sends to it now, until `lease_until`: one message at a time."""
    lease_until: Mapped[float | None]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class Delivery(Base):
    """One message to one channel. What it says is decided once, so that a repetition says the same."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(None, "channel_pk", "id"),
        Index(None, "channel_pk", "created_at"),
        Index(
            "ix_deliveries_waiting",
            "channel_pk",
            "next_at",
            sqlite_where=text("status = 'waiting'"),
            postgresql_where=text("status = 'waiting'"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    delivery_id: Mapped[str] = mapped_column(unique=True)
    """By which a receiver knows a repetition."""
    channel_pk: Mapped[int] = mapped_column(ForeignKey("channels.id"))
    kind: Mapped[str]
    """`change`, `digest` or `test`."""
    status: Mapped[str]
    """`waiting`, `sent`, or `failed` when it was given up."""
    message: Mapped[Json] = mapped_column(JSON())
    num_changes: Mapped[int]
    attempts: Mapped[int]
    next_at: Mapped[float | None]
    """When the next attempt is due; none when there will be none."""
    status_code: Mapped[int | None]
    answer: Mapped[str]
    created_at: Mapped[float]
    finished_at: Mapped[float | None]


class PlannedChange(Base):
    """A change that a channel is to be told of: once, however often it is planned."""

    __tablename__ = "planned_changes"
    __table_args__ = (
        UniqueConstraint("channel_pk", "change_id"),
        Index(None, "delivery_pk"),
        Index(
            "ix_planned_changes_waiting",
            "channel_pk",
            "id",
            sqlite_where=text("delivery_pk IS NULL"),
            postgresql_where=text("delivery_pk IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    channel_pk: Mapped[int] = mapped_column(ForeignKey("channels.id"))
    change_id: Mapped[int] = mapped_column(ForeignKey("alert_changes.id"))
    delivery_pk: Mapped[int | None] = mapped_column(ForeignKey("deliveries.id"))
    """The message that tells of it; none while it waits."""
    planned_at: Mapped[float]
