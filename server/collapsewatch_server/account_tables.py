"""Tables of the people who may use the service, of what they may do, and of what was done."""

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from collapsewatch_server.tables import Base, RowId


class Account(Base):
    """A person. It stays when it is closed, so that the audit log goes on naming it."""

    __tablename__ = "accounts"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    """What the person signs in with, in lower case."""
    password_hash: Mapped[str | None]
    """Argon2id; none for somebody whom another service signs in."""
    subject: Mapped[str | None] = mapped_column(unique=True)
    """Issuer and subject by which an OpenID provider knows the person, or the proxy's own name."""
    is_operator: Mapped[bool]
    """Whether the person may do everything, in every project."""
    created_at: Mapped[float]
    last_seen_at: Mapped[float | None]
    closed_at: Mapped[float | None]


class Membership(Base):
    """What a person may do in a project."""

    __tablename__ = "memberships"

    account_pk: Mapped[int] = mapped_column(
        ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    project_id: Mapped[int] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, autoincrement=False, index=True
    )
    role: Mapped[str]
    """`viewer`, `editor` or `admin`."""


class LoginSession(Base):
    """A browser that is signed in, as its cookie can be checked, never as it can be used."""

    __tablename__ = "login_sessions"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    token_hash: Mapped[str] = mapped_column(unique=True)
    """SHA-256; the token has 256 random bits, so nothing slower is needed."""
    previous_hash: Mapped[str | None] = mapped_column(unique=True)
    """Of the token before this one, which is good for another minute: requests may be under way with it."""
    account_pk: Mapped[int] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[float]
    rotated_at: Mapped[float]
    last_seen_at: Mapped[float]
    expires_at: Mapped[float] = mapped_column(index=True)
    address: Mapped[str]
    browser: Mapped[str]


class Invitation(Base):
    """A link by which somebody gets an account, a role, or a new password, once."""

    __tablename__ = "invitations"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    token_hash: Mapped[str] = mapped_column(unique=True)
    label: Mapped[str]
    """Whom it is for, for people."""
    account_pk: Mapped[int | None] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    """Whose password it sets anew; none for an invitation."""
    makes_operator: Mapped[bool]
    project_id: Mapped[int | None] = mapped_column(ForeignKey("projects.id", ondelete="CASCADE"), index=True)
    role: Mapped[str | None]
    """In that project."""
    invited_by: Mapped[int | None] = mapped_column(ForeignKey("accounts.id", ondelete="CASCADE"))
    """Account of who made it; none when it was made on the machine itself."""
    created_at: Mapped[float]
    expires_at: Mapped[float]
    used_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class AuditEntry(Base):
    """Something that somebody did. Rows are only ever added, and removed when they are old."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_project_id_id", "project_id", "id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    at: Mapped[float] = mapped_column(index=True)
    actor: Mapped[str]
    """Name of the account, `key <id> (<label>)`, or who else it was."""
    action: Mapped[str]
    """As the rule of the route names it, such as `run.delete`."""
    target: Mapped[str]
    """What it was done to, for people."""
    project_id: Mapped[int | None]
    """No foreign key: what was done outlives the project."""
    address: Mapped[str]
    """Network address that the request came from."""
    outcome: Mapped[str]
    """`done`, or the code of the error with which it was refused."""


class ProjectRetention(Base):
    """How long a project keeps what it has; what has no row is kept for ever."""

    __tablename__ = "project_retention"
    project_id: Mapped[int] = mapped_column(
        ForeignKey("projects.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    text_days: Mapped[float | None]
    """After which what the model wrote is removed, metrics stay."""
    run_days: Mapped[float | None]
    """After which a run that has ended is deleted for good, counted from its last sign of life."""
