"""What the alerts say: what was measured, against what, and which other signals agree or disagree.

An alert states a measurement; it never passes a verdict on the run. Independent logs show that retrieval
accuracy can halve in runs that do not fail (docs/metrics.md section 5).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts import budget, detectors
from collapsewatch_server.alerts.detectors import CRITICAL, WARNING, Level, PooledSkill
from collapsewatch_server.alerts.transitions import AlertTransition, Severity

DEPENDENCE_RULE = "input_dependence"
VALIDITY_RULE = "valid_reasoning_rate"

_STEADY = (0.8, 1.25)
"""Ratios to the baseline that read as "about as before"."""
_TITLES: Mapping[Severity, str] = {
    "info": "Input dependence is below baseline",
    "warning": "Input dependence fell",
    "critical": "Input dependence fell to about chance",
}


@dataclass(frozen=True)
class Reading:
    """The numbers of one evaluation that the alert on input dependence needs."""

    step: int
    skill: MetricValue
    skills: tuple[float, ...]
    """Per prompt."""
    accuracies: Mapping[str, float]
    """Retrieval accuracy by prompt, under the name of its first group."""
    accuracy: float
    chance: float
    p_value: float | None
    conditional_entropy: float | None
    reward: float | None
    zero_variance_fraction: float | None
    mi_normalised: float | None = None


@dataclass(frozen=True)
class Reference:
    """The baseline's means."""

    skill: float
    accuracy: float
    first_step: int
    last_step: int
    conditional_entropy: float | None
    reward: float | None
    zero_variance_fraction: float | None
    mi_normalised: float | None = None


@dataclass(frozen=True)
class DropFacts:
    """All that decides on the level of the alert, at one evaluation."""

    reading: Reading
    reference: Reference
    log_evalue_warning: float
    """Natural log."""
    log_evalue_critical: float
    pooled: PooledSkill
    """Of the last three evaluations, as are the means below."""
    pooled_p_value: float | None
    num_pooled: int
    conditional_entropy: float | None
    reward: float | None
    zero_variance_fraction: float | None


def drop_opens(
    facts: DropFacts, severity: Severity, previous: Severity | None, *, scope: str
) -> list[AlertTransition]:
    """The new alert, after the resolution of the lower one that it takes the place of."""
    evidence = drop_evidence(facts, severity, scope=scope)
    transitions = []
    if previous is not None:
        transitions.append(
            AlertTransition(
                "resolve",
                DEPENDENCE_RULE,
                previous,
                _title(_TITLES[previous], scope),
                f"Replaced by the {severity} alert of the same step.",
                {"escalated_to": severity, "step": facts.reading.step},
            )
        )
        evidence["escalated_from"] = previous
    message = " ".join(sentence for sentence in _sentences(facts, severity, scope) if sentence)
    transitions.append(
        AlertTransition(
            "open", DEPENDENCE_RULE, severity, _title(_TITLES[severity], scope), message, evidence
        )
    )
    return transitions


def drop_clears(
    reading: Reading, severity: Severity, reference_skill: float, num_evaluations: int, *, scope: str
) -> AlertTransition:
    """The alert's end, by the rule to clear."""
    if severity == "info":
        message = (
            f"Skill {reading.skill.value:.2f}: for {num_evaluations} evaluations it was not clearly below "
            f"{detectors.INFO_FRACTION} × the baseline's {reference_skill:.2f}."
        )
    else:
        message = (
            f"Skill {_interval(reading.skill)}: for {num_evaluations} evaluations its lower limit was above "
            f"{detectors.CLEAR_FRACTION} × the baseline's {reference_skill:.2f}."
        )
    evidence = {
        "step": reading.step,
        "skill": reading.skill.value,
        "skill_low": reading.skill.low,
        "baseline_skill": reference_skill,
        "num_evaluations": num_evaluations,
    }
    title = _title("Input dependence is back near its baseline", scope)
    return AlertTransition("resolve", DEPENDENCE_RULE, severity, title, message, evidence)


def drop_abandoned(severity: Severity, reason: str, *, scope: str) -> AlertTransition:
    """The alert's end because nothing can be compared with its baseline any more."""
    title = _title("Input dependence can no longer be compared", scope)
    message = f"No recovery was measured: {reason}, and a new baseline began."
    return AlertTransition("resolve", DEPENDENCE_RULE, severity, title, message, {"reason": reason})


