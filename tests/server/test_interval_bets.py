import math

import numpy as np
import pytest

from collapsewatch_server.alerts import interval_bets


def test_interval_of_eight_prompts_is_widened() -> None:
    error = interval_bets.standard_error(0.4, 0.6, num_prompts=8, spread=0.0)
    assert error == pytest.approx(1.3 * 0.1 / 1.959964)


def test_spread_between_evaluations_counts_where_it_is_larger() -> None:
    assert interval_bets.standard_error(0.4, 0.6, num_prompts=8, spread=0.2) == 0.2
    assert interval_bets.standard_error(None, None, num_prompts=8, spread=0.2) == 0.2


def test_distance_points_beyond_the_limit() -> None:
    assert interval_bets.distance_beyond(0.3, 0.5, 0.1, rises=False) == pytest.approx(2.0)
    assert interval_bets.distance_beyond(0.3, 0.5, 0.1, rises=True) == pytest.approx(-2.0)
    assert interval_bets.distance_beyond(0.3, 0.5, 0.0, rises=False) == math.inf
    assert interval_bets.distance_beyond(0.5, 0.5, 0.0, rises=False) == 0.0


def test_capital_is_the_documented_product_and_restarts_at_one() -> None:
    capital = interval_bets.advanced(interval_bets.NO_EVIDENCE, 2.0)
    assert capital == pytest.approx((0.5 * 2.0 - 0.125, 1.0 * 2.0 - 0.5))
    lost = interval_bets.advanced(interval_bets.NO_EVIDENCE, -4.0)
    assert max(lost) < 0.0
    assert interval_bets.advanced(lost, 2.0) == pytest.approx(capital)


def test_no_single_evaluation_is_worth_more_than_a_factor_of_thirteen() -> None:
    assert max(interval_bets.advanced(interval_bets.NO_EVIDENCE, math.inf)) < math.log(13.0)


@pytest.mark.parametrize("num_prompts", [8, 16, 64])
@pytest.mark.parametrize("skewed", [False, True], ids=["normal", "skewed"])
def test_bets_on_bootstrap_intervals_at_the_very_limit_are_fair(num_prompts: int, *, skewed: bool) -> None:
    """Prompts drawn at the limit; the interval is the percentile bootstrap that workers send."""
    generator = np.random.default_rng(num_prompts)
    factors = []
    for _ in range(1500):
        prompts = (
            generator.exponential(1.0, num_prompts) if skewed else generator.normal(1.0, 1.0, num_prompts)
        )
        means = generator.choice(prompts, (200, num_prompts)).mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        error = interval_bets.standard_error(float(low), float(high), num_prompts=num_prompts, spread=0.0)
        z = interval_bets.distance_beyond(float(prompts.mean()), 1.0, error, rises=True)
        factors.append(np.exp(interval_bets.advanced(interval_bets.NO_EVIDENCE, z)))
    mean, error_of_mean = np.mean(factors, axis=0), np.std(factors, axis=0) / math.sqrt(len(factors))
    assert np.all(mean <= 1.0 + 3.0 * error_of_mean)
