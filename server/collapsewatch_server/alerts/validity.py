"""The alert on turns without usable reasoning. Source: docs/metrics.md section 5.

Below 0.9 preceded or met most of the failures in the logs that the section cites, and below 0.8 nothing
else is judged. Two evaluations in a row, because a single batch of long prompts can dip; back at 0.92 for
three in a row, so that a rate that wavers around 0.9 does not open an alert each time.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from collapsewatch_server.alerts import rules
from collapsewatch_server.alerts.transitions import RANK, AlertTransition, Severity

WARNING_BELOW = 0.9
CRITICAL_BELOW = 0.8
CLEAR_FROM = 0.92
NUM_LOW = 2
NUM_CLEAR = 3


@dataclass(frozen=True)
class ValidityState:
    """Evaluations in a row below each limit, and at or above the clearing limit."""

    num_below_warning: int = 0
    num_below_critical: int = 0
    num_clear: int = 0
    open: Severity | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ValidityState":
        return cls(**data)


def fold_validity(
    state: ValidityState, rate: float, *, step: int
) -> tuple[ValidityState, list[AlertTransition]]:
    """State after one evaluation, and the alerts that open or clear at it."""
    state = replace(
        state,
        num_below_warning=state.num_below_warning + 1 if rate < WARNING_BELOW else 0,
        num_below_critical=state.num_below_critical + 1 if rate < CRITICAL_BELOW else 0,
        num_clear=state.num_clear + 1 if rate >= CLEAR_FROM else 0,
    )
    if state.num_below_critical >= NUM_LOW:
        return _opened(state, "critical", rate, CRITICAL_BELOW, step)
    if state.num_below_warning >= NUM_LOW:
        return _opened(state, "warning", rate, WARNING_BELOW, step)
    if state.open is not None and state.num_clear >= NUM_CLEAR:
        cleared = rules.validity_clears(rate, CLEAR_FROM, state.open, state.num_clear)
        return replace(state, open=None), [cleared]
    return state, []


def _opened(
    state: ValidityState, severity: Severity, rate: float, limit: float, step: int
) -> tuple[ValidityState, list[AlertTransition]]:
    if state.open is not None and RANK[severity] <= RANK[state.open]:
        return state, []
    transitions = rules.validity_opens(rate, limit, severity, state.open, NUM_LOW, step)
    return replace(state, open=severity), transitions
