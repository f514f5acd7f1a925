"""Bootstrap intervals over clusters: the rows of one prompt, or of one group, stay together.

Legend: R rows, N clusters (prompts that have rows), B draws, S statistics.
Source: docs/metrics.md section 2 ("Intervals").
"""

from collections.abc import Mapping

import numpy as np

from collapsewatch_worker.metrics.arrays import Floats, Ints

NUM_DRAWS = 1000
CONFIDENCE = 0.95


def cluster_draws(num_clusters: int, *, num_draws: int = NUM_DRAWS, seed: int = 0) -> Floats:
    """[B, N] how often each cluster is in each draw of N clusters with replacement."""
    generator = np.random.default_rng(seed)
    chosen_BN = generator.integers(0, num_clusters, size=(num_draws, num_clusters))
    offset_B = np.arange(num_draws)[:, None] * num_clusters
    counts = np.bincount((chosen_BN + offset_B).ravel(), minlength=num_draws * num_clusters)
    return counts.reshape(num_draws, num_clusters).astype(np.float64)


def resampled_means(
    statistics: Mapping[str, Floats], cluster_of_R: Ints, draws_BN: Floats
) -> dict[str, Floats]:
    """Statistic → [B] mean over the rows of the drawn clusters, each row as often as its cluster.

    Args:
        statistics: per row, [R] each.
        cluster_of_R: cluster of each row, 0 … N − 1, none of them empty.
        draws_BN: as `cluster_draws` gives it; a row of ones gives the plain mean.
    """
    num_clusters = draws_BN.shape[1]
    rows_N = np.bincount(cluster_of_R, minlength=num_clusters).astype(np.float64)
    sums_SN = np.stack(
        [np.bincount(cluster_of_R, weights=values, minlength=num_clusters) for values in statistics.values()]
    )
    means_BS = (draws_BN @ sums_SN.T) / (draws_BN @ rows_N)[:, None]
    return dict(zip(statistics, means_BS.T, strict=True))


def percentile_interval(values_B: Floats, *, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Lower and upper end of the middle `confidence` of the draws; None when a draw is not finite."""
    if not np.isfinite(values_B).all():
        return None
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(values_B, [tail, 1.0 - tail])
    return float(low), float(high)
