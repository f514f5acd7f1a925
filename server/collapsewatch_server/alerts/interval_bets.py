"""Sequential evidence that a metric passed a limit, from its values and their intervals. Pure arithmetic.

For metrics of which only the batch's mean and its 95 % interval are known. With z = (limit − value) over its
standard error, the bet exp(λ z − λ²/2) has expectation at most 1 as long as the metric's mean is on the near
side of the limit and its error is about normal; each stake λ keeps a capital, as in `detectors`. Three things
make up for what "about" leaves open. The error is at least the spread that the metric had between the
evaluations of its baseline, which holds what an interval within one batch does not see. Intervals of few
prompts are known to be too short and are widened. And z counts up to 3, so that no single evaluation can give
an alarm.
Source: docs/metrics.md section 5.
"""

import math

STAKES = (0.5, 1.0)
LogCapital = tuple[float, ...]
NO_EVIDENCE: LogCapital = (0.0, 0.0)
_MOST = 3.0
_LEAST = -6.0
_NORMAL_95 = 1.959964
_WIDENED_BY = 2.4
"""A bootstrap interval over N prompts has to be 1 + 2.4 / N as wide: the 97.5 % quantile of Student's t over
the normal's, times the √(N / (N − 1)) that a bootstrap misses, for 8 prompts or more."""


def standard_error(low: float | None, high: float | None, *, num_prompts: int, spread: float) -> float:
    """Error of one evaluation's value; `spread` where there is no interval or a shorter one.

    Args:
        low: lower end of the 95 % interval.
        high: its upper end.
        num_prompts: over which it was drawn, at least 1.
        spread: standard deviation between the evaluations of the baseline.
    """
    if low is None or high is None:
        return spread
    widened = (1.0 + _WIDENED_BY / num_prompts) * (high - low) / (2.0 * _NORMAL_95)
    return max(widened, spread)


def distance_beyond(value: float, limit: float, error: float, *, rises: bool) -> float:
    """z: how many standard errors the value is beyond the limit, negative on the near side."""
    difference = value - limit if rises else limit - value
    if error > 0.0:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


def advanced(capital: LogCapital, z: float) -> LogCapital:
    """Capital after one evaluation: each stake restarts at 1 when it has lost, then takes the bet.

    z is cut off at 3, which keeps the bet fair, and at −6, below which all is lost anyway.
    """
    counted = min(max(z, _LEAST), _MOST)
    return tuple(
        max(log_capital, 0.0) + stake * counted - 0.5 * stake * stake
        for log_capital, stake in zip(capital, STAKES, strict=True)
    )
