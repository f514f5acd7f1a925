"""Retrieval: is a reasoning more probable under its own prompt than under the others?

Legend: R rows (scored reasoning traces), P columns (distinct prompts), N prompts that have rows,
B permutations.

Two scores tie when they are the same number. Nothing is rounded first: two prompts that the scorer
truly cannot tell apart give equal sums when they are computed alike, and a tolerance would share hits
between columns that differ.

Source: docs/metrics.md section 2; arXiv 2604.06268, Table 1.
"""

import itertools
import math

import numpy as np

from collapsewatch_worker.metrics.arrays import Bools, Floats, Ints

RANKS = (2, 4, 8)
"""The k of `retrieval_accuracy@k`."""
NUM_PERMUTATIONS = 999
LARGEST_ENUMERATION = 5040
"""Up to this many orders (7!) all are tried, which makes the p-value exact."""


def retrieval_credit(cross_log_probs_RP: Floats, weight_RP: Floats) -> Floats:
    """[R, P] each column's share of the row's hit; a row sums to 1.

    The best column takes it all; columns that tie for the best share it by weight, so that a prompt
    that stands for two groups counts as two columns. Columns of weight 0 take nothing.
    """
    scores_RP = np.where(weight_RP > 0, cross_log_probs_RP, -np.inf)
    best_RP = (scores_RP == scores_RP.max(axis=1, keepdims=True)) & (weight_RP > 0)
    shared_RP = np.where(best_RP, weight_RP, 0.0)
    return np.asarray(shared_RP / shared_RP.sum(axis=1, keepdims=True), dtype=np.float64)


def retrieval_accuracy(cross_log_probs_RP: Floats, prompt_of_R: Ints, weight_RP: Floats) -> float:
    """Fraction of rows whose own prompt scores highest, 0..1; ties share the hit.

    Equal columns give the chance level.

    Raises:
        ValueError: fewer than 2 prompts.
    """
    if cross_log_probs_RP.shape[1] < 2:
        raise ValueError(f"retrieval needs at least 2 prompts, got {cross_log_probs_RP.shape[1]}")
    credit_RP = retrieval_credit(cross_log_probs_RP, weight_RP)
    return float(credit_RP[np.arange(prompt_of_R.size), prompt_of_R].mean())


def hit_probability(num_all: Ints, num_own: Ints, num_drawn: Ints) -> Floats:
    """Chance that a draw without replacement holds at least one of the own columns.

    1 − C(all − own, drawn) / C(all, drawn), elementwise; 0 when nothing is drawn, 1 when all are.
    """
    drawn = np.clip(num_drawn, 0, num_all)
    miss = np.ones(np.broadcast_shapes(num_all.shape, num_own.shape, drawn.shape))
    for index in range(int(drawn.max(initial=0))):
        left, others = num_all - index, num_all - num_own - index
        factor = np.where(left > 0, np.maximum(others, 0) / np.maximum(left, 1), 0.0)
        miss = np.where(index < drawn, miss * factor, miss)
    return np.asarray(1.0 - miss, dtype=np.float64)


def chance_at(rank: int, prompt_of_R: Ints, num_columns_RP: Ints) -> Floats:
    """[R] probability that a random ranking puts one of the own columns among the best `rank`.

    Args:
        num_columns_RP: group columns that each distinct prompt stands for, 0 where it is masked.
    """
    own_R = num_columns_RP[np.arange(prompt_of_R.size), prompt_of_R]
    return hit_probability(num_columns_RP.sum(axis=1), own_R, np.full_like(own_R, rank))


def hits_at(rank: int, cross_log_probs_RP: Floats, prompt_of_R: Ints, num_columns_RP: Ints) -> Floats:
    """[R] expected hit of the own prompt among the best `rank` columns, 0..1.

    Columns that tie with the own one are put in a random order, so that ties across the boundary
    count by the probability of landing inside it.
    """
    own_R = prompt_of_R[:, None]
    own_score = np.take_along_axis(cross_log_probs_RP, own_R, axis=1)
    better_R = np.where(cross_log_probs_RP > own_score, num_columns_RP, 0).sum(axis=1)
    tied_R = np.where(cross_log_probs_RP == own_score, num_columns_RP, 0).sum(axis=1)
    num_own_R = np.take_along_axis(num_columns_RP, own_R, axis=1)[:, 0]
    return hit_probability(tied_R, num_own_R, rank - better_R)


