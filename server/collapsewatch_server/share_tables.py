"""Tables of the links by which people show runs to others."""

from sqlalchemy import JSON, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from collapsewatch_server.tables import Base, Json, RowId


class Share(Base):
    """A link to something, as it can be checked, never as it can be used."""

    __tablename__ = "shares"
    __table_args__ = (
        Index(
            "ix_shares_expiry",
            "expires_at",
            sqlite_where=text("revoked_at IS NULL"),
            postgresql_where=text("revoked_at IS NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    prefix: Mapped[str] = mapped_column(index=True)
    """Start of the token, by which it is looked up."""
    token_hash: Mapped[str] = mapped_column(unique=True)
    """SHA-256; the token has 192 random bits, so nothing slower is needed."""
    title: Mapped[str]
    kind: Mapped[str]
    """`run`, `comparison` or `chart`."""
    view: Mapped[str]
    """Which screen is shown, with all that was chosen on it, as the page's address after `#`."""
    limits: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    """Of a chart, the only series that may be read; everything of the runs when absent."""
    with_rollouts: Mapped[bool]
    """Whether what the model wrote may be read."""
    snapshot_key: Mapped[str | None]
    """Blob with the frozen rows; none for a link that shows the runs as they are now."""
    num_runs: Mapped[int]
    """Runs that it showed when it was made, or that its snapshot holds."""
    frozen_at: Mapped[float | None]
    created_at: Mapped[float]
    expires_at: Mapped[float]
    revoked_at: Mapped[float | None]
    last_opened_at: Mapped[float | None]
    num_opened: Mapped[int]


class ShareRun(Base):
    """A run that a link shows. It goes with the run: a new run of that id is not shown."""

    __tablename__ = "share_runs"

    share_pk: Mapped[int] = mapped_column(
        ForeignKey("shares.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    run_pk: Mapped[int] = mapped_column(
        ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, index=True
    )
    position: Mapped[int]
