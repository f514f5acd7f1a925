"""People, their roles and sessions, the audit log, and how long projects keep what they have."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def _id() -> TypeEngine[int]:
    # SQLite counts up by itself only in an INTEGER primary key.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Text(), nullable=False) for name in names]


def _times(*names: str, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.Double(), nullable=nullable) for name in names]


def _refers(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{to}.id"], name=f"fk_{table}_{column}_{to}", ondelete="CASCADE"
    )


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", _id(), nullable=False),
        *_texts("name"),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("is_operator", sa.Boolean(), nullable=False),
        *_times("created_at"),
        *_times("last_seen_at", "closed_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("name", name="uq_accounts_name"),
        sa.UniqueConstraint("subject", name="uq_accounts_subject"),
    )
    op.create_table(
        "memberships",
        sa.Column("account_pk", _id(), nullable=False),
        sa.Column("project_id", _id(), nullable=False),
        *_texts("role"),
        sa.PrimaryKeyConstraint("account_pk", "project_id", name="pk_memberships"),
        _refers("memberships", "account_pk", "accounts"),
        _refers("memberships", "project_id", "projects"),
    )
    op.create_index("ix_memberships_project_id", "memberships", ["project_id"])
    op.create_table(
        "login_sessions",
        sa.Column("id", _id(), nullable=False),
        *_texts("token_hash"),
        sa.Column("previous_hash", sa.Text(), nullable=True),
        sa.Column("account_pk", _id(), nullable=False),
        *_times("created_at", "rotated_at", "last_seen_at", "expires_at"),
        *_texts("address", "browser"),
        sa.PrimaryKeyConstraint("id", name="pk_login_sessions"),
        sa.UniqueConstraint("token_hash", name="uq_login_sessions_token_hash"),
        sa.UniqueConstraint("previous_hash", name="uq_login_sessions_previous_hash"),
        _refers("login_sessions", "account_pk", "accounts"),
    )
    op.create_index("ix_login_sessions_account_pk", "login_sessions", ["account_pk"])
    op.create_index("ix_login_sessions_expires_at", "login_sessions", ["expires_at"])
    op.create_table(
        "invitations",
        sa.Column("id", _id(), nullable=False),
        *_texts("token_hash", "label"),
        sa.Column("account_pk", _id(), nullable=True),
        sa.Column("makes_operator", sa.Boolean(), nullable=False),
        sa.Column("project_id", _id(), nullable=True),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("invited_by", _id(), nullable=True),
        *_times("created_at", "expires_at"),
        *_times("used_at", "revoked_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.UniqueConstraint("token_hash", name="uq_invitations_token_hash"),
        _refers("invitations", "account_pk", "accounts"),
        _refers("invitations", "invited_by", "accounts"),
        _refers("invitations", "project_id", "projects"),
    )
    op.create_index("ix_invitations_project_id", "invitations", ["project_id"])
    op.create_table(
        "audit_log",
        sa.Column("id", _id(), nullable=False),
        *_times("at"),
        *_texts("actor", "action", "target"),
        sa.Column("project_id", sa.BigInteger(), nullable=True),
        *_texts("address", "outcome"),
        sa.PrimaryKeyConstraint("id", name="pk_audit_log"),
    )
    op.create_index("ix_audit_log_at", "audit_log", ["at"])
    op.create_index("ix_audit_log_project_id_id", "audit_log", ["project_id", "id"])
    op.create_table(
        "project_retention",
        sa.Column("project_id", _id(), nullable=False),
        *_times("text_days", "run_days", nullable=True),
        sa.PrimaryKeyConstraint("project_id", name="pk_project_retention"),
        _refers("project_retention", "project_id", "projects"),
    )
    op.create_table(
        "job_claims",
        sa.Column("job_id", _id(), nullable=False),
        sa.Column("key_id", _id(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "key_id", name="pk_job_claims"),
        _refers("job_claims", "job_id", "jobs"),
        _refers("job_claims", "key_id", "api_keys"),
    )
    op.add_column("api_keys", sa.Column("expires_at", sa.Double(), nullable=True))
    has_text = sa.text("blob_key <> ''")
    op.create_index(
        "ix_batches_text",
        "batches",
        ["run_pk", "created_at"],
        sqlite_where=has_text,
        postgresql_where=has_text,
    )


def downgrade() -> None:
    op.drop_index("ix_batches_text", "batches")
    op.drop_column("api_keys", "expires_at")
    for table in (
        "job_claims",
        "project_retention",
        "audit_log",
        "invitations",
        "login_sessions",
        "memberships",
        "accounts",
    ):
        op.drop_table(table)
