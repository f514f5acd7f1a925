"""The alert on a fall of input dependence: which level is open, when it rises and when it clears.

Source: docs/metrics.md section 5.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from collapsewatch_server.alerts import budget, detectors, rules
from collapsewatch_server.alerts.detectors import CRITICAL, WARNING, LogCapital, SkillCounts
from collapsewatch_server.alerts.rules import DropFacts, Reading, Reference
from collapsewatch_server.alerts.transitions import RANK, AlertTransition, Severity


@dataclass(frozen=True)
class OpenDrop:
    """The open alert. It is cleared against the baseline that it was opened with."""

    severity: Severity
    reference_skill: float
    opened_step: int
    num_clear: int = 0
    """Evaluations in a row that meet the condition to clear."""


@dataclass(frozen=True)
class Pooled:
    """What one of the last three evaluations leaves behind."""

    skills: SkillCounts
    p_value: float | None
    conditional_entropy: float | None
    reward: float | None
    zero_variance_fraction: float | None


@dataclass(frozen=True)
class DropState:
    warning: LogCapital = detectors.NO_EVIDENCE
    critical: LogCapital = detectors.NO_EVIDENCE
    recent: tuple[Pooled, ...] = ()
    """The last three evaluations that met the gates."""
    open: OpenDrop | None = None

    def without_evidence(self) -> "DropState":
        """After a change of baseline: what was measured before says nothing about the new one."""
        return DropState(open=self.open)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DropState":
        return cls(
            warning=tuple(data["warning"]),
            critical=tuple(data["critical"]),
            recent=tuple(
                Pooled(**{**item, "skills": tuple((value, count) for value, count in item["skills"])})
                for item in data["recent"]
            ),
            open=None if data["open"] is None else OpenDrop(**data["open"]),
        )


def fold_drop(
    state: DropState, reading: Reading, reference: Reference | None, *, scope: str
) -> tuple[DropState, list[AlertTransition]]:
    """State after one evaluation that met the gates, and the alerts that open or clear at it.

    Without a reference (the baseline is still being measured) nothing can open, but what is open can clear.
    """
    state = replace(state, recent=(*state.recent, _pooled(reading))[-detectors.NUM_POOLED :])
    if reference is None:
        return _cleared(state, reading, still_low=False, scope=scope)
    state = replace(
        state,
        warning=detectors.advanced(state.warning, reading.skills, WARNING.floor_fraction * reference.skill),
        critical=detectors.advanced(
            state.critical, reading.skills, CRITICAL.floor_fraction * reference.skill
        ),
    )
    facts = _facts(state, reading, reference)
    level = _level(facts, scope)
    if level is not None and (state.open is None or RANK[level] > RANK[state.open.severity]):
        previous = None if state.open is None else state.open.severity
        transitions = rules.drop_opens(facts, level, previous, scope=scope)
        opened = OpenDrop(level, reference.skill, reading.step)
        return replace(state, open=opened), transitions
    return _cleared(state, reading, still_low=level is not None, scope=scope)


def abandoned(state: DropState, reason: str, *, scope: str) -> tuple[DropState, list[AlertTransition]]:
    """State after a change that makes skills incomparable; an open alert is resolved and says why."""
    if state.open is None:
        return state, []
    return replace(state, open=None), [rules.drop_abandoned(state.open.severity, reason, scope=scope)]


def _level(facts: DropFacts, scope: str) -> Severity | None:
    """The highest level whose condition holds at this evaluation.

    What a level takes as enough is this rule's and this scope's part of the run's error budget.
    """
    enough = {
        level.severity: budget.log_threshold(budget.share_of(rules.DEPENDENCE_RULE, level.severity, scope))
        for level in (WARNING, CRITICAL)
    }
    skill, reference = facts.reading.skill, facts.reference.skill
    if facts.log_evalue_critical >= enough["critical"] and detectors.consistent_with_independence(
        facts.pooled, facts.pooled_p_value, reference
    ):
        return "critical"
    if facts.log_evalue_warning >= enough["warning"]:
        return "warning"
    if (
        skill.value < detectors.INFO_FRACTION * reference
        and skill.high is not None
        and skill.high < reference
    ):
        return "info"
    return None


def _cleared(
    state: DropState, reading: Reading, *, still_low: bool, scope: str
) -> tuple[DropState, list[AlertTransition]]:
    if state.open is None:
        return state, []
    if state.open.severity == "info":
        met, needed = not still_low, detectors.NUM_INFO_CLEAR
    else:
        limit = detectors.CLEAR_FRACTION * state.open.reference_skill
        met, needed = reading.skill.low is not None and reading.skill.low > limit, detectors.NUM_CLEAR
    num_clear = state.open.num_clear + 1 if met else 0
    if num_clear < needed:
        return replace(state, open=replace(state.open, num_clear=num_clear)), []
    transition = rules.drop_clears(
        reading, state.open.severity, state.open.reference_skill, num_clear, scope=scope
    )
    if state.open.severity == "info":
        return replace(state, open=None), [transition]
    # Capital won in a long fall would raise the next alarm at the first bad draw.
    return DropState(recent=state.recent), [transition]


def _pooled(reading: Reading) -> Pooled:
    return Pooled(
        skills=detectors.skill_counts(reading.skills),
        p_value=reading.p_value,
        conditional_entropy=reading.conditional_entropy,
        reward=reading.reward,
        zero_variance_fraction=reading.zero_variance_fraction,
    )


def _facts(state: DropState, reading: Reading, reference: Reference) -> DropFacts:
    recent = state.recent
    return DropFacts(
        reading=reading,
        reference=reference,
        log_evalue_warning=detectors.log_evalue(state.warning),
        log_evalue_critical=detectors.log_evalue(state.critical),
        pooled=detectors.pooled_skill([item.skills for item in recent], seed=reading.step),
        pooled_p_value=detectors.combined_p_value(item.p_value for item in recent),
        num_pooled=len(recent),
        conditional_entropy=_mean(item.conditional_entropy for item in recent),
        reward=_mean(item.reward for item in recent),
        zero_variance_fraction=_mean(item.zero_variance_fraction for item in recent),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
