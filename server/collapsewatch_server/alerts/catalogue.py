"""Every rule that comes with the service, as it declares itself: for documentation, API and page."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_server.alerts import budget, rules, watch
from collapsewatch_server.alerts.budget import Share
from collapsewatch_server.alerts.series_rules import SERIES_RULES
from collapsewatch_server.alerts.series_words import WORDS
from collapsewatch_server.alerts.transitions import RANK, Severity

BY_EVIDENCE = "evidence over evaluations reaches 1/α"
BY_CLOCK = "a state of the service, read by the clock; no test, so no rate"


@dataclass(frozen=True)
class Detector:
    """What one rule needs, says and promises."""

    name: str
    metrics: tuple[str, ...]
    """That it cannot do without; empty for a rule that reads no metric."""
    severities: tuple[Severity, ...]
    """That it can have, the lowest first."""
    scope: str
    """`each` scope by itself, the whole `batch`, or the `service`."""
    wording: str
    """Title of its alerts; of several levels the highest."""
    condition: str
    """When it opens, as a clause."""

    def shares(self, scope: str = FIRST_TURN_SCOPE) -> list[Share]:
        """Its parts of the error budget, one for each severity that has a rate."""
        return [
            budget.share_of(self.name, severity, scope, of_batch=self.scope == "batch")
            for severity in self.severities
            if self.name in budget.SHARES[severity]
        ]

    def to_json(self) -> dict[str, Any]:
        """As the API answers it."""
        return {
            "name": self.name,
            "metrics": list(self.metrics),
            "severities": list(self.severities),
            "scope": self.scope,
            "wording": self.wording,
            "condition": self.condition,
            "false_alarms": [
                {"severity": one.severity, "scope": one.scope, "alpha": one.alpha, "share": one.share}
                for one in self.shares()
            ],
        }


_CONDITIONS: Mapping[str, str] = MappingProxyType(
    {
        "mutual_information_fall": "below 0.5 × baseline",
        "mutual_information_rise": "above 1.5 × baseline",
        "reasoning_entropy_collapse": "below 0.5 × baseline",
        "reasoning_entropy_explosion": "above 2 × baseline",
        "reward_drop": "below baseline by half its spread within a group and a fifth of its level",
        "success_drop": "below 0.7 × baseline",
        "zero_variance_excess": "0.15 above baseline and above what the success rate explains",
        "reasoning_length_explosion": "above 2 × baseline",
        "reasoning_length_shrinkage": "below 0.5 × baseline",
    }
)
_WATCHED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "run_stalled": ("The run has stalled", "no sign of life for `stall_seconds`"),
        "run_crashed": ("The run has crashed", "no sign of life for `crash_seconds`"),
        "no_new_steps": ("No new steps", "no data for ten times the usual gap between steps"),
        "spool_backlog": ("Data waits on the trainer's disk", "the oldest waits longer than `lag_seconds`"),
        "data_dropped": (
            "Data was dropped on the trainer",
            "the SDK counts what it could not send, such as values that are NaN or infinite",
        ),
        "batches_dead": ("Batches could not be scored", "three starts of a job failed"),
        "batches_deferred": ("Older batches are put off", "a run sends faster than workers score"),
        "batches_thinned": ("Batches are laid aside unscored", "too many of them wait"),
        "queue_lag": ("Scoring lags behind", "the oldest job waits longer than `lag_seconds`"),
        "no_worker": ("No worker is running", "jobs wait and no worker gives a sign of life"),
        "worker_gone": (
            "A worker has vanished",
            "no sign of life for `worker_seconds`, and no word that it would stop",
        ),
        watch.CHANNEL_RULE: ("A channel does not work", "a message to it was given up"),
    }
)


def _series() -> Iterable[Detector]:
    for rule in SERIES_RULES:
        needed = (rule.metric, "success") if rule.name == "zero_variance_excess" else (rule.metric,)
        yield Detector(
            rule.name,
            needed,
            (rule.severity,),
            "batch" if rule.of_batch else "each",
            WORDS[rule.name].title,
            _CONDITIONS[rule.name],
        )


def _watch() -> Iterable[Detector]:
    for name, severity in watch.SEVERITIES.items():
        title, condition = _WATCHED[name]
        yield Detector(name, (), (severity,), "service", title, condition)


DETECTORS: Mapping[str, Detector] = MappingProxyType(
    {
        detector.name: detector
        for detector in (
            Detector(
                rules.DEPENDENCE_RULE,
                ("retrieval_skill",),
                ("info", "warning", "critical"),
                "each",
                "Input dependence fell",
                "below 0.7 × baseline; critical below 0.5 × and no dependence left to be shown",
            ),
            Detector(
                rules.VALIDITY_RULE,
                ("valid_reasoning_rate",),
                ("warning", "critical"),
                "batch",
                "Reasoning is often missing or not closed",
                "below 0.9, clearly in two evaluations in a row or by many together; critical below 0.8",
            ),
            *_series(),
            *_watch(),
        )
    }
)
"""By name."""


def error_budget(scopes: Iterable[str]) -> list[Share]:
    """What every rule may use in a run with these scopes, the gravest severity first.

    Their sum stays within `budget.TOTAL` whatever the scopes are.
    """
    found: list[Share] = []
    for detector in DETECTORS.values():
        for scope in [FIRST_TURN_SCOPE] if detector.scope == "batch" else scopes:
            found += detector.shares(scope)
    return sorted(found, key=lambda one: (-RANK[one.severity], one.rule, one.scope))


def markdown_table() -> str:
    """The rules of the folds with their budget, as docs/metrics.md shows them."""
    lines = ["| rule | needs | severity | opens | false alarms at most |", "|---|---|---|---|---|"]
    for detector in DETECTORS.values():
        if detector.scope == "service":
            continue
        rates = ", ".join(
            f"{one.severity} 1 in {round(one.run_length):,}" for one in reversed(detector.shares())
        )
        metrics = ", ".join(f"`{metric}`" for metric in detector.metrics)
        severities = ", ".join(detector.severities)
        lines.append(f"| `{detector.name}` | {metrics} | {severities} | {detector.condition} | {rates} |")
    return "\n".join(lines)
