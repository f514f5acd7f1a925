"""What people say of runs: another name, notes, put away, deleted."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_IS_DELETED = sa.text("deleted_at IS NOT NULL")


# Without these, each attempt that goes has whole tables read for rows that still name it.
_NAME_AN_ATTEMPT = ("batches", "batch_results", "evaluations")


def upgrade() -> None:
    for table in _NAME_AN_ATTEMPT:
        op.create_index(f"ix_{table}_attempt_pk", table, ["attempt_pk"])
    # With a default, since there are rows; it goes again where the database lets it go without a copy.
    for name in ("given_name", "notes"):
        op.add_column("runs", sa.Column(name, sa.Text(), nullable=False, server_default=""))
    for name in ("archived_at", "deleted_at"):
        op.add_column("runs", sa.Column(name, sa.Double(), nullable=True))
    op.execute(sa.text("UPDATE runs SET given_name = name"))
    op.create_index("ix_runs_deleted", "runs", ["id"], sqlite_where=_IS_DELETED, postgresql_where=_IS_DELETED)
    if op.get_context().dialect.name == "postgresql":
        for name in ("given_name", "notes"):
            op.alter_column("runs", name, server_default=None)


def downgrade() -> None:
    op.drop_index("ix_runs_deleted", "runs")
    for name in ("deleted_at", "archived_at", "notes", "given_name"):
        op.drop_column("runs", name)
    for table in _NAME_AN_ATTEMPT:
        op.drop_index(f"ix_{table}_attempt_pk", table)
