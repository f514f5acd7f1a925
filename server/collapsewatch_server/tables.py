"""The tables. Times are seconds since 1970 by the database's clock, so that leases of several hosts agree.

`runs.id` is the run inside the database, `runs.run_id` the id that clients chose. Several batches of one
step are legal: all are kept, and within an attempt the one logged last stands for the step. What a later
attempt replays is marked `superseded` and kept as well.
"""

from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import JSON, Double, String, Text

# SQLite counts up by itself only in an INTEGER primary key.
RowId = BigInteger().with_variant(Integer(), "sqlite")
_Id = RowId
Json = dict[str, Any]


class Base(DeclarativeBase):
    """What all tables share: names of constraints that migrations can rely on."""

    metadata_naming = {  # noqa: RUF012
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
    type_annotation_map = {  # noqa: RUF012 (SQLAlchemy reads it from the class)
        int: BigInteger(),
        float: Double(),
        str: Text(),
        Json: JSON(),
        list[Any]: JSON(),
    }


Base.metadata.naming_convention = Base.metadata_naming


class Project(Base):
    __tablename__ = "projects"

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[float]


class ApiKey(Base):
    """A key as it can be checked, never as it can be used."""

    __tablename__ = "api_keys"

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    prefix: Mapped[str] = mapped_column(index=True)
    """Start of the key, by which people and the look-up know it."""
    key_hash: Mapped[str] = mapped_column(unique=True)
    """SHA-256; the key has 256 random bits, so nothing slower is needed."""
    purpose: Mapped[str]
    label: Mapped[str]
    project_id: Mapped[int | None] = mapped_column(ForeignKey("projects.id"))
    """The only project it is good for; any project when absent."""
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    revoked_at: Mapped[float | None]


class Run(Base):
    __tablename__ = "runs"
    __table_args__ = (
        Index(
            "ix_runs_deleted",
            "id",
            sqlite_where=text("deleted_at IS NOT NULL"),
            postgresql_where=text("deleted_at IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    run_id: Mapped[str] = mapped_column(unique=True)
    project_id: Mapped[int] = mapped_column(ForeignKey("projects.id"), index=True)
    name: Mapped[str]
    """What people read; they may change it."""
    given_name: Mapped[str]
    """What the trainer calls it. Whoever resumes the run says this name, whatever people made of it."""
    config: Mapped[Json]
    tags: Mapped[list[Any]]
    scorer: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    state: Mapped[str]
    """`running`, `stalled`, `crashed`, `finished` or `failed`."""
    last_step: Mapped[int | None]
    created_at: Mapped[float]
    updated_at: Mapped[float]
    last_seen_at: Mapped[float | None]
    """Last sign of life: a heartbeat of a living writer, or data."""
    last_data_at: Mapped[float | None]
    """Last batch or scalars: a trainer that hangs still has a heartbeat."""
    notes: Mapped[str] = mapped_column(default="")
    """What people wrote about it."""
    archived_at: Mapped[float | None]
    """When somebody put it away; it is complete, and left out of the list."""
    deleted_at: Mapped[float | None]
    """When somebody deleted it. Nobody finds it by its id any more, and its rows go bit by bit."""


class Attempt(Base):
    """One start of the training behind a run; ordered by (`started_at`, `attempt_id`)."""

    __tablename__ = "attempts"
    __table_args__ = (UniqueConstraint("run_pk", "attempt_id"),)

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    attempt_id: Mapped[str]
    started_at: Mapped[float]
    """By the trainer's clock; by the database's for an attempt that no client named."""
    from_step: Mapped[int | None]
    """As the client declared it."""
    first_step: Mapped[int | None]
    """It supersedes earlier attempts from this step on: what was declared, else the first that arrived."""
    last_step: Mapped[int | None]
    created_at: Mapped[float]


class Writer(Base):
    """One process that logs to a run, and what waits in its spool."""

    __tablename__ = "writers"
    __table_args__ = (
        UniqueConstraint("run_pk", "writer_id"),
        Index(
            "ix_writers_backlog",
            "run_pk",
            sqlite_where=text("has_backlog = 1"),
            postgresql_where=text("has_backlog"),
        ),
    )

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    attempt_pk: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    writer_id: Mapped[str]
    host: Mapped[str | None]
    rank: Mapped[int | None]
    state: Mapped[str]
    """`running`, `finished` or `failed`, as it said itself; `gone` when only what it left has come."""
    last_seen_at: Mapped[float | None]
    spool_records: Mapped[int]
    spool_bytes: Mapped[int]
    spool_oldest_seconds: Mapped[float]
    dropped: Mapped[Json]
    has_backlog: Mapped[bool] = mapped_column(default=False)
    """Whether something waits, or was ever dropped."""


class WorkerRow(Base):
    """One worker process, by its own word."""

    __tablename__ = "workers"

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    host: Mapped[str]
    device: Mapped[str]
    version: Mapped[str]
    started_at: Mapped[float]
    last_seen_at: Mapped[float] = mapped_column(index=True)
    num_done: Mapped[int]
    num_failed: Mapped[int]
    job_pk: Mapped[int | None]
    is_stopping: Mapped[bool]


class Batch(Base):
    """One accepted batch; its rollouts lie in the blob store."""

    __tablename__ = "batches"
    __table_args__ = (
        UniqueConstraint("run_pk", "batch_id"),
        Index(None, "run_pk", "step"),
        Index(None, "job_pk"),
        # Without it, each attempt that goes has the whole table read for rows that still name it.
        Index(None, "attempt_pk"),
        # By it a project's retention finds what is due, without a look at what is not.
        Index(
            "ix_batches_text",
            "run_pk",
            "created_at",
            sqlite_where=text("blob_key <> ''"),
            postgresql_where=text("blob_key <> ''"),
        ),
    )

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    """Order of acceptance."""
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    attempt_pk: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    batch_id: Mapped[str]
    step: Mapped[int]
    content_hash: Mapped[str]
    blob_key: Mapped[str]
    """Empty once its text was removed, because its project does not keep it any longer."""
    num_bytes: Mapped[int]
    num_rollouts: Mapped[int]
    policy_version: Mapped[str | None]
    scorer: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    """Who shall score it, decided when it was accepted; the default scorer when absent."""
    logged_at: Mapped[float] = mapped_column(default=0.0)
    """Of several batches of a step in one attempt, the largest (`logged_at`, `batch_id`) stands."""
    shard_index: Mapped[int] = mapped_column(default=0)
    num_shards: Mapped[int] = mapped_column(default=1)
    job_pk: Mapped[int | None]
    """The job that scores it; none while shards of its step are still to come."""
    created_at: Mapped[float]


class JobRow(Base):
    """One batch to score. The lease is here and nowhere else."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_queue", "status", "score"),
        Index(None, "run_pk", "status", "score"),
        Index(
            "ix_jobs_lease_until",
            "lease_until",
            sqlite_where=text("status = 'leased'"),
            postgresql_where=text("status = 'leased'"),
        ),
        Index(
            "ix_jobs_thinned",
            "finished_at",
            sqlite_where=text("status = 'thinned'"),
            postgresql_where=text("status = 'thinned'"),
        ),
    )

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    batch_pk: Mapped[int] = mapped_column(ForeignKey("batches.id"), unique=True)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    status: Mapped[str]
    """`queued`, `leased`, `done`, `dead`, or `thinned` (laid aside unscored; can be queued again)."""
    score: Mapped[float]
    """Place in the queue, smallest first; a job that failed keeps it."""
    queued_at: Mapped[float]
    """Since when it waits; a retry begins anew."""
    deferred: Mapped[bool] = mapped_column(default=False)
    """Behind everything that is not deferred: its run had too many waiting."""
    starts: Mapped[int]
    owner: Mapped[str | None]
    lease_until: Mapped[float | None]
    error: Mapped[str | None]
    traceback: Mapped[str | None]
    created_at: Mapped[float]
    finished_at: Mapped[float | None]


class JobClaim(Base):
    """A key with which a job that is not done was claimed: only its holder may say what came of it."""

    __tablename__ = "job_claims"

    job_id: Mapped[int] = mapped_column(
        ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    key_id: Mapped[int] = mapped_column(
        ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )


class BatchResult(Base):
    """What a worker found out about a whole batch."""

    __tablename__ = "batch_results"
    __table_args__ = (Index(None, "run_pk", "step"), Index(None, "attempt_pk"))

    batch_pk: Mapped[int] = mapped_column(ForeignKey("batches.id"), primary_key=True, autoincrement=False)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    attempt_pk: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    step: Mapped[int]
    current: Mapped[bool] = mapped_column(default=True)
    """Whether its batch stands for its step within its attempt."""
    superseded: Mapped[bool] = mapped_column(default=False)
    """Whether a later attempt replayed its step."""
    scorer: Mapped[Json]
    metrics: Mapped[Json]
    absent: Mapped[Json]
    groups: Mapped[list[Any]]
    filters: Mapped[list[Any]]
    buckets: Mapped[Json]
    template_evidence: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    seconds: Mapped[float]
    created_at: Mapped[float]


class BatchTokens(Base):
    """Where the log-probs lie that a scorer gave to single tokens of a batch: too many for the database."""

    __tablename__ = "batch_tokens"
    __table_args__ = (Index(None, "run_pk"),)

    batch_pk: Mapped[int] = mapped_column(ForeignKey("batches.id"), primary_key=True, autoincrement=False)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    blob_key: Mapped[str]


class EvaluationRow(Base):
    """One scope of one scored batch, and what the fold in step order made of it."""

    __tablename__ = "evaluations"
    __table_args__ = (
        UniqueConstraint("batch_pk", "scope"),
        Index(None, "run_pk", "scope", "step"),
        Index(None, "attempt_pk"),
        Index(
            "ix_evaluations_alert_moves",
            "run_pk",
            "scope",
            sqlite_where=text("alert_moves IS NOT NULL"),
            postgresql_where=text("alert_moves IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"))
    attempt_pk: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    batch_pk: Mapped[int] = mapped_column(ForeignKey("batches.id"))
    step: Mapped[int]
    scope: Mapped[str]
    current: Mapped[bool]
    """Whether its batch stands for its step within its attempt."""
    superseded: Mapped[bool] = mapped_column(default=False)
    """Whether a later attempt replayed its step."""
    scorer: Mapped[Json]
    sampling: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    """What part of the scope was scored, also within `result`, which is too large to read for this alone."""
    result: Mapped[Json]
    fold_state: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    fold_output: Mapped[Json | None] = mapped_column(JSON(none_as_null=True))
    alert_moves: Mapped[list[Any] | None] = mapped_column(JSON(none_as_null=True))
    """Alerts that opened or were resolved here, in the attempt's lineage; none at nearly every step."""
    regime: Mapped[str | None]
    reason: Mapped[str | None]


class LateFold(Base):
    """From which step on the evaluations of one attempt have to be folded again, because of late results."""

    __tablename__ = "late_folds"

    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True, autoincrement=False)
    scope: Mapped[str] = mapped_column(String(200), primary_key=True)
    attempt_pk: Mapped[int] = mapped_column(ForeignKey("attempts.id"), primary_key=True, autoincrement=False)
    from_step: Mapped[int | None]
    """Where the next pass begins."""
    next_step: Mapped[int | None]
    """Where the pass that goes on has come to; none while there is none, or it is through here."""
    noted_at: Mapped[float]


class MetricPoint(Base):
    """Clustered by run, scope and metric, so that a series is one range scan."""

    __tablename__ = "metric_points"
    __table_args__ = {"sqlite_with_rowid": False}  # noqa: RUF012

    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True, autoincrement=False)
    scope: Mapped[str] = mapped_column(String(200), primary_key=True)
    metric: Mapped[str] = mapped_column(String(200), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt_pk: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, default=0)
    value: Mapped[float]
    low: Mapped[float | None]
    high: Mapped[float | None]
    logged_at: Mapped[float] = mapped_column(default=0.0)
    """Of the trainer's own values: of several of one step the one logged last counts. Else 0."""
    superseded: Mapped[bool] = mapped_column(default=False)
    """Whether a later attempt replayed its step."""


class EventRow(Base):
    """Something that the page may want to know. Rows never change; the id is the SSE id."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "run_pk", "id"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(_Id, primary_key=True)
    run_pk: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    """None for what concerns no single run."""
    kind: Mapped[str]
    data: Mapped[Json]
    created_at: Mapped[float]