def skill_matrix(credit_RP: Floats, chance_RP: Floats, cluster_of_R: Ints, column_of_N: Ints) -> Floats:
    """[N, N] skill of prompt i's rows as if prompt j were their own; the diagonal is the real one.

    (accuracy − chance) / (1 − chance) with both averaged over the rows that may be compared with j;
    0 (neither hit nor miss) where no row may.

    Args:
        credit_RP: as `retrieval_credit` gives it.
        chance_RP: each column's chance of being retrieved, its weight for the row; 0 where masked.
        cluster_of_R: which of the N prompts each row belongs to.
        column_of_N: the column of each of the N prompts.
    """
    num_prompts = column_of_N.size
    member_NR = (np.arange(num_prompts)[:, None] == cluster_of_R).astype(np.float64)
    chance_RN = chance_RP[:, column_of_N]
    usable_NN = member_NR @ (chance_RN > 0)
    rows_NN = np.maximum(usable_NN, 1.0)
    accuracy_NN = member_NR @ credit_RP[:, column_of_N] / rows_NN
    chance_NN = member_NR @ chance_RN / rows_NN
    skill_NN = (accuracy_NN - chance_NN) / (1.0 - chance_NN)
    return np.where(usable_NN > 0, skill_NN, 0.0)


def permutation_p_value(
    skill_NN: Floats, *, num_permutations: int = NUM_PERMUTATIONS, seed: int = 0
) -> float:
    """Probability of a mean skill at least this high if the rows' prompts were shuffled, in (0, 1].

    Labels are permuted between prompts, the rows of a prompt stay together. With at most 7 prompts all
    orders are tried and the smallest possible value is 1 / N!; otherwise `num_permutations` seeded
    shuffles are drawn and the observed order counts as one of them, so the resolution is
    1 / (num_permutations + 1).

    Raises:
        ValueError: fewer than 2 prompts with rows.
    """
    num_prompts = skill_NN.shape[0]
    if num_prompts < 2:
        raise ValueError(f"a permutation test needs rows of at least 2 prompts, got {num_prompts}")
    identity_N = np.arange(num_prompts)
    observed = skill_NN[identity_N, identity_N].mean()
    exact = num_prompts <= 20 and math.factorial(num_prompts) <= LARGEST_ENUMERATION
    if exact:
        order_BN = np.array(list(itertools.permutations(range(num_prompts))))
    else:
        generator = np.random.default_rng(seed)
        order_BN = generator.permuted(np.tile(identity_N, (num_permutations, 1)), axis=1)
    # The same sum in another order may differ in its last bits; it must still count as a tie.
    reached = skill_NN[identity_N, order_BN].mean(axis=1) >= observed - 1e-12
    if exact:
        return float(reached.mean())
    return float((1 + reached.sum()) / (1 + num_permutations))


def group_columns(weight_P: Floats, *, largest: int = 4096) -> Ints | None:
    """How many equal columns each distinct prompt stands for, or None when weights do not tell.

    Whole numbers are taken as they are; equal weights count one each; shares such as 1/3 and 2/3 are put
    over their smallest common denominator, up to `largest`.
    """
    if np.all(weight_P >= 1) and np.all(weight_P == np.round(weight_P)):
        return weight_P.astype(np.int64)
    if np.allclose(weight_P, weight_P[0], rtol=1e-9, atol=0):
        return np.ones(weight_P.size, dtype=np.int64)
    share_P = weight_P / weight_P.sum()
    total = np.arange(weight_P.size, largest + 1)
    columns = share_P[None, :] * total[:, None]
    whole = (np.abs(columns - np.round(columns)) < 1e-9 * total[:, None]).all(axis=1)
    if not whole.any():
        return None
    return np.asarray(np.round(columns[int(np.argmax(whole))]), dtype=np.int64)


def masked_columns(num_columns_P: Ints, mask_RP: Bools | None, num_rows: int) -> Ints:
    """[R, P] group columns that a row may be compared with."""
    columns_RP = np.broadcast_to(num_columns_P, (num_rows, num_columns_P.size))
    return columns_RP if mask_RP is None else np.where(mask_RP, 0, columns_RP)
