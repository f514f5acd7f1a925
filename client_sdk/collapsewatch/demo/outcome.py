"""What the two runs of the demo came to: collected from the service, written as JSON, printed as a table."""

import datetime
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from collapsewatch.demo.service import ServiceReader

NUM_AVERAGED = 10
"""Values at each end of a series that its first and last number average over; an eighth of short ones."""
FIRST_TURN = ("retrieval_accuracy", "retrieval_chance", "retrieval_skill", "mi_seq", "conditional_entropy")
BATCH = ("reward", "reward_variance", "valid_reasoning_rate")
TRAINER = ("success", "entropy", "kl")
_ROWS = (
    ("retrieval_accuracy", "Retrieval accuracy"),
    ("mi_seq", "Mutual information, nats"),
    ("conditional_entropy", "H(Z|X), nats per token"),
    ("reward", "Reward"),
    ("success", "Held-out success (chance .25)"),
)


@dataclass(frozen=True)
class AlertOutcome:
    rule: str
    severity: str
    status: str
    step: int | None
    """Step of the evaluation that raised it; none of one that belongs to no step, such as a stall."""
    title: str
    message: str
    seconds: float
    """From the service being up to the alert being stored."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run began and ended."""

    variant: str
    run_id: str
    name: str
    project: str
    state: str
    last_step: int | None
    jobs: dict[str, int]
    scorer: dict[str, Any] | None
    regime: dict[str, Any] | None
    first_metrics: dict[str, float]
    """Means over the first values."""
    last_metrics: dict[str, float]
    """Means over the last values."""
    alerts: list[AlertOutcome] = field(default_factory=list)

    @property
    def first_alert_seconds(self) -> float | None:
        """From the service being up to the first warning or critical alert."""
        return min((alert.seconds for alert in self.alerts if alert.severity != "info"), default=None)


def read_outcome(
    reader: ServiceReader, run_id: str, variant: str, service_up: datetime.datetime
) -> RunOutcome:
    """The outcome of a run as the service knows it now."""
    run = reader.run(run_id)
    if run is None:
        raise ValueError(f"the service does not know run {run_id}")
    values: dict[str, list[float]] = {}
    for scope, metrics in (("first_turn", FIRST_TURN), ("batch", BATCH), ("trainer", TRAINER)):
        values |= reader.series(run_id, scope, metrics)
    return RunOutcome(
        variant=variant,
        run_id=run_id,
        name=run["name"],
        project=run["project"],
        state=run["state"],
        last_step=run["last_step"],
        jobs=run["jobs"],
        scorer=run["scorer"],
        regime=run["regime"],
        first_metrics={name: _mean(series[: _width(series)]) for name, series in values.items()},
        last_metrics={name: _mean(series[-_width(series) :]) for name, series in values.items()},
        alerts=[_alert_outcome(alert, service_up) for alert in reader.alerts(run_id)],
    )


def outcome_json(outcome: RunOutcome) -> dict[str, Any]:
    """The outcome as a JSON object."""
    return {**asdict(outcome), "first_alert_seconds": outcome.first_alert_seconds}


def outcome_table(outcomes: Sequence[RunOutcome]) -> Table:
    """The runs side by side, one column each."""
    table = Table(title="The two runs, from start to end", title_justify="left")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.name)
    for metric, title in _ROWS:
        chance = outcomes[0].last_metrics.get("retrieval_chance")
        if metric == "retrieval_accuracy" and chance is not None:
            title = f"{title} (chance {chance:.3f})"
        table.add_row(title, *(_from_to(outcome, metric) for outcome in outcomes))
    table.add_row("Regime", *(_regime(outcome) for outcome in outcomes))
    table.add_row("Alerts", *(_alerts(outcome) for outcome in outcomes))
    seconds = [outcome.first_alert_seconds for outcome in outcomes]
    table.add_row("First alert after", *("–" if each is None else f"{each:.0f} s" for each in seconds))
    return table


def _alert_outcome(alert: dict[str, Any], service_up: datetime.datetime) -> AlertOutcome:
    opened_at = datetime.datetime.fromisoformat(alert["opened_at"])
    return AlertOutcome(
        rule=alert["rule"],
        severity=alert["severity"],
        status=alert["status"],
        step=alert["opened_step"],
        title=alert["title"],
        message=alert["message"],
        seconds=round((opened_at - service_up).total_seconds(), 1),
    )


def _width(series: Sequence[float]) -> int:
    return max(1, min(NUM_AVERAGED, len(series) // 8))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _from_to(outcome: RunOutcome, metric: str) -> str:
    if metric not in outcome.last_metrics:
        return "–"
    return f"{outcome.first_metrics[metric]:.2f} → {outcome.last_metrics[metric]:.2f}"


def _regime(outcome: RunOutcome) -> str:
    return str(outcome.regime["regime"]).replace("_", " ") if outcome.regime else "–"


def _alerts(outcome: RunOutcome) -> str:
    return "\n".join(map(_told, outcome.alerts)) or "none"


def _told(alert: AlertOutcome) -> str:
    if alert.step is None:
        return f"{alert.severity}: {alert.title.lower()}"
    return f"{alert.severity} at step {alert.step}"
