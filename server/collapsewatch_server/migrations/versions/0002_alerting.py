"""What people do to alerts, the outbox of changes, and rules of one's own."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _id() -> TypeEngine[int]:
    # SQLite counts up by itself only in an INTEGER primary key.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_threads()
    op.add_column("alerts", sa.Column("withdrawn", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("alerts", sa.Column("thread_pk", sa.BigInteger(), nullable=True))
    op.create_index("ix_alerts_thread_pk", "alerts", ["thread_pk"])
    _create_actions_and_changes()
    _create_rules()
    _give_threads()


def downgrade() -> None:
    for table in ("detector_settings", "alert_rule_starts", "alert_rules", "alert_changes", "alert_actions"):
        op.drop_table(table)
    op.drop_table("alert_threads")
    op.drop_index("ix_alerts_thread_pk", "alerts")
    op.drop_column("alerts", "thread_pk")
    op.drop_column("alerts", "withdrawn")


def _create_threads() -> None:
    op.create_table(
        "alert_threads",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=True),
        sa.Column("alert_id", _id(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("told_state", sa.Text(), nullable=True),
        sa.Column("told_severity", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ended", sa.Text(), nullable=True),
        sa.Column("snoozed_until", sa.Double(), nullable=True),
        sa.Column("num_changes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name="fk_alert_threads_alert_id_alerts"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_alert_threads_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_alert_threads"),
    )
    op.create_index("ix_alert_threads_alert_id", "alert_threads", ["alert_id"])
    op.create_index("ix_alert_threads_state_alert_id", "alert_threads", ["state", "alert_id"])
    op.create_index("ix_alert_threads_run_pk_state", "alert_threads", ["run_pk", "state"])
    op.create_index(
        "ix_alert_threads_snoozed",
        "alert_threads",
        ["snoozed_until"],
        sqlite_where=sa.text("state = 'snoozed'"),
        postgresql_where=sa.text("state = 'snoozed'"),
    )
    op.create_index(
        "ix_alert_threads_left_behind",
        "alert_threads",
        ["id"],
        sqlite_where=sa.text("ended = 'superseded' AND told_state <> 'resolved'"),
        postgresql_where=sa.text("ended = 'superseded' AND told_state <> 'resolved'"),
    )


def _create_actions_and_changes() -> None:
    op.create_table(
        "alert_actions",
        sa.Column("id", _id(), nullable=False),
        sa.Column("thread_pk", _id(), nullable=False),
        sa.Column("alert_id", _id(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("over_rule", sa.Boolean(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("until", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["thread_pk"], ["alert_threads.id"], name="fk_alert_actions_thread_pk_alert_threads"
        ),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name="fk_alert_actions_alert_id_alerts"),
        sa.PrimaryKeyConstraint("id", name="pk_alert_actions"),
    )
    op.create_index("ix_alert_actions_thread_pk_id", "alert_actions", ["thread_pk", "id"])
    op.create_table(
        "alert_changes",
        sa.Column("id", _id(), nullable=False),
        sa.Column("thread_pk", _id(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("alert_id", _id(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("by", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("planned_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["thread_pk"], ["alert_threads.id"], name="fk_alert_changes_thread_pk_alert_threads"
        ),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name="fk_alert_changes_alert_id_alerts"),
        sa.PrimaryKeyConstraint("id", name="pk_alert_changes"),
        sa.UniqueConstraint("thread_pk", "ordinal", name="uq_alert_changes_thread_pk_ordinal"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_alert_changes_alert_id", "alert_changes", ["alert_id"])
    op.create_index(
        "ix_alert_changes_unplanned",
        "alert_changes",
        ["id"],
        sqlite_where=sa.text("planned_at IS NULL"),
        postgresql_where=sa.text("planned_at IS NULL"),
    )


def _create_rules() -> None:
    op.create_table(
        "alert_rules",
        sa.Column("id", _id(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "metric", "scope", "operator")),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("num_evaluations", sa.BigInteger(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=True) for name in ("project", "tag", "run_id")),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_alert_rules"),
        sa.UniqueConstraint("name", name="uq_alert_rules_name"),
    )
    op.create_table(
        "alert_rule_starts",
        sa.Column("rule_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("run_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("from_step", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["rule_pk"], ["alert_rules.id"], name="fk_alert_rule_starts_rule_pk_alert_rules"
        ),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_alert_rule_starts_run_pk_runs"),
        sa.PrimaryKeyConstraint("rule_pk", "run_pk", name="pk_alert_rule_starts"),
    )
    op.create_table(
        "detector_settings",
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("project", "rule", name="pk_detector_settings"),
    )


def _give_threads() -> None:
    """Each alert that is there becomes an item of its own, of which nobody is told."""
    op.execute(
        sa.text(
            "INSERT INTO alert_threads (id, run_pk, alert_id, rule, severity, told_state, told_severity, "
            "state, ended, snoozed_until, num_changes) "
            "SELECT id, run_pk, id, rule, severity, status, severity, "
            "CASE WHEN superseded THEN 'resolved' ELSE status END, "
            "CASE WHEN superseded THEN 'superseded' WHEN status = 'resolved' THEN 'rule' END, NULL, 0 "
            "FROM alerts"
        )
    )
    op.execute(sa.text("UPDATE alerts SET thread_pk = id"))
    if op.get_bind().dialect.name == "postgresql":
        # Rows with given ids do not move the sequence on.
        op.execute(
            sa.text(
                "SELECT setval(pg_get_serial_sequence('alert_threads', 'id'), "
                "(SELECT COALESCE(max(id), 0) + 1 FROM alert_threads), false)"
            )
        )
