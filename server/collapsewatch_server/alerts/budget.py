"""How rare false alarms are, all rules and scopes of a run together, and what part each of them may use.

The promise is about a run: however many scopes it has and metrics it brings, its rules together give at most
one false warning in 500 evaluations and one false critical alert in 1,000. Each rule and each scope therefore
has a fixed share. Shares do not depend on what else is measured: a fold knows its own scope alone, and an
alert of yesterday must not change when a scope is added today. The price is small: a share of one sixteenth
asks for sixteen times the evidence, and one evaluation of a real fall often brings more than that.
Source: docs/metrics.md section 5.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_server.alerts.transitions import Severity

TOTAL: Mapping[Severity, float] = MappingProxyType(
    {"warning": 1 / 500, "critical": 1 / 1000, "info": 1 / 500}
)
"""False alarms per evaluation that a whole run may have, by severity."""
SHARES: Mapping[Severity, Mapping[str, float]] = MappingProxyType(
    {
        "critical": MappingProxyType({"input_dependence": 15 / 16, "valid_reasoning_rate": 1 / 16}),
        "warning": MappingProxyType(
            {
                "input_dependence": 3 / 4,
                "valid_reasoning_rate": 1 / 32,
                "mutual_information_fall": 1 / 32,
                "reasoning_entropy_collapse": 1 / 32,
                "reasoning_entropy_explosion": 1 / 32,
                "reward_drop": 1 / 32,
                "success_drop": 1 / 32,
                "zero_variance_excess": 1 / 32,
                "reasoning_length_explosion": 1 / 32,
            }
        ),
        "info": MappingProxyType({"mutual_information_rise": 1 / 2, "reasoning_length_shrinkage": 1 / 2}),
    }
)
"""Each rule's part of the total; they sum to 1. Most of it belongs to what this is all about."""
_FIRST_TURN_SHARE = 7 / 8
_TRAJECTORY_SHARE = 1 / 16
_TURNS_SHARE = 1 / 32
_OTHERS_SHARE = 1 / 32


@dataclass(frozen=True)
class Share:
    """What one rule may use of the total in one scope."""

    rule: str
    scope: str
    severity: Severity
    share: float
    alpha: float
    """False alarms per evaluation."""

    @property
    def run_length(self) -> float:
        """1/α: evaluations between two false alarms, at least and on average."""
        return 1.0 / self.alpha


def scope_share(scope: str) -> float:
    """A scope's part; over any set of scopes of one run they sum to 1 at most.

    Turn t, counted from 0, has 1 / ((t + 1)(t + 2)) of the turns' part: a series that sums to 1, so that
    episodes may be as long as they like. No worker of ours sends other scopes; each of those has the part of
    the turn of its name's length, and nothing is promised beyond one of them.
    """
    if scope == FIRST_TURN_SCOPE:
        return _FIRST_TURN_SHARE
    if scope == "trajectory":
        return _TRAJECTORY_SHARE
    kind, _, number = scope.partition("/")
    if kind == "turn" and number.isdecimal() and len(number) < 10:
        turn = int(number)
        return _TURNS_SHARE / ((turn + 1) * (turn + 2))
    return _OTHERS_SHARE


def share_of(rule: str, severity: Severity, scope: str, *, of_batch: bool = False) -> Share:
    """What the rule may use in the scope.

    Args:
        of_batch: the rule reads the whole batch, once for all scopes, so that it need not divide its part.

    Raises:
        KeyError: a rule that promises no rate at this severity.
    """
    part = SHARES[severity][rule] * (1.0 if of_batch else scope_share(scope))
    return Share(rule, scope, severity, part, TOTAL[severity] * part)


def log_threshold(share: Share) -> float:
    """Natural log of the evidence at which the rule gives an alarm."""
    return math.log(share.run_length)


def total_alpha(shares: Iterable[Share], severity: Severity) -> float:
    """False alarms per evaluation of all of them together."""
    return math.fsum(share.alpha for share in shares if share.severity == severity)
