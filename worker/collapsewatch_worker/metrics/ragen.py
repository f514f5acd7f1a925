"""The metrics of the RAGEN-2 code under its own names, which differ from ours in definition.

They are kept so that curves can be laid over existing logs: the mixture is taken over per-token MEANS
of log-probs, so `mi_estimate` can exceed log N / |Z|; ties go to the first column; `@k` is clipped at
the number of columns; `mi_upper_bound` counts groups, not distinct prompts.

Legend: R rows, N columns (one per group, repeated prompts included).
Source: docs/metrics.md section 2 ("RAGEN-compatible names"); arXiv 2604.06268 and its public code.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from collapsewatch_worker.metrics.arrays import Floats, Ints, log_sum_exp

RANKS = (2, 4, 8)
STD_EPS = 1e-3


def ragen_metrics(
    mean_RN: Floats,
    sum_RN: Floats,
    column_of_R: Ints,
    *,
    signature_N: Sequence[Hashable] | None = None,
    std_eps: float = STD_EPS,
) -> dict[str, float]:
    """The family without its four smoothed members, by the code's suffixes; empty for fewer than 2 columns.

    Non-finite scores spread by IEEE arithmetic, as they do there; the caller decides what to send on.

    Args:
        mean_RN: nats per token.
        sum_RN: nats per sequence.
        column_of_R: each row's own column.
        signature_N: equal values mark columns with equal prompts; all differ when absent.
        std_eps: added to a spread before dividing by it.
    """
    if mean_RN.shape[1] < 2:
        return {}
    signatures = list(signature_N) if signature_N is not None else list(range(mean_RN.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):
        return {
            **_information(mean_RN, sum_RN, column_of_R, std_eps),
            **_retrieval(mean_RN, column_of_R, signatures),
        }


def _information(mean_RN: Floats, sum_RN: Floats, column_of_R: Ints, std_eps: float) -> dict[str, float]:
    matched_R, marginal_R = _matched_and_marginal(mean_RN, column_of_R)
    matched_sum_R, marginal_sum_R = _matched_and_marginal(sum_RN, column_of_R)
    matched, marginal = float(matched_R.mean()), float(marginal_R.mean())
    pmi_sum_R = matched_sum_R - marginal_sum_R
    std, std_seq = float(marginal_R.std()), float(marginal_sum_R.std())
    return {
        "mi_estimate": matched - marginal,
        "mi_seq_estimate": float(pmi_sum_R.mean()),
        "mi_upper_bound": float(np.log(mean_RN.shape[1])),
        "matched_log_prob_mean": matched,
        "marginal_log_prob_mean": marginal,
        "conditional_entropy_est": -matched,
        "conditional_entropy_seq_est": -float(matched_sum_R.mean()),
        "reasoning_entropy_est": -marginal,
        "reasoning_entropy_seq_est": -float(marginal_sum_R.mean()),
        "marginal_std": std,
        "marginal_std_seq": std_seq,
        "mi_zscore": float(((matched_R - marginal_R) / (std + std_eps)).mean()),
        "mi_zscore_seq": float((pmi_sum_R / (std_seq + std_eps)).mean()),
    }


def _matched_and_marginal(scores_RN: Floats, column_of_R: Ints) -> tuple[Floats, Floats]:
    matched_R = scores_RN[np.arange(column_of_R.size), column_of_R]
    return matched_R, log_sum_exp(scores_RN, axis=1) - np.log(scores_RN.shape[1])


def _retrieval(mean_RN: Floats, column_of_R: Ints, signatures: Sequence[Hashable]) -> dict[str, float]:
    num_columns = len(signatures)
    number_of = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    prompt_N = np.array([number_of[signature] for signature in signatures])
    own_R = prompt_N[column_of_R]
    chance = float((np.bincount(prompt_N)[own_R] / num_columns).mean())
    # NaN ranks above every number, then the higher score, then the first column.
    order_RN = np.lexsort((-mean_RN, ~np.isnan(mean_RN)), axis=1)
    hit_RN = prompt_N[order_RN] == own_R[:, None]
    metrics: dict[str, float] = {}
    for suffix, rank in (("", 1), *((f"@{rank}", rank) for rank in RANKS)):
        clipped = min(rank, num_columns)
        accuracy = float(hit_RN[:, :clipped].any(axis=1).mean())
        level = min(1.0, clipped * chance)
        metrics[f"retrieval_accuracy{suffix}"] = accuracy
        metrics[f"retrieval_chance_level{suffix}"] = level
        metrics[f"retrieval_above_chance{suffix}"] = accuracy - level
    return metrics


def prompt_of_each_group(
    group_ids: Sequence[Hashable], prompts: Sequence[Sequence[int]]
) -> dict[Hashable, tuple[int, ...]]:
    """The prompt of each group, in order of first appearance.

    Raises:
        ValueError: two rows of one group have different prompts: there is no such column.
    """
    found: dict[Hashable, tuple[int, ...]] = {}
    for row, (group_id, prompt) in enumerate(zip(group_ids, prompts, strict=True)):
        if found.setdefault(group_id, tuple(prompt)) != tuple(prompt):
            raise ValueError(f"row {row} of group {group_id!r} has another prompt than the group's first row")
    return found
