import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.folds.regimes import Thresholds, insufficient, regime_of

LIMITS = Thresholds.for_baseline(0.8)


def _around(value: float, half_width: float = 0.02) -> MetricValue:
    return MetricValue(value=value, low=value - half_width, high=value + half_width)


def test_limits_follow_the_baseline() -> None:
    assert LIMITS.to_json() == {
        "low_dependence": pytest.approx(0.2),
        "high_dependence": pytest.approx(0.4),
        "low_diversity": 0.5,
        "high_diversity": 2.0,
    }


def test_weak_baseline_does_not_push_the_limits_to_chance() -> None:
    limits = Thresholds.for_baseline(0.2)
    assert (limits.low_dependence, limits.high_dependence) == (0.10, 0.20)


@pytest.mark.parametrize(
    ("skill", "diversity", "name"),
    [
        (0.8, 1.0, "diverse_reasoning"),
        (0.05, 1.0, "template_collapse"),
        (0.8, 0.3, "compressed_reasoning"),
        (0.05, 0.3, "low_entropy_collapse"),
        (0.3, 1.0, "indeterminate"),
        (0.8, 0.5, "indeterminate"),
        (0.05, 0.5, "indeterminate"),
        (0.8, 3.0, "diverse_reasoning"),
        (0.05, 3.0, "template_collapse"),
    ],
)
def test_each_corner_has_its_name(skill: float, diversity: float, name: str) -> None:
    assert regime_of(_around(skill), _around(diversity), LIMITS).name == name


def test_interval_that_straddles_the_low_limit_is_not_called_a_collapse() -> None:
    wide = MetricValue(value=0.1, low=0.0, high=0.21)
    assert regime_of(wide, _around(1.0), LIMITS).name == "indeterminate"
    narrow = MetricValue(value=0.1, low=0.0, high=0.19)
    assert regime_of(narrow, _around(1.0), LIMITS).name == "template_collapse"


def test_limits_themselves_belong_to_neither_side() -> None:
    at_low = MetricValue(value=0.1, low=0.0, high=LIMITS.low_dependence)
    at_high = MetricValue(value=0.6, low=LIMITS.high_dependence, high=0.8)
    assert regime_of(at_low, _around(1.0), LIMITS).name == "indeterminate"
    assert regime_of(at_high, _around(1.0), LIMITS).name == "indeterminate"


def test_reason_is_one_sentence_with_the_numbers() -> None:
    reason = regime_of(_around(0.05), _around(0.96), LIMITS).reason
    assert reason == (
        "Input dependence is low (recent skill 0.05, 95 % 0.03 to 0.07, low below 0.20) while "
        "H(Z|X) is 0.96, 95 % 0.94 to 0.98 × baseline: the texts still vary, but no longer with the prompt."
    )


def test_exploded_diversity_is_said() -> None:
    assert "exploded" in regime_of(_around(0.8), _around(3.0), LIMITS).reason


@pytest.mark.parametrize(("skill", "said"), [(0.05, "is low"), (0.8, "is high")])
def test_unknown_diversity_is_said_and_never_read_as_healthy(skill: float, said: str) -> None:
    regime = regime_of(_around(skill), None, LIMITS)
    assert regime.name == "indeterminate"
    assert f"Input dependence {said}" in regime.reason
    assert "diversity is unknown" in regime.reason


def test_missing_interval_decides_nothing() -> None:
    assert regime_of(MetricValue(value=0.9), _around(1.0), LIMITS).name == "indeterminate"
    assert regime_of(_around(0.9), MetricValue(value=1.0), LIMITS).name == "indeterminate"


def test_insufficient_names_its_gate() -> None:
    regime = insufficient("5 distinct prompts, at least 8 are needed")
    assert regime.name == "insufficient"
    assert regime.reason == "Not enough to judge: 5 distinct prompts, at least 8 are needed."


@given(
    skill=st.floats(-0.2, 1.0),
    skill_margin=st.floats(0.0, 0.5),
    diversity=st.floats(0.0, 4.0),
    diversity_margin=st.floats(0.0, 1.0),
    baseline=st.floats(0.0, 1.0),
)
def test_wider_intervals_never_turn_one_verdict_into_another(
    skill: float, skill_margin: float, diversity: float, diversity_margin: float, baseline: float
) -> None:
    limits = Thresholds.for_baseline(baseline)
    sharp = regime_of(_around(skill, 0.0), _around(diversity, 0.0), limits).name
    wide = regime_of(_around(skill, skill_margin), _around(diversity, diversity_margin), limits).name
    assert wide in {sharp, "indeterminate"}
