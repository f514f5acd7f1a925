"""Sequential evidence that retrieval skill fell below a share of its baseline. Pure arithmetic.

Bets against "every prompt's expected skill is at least f · S0" on each prompt of each evaluation; capital
above 1 is what the bets won. By the e-detector's construction the mean run length to a false alarm at
threshold 1/α is at least 1/α evaluations, at any dependence between evaluations, as long as prompts of one
evaluation are independent and their mean skill is not below the floor.
Source: docs/metrics.md section 5.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from collapsewatch_server.alerts.transitions import Severity

STAKES = (0.25, 0.5, 0.75)
"""Of 1 / (1 − floor): the largest loss per prompt, at a skill of 1, is then 3/4 of the capital."""
LogCapital = tuple[float, ...]
"""Natural log of the capital of each stake."""
NO_EVIDENCE: LogCapital = (0.0, 0.0, 0.0)
NUM_POOLED = 3
CLEAR_FRACTION = 0.8
NUM_CLEAR = 5
INFO_FRACTION = 0.7
NUM_INFO_CLEAR = 5
"""Evaluations in a row without the info condition until the info alert is resolved. Its condition is a single
evaluation's, so while skill wavers around the limit a shorter wait opens and resolves it every few steps."""
INDEPENDENCE_FRACTION = 0.25
INDEPENDENCE_P_VALUE = 0.05
_NUM_BOOTSTRAP = 2000

SkillCounts = tuple[tuple[float, int], ...]
"""Distinct prompt skills of one evaluation and how many prompts have each, ascending."""


@dataclass(frozen=True)
class Level:
    """One level of the alert: how deep a fall it bets on, and how rare a false alarm is."""

    severity: Severity
    floor_fraction: float
    run_length: int
    """1/α of all rules and scopes of a run together, evaluations; `budget` says what part is whose."""

    @property
    def log_threshold(self) -> float:
        return math.log(self.run_length)


WARNING = Level("warning", floor_fraction=0.7, run_length=500)
CRITICAL = Level("critical", floor_fraction=0.5, run_length=1000)


def advanced(capital: LogCapital, skills: Sequence[float], floor_skill: float) -> LogCapital:
    """Capital after one evaluation: each stake restarts at 1 when it has lost, then takes all bets.

    The factor of prompt i is 1 + stake · (floor − skill_i) / (1 − floor). With equal chance c for all prompts
    that is the factor on accuracies 1 + λ (m − acc_i), m = c + (1 − c) · floor, λ = stake / (1 − m); with
    duplicate prompts each prompt gets the m of its own chance.

    Args:
        capital: one log per stake.
        skills: per prompt, at most 1.
        floor_skill: f · S0, below 1.

    Raises:
        ValueError: a floor of 1 or more, which leaves nothing to bet with.
    """
    if floor_skill >= 1.0:
        raise ValueError(f"the floor must be below 1, got {floor_skill}")
    edges = (floor_skill - np.asarray(skills, dtype=np.float64)) / (1.0 - floor_skill)
    return tuple(
        max(log_capital, 0.0) + float(np.log1p(stake * edges).sum())
        for log_capital, stake in zip(capital, STAKES, strict=True)
    )


def log_evalue(capital: LogCapital) -> float:
    """Natural log of the mean capital over the stakes."""
    highest = max(capital)
    return highest + math.log(math.fsum(math.exp(value - highest) for value in capital) / len(capital))


def skill_counts(skills: Iterable[float]) -> SkillCounts:
    """The skills as a histogram: all that a bootstrap over prompts needs, and small to store."""
    return tuple(sorted(Counter(round(skill, 6) for skill in skills).items()))


@dataclass(frozen=True)
class PooledSkill:
    """Mean skill of all prompts of the pooled evaluations, with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float


def pooled_skill(evaluations: Sequence[SkillCounts], *, seed: int) -> PooledSkill:
    """Mean over the prompts of all evaluations, and its percentile bootstrap interval over those prompts.

    Raises:
        ValueError: no prompt at all.
    """
    return _pooled_skill(tuple(evaluations), seed)


# Rules and regimes ask for the same one at each evaluation, and it is most of what a fold costs.
@lru_cache(maxsize=32)
def _pooled_skill(evaluations: tuple[SkillCounts, ...], seed: int) -> PooledSkill:
    totals: Counter[float] = Counter()
    for counts in evaluations:
        totals.update(dict(counts))
    if not totals:
        raise ValueError("pooled skill needs at least one prompt")
    values = np.array(list(totals.keys()))
    weights = np.array(list(totals.values()))
    num_prompts = int(weights.sum())
    generator = np.random.default_rng(seed)
    draws = generator.multinomial(num_prompts, weights / num_prompts, size=_NUM_BOOTSTRAP)
    low, high = np.quantile(draws @ values / num_prompts, [0.025, 0.975])
    return PooledSkill(float(values @ weights) / num_prompts, float(low), float(high))


def combined_p_value(p_values: Iterable[float | None]) -> float | None:
    """One p-value for several independent evaluations by Fisher's method; none when there is none.

    Fisher rather than Stouffer: one evaluation that clearly retrieves its prompts is enough to say that
    reasoning depends on the input, and Fisher's sum is dominated by the smallest p. -2 Σ ln p is χ² with
    2n degrees of freedom, whose upper tail has a closed form for even degrees.
    """
    known = [max(p, 1e-300) for p in p_values if p is not None]
    if not known:
        return None
    half = -math.fsum(math.log(p) for p in known)
    term = total = 1.0
    for k in range(1, len(known)):
        term *= half / k
        total += term
    return min(1.0, math.exp(-half) * total)


def consistent_with_independence(pooled: PooledSkill, p_value: float | None, baseline_skill: float) -> bool:
    """Whether the pooled evaluations look as if reasoning did not depend on the prompt any more."""
    return pooled.high < INDEPENDENCE_FRACTION * baseline_skill or (
        p_value is not None and p_value > INDEPENDENCE_P_VALUE
    )
