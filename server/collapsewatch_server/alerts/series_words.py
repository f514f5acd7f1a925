"""What alerts of the rules in `series_rules` say: a measurement, its weight, which signals agree or not."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE, METRICS
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts.series import NUM_CLEAR, Measured, OpenSeries, SeriesFacts, SeriesRule
from collapsewatch_server.alerts.series_rules import explained_zero_variance
from collapsewatch_server.alerts.transitions import AlertTransition


@dataclass(frozen=True)
class Words:
    """The wording of one rule."""

    title: str
    cleared: str
    agrees: Mapping[str, int]
    """Other metrics and the direction, −1 or +1, in which they would move along with it."""
    caution: str = ""
    """What the measurement does not mean."""


def _words(title: str, cleared: str, caution: str = "", **agrees: int) -> Words:
    return Words(title, cleared, MappingProxyType(agrees), caution)


WORDS: Mapping[str, Words] = MappingProxyType(
    {
        "mutual_information_fall": _words(
            "Mutual information of prompt and reasoning fell",
            "Mutual information is back near its baseline",
            "Shorter reasoning can carry less of it and still depend on its prompt as before.",
            retrieval_skill=-1,
            reward=-1,
        ),
        "mutual_information_rise": _words(
            "Mutual information of prompt and reasoning rose",
            "Mutual information is back near its baseline",
            "Reasoning that copies its prompt raises it as well as reasoning that uses it.",
            retrieval_skill=1,
            reasoning_length=1,
        ),
        "reasoning_entropy_collapse": _words(
            "Reasoning of one prompt became uniform",
            "Reasoning of one prompt varies as before",
            "By itself this is no loss of dependence: uniform reasoning can still tell prompts apart.",
            zero_variance_fraction=1,
            retrieval_skill=-1,
        ),
        "reasoning_entropy_explosion": _words(
            "Reasoning of one prompt became far more varied",
            "Reasoning of one prompt varies as before",
            reward=-1,
            retrieval_skill=-1,
            reasoning_length=1,
        ),
        "reward_drop": _words(
            "Reward fell",
            "Reward is back near its baseline",
            "Harder prompts lower it, too.",
            success=-1,
            retrieval_skill=-1,
        ),
        "success_drop": _words(
            "Success fell",
            "Success is back near its baseline",
            "Harder prompts lower it, too.",
            reward=-1,
            retrieval_skill=-1,
        ),
        "zero_variance_excess": _words(
            "More groups without reward variance than success explains",
            "Groups without reward variance are as many as success explains",
            conditional_entropy=-1,
            retrieval_skill=-1,
        ),
        "reasoning_length_explosion": _words(
            "Reasoning became much longer",
            "Reasoning is about as long as before",
            reward=-1,
            conditional_entropy=1,
        ),
        "reasoning_length_shrinkage": _words(
            "Reasoning became much shorter",
            "Reasoning is about as long as before",
            "Terse reasoning that still depends on its prompt is no fault.",
            retrieval_skill=-1,
            reward=-1,
        ),
    }
)
_STEADY = (0.8, 1.25)


def opens(facts: SeriesFacts) -> AlertTransition:
    """The alert that opens."""
    words = WORDS[facts.rule.name]
    sentences = [_measured(facts), _explained(facts), _weight(facts), _signals(facts), words.caution]
    message = " ".join(sentence for sentence in sentences if sentence)
    title = _title(words.title, facts.measured.scope, facts.rule)
    return AlertTransition("open", facts.rule.name, facts.rule.severity, title, message, _evidence(facts))


def clears(rule: SeriesRule, measured: Measured, opened: OpenSeries) -> AlertTransition:
    """Its end, by the rule to clear."""
    value = measured.values[rule.metric]
    side = "below" if rule.rises else "above"
    message = (
        f"{_name(rule.metric)} {_number(value.value)}: for {NUM_CLEAR} evaluations it was {side} "
        f"{_number(opened.clears_at)}, half way back from the limit to the baseline."
    )
    evidence = {
        "step": measured.step,
        "metric": rule.metric,
        "value": value.value,
        "clears_at": opened.clears_at,
        "num_evaluations": opened.num_clear,
    }
    title = _title(WORDS[rule.name].cleared, measured.scope, rule)
    return AlertTransition("resolve", rule.name, opened.severity, title, message, evidence)


def abandoned(rule: SeriesRule, scope: str, opened: OpenSeries, reason: str) -> AlertTransition:
    """Its end because the numbers cannot be compared with those before any more."""
    title = _title(f"{_name(rule.metric)} can no longer be compared", scope, rule)
    message = f"No recovery was measured: {reason}, and a new baseline began."
    return AlertTransition("resolve", rule.name, opened.severity, title, message, {"reason": reason})


def _title(title: str, scope: str, rule: SeriesRule) -> str:
    return title if scope == FIRST_TURN_SCOPE or rule.of_batch else f"{title} ({scope})"


def _name(metric: str) -> str:
    return METRICS[metric].title


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _interval(metric: MetricValue) -> str:
    if metric.low is None or metric.high is None:
        return _number(metric.value)
    return f"{_number(metric.value)} (95 % {_number(metric.low)} to {_number(metric.high)})"


def _measured(facts: SeriesFacts) -> str:
    baseline = facts.baseline
    verb = "rose" if facts.rule.rises else "fell"
    times = f", {facts.value.value / baseline.mean:.2f} × baseline" if baseline.mean > 0.0 else ""
    return (
        f"{_name(facts.rule.metric)} {verb}: {_interval(facts.value)}, was {_number(baseline.mean)} at "
        f"baseline (steps {baseline.first_step} to {baseline.last_step}){times}."
    )


def _explained(facts: SeriesFacts) -> str:
    if facts.rule.name != "zero_variance_excess":
        return ""
    explained = explained_zero_variance(facts.baselines, facts.measured)
    if explained is None:
        return "How many of them the success rate explains is unknown."
    return f"The success rate explains {_number(explained)}, prompts being as unlike as at baseline."


def _weight(facts: SeriesFacts) -> str:
    log10 = facts.log_evalue / math.log(10.0)
    odds = f"{10.0**log10:.0f}" if log10 < 5.0 else f"10^{log10:.0f}"
    side = "above" if facts.rule.rises else "below"
    run_length = round(facts.share.run_length)
    return (
        f"Evidence that it is {side} {_number(facts.limit)}: {odds} to 1; a stable run reaches {run_length} "
        f"to 1 at most once in {run_length} evaluations."
    )


def moved(now: float, usual: float) -> int:
    """−1, 0 or +1: whether the value is clearly below, about at, or clearly above its baseline."""
    if usual > 0.0:
        return -1 if now < _STEADY[0] * usual else int(now > _STEADY[1] * usual)
    margin = max((_STEADY[1] - 1.0) * abs(usual), 0.02)
    return -1 if now < usual - margin else int(now > usual + margin)


def signals(facts: SeriesFacts) -> dict[str, list[dict[str, Any]]]:
    """The other metrics that were compared, by whether they agree with the alert."""
    found: dict[str, list[dict[str, Any]]] = {"corroborating": [], "contradicting": []}
    for metric, direction in WORDS[facts.rule.name].agrees.items():
        now, baseline = facts.measured.value(metric), facts.baselines.get(metric)
        if now is not None and baseline is not None:
            kind = "corroborating" if moved(now, baseline.mean) == direction else "contradicting"
            found[kind].append({"metric": metric, "value": now, "baseline": baseline.mean})
    return found


def _signals(facts: SeriesFacts) -> str:
    def listed(found: list[dict[str, Any]]) -> str:
        return ", ".join(
            f"{_name(one['metric'])} {_number(one['value'])} (was {_number(one['baseline'])})"
            for one in found
        )

    found = signals(facts)
    sentences = []
    if found["corroborating"]:
        sentences.append(f"In agreement: {listed(found['corroborating'])}.")
    if found["contradicting"]:
        sentences.append(f"Not in agreement: {listed(found['contradicting'])}.")
    return " ".join(sentences) or "No other signal could be compared."


def _evidence(facts: SeriesFacts) -> dict[str, Any]:
    value, baseline = facts.value, facts.baseline
    evidence: dict[str, Any] = {
        "step": facts.measured.step,
        "metric": facts.rule.metric,
        "value": value.value,
        "value_low": value.low,
        "value_high": value.high,
        "baseline": baseline.mean,
        "baseline_spread": baseline.spread,
        "baseline_first_step": baseline.first_step,
        "baseline_last_step": baseline.last_step,
        "limit": facts.limit,
        "log10_evalue": facts.log_evalue / math.log(10.0),
        "alpha": facts.share.alpha,
        "budget_share": facts.share.share,
        **signals(facts),
    }
    if facts.rule.name == "zero_variance_excess":
        evidence["explained"] = explained_zero_variance(facts.baselines, facts.measured)
    return evidence
