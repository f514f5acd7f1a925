"""How many groups without reward variance the success rates explain. Pure arithmetic.

K rollouts of a prompt that succeeds with probability p are all alike with probability p^K + (1 − p)^K, so the
fraction rises by itself while a run learns. How far depends on how unlike the prompts are, and that is what
the baseline tells: success rates are taken as Beta distributed, with the concentration that gives the
baseline's fraction at the baseline's mean. Source: docs/metrics.md section 5.
"""

import math

_CONCENTRATIONS = (1e-4, 1e6)
_NUM_HALVINGS = 60


def zero_variance_of(mean: float, concentration: float, num_rollouts: int) -> float:
    """Expected share of groups whose rollouts all succeed or all fail, 0..1.

    E[p^K + (1 − p)^K] for p ~ Beta(mean · concentration, (1 − mean) · concentration): a product of K ratios.

    Args:
        mean: success rate over all prompts, 0..1.
        concentration: small when prompts are solved always or never, large when all are alike; above 0.
        num_rollouts: K.
    """

    def all_alike(share: float) -> float:
        terms = ((share * concentration + k) / (concentration + k) for k in range(num_rollouts))
        return math.prod(terms)

    return all_alike(mean) + all_alike(1.0 - mean)


def explained_fraction(
    mean: float, *, baseline_mean: float, baseline_fraction: float, num_rollouts: int
) -> float:
    """The zero-variance fraction that this success rate explains, prompts being as unlike as at baseline.

    Args:
        mean: success rate now.
        baseline_mean: success rate at the baseline.
        baseline_fraction: zero-variance fraction at the baseline.
        num_rollouts: K, at least 2.

    Raises:
        ValueError: fewer than 2 rollouts of a prompt.
    """
    if num_rollouts < 2:
        raise ValueError(f"a group without variance needs at least 2 rollouts, got {num_rollouts}")
    low, high = (math.log(end) for end in _CONCENTRATIONS)
    # The fraction falls with the concentration, so halving finds the one that fits, or the nearer end.
    for _ in range(_NUM_HALVINGS):
        middle = (low + high) / 2.0
        if zero_variance_of(baseline_mean, math.exp(middle), num_rollouts) > baseline_fraction:
            low = middle
        else:
            high = middle
    return zero_variance_of(mean, math.exp((low + high) / 2.0), num_rollouts)
