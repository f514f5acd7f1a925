"""What the API answers where several runs are laid over one another."""

from typing import Literal

from pydantic import JsonValue

from collapsewatch.contracts.runs import RunState
from collapsewatch.contracts.scoring import Sampling, ScorerLabel
from collapsewatch_server.reading.views import Iso, OpenAlerts, RegimeView, TrajectoryPoint, View

Axis = Literal["step", "time", "tokens"]


class EndValue(View):
    """Where a series of one run stands."""

    step: int
    value: float
    """The newest value."""
    low: float | None
    """Bounds its 95 % interval where the metric has one, as `high`."""
    high: float | None
    recent_mean: float
    """Mean of the newest values, at most ten."""
    num_recent: int


class ComparedRun(View):
    """A run as it stands among others."""

    run_id: str
    project: str
    name: str
    state: RunState
    config: dict[str, JsonValue]
    tags: list[str]
    created_at: Iso
    last_seen_at: Iso | None
    last_step: int | None
    open_alerts: OpenAlerts
    scopes: list[str]
    metrics: dict[str, list[str]]
    """Names of the metrics by scope."""
    scorer: ScorerLabel | None
    """Who made the newest scores of the scope that is compared; the next ones are of it as well."""
    regime: RegimeView | None
    sampling: Sampling | None
    temperature: float | None
    template: str | None
    absent: dict[str, str]
    """Metric of its newest evaluation that could not be computed, and why."""
    thresholds: dict[str, float] | None
    """Limits of the quadrant's regions, once the run's baseline is complete."""
    newest: TrajectoryPoint | None
    """Where it stands in the quadrant."""
    ends: dict[str, dict[str, EndValue]]
    """By scope and metric."""
    tokens_from: str | None
    """The trainer's value that counts its tokens; none when there is no such."""


class EndMean(View):
    """What the newest values of a group's runs come to."""

    mean: float
    low: float | None
    """Bounds the 95 % interval of the mean over the runs (Student's t), as `high`; none for a single run."""
    high: float | None
    num_runs: int


class RunGroup(View):
    """Runs whose settings are the same."""

    label: str
    settings: dict[str, JsonValue]
    """What tells the group from the others."""
    run_ids: list[str]
    ends: dict[str, dict[str, EndMean]]
    """By scope and metric."""


class ComparedRuns(View):
    scope: str
    runs: list[ComparedRun]
    """In the order in which they were asked for."""
    missing: list[str]
    """Ids of which there is no run."""
    groups: list[RunGroup]
    """In the order of their first runs; none when they were not asked for."""


class ComparedSeries(View):
    """One metric of one run in step order."""

    run_id: str
    steps: list[int]
    places: list[float] | None
    """Where the steps stand on an axis of seconds or tokens; none on the axis of steps."""
    values: list[float]
    low: list[float | None] | None
    """Bounds the 95 % interval where there is one, as `high`; none when no point has one."""
    high: list[float | None] | None


class GroupSeries(View):
    """Mean of one metric over a group's runs, where at least one of them has a value."""

    group: int
    """Position of the group."""
    places: list[float]
    """Steps, seconds or tokens."""
    mean: list[float]
    low: list[float | None]
    """Bounds the 95 % interval of the mean over the runs (Student's t), as `high`; none for a single run."""
    high: list[float | None]
    lowest: list[float]
    """Of the group's runs, as `highest`."""
    highest: list[float]
    num_runs: list[int]
    """How many of them have a value there."""


class ComparedSeriesView(View):
    scope: str
    axis: Axis
    series: dict[str, list[ComparedSeries]]
    """By metric, in the order of the runs."""
    groups: dict[str, list[GroupSeries]]
    """By metric."""
    unplaced: dict[str, str]
    """Runs that have no place on the axis, and why."""


class RunPath(View):
    """One run's way through the quadrant, in step order, in at most as many points as were asked for."""

    run_id: str
    steps: list[int]
    diversity: list[float | None]
    """H(Z|X) over its baseline; none where it is not known."""
    dependence: list[float]
    """Retrieval skill."""


class GroupPath(View):
    """The mean way of a group's runs through the quadrant, over their steps."""

    group: int
    steps: list[float]
    diversity: list[float | None]
    dependence: list[float]
    num_runs: list[int]


class ComparedPaths(View):
    scope: str
    paths: list[RunPath]
    groups: list[GroupPath]