def drop_evidence(facts: DropFacts, severity: Severity, *, scope: str = FIRST_TURN_SCOPE) -> dict[str, Any]:
    """The values that caused the alert, as JSON."""
    reading, reference = facts.reading, facts.reference
    level = _LEVELS.get(severity)
    evidence: dict[str, Any] = {
        "step": reading.step,
        "retrieval_accuracy": reading.accuracy,
        "retrieval_chance": reading.chance,
        "skill": reading.skill.value,
        "skill_low": reading.skill.low,
        "skill_high": reading.skill.high,
        "baseline_skill": reference.skill,
        "baseline_retrieval_accuracy": reference.accuracy,
        "baseline_first_step": reference.first_step,
        "baseline_last_step": reference.last_step,
        "log10_evalue_warning": facts.log_evalue_warning / math.log(10.0),
        "log10_evalue_critical": facts.log_evalue_critical / math.log(10.0),
        "pooled_evaluations": facts.num_pooled,
        "pooled_skill": facts.pooled.value,
        "pooled_skill_low": facts.pooled.low,
        "pooled_skill_high": facts.pooled.high,
        "pooled_p_value": facts.pooled_p_value,
        "conditional_entropy_ratio": _ratio(facts.conditional_entropy, reference.conditional_entropy),
        "reward": facts.reward,
        "baseline_reward": reference.reward,
        "zero_variance_fraction": facts.zero_variance_fraction,
        "baseline_zero_variance_fraction": reference.zero_variance_fraction,
        "prompt_accuracies": {name: round(value, 4) for name, value in reading.accuracies.items()},
    }
    if level is not None:
        floor = level.floor_fraction * reference.skill
        share = budget.share_of(DEPENDENCE_RULE, severity, scope)
        evidence |= {
            "floor_fraction": level.floor_fraction,
            "floor_skill": floor,
            "floor_accuracy": reading.chance + (1.0 - reading.chance) * floor,
            "alpha": share.alpha,
            "budget_share": share.share,
        }
    return evidence


def validity_opens(
    rate: float,
    limit: float,
    severity: Severity,
    previous: Severity | None,
    num_evaluations: int | None,
    step: int,
) -> list[AlertTransition]:
    """The alert on unusable reasoning, after the resolution of the lower one that it takes the place of.

    Args:
        num_evaluations: in a row, each clearly below the limit; none when many together show it.
    """
    how = "by all evaluations together"
    if num_evaluations is not None:
        how = f"in {num_evaluations} evaluations in a row"
    title = "Reasoning is often missing or not closed"
    evidence: dict[str, Any] = {
        "step": step,
        "valid_reasoning_rate": rate,
        "limit": limit,
        "num_evaluations": num_evaluations,
    }
    if num_evaluations is None:
        share = budget.share_of(VALIDITY_RULE, severity, FIRST_TURN_SCOPE, of_batch=True)
        evidence |= {"alpha": share.alpha, "budget_share": share.share}
    transitions = []
    if previous is not None:
        replaced = f"Replaced by the {severity} alert of the same step."
        transitions.append(
            AlertTransition("resolve", VALIDITY_RULE, previous, title, replaced, {"escalated_to": severity})
        )
        evidence["escalated_from"] = previous
    message = (
        f"Valid reasoning rate {rate:.2f}, below {limit:.2f} {how}: "
        f"{100 * (1.0 - rate):.0f} % of the turns have no closed, non-empty reasoning."
    )
    if severity == "critical":
        message += " Input dependence is not judged meanwhile, because too few traces can be scored."
    transitions.append(AlertTransition("open", VALIDITY_RULE, severity, title, message, evidence))
    return transitions


def validity_clears(rate: float, limit: float, severity: Severity, num_evaluations: int) -> AlertTransition:
    """The end of the alert on unusable reasoning."""
    message = (
        f"Valid reasoning rate {rate:.2f}, at least {limit:.2f} in {num_evaluations} evaluations in a row."
    )
    evidence = {"valid_reasoning_rate": rate, "limit": limit, "num_evaluations": num_evaluations}
    return AlertTransition("resolve", VALIDITY_RULE, severity, "Reasoning is valid again", message, evidence)


_LEVELS: Mapping[Severity, Level] = {"warning": WARNING, "critical": CRITICAL}


def _title(title: str, scope: str) -> str:
    return title if scope == FIRST_TURN_SCOPE else f"{title} ({scope})"


def _interval(metric: MetricValue) -> str:
    if metric.low is None or metric.high is None:
        return f"{metric.value:.2f}"
    return f"{metric.value:.2f} (95 % {metric.low:.2f} to {metric.high:.2f})"


def _ratio(value: float | None, reference: float | None) -> float | None:
    return value / reference if value is not None and reference else None


