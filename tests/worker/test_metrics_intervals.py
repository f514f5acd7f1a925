"""Legend: R rows, N clusters, B draws."""

import time

import numpy as np
import pytest

from collapsewatch_worker.metrics.evaluation import evaluate_matrix
from collapsewatch_worker.metrics.intervals import cluster_draws, percentile_interval, resampled_means


def test_each_draw_holds_as_many_clusters_as_there_are() -> None:
    draws_BN = cluster_draws(7, num_draws=50, seed=3)
    assert draws_BN.shape == (50, 7)
    assert (draws_BN.sum(axis=1) == 7).all()
    assert draws_BN.mean() == 1


def test_the_seed_decides_the_draws() -> None:
    assert np.array_equal(cluster_draws(9, seed=4), cluster_draws(9, seed=4))
    assert not np.array_equal(cluster_draws(9, seed=4), cluster_draws(9, seed=5))


def test_resampled_means_match_copying_the_rows() -> None:
    generator = np.random.default_rng(0)
    cluster_of_R = np.array([0, 0, 0, 1, 2, 2, 3])
    values_R = generator.normal(size=7)
    draws_BN = cluster_draws(4, num_draws=30, seed=1)
    found_B = resampled_means({"x": values_R}, cluster_of_R, draws_BN)["x"]
    for draw_N, found in zip(draws_BN, found_B, strict=True):
        copies = np.concatenate([np.tile(values_R[cluster_of_R == n], int(draw_N[n])) for n in range(4)])
        assert found == pytest.approx(copies.mean(), rel=1e-12)


def test_rows_of_one_prompt_widen_the_interval_beyond_independent_rows() -> None:
    cluster_of_R = np.repeat(np.arange(16), 16)
    values_R = (np.arange(16) % 2).astype(float)[cluster_of_R]
    widths = []
    for clusters_R in (cluster_of_R, np.arange(256)):
        draws_BN = cluster_draws(int(clusters_R.max()) + 1)
        low, high = percentile_interval(resampled_means({"x": values_R}, clusters_R, draws_BN)["x"]) or (0, 0)
        widths.append(high - low)
    # Sixteen equal rows a prompt count as one: four times as wide.
    assert widths[0] == pytest.approx(4 * widths[1], rel=0.2)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    covered = 0
    for seed in range(300):
        effect_N = generator.normal(size=32)
        values_R = np.repeat(effect_N, 4) + generator.normal(size=128)
        draws_BN = cluster_draws(32, num_draws=400, seed=seed)
        low, high = percentile_interval(
            resampled_means({"x": values_R}, np.repeat(np.arange(32), 4), draws_BN)["x"]
        ) or (0, 0)
        covered += low <= 0 <= high
    # A percentile interval over 32 clusters falls a little short of 95 %; 3 sigma of 300 is 4 %.
    assert 0.89 <= covered / 300 <= 0.98


def test_a_draw_that_is_no_number_leaves_no_interval() -> None:
    assert percentile_interval(np.array([0.0, np.nan])) is None
    assert percentile_interval(np.linspace(0, 1, 1001)) == pytest.approx((0.025, 0.975))


def test_sixty_four_prompts_and_a_thousand_rows_take_well_under_a_second() -> None:
    generator = np.random.default_rng(0)
    scores_RP = generator.normal(-50, 5, size=(1024, 64))
    arguments = (scores_RP, np.repeat(np.arange(64), 16), np.ones(64), np.full(1024, 50))
    started = time.process_time()
    result = evaluate_matrix(*arguments, num_draws=1000, num_permutations=999)
    assert time.process_time() - started < 1
    assert result.metrics["mi_zscore"].low is not None
