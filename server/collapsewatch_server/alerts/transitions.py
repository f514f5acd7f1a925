"""What an alert rule hands back: alerts that open and alerts that are resolved."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["info", "warning", "critical"]
RANK: Mapping[str, int] = {"info": 0, "warning": 1, "critical": 2}


@dataclass(frozen=True)
class AlertTransition:
    """One alert opens or is resolved at the evaluation's step.

    A rule has at most one open alert: one that changes its severity resolves the old alert and opens the
    new one at the same step, in this order.
    """

    kind: Literal["open", "resolve"]
    rule: str
    severity: Severity
    title: str
    message: str
    evidence: Mapping[str, Any]
    """JSON values that caused it."""
