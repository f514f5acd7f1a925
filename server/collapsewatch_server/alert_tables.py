"""Tables of alerts: what the rules say, and what people and channels know of it.

A **thread** is one item of the inbox: an alert, and the graver ones that took its place one after another.
Rules are applied anew whenever a late step arrives; what people did hangs on the thread, which stays.
"""

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from collapsewatch_server.tables import Base, Json, RowId


class AlertRow(Base):
    """One alert of one rule, with the values that caused it.

    Alerts of the folds have a step, and there is one for each (run, attempt, rule, scope, step). Alerts of
    the watch (stalls, workers, queue) have no step; their scope is what they are about.
    """

    __tablename__ = "alerts"
    __table_args__ = (
        UniqueConstraint("run_pk", "attempt_pk", "rule", "scope", "opened_step"),
        Index("ix_alerts_open", "status", "rule"),
        Index(
            "ix_alerts_dropped",
            "run_pk",
            "id",
            "opened_step",
            "rule",
            sqlite_where=text("rule = 'data_dropped'"),
            postgresql_where=text("rule = 'data_dropped'"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    run_pk: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    """None for an alert about the service itself."""
    attempt_pk: Mapped[int | None] = mapped_column(ForeignKey("attempts.id"))
    rule: Mapped[str]
    scope: Mapped[str]
    severity: Mapped[str]
    status: Mapped[str]
    opened_step: Mapped[int | None]
    resolved_step: Mapped[int | None]
    superseded: Mapped[bool] = mapped_column(default=False)
    """Whether a later attempt replayed the step at which it was opened: it is history then, and not open."""
    withdrawn: Mapped[bool] = mapped_column(default=False)
    """Seen in step order, with all that came late, it never was. The row stays for what people did to it."""
    thread_pk: Mapped[int | None] = mapped_column(index=True)
    """The inbox's item that it belongs to, set in the transaction that stores it. It has no foreign key,
    since the item names its newest alert."""
    opened_at: Mapped[float]
    resolved_at: Mapped[float | None]
    title: Mapped[str]
    message: Mapped[str]
    evidence: Mapped[Json]


class AlertThread(Base):
    """One item of the inbox, as it stands."""

    __tablename__ = "alert_threads"
    __table_args__ = (
        Index(None, "alert_id"),
        Index(None, "state", "alert_id"),
        Index(None, "run_pk", "state"),
        Index(
            "ix_alert_threads_snoozed",
            "snoozed_until",
            sqlite_where=text("state = 'snoozed'"),
            postgresql_where=text("state = 'snoozed'"),
        ),
        Index(
            "ix_alert_threads_left_behind",
            "id",
            sqlite_where=text("ended = 'superseded' AND told_state <> 'resolved'"),
            postgresql_where=text("ended = 'superseded' AND told_state <> 'resolved'"),
        ),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    run_pk: Mapped[int | None] = mapped_column(ForeignKey("runs.id"))
    """None for what is about the service itself."""
    alert_id: Mapped[int] = mapped_column(ForeignKey("alerts.id"))
    """Its newest alert."""
    rule: Mapped[str]
    severity: Mapped[str]
    """Of the newest alert, or what the project's setting for the rule makes of it."""
    told_state: Mapped[str | None]
    """The state that its changes have told; none while they have told nothing. A thread whose steps a later
    attempt replays says nothing of it."""
    told_severity: Mapped[str | None]
    """The gravest that its changes have told."""
    state: Mapped[str]
    """`open`, `acknowledged`, `snoozed` or `resolved`: by the rule, the actions and the clock."""
    ended: Mapped[str | None]
    """Why it is resolved: `rule`, `hand`, `superseded`, `withdrawn` (seen in step order it never was) or
    `switched_off`."""
    snoozed_until: Mapped[float | None]
    num_changes: Mapped[int]


class AlertAction(Base):
    """Something that a person did to a thread."""

    __tablename__ = "alert_actions"
    __table_args__ = (Index(None, "thread_pk", "id"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    thread_pk: Mapped[int] = mapped_column(ForeignKey("alert_threads.id"))
    alert_id: Mapped[int] = mapped_column(ForeignKey("alerts.id"))
    """The newest alert at that time."""
    kind: Mapped[str]
    """`acknowledge`, `snooze`, `resolve` or `reopen`."""
    severity: Mapped[str]
    """What the person saw: an action says nothing about a graver alert that comes after it."""
    over_rule: Mapped[bool]
    """A `reopen` of what the rule had resolved: from then on only a person resolves it."""
    at: Mapped[float]
    by: Mapped[str]
    note: Mapped[str]
    until: Mapped[float | None]
    """End of a snooze."""


class AlertChange(Base):
    """The outbox: one row for each change of a thread's state, written with the change itself.

    On PostgreSQL rows become visible when their transactions commit, which is not the order of the ids:
    readers look for `planned_at IS NULL`, never for ids above the last one that they saw.
    """

    __tablename__ = "alert_changes"
    __table_args__ = (
        UniqueConstraint("thread_pk", "ordinal"),
        Index(None, "alert_id"),
        Index(
            "ix_alert_changes_unplanned",
            "id",
            sqlite_where=text("planned_at IS NULL"),
            postgresql_where=text("planned_at IS NULL"),
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    thread_pk: Mapped[int] = mapped_column(ForeignKey("alert_threads.id"))
    ordinal: Mapped[int]
    """Which change of its thread it is, from 1: no change is written twice."""
    alert_id: Mapped[int] = mapped_column(ForeignKey("alerts.id"))
    change: Mapped[str]
    """`opened`, `escalated`, `acknowledged`, `snoozed`, `snooze_ended`, `reopened` or `resolved`."""
    severity: Mapped[str]
    at: Mapped[float]
    by: Mapped[str | None]
    """Who did it; none for a rule or the clock."""
    reason: Mapped[str | None]
    """Of `resolved`: what `alert_threads.ended` says."""
    planned_at: Mapped[float | None]
    """When deliveries to the channels were made of it; none until then."""


class AlertRule(Base):
    """A rule that people wrote: a metric against a threshold, or against the run's baseline."""

    __tablename__ = "alert_rules"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    metric: Mapped[str]
    scope: Mapped[str]
    operator: Mapped[str]
    """`<`, `<=`, `>`, `>=`, or `drop` and `rise` by a share of the baseline."""
    threshold: Mapped[float]
    num_evaluations: Mapped[int]
    """In a row."""
    severity: Mapped[str]
    project: Mapped[str | None]
    """Only runs of this project; so with the next two. None: all."""
    tag: Mapped[str | None]
    run_id: Mapped[str | None]
    enabled: Mapped[bool]
    created_at: Mapped[float]
    updated_at: Mapped[float]


class AlertRuleStart(Base):
    """From which step on a rule may open alerts of a run that was there before it was saved."""

    __tablename__ = "alert_rule_starts"

    rule_pk: Mapped[int] = mapped_column(ForeignKey("alert_rules.id"), primary_key=True, autoincrement=False)
    run_pk: Mapped[int] = mapped_column(ForeignKey("runs.id"), primary_key=True, autoincrement=False)
    from_step: Mapped[int]


class DetectorSetting(Base):
    """What a project, or the whole service, makes of a rule that comes with the program."""

    __tablename__ = "detector_settings"

    project: Mapped[str] = mapped_column(primary_key=True)
    """Empty for all projects that have no setting of their own."""
    rule: Mapped[str] = mapped_column(primary_key=True)
    enabled: Mapped[bool]
    severity: Mapped[str | None]
    """Takes the place of the rule's own."""
    updated_at: Mapped[float]
