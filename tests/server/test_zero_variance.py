import numpy as np
import pytest

from collapsewatch_server.alerts.zero_variance import explained_fraction, zero_variance_of


@pytest.mark.parametrize(("mean", "concentration"), [(0.5, 2.0), (0.8, 5.0), (0.1, 0.7)])
def test_fraction_agrees_with_drawn_groups(mean: float, concentration: float) -> None:
    generator = np.random.default_rng(0)
    rates = generator.beta(mean * concentration, (1.0 - mean) * concentration, size=200_000)
    hits = generator.binomial(8, rates)
    drawn = np.mean((hits == 0) | (hits == 8))
    assert zero_variance_of(mean, concentration, 8) == pytest.approx(drawn, abs=0.005)


def test_prompts_that_are_all_alike_give_the_binomial() -> None:
    assert zero_variance_of(0.7, 1e6, 8) == pytest.approx(0.7**8 + 0.3**8, abs=1e-4)


def test_prompts_solved_always_or_never_have_no_variance_at_all() -> None:
    assert zero_variance_of(0.7, 1e-4, 8) == pytest.approx(1.0, abs=1e-3)


def test_unchanged_success_explains_the_baseline_itself() -> None:
    explained = explained_fraction(0.6, baseline_mean=0.6, baseline_fraction=0.3, num_rollouts=8)
    assert explained == pytest.approx(0.3, abs=1e-6)


def test_learning_explains_a_rise() -> None:
    """Hand-worked: K = 2 and rates uniform at baseline (a = b = 1): E p² + E (1 − p)² = 2/3."""
    explained = explained_fraction(0.75, baseline_mean=0.5, baseline_fraction=2 / 3, num_rollouts=2)
    # Beta(1.5, 0.5): E p² = 1.5 · 2.5 / (2 · 3) = 0.625, E (1 − p)² = 0.5 · 1.5 / 6 = 0.125.
    assert explained == pytest.approx(0.75, abs=1e-6)


def test_one_rollout_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 rollouts, got 1"):
        explained_fraction(0.5, baseline_mean=0.5, baseline_fraction=0.5, num_rollouts=1)
