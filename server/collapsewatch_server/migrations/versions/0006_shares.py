"""Links by which people show runs to others."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _id() -> TypeEngine[int]:
    # SQLite counts up by itself only in an INTEGER primary key.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "shares",
        sa.Column("id", _id(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("prefix", "token_hash", "title", "kind")),
        sa.Column("view", sa.Text(), nullable=False),
        sa.Column("limits", sa.JSON(), nullable=True),
        sa.Column("with_rollouts", sa.Boolean(), nullable=False),
        sa.Column("snapshot_key", sa.Text(), nullable=True),
        sa.Column("num_runs", sa.BigInteger(), nullable=False),
        sa.Column("frozen_at", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("last_opened_at", sa.Double(), nullable=True),
        sa.Column("num_opened", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_shares"),
        sa.UniqueConstraint("token_hash", name="uq_shares_token_hash"),
    )
    op.create_index("ix_shares_prefix", "shares", ["prefix"])
    good = sa.text("revoked_at IS NULL")
    op.create_index("ix_shares_expiry", "shares", ["expires_at"], sqlite_where=good, postgresql_where=good)
    op.create_table(
        "share_runs",
        sa.Column("share_pk", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("share_pk", "run_pk", name="pk_share_runs"),
        sa.ForeignKeyConstraint(
            ["share_pk"], ["shares.id"], name="fk_share_runs_share_pk_shares", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["run_pk"], ["runs.id"], name="fk_share_runs_run_pk_runs", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_share_runs_run_pk", "share_runs", ["run_pk"])


def downgrade() -> None:
    op.drop_table("share_runs")
    op.drop_table("shares")
