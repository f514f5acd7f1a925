"""Channels, and what is sent to them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _id() -> TypeEngine[int]:
    # SQLite counts up by itself only in an INTEGER primary key.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_channels()
    _create_deliveries()
    _create_planned_changes()


def downgrade() -> None:
    for table in ("planned_changes", "deliveries", "channels"):
        op.drop_table(table)


def _create_channels() -> None:
    op.create_table(
        "channels",
        sa.Column("id", _id(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "kind", "sealed", "target")),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("min_severity", sa.Text(), nullable=False),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.Column("digest_after", sa.BigInteger(), nullable=False),
        sa.Column("window_seconds", sa.Double(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("failed_at", sa.Double(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_channels"),
        sa.UniqueConstraint("name", name="uq_channels_name"),
    )


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", _id(), nullable=False),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("channel_pk", _id(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.Column("num_changes", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_at", sa.Double(), nullable=True),
        sa.Column("status_code", sa.BigInteger(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["channel_pk"], ["channels.id"], name="fk_deliveries_channel_pk_channels"),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.UniqueConstraint("delivery_id", name="uq_deliveries_delivery_id"),
    )
    op.create_index("ix_deliveries_channel_pk_id", "deliveries", ["channel_pk", "id"])
    op.create_index("ix_deliveries_channel_pk_created_at", "deliveries", ["channel_pk", "created_at"])
    op.create_index(
        "ix_deliveries_waiting",
        "deliveries",
        ["channel_pk", "next_at"],
        sqlite_where=sa.text("status = 'waiting'"),
        postgresql_where=sa.text("status = 'waiting'"),
    )


def _create_planned_changes() -> None:
    op.create_table(
        "planned_changes",
        sa.Column("id", _id(), nullable=False),
        sa.Column("channel_pk", _id(), nullable=False),
        sa.Column("change_id", _id(), nullable=False),
        sa.Column("delivery_pk", _id(), nullable=True),
        sa.Column("planned_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["channel_pk"], ["channels.id"], name="fk_planned_changes_channel_pk_channels"
        ),
        sa.ForeignKeyConstraint(
            ["change_id"], ["alert_changes.id"], name="fk_planned_changes_change_id_alert_changes"
        ),
        sa.ForeignKeyConstraint(
            ["delivery_pk"], ["deliveries.id"], name="fk_planned_changes_delivery_pk_deliveries"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_planned_changes"),
        sa.UniqueConstraint("channel_pk", "change_id", name="uq_planned_changes_channel_pk_change_id"),
    )
    op.create_index("ix_planned_changes_delivery_pk", "planned_changes", ["delivery_pk"])
    op.create_index(
        "ix_planned_changes_waiting",
        "planned_changes",
        ["channel_pk", "id"],
        sqlite_where=sa.text("delivery_pk IS NULL"),
        postgresql_where=sa.text("delivery_pk IS NULL"),
    )