def _sentences(facts: DropFacts, severity: Severity, scope: str) -> list[str]:
    return [
        _measured(facts, severity),
        _weight_of_evidence(facts, severity, scope),
        _information_sentence(facts),
        _entropy_sentence(facts, severity),
        _reward_sentence(facts),
        _zero_variance_sentence(facts),
    ]


def _measured(facts: DropFacts, severity: Severity) -> str:
    reading, reference = facts.reading, facts.reference
    verb = "is below its baseline" if severity == "info" else "fell"
    return (
        f"Input dependence {verb}: retrieval accuracy {reading.accuracy:.2f} (chance {reading.chance:.3g}), "
        f"was {reference.accuracy:.2f} at baseline (steps {reference.first_step} to {reference.last_step}); "
        f"skill {_interval(reading.skill)}, was {reference.skill:.2f}."
    )


def _weight_of_evidence(facts: DropFacts, severity: Severity, scope: str) -> str:
    level = _LEVELS.get(severity)
    if level is None:
        return (
            "A single evaluation shows this; the evidence over evaluations is not yet enough for a warning."
        )
    log_evalue = facts.log_evalue_critical if severity == "critical" else facts.log_evalue_warning
    run_length = round(budget.share_of(DEPENDENCE_RULE, severity, scope).run_length)
    sentence = (
        f"Evidence that skill is below {level.floor_fraction} × baseline: {_power_of_ten(log_evalue)} to 1; "
        f"a stable run reaches {run_length} to 1 at most once in {run_length} evaluations."
    )
    if severity == "critical":
        sentence += f" {_independence_sentence(facts)}"
    return sentence


def _independence_sentence(facts: DropFacts) -> str:
    pooled, p_value = facts.pooled, facts.pooled_p_value
    limit = detectors.INDEPENDENCE_FRACTION * facts.reference.skill
    skill = (
        f"Over the last {facts.num_pooled} evaluations skill is {pooled.value:.2f} "
        f"(95 % {pooled.low:.2f} to {pooled.high:.2f})"
    )
    if pooled.high < limit:
        return f"{skill}, all of it below a quarter of the baseline's ({limit:.2f})."
    return f"{skill}, which shuffled prompt labels reach as well (p = {p_value:.2g})."


def _power_of_ten(log_value: float) -> str:
    log10 = log_value / math.log(10.0)
    return f"{10.0**log10:.0f}" if log10 < 5.0 else f"10^{log10:.0f}"


def _information_sentence(facts: DropFacts) -> str:
    now, usual = facts.reading.mi_normalised, facts.reference.mi_normalised
    if now is None or not usual:
        return ""
    numbers = f"{now:.2f} of its ceiling, was {usual:.2f}"
    if now < _STEADY[0] * usual:
        return f"Mutual information fell as well ({numbers})."
    return f"Mutual information did not clearly fall ({numbers}), so it does not confirm the fall."


def _entropy_sentence(facts: DropFacts, severity: Severity) -> str:
    ratio = _ratio(facts.conditional_entropy, facts.reference.conditional_entropy)
    if ratio is None:
        return "Diversity within a prompt is unknown, because the scorer gives no H(Z|X)."
    if ratio < _STEADY[0]:
        return f"H(Z|X) fell as well, to {ratio:.2f} × baseline: the texts became less diverse, too."
    if ratio > _STEADY[1]:
        return f"H(Z|X) rose to {ratio:.2f} × baseline: the texts vary more, but less with the prompt."
    if severity == "info":
        return f"H(Z|X) is at {ratio:.2f} × baseline."
    return (
        f"H(Z|X) stayed at {ratio:.2f} × baseline: "
        "less dependence at unchanged entropy is the pattern of template collapse."
    )


def _reward_sentence(facts: DropFacts) -> str:
    reward, reference = facts.reward, facts.reference.reward
    if reward is None or reference is None:
        return ""
    numbers = f"{reward:.2f}, was {reference:.2f}"
    # A tenth of the level, and never less than 0.02, reads as no change in a mean over one batch.
    margin = max(0.1 * abs(reference), 0.02)
    if reward < reference - margin:
        return f"Reward fell as well ({numbers})."
    if reward > reference + margin:
        return f"Reward rose meanwhile ({numbers}), so it does not confirm the fall."
    return f"Reward is about as before ({numbers}), so it does not show the fall."


def _zero_variance_sentence(facts: DropFacts) -> str:
    fraction, reference = facts.zero_variance_fraction, facts.reference.zero_variance_fraction
    if fraction is None:
        return ""
    was = "" if reference is None else f", {100 * reference:.0f} % at baseline"
    return f"{100 * fraction:.0f} % of the groups have no reward variance{was}."
