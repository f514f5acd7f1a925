"""The alert on turns without usable reasoning. Source: docs/metrics.md section 5.

Below 0.9 preceded or met most of the failures in the logs that the section cites, and below 0.8 nothing
else is judged. Two evaluations in a row, because a single batch of long prompts can dip, and with their whole
intervals below the limit, because a rate of 0.93 dips below 0.9 in one batch of 64 turns out of eight; a rate
that is only a little too low shows by the evidence of many evaluations. Back at 0.92 for three in a row, so
that a rate that wavers around 0.9 does not open an alert each time.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts import budget, detectors, interval_bets, rules
from collapsewatch_server.alerts.interval_bets import LogCapital
from collapsewatch_server.alerts.transitions import RANK, AlertTransition, Severity

WARNING_BELOW = 0.9
CRITICAL_BELOW = 0.8
CLEAR_FROM = 0.92
NUM_LOW = 2
NUM_CLEAR = 3


@dataclass(frozen=True)
class ValidityState:
    """Evaluations in a row with their interval below each limit, and at or above the clearing limit."""

    num_below_warning: int = 0
    num_below_critical: int = 0
    num_clear: int = 0
    warning: LogCapital = interval_bets.NO_EVIDENCE
    critical: LogCapital = interval_bets.NO_EVIDENCE
    open: Severity | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ValidityState":
        return cls(**{**data, "warning": tuple(data["warning"]), "critical": tuple(data["critical"])})


def fold_validity(
    state: ValidityState, rate: MetricValue, *, step: int, num_prompts: int
) -> tuple[ValidityState, list[AlertTransition]]:
    """State after one evaluation, and the alerts that open or clear at it.

    A rate without an interval stands for itself.
    """
    highest = rate.value if rate.high is None else rate.high
    state = replace(
        state,
        num_below_warning=state.num_below_warning + 1 if highest < WARNING_BELOW else 0,
        num_below_critical=state.num_below_critical + 1 if highest < CRITICAL_BELOW else 0,
        num_clear=state.num_clear + 1 if rate.value >= CLEAR_FROM else 0,
        warning=_advanced(state.warning, rate, WARNING_BELOW, num_prompts),
        critical=_advanced(state.critical, rate, CRITICAL_BELOW, num_prompts),
    )
    if _is_low(state.num_below_critical, state.critical, "critical", rate, CRITICAL_BELOW):
        return _opened(state, "critical", rate.value, CRITICAL_BELOW, state.num_below_critical, step)
    if _is_low(state.num_below_warning, state.warning, "warning", rate, WARNING_BELOW):
        return _opened(state, "warning", rate.value, WARNING_BELOW, state.num_below_warning, step)
    if state.open is not None and state.num_clear >= NUM_CLEAR:
        cleared = rules.validity_clears(rate.value, CLEAR_FROM, state.open, state.num_clear)
        return ValidityState(num_clear=state.num_clear), [cleared]
    return state, []


def _advanced(capital: LogCapital, rate: MetricValue, limit: float, num_prompts: int) -> LogCapital:
    # Without an interval nothing tells how much the rate wavers, so nothing is bet on it.
    if rate.low is None or rate.high is None:
        return capital
    error = interval_bets.standard_error(rate.low, rate.high, num_prompts=max(num_prompts, 1), spread=0.0)
    return interval_bets.advanced(
        capital, interval_bets.distance_beyond(rate.value, limit, error, rises=False)
    )


def _is_low(num_below: int, capital: LogCapital, severity: Severity, rate: MetricValue, limit: float) -> bool:
    if num_below >= NUM_LOW:
        return True
    share = budget.share_of(rules.VALIDITY_RULE, severity, FIRST_TURN_SCOPE, of_batch=True)
    return rate.value < limit and detectors.log_evalue(capital) >= budget.log_threshold(share)


def _opened(
    state: ValidityState, severity: Severity, rate: float, limit: float, num_below: int, step: int
) -> tuple[ValidityState, list[AlertTransition]]:
    if state.open is not None and RANK[severity] <= RANK[state.open]:
        return state, []
    in_a_row = NUM_LOW if num_below >= NUM_LOW else None
    transitions = rules.validity_opens(rate, limit, severity, state.open, in_a_row, step)
    return replace(state, open=severity), transitions
