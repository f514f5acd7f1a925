"""The alerts of one scope of a run, as they follow from what the alert rules said along the lineages.

Pure: what was said and what is stored are handed in, and what has to be stored is handed out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.attempts import Lineages
from collapsewatch_server.tables import Json

Key = tuple[int, str, int]


@dataclass(frozen=True)
class Alert:
    """One alert; without an id and times while it is not stored."""

    attempt_pk: int
    """In whose fold it was opened."""
    rule: str
    severity: str
    title: str
    message: str
    evidence: Json
    opened_step: int
    superseded: bool = False
    """Whether a later attempt replayed the step at which it was opened."""
    resolved_step: int | None = None
    opened_at: float = 0.0
    resolved_at: float | None = None
    alert_id: int | None = None
    withdrawn: bool = False
    """Whether it is stored, and what is derived by now does not hold it."""
    thread_pk: int | None = None
    continues: Key | None = field(default=None, compare=False)
    """The lower alert whose place it took at its step; known of what is derived, and not stored."""

    @property
    def key(self) -> Key:
        """What makes it the same alert when it is derived again."""
        return (self.attempt_pk, self.rule, self.opened_step)

    @property
    def status(self) -> str:
        return "open" if self.resolved_step is None else "resolved"


class Said(NamedTuple):
    """What the rules said at one step of one attempt, in the order in which it happened."""

    attempt_pk: int
    step: int
    transitions: Sequence[AlertTransition]


def alerts_along(lineages: Lineages, said: Iterable[Said]) -> list[Alert]:
    """Every alert of every attempt, in the order of their steps.

    An alert that was open when another attempt took over goes on in each of them; how it went on in the
    newest lineage that holds it is what counts.
    """
    ordered = sorted(said, key=lambda one: one.step)
    found: dict[Key, Alert] = {}
    for attempt in reversed(lineages.attempts):
        along = [one for one in ordered if lineages.owner(attempt.pk, one.step) == one.attempt_pk]
        for alert in _alerts_of(along):
            found.setdefault(alert.key, alert)
    return [
        replace(alert, superseded=lineages.is_superseded(alert.attempt_pk, alert.opened_step))
        for alert in sorted(found.values(), key=lambda alert: (alert.opened_step, alert.key))
    ]


class Changes(NamedTuple):
    """What has to be stored so that the stored alerts are the derived ones."""

    derived: list[Alert]
    """All of them, with the ids and times of those that are stored."""
    changed: list[Alert]
    """Those of them that are new or not as they are stored."""
    vanished: list[Alert]
    """Stored alerts that, seen in step order, never were."""


def changes(stored: Iterable[Alert], derived: Iterable[Alert], now: float) -> Changes:
    """What has to be stored.

    An alert that is derived again keeps its id and its times: people have seen it.
    """
    stored, derived = list(stored), list(derived)
    before_of = _before_of(stored, derived)
    found = [_with_times(alert, before_of.get(alert.key), now) for alert in derived]
    known = {before.key for before in before_of.values()}
    return Changes(
        found,
        [alert for alert in found if alert != before_of.get(alert.key)],
        [alert for alert in stored if alert.key not in known and not alert.withdrawn],
    )


def _before_of(stored: Sequence[Alert], derived: Sequence[Alert]) -> dict[Key, Alert]:
    """The stored alert that each derived one is, by the derived one's key.

    A late step can open an alert some steps sooner or later than it did. It is the same alert when it is of
    the same rule, attempt and severity and the two are open at a common step: people who have acknowledged
    it need not do so again.
    """
    by_key = {alert.key: alert for alert in stored}
    found = {alert.key: by_key.pop(alert.key) for alert in derived if alert.key in by_key}
    for alert in derived:
        if alert.key in found:
            continue
        candidates = [other for other in by_key.values() if _is_moved(other, alert)]
        if candidates:
            before = min(candidates, key=lambda other: abs(other.opened_step - alert.opened_step))
            found[alert.key] = by_key.pop(before.key)
    return found


def _is_moved(before: Alert, after: Alert) -> bool:
    same = (before.attempt_pk, before.rule, before.severity) == (after.attempt_pk, after.rule, after.severity)
    return (
        same
        and not before.withdrawn
        and (after.resolved_step is None or before.opened_step < after.resolved_step)
        and (before.resolved_step is None or after.opened_step < before.resolved_step)
    )


def _alerts_of(said: Iterable[Said]) -> list[Alert]:
    alerts: list[Alert] = []
    open_at: dict[str, int] = {}
    for attempt_pk, step, transitions in said:
        replaced: dict[str, Key] = {}
        for transition in transitions:
            if transition.kind == "open":
                open_at[transition.rule] = len(alerts)
                opened = _opened(attempt_pk, step, transition)
                alerts.append(replace(opened, continues=replaced.pop(transition.rule, None)))
            elif transition.rule in open_at:
                position = open_at.pop(transition.rule)
                alerts[position] = replace(alerts[position], resolved_step=step)
                if "escalated_to" in transition.evidence:
                    replaced[transition.rule] = alerts[position].key
    return alerts


def _opened(attempt_pk: int, step: int, transition: AlertTransition) -> Alert:
    return Alert(
        attempt_pk=attempt_pk,
        rule=transition.rule,
        severity=transition.severity,
        title=transition.title,
        message=transition.message,
        evidence=dict(transition.evidence),
        opened_step=step,
    )


def _with_times(alert: Alert, before: Alert | None, now: float) -> Alert:
    resolved_at = None if alert.resolved_step is None else now
    if before is None:
        return replace(alert, opened_at=now, resolved_at=resolved_at)
    if alert.resolved_step == before.resolved_step:
        resolved_at = before.resolved_at
    return replace(
        alert,
        opened_at=before.opened_at,
        resolved_at=resolved_at,
        alert_id=before.alert_id,
        thread_pk=before.thread_pk,
    )
