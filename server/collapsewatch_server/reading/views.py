"""What the read API answers. Numbers travel with what they mean: interval, scorer, reason of absence."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collapsewatch.contracts.runs import RunState
from collapsewatch.contracts.scoring import (
    FilterPreview,
    GroupReward,
    Sampling,
    ScopeEvaluation,
    ScorerLabel,
    TemplateEvidence,
    VarianceBuckets,
)

JobStatus = Literal["queued", "leased", "done", "dead", "thinned"]
Iso = Annotated[str, Field(examples=["2026-01-31T12:00:00.000Z"])]
"""Time in ISO 8601, UTC."""


class View(BaseModel):
    """What all answers have in common."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RegimeView(View):
    """Where a run stands in the quadrant."""

    scope: str
    regime: str
    """`diverse_reasoning`, `template_collapse`, `compressed_reasoning`, `low_entropy_collapse`,
    `indeterminate` or `insufficient`."""
    reason: str
    step: int


class OpenAlerts(View):
    """Number of open alerts by severity."""

    critical: int = 0
    warning: int = 0
    info: int = 0


class Sparkline(View):
    """Retrieval skill of first turns, at most 60 points."""

    steps: list[int]
    values: list[float]


class RunSummary(View):
    """A run as it stands in the list."""

    run_id: str
    project: str
    name: str
    state: RunState
    config: dict[str, JsonValue]
    tags: list[str]
    notes: str
    """What people wrote about it."""
    archived: bool
    """Whether somebody put it away."""
    created_at: Iso
    updated_at: Iso
    last_seen_at: Iso | None
    """Last sign of life: a heartbeat of a living writer, or data."""
    last_step: int | None
    scorer: ScorerLabel | None
    """Who made the newest scores."""
    regime: RegimeView | None
    open_alerts: OpenAlerts
    latest: dict[str, float]
    """Newest value of the metrics that people look at first."""
    sparkline: Sparkline
    num_writers: int
    """Processes that log to the run, or did."""
    spool_records: int
    """What waits on their disks, in all."""
    spool_bytes: int
    spool_oldest_seconds: float
    dropped: dict[str, int]
    """What they dropped and what will never arrive, by reason."""


class RunList(View):
    runs: list[RunSummary]


class AttemptView(View):
    """One start of the training behind the run."""

    attempt_id: str
    """`default` for what was sent without naming an attempt."""
    started_at: Iso
    from_step: int | None
    """First step as it was declared."""
    first_step: int | None
    """First step that it replays or adds; none before anything was declared or sent."""
    last_step: int | None
    """Last step that arrived in it."""
    superseded_from: int | None
    """First of its steps that a later attempt replayed: from there on its values are not in the run's own
    series, and can be read with the query `attempt`. None when all are in it."""


class RunDetail(RunSummary):
    """A run as it stands on its own page."""

    scopes: list[str]
    metrics: dict[str, list[str]]
    """Names of the metrics by scope."""
    jobs: dict[JobStatus, int]
    """Number of batches, or of steps that came in shards, by where their scoring stands."""
    num_deferred: int
    """Of the queued ones, those that wait until nothing else does, because too many of the run waited."""
    baseline: dict[str, JsonValue] | None
    """Of the first turns, as far as it has come."""
    samplings: dict[str, Sampling]
    """By scope, what part of it was scored, and by which rule it was chosen; of its newest evaluation."""
    why_unscored: str | None
    """Why the newest batches are not scored, and none like them will be; none when some are."""
    filters: list[FilterPreview]
    """Of the newest scored batch."""
    groups: list[GroupReward]
    """Of the newest scored batch."""
    buckets: VarianceBuckets
    """Of the newest scored batch."""
    template_evidence: TemplateEvidence | None
    """Of the newest scored batch; none when it could not be had, see `absent`."""
    absent: dict[str, str]
    """Metric of the newest scored batch that could not be computed, and why."""
    attempts: list[AttemptView]
    """In the order in which they started."""


class Series(View):
    """Values of one metric in step order; `low` and `high` bound the 95 % interval where there is one."""

    steps: list[int]
    values: list[float]
    low: list[float | None] | None
    """None when no point has an interval."""
    high: list[float | None] | None
    num_points: int
    """Of the steps that were asked for; more than came when the series was cut down."""


class SeriesView(View):
    scope: str
    series: dict[str, Series]


class TrajectoryPoint(View):
    """One evaluation in the quadrant."""

    step: int
    diversity: float | None
    """H(Z|X) over its baseline, over its running mean while there is no baseline."""
    diversity_low: float | None
    diversity_high: float | None
    dependence: float | None
    """Retrieval skill: 0 chance, 1 perfect."""
    dependence_low: float | None
    dependence_high: float | None
    regime: str
    reason: str
    scorer: str


class TrajectoryView(View):
    scope: str
    points: list[TrajectoryPoint]
    num_points: int
    """Of the steps that were asked for; more than came when the way was cut down."""
    thresholds: dict[str, float] | None
    """Limits of the quadrant's regions, once the baseline is complete."""
    baseline: dict[str, JsonValue] | None


class AlertView(View):
    """An alert with the values that caused it."""

    alert_id: int
    rule: str
    scope: str
    severity: Literal["info", "warning", "critical"]
    status: Literal["open", "resolved"]
    opened_step: int | None
    """None for an alert about the run as it is now, such as a stall."""
    resolved_step: int | None
    attempt_id: str | None
    """Attempt in which it was opened; none for an alert without a step."""
    superseded: bool
    """Whether a later attempt replayed the step at which it was opened: it is history then, and not open."""
    opened_at: Iso
    resolved_at: Iso | None
    title: str
    message: str
    evidence: dict[str, JsonValue]


class AlertList(View):
    alerts: list[AlertView]


class StepView(View):
    """All that is known of one step in one scope."""

    step: int
    attempt_id: str
    """Attempt that it belongs to."""
    policy_version: str | None
    """Which policy wrote the batch, as the trainer named it."""
    evaluation: ScopeEvaluation
    scorer: ScorerLabel
    groups: list[GroupReward]
    filters: list[FilterPreview]
    buckets: VarianceBuckets
    template_evidence: TemplateEvidence | None


class JobView(View):
    """The scoring of one batch."""

    job_id: int
    batch_id: str
    step: int
    status: JobStatus
    starts: int
    error: str | None
    traceback: str | None
    finished_at: Iso | None


class JobList(View):
    jobs: list[JobView]


class JobStatusView(View):
    status: JobStatus


class Accepted(View):
    accepted: bool
    """False when the job had a good result before; nothing was changed."""


class ProjectView(View):
    id: int
    name: str
    num_runs: int
    role: Literal["viewer", "editor", "admin"]
    """What the caller may do in it."""


class ProjectList(View):
    projects: list[ProjectView]


class MetricInfoView(View):
    title: str
    unit: str
    explanation: str
    formula: str


class MetricInfoList(View):
    metrics: dict[str, MetricInfoView]


class Check(View):
    ok: bool
    seconds: float
    """How long the answer took."""
    message: str = ""


class Health(View):
    status: Literal["ok"] = "ok"
    version: str


class Readiness(View):
    status: Literal["ready", "degraded", "not_ready"]
    """`degraded`: Redis is away or no worker runs; scores and live events come later, and nothing is lost."""
    checks: dict[str, Check]


def iso(seconds: float) -> str:
    """The time, given in seconds since 1970, as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
