"""Information between prompts and reasoning, from the matrix of cross log-probs.

Legend: R rows (scored reasoning traces), P columns (distinct prompts), B resamples.
Source: docs/metrics.md section 2; arXiv 2604.06268. Everything is in nats.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from collapsewatch_worker.metrics.arrays import Bools, Floats, Ints, log_sum_exp

ZSCORE_EPS = 1e-3
"""Added to the spread of the marginals before dividing by it, in nats per token."""
LARGEST_EVALUE = 1e300
"""`pmi_evalue` is cut off here, because JSON has no infinity and any such value says the same."""

INFORMATION_METRICS = (
    "mi_seq",
    "mi_normalised",
    "mi_token",
    "conditional_entropy",
    "conditional_entropy_seq",
    "reasoning_entropy",
    "reasoning_entropy_seq",
    "marginal_std",
    "mi_zscore",
    "pmi_evalue",
)


@dataclass(frozen=True)
class RowInformation:
    """What each row says, before any mean over rows."""

    matched_R: Floats
    """Log-prob under the row's own prompt, nats per sequence."""
    marginal_R: Floats
    """Log-prob under the weighted mixture of the row's columns, nats per sequence."""
    pmi_R: Floats
    """matched − marginal; at most −log of the own prompt's weight."""
    num_tokens_R: Ints


def row_weights(weight_P: Floats, mask_RP: Bools | None, num_rows: int) -> Floats:
    """[R, P] weights that sum to 1 over the columns a row may be compared with, 0 elsewhere.

    Args:
        weight_P: positive, on any scale, such as the number of groups that share each prompt.
        mask_RP: True where a column must not be used for a row, because it contains it.
    """
    weight_RP = np.broadcast_to(weight_P, (num_rows, weight_P.size)).astype(np.float64)
    if mask_RP is not None:
        weight_RP = np.where(mask_RP, 0.0, weight_RP)
    return np.asarray(weight_RP / weight_RP.sum(axis=1, keepdims=True), dtype=np.float64)


def row_information(
    cross_log_probs_RP: Floats, prompt_of_R: Ints, weight_RP: Floats, num_tokens_R: Ints
) -> RowInformation:
    """Matched and marginal log-probs of each row.

    Args:
        cross_log_probs_RP: nats, summed over the reasoning tokens; ignored where the weight is 0.
        prompt_of_R: each row's own column.
        weight_RP: as `row_weights` gives it.
        num_tokens_R: reasoning tokens of each row, at least 1.
    """
    matched_R = cross_log_probs_RP[np.arange(prompt_of_R.size), prompt_of_R]
    used = weight_RP > 0
    terms_RP = np.where(used, cross_log_probs_RP + np.log(np.where(used, weight_RP, 1.0)), -np.inf)
    marginal_R = log_sum_exp(terms_RP, axis=1)
    # An impossible reasoning is −inf both ways; the NaN says that it has no pmi.
    with np.errstate(invalid="ignore"):
        return RowInformation(matched_R, marginal_R, matched_R - marginal_R, num_tokens_R)


def mi_ceiling(weight_P: Floats) -> float:
    """Entropy of the prompts, −Σ w log w in nats: log P when no prompt is repeated.

    `mi_seq` stays below it when each prompt's share of the rows is its weight, and always when the
    weights are equal.
    """
    share_P = weight_P / weight_P.sum()
    return float(-np.sum(share_P * np.log(share_P)))


def row_statistics(rows: RowInformation) -> dict[str, Floats]:
    """Per row, the numbers whose means over rows decide every metric of this module.

    The two that feed a spread or an exponential are shifted by a constant of the batch, which
    `information_metrics` takes back: it keeps the squares and the exponentials in range.
    """
    pmi_R = rows.pmi_R
    marginal_token_R = rows.marginal_R / rows.num_tokens_R
    centred_R = marginal_token_R - marginal_token_R.mean()
    return {
        "pmi": pmi_R,
        "pmi_token": pmi_R / rows.num_tokens_R,
        "matched": rows.matched_R,
        "matched_token": rows.matched_R / rows.num_tokens_R,
        "marginal": rows.marginal_R,
        "marginal_token": marginal_token_R,
        "marginal_centred": centred_R,
        "marginal_squared": centred_R**2,
        "evalue_shifted": np.exp(-pmi_R - (-pmi_R).max()),
    }


def information_metrics(
    mean_B: Mapping[str, Floats], *, ceiling: float, evalue_log_scale: float
) -> dict[str, Floats]:
    """Metrics [B] from B sets of means of `row_statistics`, by name.

    Args:
        mean_B: statistic → its mean over rows in each of B resamples.
        ceiling: `mi_ceiling`, above 0.
        evalue_log_scale: max over rows of −pmi, the shift of `evalue_shifted`.
    """
    # Rounding can push the variance of equal values below zero by an ulp.
    variance_B = np.maximum(mean_B["marginal_squared"] - mean_B["marginal_centred"] ** 2, 0.0)
    marginal_std_B = np.sqrt(variance_B)
    log_evalue_B = np.log(mean_B["evalue_shifted"]) + evalue_log_scale
    return {
        "mi_seq": mean_B["pmi"],
        "mi_normalised": mean_B["pmi"] / ceiling,
        "mi_token": mean_B["pmi_token"],
        "conditional_entropy": -mean_B["matched_token"],
        "conditional_entropy_seq": -mean_B["matched"],
        "reasoning_entropy": -mean_B["marginal_token"],
        "reasoning_entropy_seq": -mean_B["marginal"],
        "marginal_std": marginal_std_B,
        "mi_zscore": mean_B["pmi_token"] / (marginal_std_B + ZSCORE_EPS),
        "pmi_evalue": np.exp(np.minimum(log_evalue_B, np.log(LARGEST_EVALUE))),
    }
