"""Log-probs of single tokens beside the batches."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def _id() -> TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "batch_tokens",
        sa.Column("batch_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("blob_key", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["batch_pk"], ["batches.id"], name="fk_batch_tokens_batch_pk_batches"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_batch_tokens_run_pk_runs"),
        sa.PrimaryKeyConstraint("batch_pk", name="pk_batch_tokens"),
    )
    op.create_index("ix_batch_tokens_run_pk", "batch_tokens", ["run_pk"])


def downgrade() -> None:
    op.drop_table("batch_tokens")
