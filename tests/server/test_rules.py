import json
import math
from dataclasses import replace

import pytest

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts import rules
from collapsewatch_server.alerts.detectors import PooledSkill
from collapsewatch_server.alerts.rules import DropFacts, Reading, Reference
from collapsewatch_server.alerts.transitions import Severity

READING = Reading(
    step=41,
    skill=MetricValue(value=0.21, low=0.1, high=0.32),
    skills=(0.1, 0.32),
    accuracies={"g0": 0.2, "g1": 0.42},
    accuracy=0.31,
    chance=0.13,
    p_value=0.2,
    conditional_entropy=0.6,
    reward=0.67,
    zero_variance_fraction=0.75,
)
REFERENCE = Reference(
    skill=0.86,
    accuracy=0.88,
    first_step=1,
    last_step=10,
    conditional_entropy=0.62,
    reward=0.66,
    zero_variance_fraction=0.5,
)
FACTS = DropFacts(
    reading=READING,
    reference=REFERENCE,
    log_evalue_warning=math.log(5000.0),
    log_evalue_critical=math.log(1200.0),
    pooled=PooledSkill(0.1, 0.05, 0.15),
    pooled_p_value=0.01,
    num_pooled=3,
    conditional_entropy=0.6,
    reward=0.67,
    zero_variance_fraction=0.75,
)


def _message(facts: DropFacts = FACTS, severity: Severity = "warning") -> str:
    return rules.drop_opens(facts, severity, None, scope="first_turn")[-1].message


def test_message_begins_with_the_measurement_against_the_baseline() -> None:
    assert _message().startswith(
        "Input dependence fell: retrieval accuracy 0.31 (chance 0.13), was 0.88 at baseline (steps 1 to 10); "
        "skill 0.21 (95 % 0.10 to 0.32), was 0.86. Evidence that skill is below 0.7 × baseline: 5000 to 1;"
    )


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_no_alert_passes_a_verdict_on_the_run(severity: Severity) -> None:
    text = _message(severity=severity).lower()
    assert not any(word in text for word in ("your run", "failing", "failed", "healthy", "collapsed"))


def test_steady_entropy_is_named_as_the_pattern_of_template_collapse() -> None:
    assert "H(Z|X) stayed at 0.97 × baseline" in _message()
    assert "pattern of template collapse" in _message()


def test_falling_and_rising_entropy_contradict_it() -> None:
    assert "H(Z|X) fell as well, to 0.50 × baseline" in _message(replace(FACTS, conditional_entropy=0.31))
    assert "H(Z|X) rose to 2.00 × baseline" in _message(replace(FACTS, conditional_entropy=1.24))


def test_unknown_entropy_is_said() -> None:
    message = _message(replace(FACTS, conditional_entropy=None))
    assert "Diversity within a prompt is unknown" in message
    assert "template collapse" not in message


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        (0.67, "Reward is about as before (0.67, was 0.66)"),
        (0.4, "Reward fell as well (0.40, was 0.66)."),
        (0.9, "Reward rose meanwhile (0.90, was 0.66)"),
    ],
)
def test_reward_agrees_or_disagrees_in_one_sentence(reward: float, said: str) -> None:
    assert said in _message(replace(FACTS, reward=reward))


def test_absent_reward_is_not_mentioned() -> None:
    assert "Reward" not in _message(replace(FACTS, reward=None))


def test_zero_variance_groups_are_counted() -> None:
    assert "75 % of the groups have no reward variance, 50 % at baseline." in _message()


def test_critical_says_which_condition_made_it_so() -> None:
    low = _message(severity="critical")
    assert "skill is 0.10 (95 % 0.05 to 0.15), all of it below a quarter of the baseline's (0.21)." in low
    wide = replace(FACTS, pooled=PooledSkill(0.1, -0.2, 0.4), pooled_p_value=0.3)
    assert "which shuffled prompt labels reach as well (p = 0.3)." in _message(wide, "critical")


def test_info_says_that_it_is_one_evaluation() -> None:
    assert "A single evaluation shows this" in _message(severity="info")


def test_overwhelming_evidence_is_written_as_a_power_of_ten() -> None:
    message = _message(replace(FACTS, log_evalue_warning=math.log(10.0) * 80))
    assert "10^80 to 1" in message


def test_evidence_holds_the_values_that_caused_it() -> None:
    evidence = rules.drop_evidence(FACTS, "critical")
    assert evidence["baseline_skill"] == 0.86
    assert (evidence["skill"], evidence["skill_low"], evidence["skill_high"]) == (0.21, 0.1, 0.32)
    assert evidence["floor_skill"] == pytest.approx(0.43)
    assert evidence["floor_accuracy"] == pytest.approx(0.13 + 0.87 * 0.43)
    assert evidence["alpha"] == pytest.approx(0.001 * 15 / 16 * 7 / 8)
    assert evidence["budget_share"] == pytest.approx(15 / 16 * 7 / 8)
    assert evidence["log10_evalue_critical"] == pytest.approx(math.log10(1200.0))
    assert (evidence["pooled_skill_high"], evidence["pooled_p_value"]) == (0.15, 0.01)
    assert evidence["conditional_entropy_ratio"] == pytest.approx(0.6 / 0.62)
    assert (evidence["baseline_first_step"], evidence["baseline_last_step"]) == (1, 10)
    assert evidence["prompt_accuracies"] == {"g0": 0.2, "g1": 0.42}
    assert json.loads(json.dumps(evidence)) == evidence


def test_escalation_resolves_the_lower_alert_first_and_says_so() -> None:
    resolved, opened = rules.drop_opens(FACTS, "critical", "warning", scope="first_turn")
    assert (resolved.kind, resolved.severity) == ("resolve", "warning")
    assert resolved.evidence["escalated_to"] == "critical"
    assert (opened.kind, opened.severity) == ("open", "critical")
    assert opened.evidence["escalated_from"] == "warning"


def test_other_scopes_are_named_in_the_title() -> None:
    assert (
        rules.drop_opens(FACTS, "warning", None, scope="turn/2")[0].title == "Input dependence fell (turn/2)"
    )
    assert rules.drop_opens(FACTS, "warning", None, scope="first_turn")[0].title == "Input dependence fell"


def test_end_by_recovery_and_end_for_want_of_comparison_read_differently() -> None:
    cleared = rules.drop_clears(READING, "warning", 0.86, 5, scope="first_turn")
    assert "for 5 evaluations its lower limit was above 0.8 × the baseline's 0.86" in cleared.message
    abandoned = rules.drop_abandoned("warning", "the scorer changed", scope="first_turn")
    assert "No recovery was measured: the scorer changed" in abandoned.message
