"""What the API answers about alerts: the inbox, one item of it with its evidence, and the rules."""

from typing import Annotated, Literal

from pydantic import Field

from collapsewatch.contracts.base import WireModel
from collapsewatch.contracts.scoring import ScorerLabel, TemplateEvidence
from collapsewatch_server.alerts.custom import RuleText
from collapsewatch_server.reading.views import AlertView, Iso, SeriesView, View

Severity = Literal["info", "warning", "critical"]
State = Literal["open", "acknowledged", "snoozed", "resolved"]
Ended = Literal["rule", "hand", "superseded", "withdrawn", "switched_off"]
Change = Literal["opened", "escalated", "acknowledged", "snoozed", "snooze_ended", "reopened", "resolved"]


class ActionView(View):
    """Something that a person did."""

    kind: Literal["acknowledge", "snooze", "resolve", "reopen"]
    severity: Severity
    """What the item's severity was then: a graver alert that came later is open in spite of it."""
    at: Iso
    by: str
    note: str
    until: Iso | None
    """End of the snooze."""


class InboxItem(View):
    """One item of the inbox: an alert, and the graver ones that took its place one after another."""

    alert_id: int
    """Its newest alert; every alert of the item leads to it."""
    thread_id: int
    """Stays when a graver alert takes the place of this one."""
    run_id: str | None
    """None for what is about the service itself, as the next two."""
    run_name: str | None
    project: str | None
    rule: str
    scope: str
    severity: Severity
    """As the project's setting for the rule has it."""
    state: State
    ended: Ended | None
    """Why it is resolved: by its rule, by hand, because a later attempt replayed its step, because it never
    was once all steps had come, or because its rule was switched off."""
    snoozed_until: Iso | None
    opened_step: int | None
    """None for an alert about the run as it is now, such as a stall."""
    resolved_step: int | None
    opened_at: Iso
    """Of its first alert."""
    changed_at: Iso
    """When it last changed."""
    num_alerts: int
    """1 more than the times that it grew graver."""
    last_action: ActionView | None
    """What a person did last; none as long as nobody did anything."""
    title: str
    message: str


class StateCounts(View):
    """Number of items by state, under all filters but that of the state."""

    open: int = 0
    acknowledged: int = 0
    snoozed: int = 0
    resolved: int = 0


class Inbox(View):
    """A page of the inbox, newest first."""

    items: list[InboxItem]
    next_cursor: str | None
    """For the query `cursor` of the next page; none at the end."""
    counts: StateCounts
    rules: list[str]
    """Every rule that has an item, for the filter."""


class ChangeView(View):
    """One change of the item's state, as the channels were told of it."""

    change_id: int
    change: Change
    alert_id: int
    severity: Severity
    at: Iso
    by: str | None
    """None for its rule or the clock."""
    reason: Ended | None


class DrivingPrompt(View):
    """A prompt whose reasonings are traced back badly at the alert's step, and where they were found."""

    group_ids: list[str]
    preview: str
    accuracy: float
    chance: float
    baseline_accuracy: float | None
    """Mean over the baseline's evaluations that still know it under the same group; none without one."""
    num_rows: int
    mean_pmi: float | None
    """Nats."""
    taken_for: str | None
    """Group of the other prompt that its reasonings retrieve most often."""
    taken_for_share: float


class StepLink(View):
    """Where the alert's step can be read in full."""

    run_id: str
    step: int
    scope: str
    attempt_id: str
    batch_id: str


class AlertEvidence(View):
    """What was measured around the alert's moment."""

    step: int | None
    """None for an alert without a step; all below is empty then."""
    series: list[SeriesView]
    """The rule's metrics, up to 20 points before and after the step."""
    prompts: list[DrivingPrompt]
    """Those with the largest shortfall first; at most 12."""
    template_evidence: TemplateEvidence | None
    """What reasonings of different prompts share at the step."""
    scorer: ScorerLabel | None
    link: StepLink | None


