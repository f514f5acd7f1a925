import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.alerts import detectors
from collapsewatch_server.alerts.detectors import CRITICAL, WARNING, Level

RECORDED = Path(__file__).parents[1] / "data" / "recorded_hits.json"
SKILLS = st.lists(st.floats(-1.0 / 7.0, 1.0), min_size=1, max_size=20)


def _binomial_skills(
    generator: np.random.Generator, skill: float, *, size: tuple[int, int], num_rollouts: int
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """[evaluations, prompts] skills of independent rollouts that hit with the given skill above chance."""
    chance = 1.0 / size[1]
    hits = generator.binomial(num_rollouts, chance + (1.0 - chance) * skill, size=size)
    return np.asarray((hits / num_rollouts - chance) / (1.0 - chance))


def _first_alarm(skills: Sequence[Sequence[float]], level: Level, baseline: float) -> int | None:
    """Position of the first evaluation at which the level's threshold is reached."""
    capital = detectors.NO_EVIDENCE
    for position, evaluation in enumerate(skills):
        capital = detectors.advanced(capital, evaluation, level.floor_fraction * baseline)
        if detectors.log_evalue(capital) >= level.log_threshold:
            return position
    return None


def test_factor_is_the_documented_product_over_accuracies() -> None:
    chance, floor_skill = 0.125, 0.7 * 0.8
    accuracies = [0.5, 0.25, 1.0, 0.0, 0.625, 0.125, 0.375, 0.75]
    floor = chance + (1.0 - chance) * floor_skill
    skills = [(accuracy - chance) / (1.0 - chance) for accuracy in accuracies]
    capital = detectors.advanced(detectors.NO_EVIDENCE, skills, floor_skill)
    for stake, log_capital in zip((0.25, 0.5, 0.75), capital, strict=True):
        factor = math.prod(1.0 + stake / (1.0 - floor) * (floor - a) for a in accuracies)
        assert log_capital == pytest.approx(math.log(factor), abs=1e-12)


def test_lost_capital_restarts_at_one() -> None:
    poor = detectors.advanced(detectors.NO_EVIDENCE, [1.0] * 8, 0.5)
    assert max(poor) < 0.0
    again = detectors.advanced(poor, [0.0] * 8, 0.5)
    assert again == pytest.approx(detectors.advanced(detectors.NO_EVIDENCE, [0.0] * 8, 0.5))


def test_log_evalue_is_the_mean_over_stakes() -> None:
    capital = (math.log(2.0), math.log(4.0), math.log(9.0))
    assert detectors.log_evalue(capital) == pytest.approx(math.log(5.0))


def test_huge_capital_stays_finite() -> None:
    capital = detectors.NO_EVIDENCE
    for _ in range(5000):
        capital = detectors.advanced(capital, [-1.0 / 63.0] * 64, 0.6)
    assert math.isfinite(detectors.log_evalue(capital))
    assert detectors.log_evalue(capital) > 10_000.0


@given(skills=SKILLS, floor=st.floats(0.0, 0.7), start=st.floats(-50.0, 50.0))
def test_every_factor_stays_positive(skills: list[float], floor: float, start: float) -> None:
    capital = detectors.advanced((start,) * 3, skills, floor)
    assert all(math.isfinite(value) for value in capital)
    smallest = len(skills) * math.log(0.25)
    assert min(capital) >= smallest - 1e-9


def test_floor_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match="must be below 1"):
        detectors.advanced(detectors.NO_EVIDENCE, [0.5], 1.0)


@given(floor=st.floats(0.05, 0.7), weights=st.lists(st.floats(0.01, 1.0), min_size=8, max_size=8))
def test_one_bet_on_prompts_at_the_floor_is_fair_or_worse(floor: float, weights: list[float]) -> None:
    """Exact expectation over hit-or-miss prompts whose expected skills average to the floor."""
    chance = 0.125
    means = np.clip(floor * np.asarray(weights) / np.mean(weights), -chance / (1 - chance), 1.0)
    floor_of_means = float(means.mean())
    expected = np.zeros(3)
    for i, stake in enumerate(detectors.STAKES):
        # A prompt's factor is linear in its skill, so its expectation is the factor at the mean.
        expected[i] = np.prod(1.0 + stake * (floor_of_means - means) / (1.0 - floor_of_means))
    assert np.all(expected <= 1.0 + 1e-9)
    assert detectors.advanced(detectors.NO_EVIDENCE, list(means), floor_of_means) == pytest.approx(
        tuple(np.log(expected)), abs=1e-9
    )


@pytest.mark.parametrize("level", [WARNING, CRITICAL], ids=["warning", "critical"])
@pytest.mark.parametrize("skill", [0.2, 0.5, 0.9])
def test_false_alarms_at_the_very_floor_are_rarer_than_promised(level: Level, skill: float) -> None:
    num_evaluations = 6_000
    floor = level.floor_fraction * skill
    generator = np.random.default_rng(11)
    capital, alarms = detectors.NO_EVIDENCE, 0
    for skills in _binomial_skills(generator, floor, size=(num_evaluations, 8), num_rollouts=16):
        capital = detectors.advanced(capital, skills.tolist(), floor)
        if detectors.log_evalue(capital) >= level.log_threshold:
            capital, alarms = detectors.NO_EVIDENCE, alarms + 1
    assert alarms <= num_evaluations / level.run_length


