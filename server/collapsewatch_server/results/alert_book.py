"""The alerts of one scope of a run while its evaluations are folded, perhaps again, in step order.

Pure: the rows are handed in, and what has to be stored is handed out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from collapsewatch_server.alerts.transitions import AlertTransition
from collapsewatch_server.tables import Json


@dataclass(frozen=True)
class Alert:
    """One alert; without an id while it is not stored."""

    rule: str
    severity: str
    title: str
    message: str
    evidence: Json
    opened_step: int
    opened_at: float
    resolved_step: int | None = None
    resolved_at: float | None = None
    alert_id: int | None = None

    @property
    def status(self) -> str:
        return "open" if self.resolved_step is None else "resolved"


@dataclass
class AlertBook:
    """Alerts as they stand after the last step that was folded."""

    stored: Sequence[Alert]
    """As the database has them: all that are open, or moved at or after the first step to be folded."""
    from_step: int
    """First step that is folded: what happened from there on is forgotten, then derived anew."""
    now: float
    """Time of what happens now for the first time."""
    _alerts: list[Alert] = field(init=False)
    _forgotten: dict[tuple[str, int], Alert] = field(init=False)
    _resolved: dict[tuple[str, int], Alert] = field(init=False)

    def __post_init__(self) -> None:
        kept = [alert for alert in self.stored if alert.opened_step < self.from_step]
        self._forgotten = {
            (alert.rule, alert.opened_step): alert
            for alert in self.stored
            if alert.opened_step >= self.from_step
        }
        self._resolved = {
            (alert.rule, alert.opened_step): alert for alert in self.stored if alert.resolved_step is not None
        }
        self._alerts = [self._as_before(alert) for alert in kept]

    def apply(self, step: int, transitions: Iterable[AlertTransition]) -> None:
        """What the rules said at `step`; steps come in order."""
        for transition in transitions:
            if transition.kind == "open":
                self._open(step, transition)
            else:
                self._resolve(step, transition.rule)

    def changes(self) -> tuple[list[Alert], list[Alert]]:
        """(alerts to be stored, new or changed; alerts that, seen in step order, never were)."""
        before = {alert.alert_id: alert for alert in self.stored}
        kept = {alert.alert_id for alert in self._alerts}
        changed = [
            alert for alert in self._alerts if alert.alert_id is None or before[alert.alert_id] != alert
        ]
        return changed, [alert for alert in self.stored if alert.alert_id not in kept]

    def _as_before(self, alert: Alert) -> Alert:
        if alert.resolved_step is not None and alert.resolved_step >= self.from_step:
            return replace(alert, resolved_step=None, resolved_at=None)
        return alert

    def _open(self, step: int, transition: AlertTransition) -> None:
        # The same alert, derived again, keeps its id and its time: people have seen it.
        known = self._forgotten.get((transition.rule, step))
        self._alerts.append(
            Alert(
                rule=transition.rule,
                severity=transition.severity,
                title=transition.title,
                message=transition.message,
                evidence=dict(transition.evidence),
                opened_step=step,
                opened_at=self.now if known is None else known.opened_at,
                alert_id=None if known is None else known.alert_id,
            )
        )

    def _resolve(self, step: int, rule: str) -> None:
        for position, alert in enumerate(self._alerts):
            if alert.rule == rule and alert.resolved_step is None:
                known = self._resolved.get((rule, alert.opened_step))
                same = known is not None and known.resolved_step == step
                resolved_at = known.resolved_at if known is not None and same else self.now
                self._alerts[position] = replace(alert, resolved_step=step, resolved_at=resolved_at)