class AlertDetail(InboxItem):
    """One item of the inbox with all that is known of it."""

    alerts: list[AlertView]
    """Oldest first: each took the place of the one before it."""
    actions: list[ActionView]
    """Oldest first."""
    changes: list[ChangeView]
    """Oldest first."""
    evidence_around: AlertEvidence


class ActedOn(View):
    """What became of the items."""

    items: list[InboxItem]
    num_changed: int
    """Those that were not so before."""


class RuleView(RuleText):
    """A rule of one's own as it is stored."""

    rule_id: int
    rule: str
    """What its alerts carry as `rule`."""
    created_at: Iso
    updated_at: Iso
    num_open: int
    """Items of the inbox that it holds open."""


class RuleList(View):
    rules: list[RuleView]


class Episode(View):
    """One alert that a rule would have opened."""

    opened_step: int
    resolved_step: int | None
    """None when it would still be open."""
    value: float
    """Of the metric where it opened."""
    limit: float
    """What the value was held against."""


class RunPreview(View):
    """What a rule would have said of one run."""

    run_id: str
    run_name: str
    project: str
    num_evaluations: int
    """Points of the metric that could be judged."""
    episodes: list[Episode]


class RulePreview(View):
    """What a rule would have said of the runs that are there."""

    runs: list[RunPreview]
    """Those that it is about and that have the metric, newest first."""
    num_runs: int
    """Runs that it is about."""
    is_cut: bool
    """Whether there are more runs than were looked at."""


class DetectorSettingView(View):
    """What a project makes of a rule that comes with the program."""

    project: str | None
    """None: every project without a setting of its own."""
    rule: str
    enabled: bool
    severity: Severity | None
    """Takes the place of the rule's own severities."""


class FalseAlarms(View):
    """How often a rule may open an alert on a run that is stable."""

    severity: Severity
    scope: str
    alpha: float
    """At most so many false alarms per evaluation, in the long run."""
    share: float
    """Of all that rules of this severity may have together."""


class DetectorView(View):
    """A rule that comes with the program, as it declares itself, and what was set for it."""

    rule: str
    title: str
    """Of its alerts; of several levels the gravest."""
    condition: str
    """When it opens."""
    metrics: list[str]
    """What it reads; empty for rules about the life of runs and of the service."""
    scope: str
    """`each` scope by itself, the whole `batch`, or the `service`."""
    severities: list[Severity]
    false_alarms: list[FalseAlarms]
    """None for what the clock says."""
    settings: list[DetectorSettingView]


class DetectorList(View):
    detectors: list[DetectorView]


class Imported(View):
    """What an import did."""

    created: list[str]
    """Names of new rules."""
    updated: list[str]
    """Names of rules that say something else now."""
    unchanged: list[str]
    num_detector_settings: int


class RuleFile(View):
    """The rules and the settings of detectors as a file."""

    toml: str


class Removed(View):
    removed: bool


By = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
Note = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00]*$")]


class Handling(WireModel):
    """Who does something to an alert, and why."""

    by: By = ""
    """A name, for the others who read it; where people sign in, it is theirs, whatever is given."""
    note: Note = ""


class Snoozing(Handling):
    """A time in which an alert is quiet."""

    seconds: Annotated[int, Field(ge=1, le=90 * 86_400)]
    """From now; at its end the alert tells of itself again if it is still open."""


class BulkHandling(Handling):
    """The same for several alerts at once."""

    alert_ids: Annotated[list[Annotated[int, Field(ge=1, lt=2**63)]], Field(min_length=1, max_length=500)]


class DetectorChoice(WireModel):
    """What a project makes of a rule that comes with the program."""

    project: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")] | None = None
    """None: every project without a setting of its own."""
    rule: Annotated[str, Field(min_length=1, max_length=200)]
    enabled: bool = True
    severity: Severity | None = None
    """Takes the place of the rule's own severities; none leaves them."""


class RuleImport(WireModel):
    """A file of rules, as an export wrote it or a person did."""

    toml: Annotated[str, Field(max_length=1_000_000)]