@pytest.mark.parametrize("skill", [0.2, 0.5, 0.9])
def test_stable_series_with_an_estimated_baseline_keep_silent(skill: float) -> None:
    generator = np.random.default_rng(5)
    alarms = 0
    for _ in range(25):
        series = _binomial_skills(generator, skill, size=(210, 8), num_rollouts=16)
        baseline = float(series[:10].mean())
        alarms += any(
            _first_alarm(series[10:].tolist(), level, baseline) is not None for level in (WARNING, CRITICAL)
        )
    # 5000 evaluations at 1/500 would allow ten.
    assert alarms <= 1


@pytest.mark.parametrize("skill", [0.6, 0.8, 0.95])
def test_drop_to_chance_is_found_within_three_evaluations(skill: float) -> None:
    generator = np.random.default_rng(3)
    for _ in range(40):
        baseline = float(_binomial_skills(generator, skill, size=(10, 8), num_rollouts=8).mean())
        dropped = _binomial_skills(generator, 0.0, size=(3, 8), num_rollouts=8)
        assert _first_alarm(dropped.tolist(), WARNING, baseline) is not None


@pytest.mark.parametrize(
    ("run", "warning", "critical"),
    [
        ("flat_nf_s1", 32, 37),
        ("shift_nf_s1", 84, 97),
        ("solved_s1", 94, 149),
        ("flat_f_s1", None, None),
        ("flat_healthy_s1", None, None),
    ],
)
def test_recorded_runs_alarm_at_their_known_steps(
    run: str, warning: int | None, critical: int | None
) -> None:
    recorded = json.loads(RECORDED.read_text())[run]
    skills = [[(a - 1 / len(row)) / (1 - 1 / len(row)) for a in row] for row in recorded["accuracies"]]
    baseline = float(np.mean(skills[1:11]))
    for level, known in ((WARNING, warning), (CRITICAL, critical)):
        position = _first_alarm(skills[11:], level, baseline)
        if known is None:
            assert position is None
        else:
            assert position is not None
            assert abs(recorded["steps"][11 + position] - known) <= 2


def test_histogram_keeps_every_skill() -> None:
    assert detectors.skill_counts([0.5, -0.1, 0.5]) == ((-0.1, 1), (0.5, 2))


def test_pooled_skill_agrees_with_a_bootstrap_over_single_prompts() -> None:
    generator = np.random.default_rng(1)
    evaluations = _binomial_skills(generator, 0.4, size=(3, 16), num_rollouts=8)
    pooled = detectors.pooled_skill([detectors.skill_counts(row) for row in evaluations], seed=7)
    flat = evaluations.ravel()
    means = generator.choice(flat, size=(20_000, flat.size)).mean(axis=1)
    assert pooled.value == pytest.approx(float(flat.mean()), abs=1e-5)
    assert (pooled.low, pooled.high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.015)


def test_pooled_skill_is_the_same_for_the_same_seed() -> None:
    counts = [detectors.skill_counts([0.1, 0.4, 0.7])]
    assert detectors.pooled_skill(counts, seed=3) == detectors.pooled_skill(counts, seed=3)


def test_pooled_skill_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one prompt"):
        detectors.pooled_skill([], seed=0)


def test_one_p_value_combines_to_itself() -> None:
    assert detectors.combined_p_value([0.03, None]) == pytest.approx(0.03, rel=1e-12)


def test_no_p_value_combines_to_none() -> None:
    assert detectors.combined_p_value([None, None]) is None


def test_two_p_values_combine_as_the_product_law_says() -> None:
    """P(U1 · U2 <= x) = x (1 − ln x) for uniform U1, U2."""
    product = 0.2 * 0.3
    assert detectors.combined_p_value([0.2, 0.3]) == pytest.approx(product * (1.0 - math.log(product)))


def test_combined_p_values_of_independent_evaluations_are_uniform() -> None:
    draws = np.random.default_rng(2).uniform(size=(4000, 3))
    combined = [detectors.combined_p_value(row) or 0.0 for row in draws.tolist()]
    assert np.quantile(combined, [0.05, 0.5, 0.95]) == pytest.approx([0.05, 0.5, 0.95], abs=0.02)


@pytest.mark.parametrize(
    ("high", "p_value", "expected"),
    [(0.19, 0.001, True), (0.3, 0.2, True), (0.3, 0.001, False), (0.3, None, False), (0.2, 0.05, False)],
)
def test_independence_needs_a_low_limit_or_a_large_p(
    high: float, p_value: float | None, expected: bool
) -> None:
    pooled = detectors.PooledSkill(0.1, 0.0, high)
    assert detectors.consistent_with_independence(pooled, p_value, 0.8) is expected
