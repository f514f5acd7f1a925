"""The first schema."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _id() -> TypeEngine[int]:
    # SQLite counts up by itself only in an INTEGER primary key.
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_projects_and_runs()
    _create_attempts_and_processes()
    _create_what_hangs_on_runs()
    _create_results_and_jobs()


def downgrade() -> None:
    op.drop_table("late_folds")
    op.drop_index(
        "ix_jobs_thinned",
        table_name="jobs",
        sqlite_where=sa.text("status = 'thinned'"),
        postgresql_where=sa.text("status = 'thinned'"),
    )
    op.drop_index("ix_jobs_run_pk_status_score", table_name="jobs")
    op.drop_index("ix_jobs_queue", table_name="jobs")
    op.drop_index(
        "ix_jobs_lease_until",
        table_name="jobs",
        sqlite_where=sa.text("status = 'leased'"),
        postgresql_where=sa.text("status = 'leased'"),
    )
    op.drop_table("jobs")
    op.drop_index(
        "ix_evaluations_alert_moves",
        table_name="evaluations",
        sqlite_where=sa.text("alert_moves IS NOT NULL"),
        postgresql_where=sa.text("alert_moves IS NOT NULL"),
    )
    op.drop_index("ix_evaluations_run_pk_scope_step", table_name="evaluations")
    op.drop_table("evaluations")
    op.drop_index("ix_batch_results_run_pk_step", table_name="batch_results")
    op.drop_table("batch_results")
    op.drop_table("metric_points")
    op.drop_index("ix_events_run_pk_id", table_name="events")
    op.drop_table("events")
    op.drop_index("ix_batches_job_pk", table_name="batches")
    op.drop_index("ix_batches_run_pk_step", table_name="batches")
    op.drop_table("batches")
    op.drop_index(
        "ix_alerts_dropped",
        table_name="alerts",
        sqlite_where=sa.text("rule = 'data_dropped'"),
        postgresql_where=sa.text("rule = 'data_dropped'"),
    )
    op.drop_index("ix_alerts_open", table_name="alerts")
    op.drop_table("alerts")
    op.drop_index("ix_workers_last_seen_at", table_name="workers")
    op.drop_table("workers")
    op.drop_index(
        "ix_writers_backlog",
        table_name="writers",
        sqlite_where=sa.text("has_backlog = 1"),
        postgresql_where=sa.text("has_backlog"),
    )
    op.drop_table("writers")
    op.drop_table("attempts")
    op.drop_index("ix_runs_project_id", table_name="runs")
    op.drop_table("runs")
    op.drop_index("ix_api_keys_prefix", table_name="api_keys")
    op.drop_table("api_keys")
    op.drop_table("projects")


def _create_projects_and_runs() -> None:
    op.create_table(
        "projects",
        sa.Column("id", _id(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.UniqueConstraint("name", name="uq_projects_name"),
    )
    op.create_table(
        "api_keys",
        sa.Column("id", _id(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("key_hash", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("project_id", _id(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("last_used_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_api_keys_project_id_projects"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("key_hash", name="uq_api_keys_key_hash"),
    )
    op.create_index("ix_api_keys_prefix", "api_keys", ["prefix"], unique=False)
    op.create_table(
        "runs",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("project_id", _id(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("scorer", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.Column("last_seen_at", sa.Double(), nullable=True),
        sa.Column("last_data_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_runs_project_id_projects"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("run_id", name="uq_runs_run_id"),
    )
    op.create_index("ix_runs_project_id", "runs", ["project_id"], unique=False)


def _create_attempts_and_processes() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("attempt_id", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("from_step", sa.BigInteger(), nullable=True),
        sa.Column("first_step", sa.BigInteger(), nullable=True),
        sa.Column("last_step", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_attempts_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_attempts"),
        sa.UniqueConstraint("run_pk", "attempt_id", name="uq_attempts_run_pk_attempt_id"),
    )
    op.create_table(
        "writers",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("attempt_pk", _id(), nullable=True),
        sa.Column("writer_id", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("rank", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_seen_at", sa.Double(), nullable=True),
        sa.Column("spool_records", sa.BigInteger(), nullable=False),
        sa.Column("spool_bytes", sa.BigInteger(), nullable=False),
        sa.Column("spool_oldest_seconds", sa.Double(), nullable=False),
        sa.Column("dropped", sa.JSON(), nullable=False),
        sa.Column("has_backlog", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_pk"], ["attempts.id"], name="fk_writers_attempt_pk_attempts"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_writers_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_writers"),
        sa.UniqueConstraint("run_pk", "writer_id", name="uq_writers_run_pk_writer_id"),
    )
    op.create_index(
        "ix_writers_backlog",
        "writers",
        ["run_pk"],
        unique=False,
        sqlite_where=sa.text("has_backlog = 1"),
        postgresql_where=sa.text("has_backlog"),
    )
    op.create_table(
        "workers",
        sa.Column("id", _id(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("last_seen_at", sa.Double(), nullable=False),
        sa.Column("num_done", sa.BigInteger(), nullable=False),
        sa.Column("num_failed", sa.BigInteger(), nullable=False),
        sa.Column("job_pk", sa.BigInteger(), nullable=True),
        sa.Column("is_stopping", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
        sa.UniqueConstraint("name", name="uq_workers_name"),
    )
    op.create_index("ix_workers_last_seen_at", "workers", ["last_seen_at"], unique=False)


def _create_what_hangs_on_runs() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=True),
        sa.Column("attempt_pk", _id(), nullable=True),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("opened_step", sa.BigInteger(), nullable=True),
        sa.Column("resolved_step", sa.BigInteger(), nullable=True),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.Column("opened_at", sa.Double(), nullable=False),
        sa.Column("resolved_at", sa.Double(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("evidence", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_pk"], ["attempts.id"], name="fk_alerts_attempt_pk_attempts"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_alerts_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        sa.UniqueConstraint(
            "run_pk",
            "attempt_pk",
            "rule",
            "scope",
            "opened_step",
            name="uq_alerts_run_pk_attempt_pk_rule_scope_opened_step",
        ),
    )
    op.create_index("ix_alerts_open", "alerts", ["status", "rule"], unique=False)
    op.create_index(
        "ix_alerts_dropped",
        "alerts",
        ["run_pk", "id", "opened_step", "rule"],
        unique=False,
        sqlite_where=sa.text("rule = 'data_dropped'"),
        postgresql_where=sa.text("rule = 'data_dropped'"),
    )
    op.create_table(
        "batches",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("attempt_pk", _id(), nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("blob_key", sa.Text(), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("num_rollouts", sa.BigInteger(), nullable=False),
        sa.Column("policy_version", sa.Text(), nullable=True),
        sa.Column("scorer", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("logged_at", sa.Double(), nullable=False),
        sa.Column("shard_index", sa.BigInteger(), nullable=False),
        sa.Column("num_shards", sa.BigInteger(), nullable=False),
        sa.Column("job_pk", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_pk"], ["attempts.id"], name="fk_batches_attempt_pk_attempts"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_batches_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
        sa.UniqueConstraint("run_pk", "batch_id", name="uq_batches_run_pk_batch_id"),
    )
    op.create_index("ix_batches_run_pk_step", "batches", ["run_pk", "step"], unique=False)
    op.create_index("ix_batches_job_pk", "batches", ["job_pk"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_events_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_run_pk_id", "events", ["run_pk", "id"], unique=False)


def _create_results_and_jobs() -> None:
    op.create_table(
        "metric_points",
        sa.Column("run_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.String(length=200), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt_pk", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("logged_at", sa.Double(), nullable=False),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_metric_points_run_pk_runs"),
        sa.PrimaryKeyConstraint("run_pk", "scope", "metric", "step", "attempt_pk", name="pk_metric_points"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "batch_results",
        sa.Column("batch_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("attempt_pk", _id(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.Column("scorer", sa.JSON(), nullable=False),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("absent", sa.JSON(), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("filters", sa.JSON(), nullable=False),
        sa.Column("buckets", sa.JSON(), nullable=False),
        sa.Column("template_evidence", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_pk"], ["attempts.id"], name="fk_batch_results_attempt_pk_attempts"),
        sa.ForeignKeyConstraint(["batch_pk"], ["batches.id"], name="fk_batch_results_batch_pk_batches"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_batch_results_run_pk_runs"),
        sa.PrimaryKeyConstraint("batch_pk", name="pk_batch_results"),
    )
    op.create_index("ix_batch_results_run_pk_step", "batch_results", ["run_pk", "step"], unique=False)
    op.create_table(
        "evaluations",
        sa.Column("id", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("attempt_pk", _id(), nullable=True),
        sa.Column("batch_pk", _id(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("current", sa.Boolean(), nullable=False),
        sa.Column("superseded", sa.Boolean(), nullable=False),
        sa.Column("scorer", sa.JSON(), nullable=False),
        sa.Column("sampling", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("result", sa.JSON(), nullable=False),
        sa.Column("fold_state", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("fold_output", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("alert_moves", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("regime", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_pk"], ["attempts.id"], name="fk_evaluations_attempt_pk_attempts"),
        sa.ForeignKeyConstraint(["batch_pk"], ["batches.id"], name="fk_evaluations_batch_pk_batches"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_evaluations_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        sa.UniqueConstraint("batch_pk", "scope", name="uq_evaluations_batch_pk_scope"),
    )
    op.create_index(
        "ix_evaluations_run_pk_scope_step", "evaluations", ["run_pk", "scope", "step"], unique=False
    )
    op.create_index(
        "ix_evaluations_alert_moves",
        "evaluations",
        ["run_pk", "scope"],
        unique=False,
        sqlite_where=sa.text("alert_moves IS NOT NULL"),
        postgresql_where=sa.text("alert_moves IS NOT NULL"),
    )
    op.create_table(
        "late_folds",
        sa.Column("run_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("scope", sa.String(length=200), nullable=False),
        sa.Column("attempt_pk", _id(), autoincrement=False, nullable=False),
        sa.Column("from_step", sa.BigInteger(), nullable=True),
        sa.Column("next_step", sa.BigInteger(), nullable=True),
        sa.Column("noted_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_pk"], ["attempts.id"], name="fk_late_folds_attempt_pk_attempts"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_late_folds_run_pk_runs"),
        sa.PrimaryKeyConstraint("run_pk", "scope", "attempt_pk", name="pk_late_folds"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", _id(), nullable=False),
        sa.Column("batch_pk", _id(), nullable=False),
        sa.Column("run_pk", _id(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("score", sa.Double(), nullable=False),
        sa.Column("queued_at", sa.Double(), nullable=False),
        sa.Column("deferred", sa.Boolean(), nullable=False),
        sa.Column("starts", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("traceback", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["batch_pk"], ["batches.id"], name="fk_jobs_batch_pk_batches"),
        sa.ForeignKeyConstraint(["run_pk"], ["runs.id"], name="fk_jobs_run_pk_runs"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("batch_pk", name="uq_jobs_batch_pk"),
    )
    op.create_index(
        "ix_jobs_thinned",
        "jobs",
        ["finished_at"],
        unique=False,
        sqlite_where=sa.text("status = 'thinned'"),
        postgresql_where=sa.text("status = 'thinned'"),
    )
    op.create_index(
        "ix_jobs_lease_until",
        "jobs",
        ["lease_until"],
        unique=False,
        sqlite_where=sa.text("status = 'leased'"),
        postgresql_where=sa.text("status = 'leased'"),
    )
    op.create_index("ix_jobs_queue", "jobs", ["status", "score"], unique=False)
    op.create_index("ix_jobs_run_pk_status_score", "jobs", ["run_pk", "status", "score"], unique=False)
