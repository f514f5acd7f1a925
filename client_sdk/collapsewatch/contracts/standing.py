"""Alerts that stand on a run, as its trainer may ask for them."""

from collapsewatch.contracts.base import WireModel


class StandingAlert(WireModel):
    """One alert that is not resolved, as it is now."""

    id: int
    """The same from its opening to its end, whatever its severity."""
    rule: str
    severity: str
    """`info`, `warning` or `critical`."""
    state: str
    """`open`, `acknowledged` or `snoozed`."""
    title: str
    message: str
    scope: str
    step: int | None
    """At which it opened; None for one on the life of the run, such as a stall."""


class StandingAlerts(WireModel):
    alerts: list[StandingAlert]
    """The newest first; at most 200."""
