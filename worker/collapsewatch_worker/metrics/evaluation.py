"""Every metric of one scope of one batch, with intervals, from its matrix of scores.

Legend: R rows (scored reasoning traces), P columns (distinct prompts), N prompts that have rows,
B bootstrap draws (the first is the data itself).
Source: docs/metrics.md section 2; arXiv 2604.06268.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_worker.metrics.arrays import Bools, Floats, Ints
from collapsewatch_worker.metrics.information import (
    INFORMATION_METRICS,
    information_metrics,
    mi_ceiling,
    row_information,
    row_statistics,
    row_weights,
)
from collapsewatch_worker.metrics.intervals import (
    NUM_DRAWS,
    cluster_draws,
    percentile_interval,
    resampled_means,
)
from collapsewatch_worker.metrics.ragen import ragen_metrics
from collapsewatch_worker.metrics.retrieval import (
    NUM_PERMUTATIONS,
    RANKS,
    chance_at,
    group_columns,
    hits_at,
    masked_columns,
    permutation_p_value,
    retrieval_credit,
    skill_matrix,
)

_CONDITIONAL = ("conditional_entropy", "conditional_entropy_seq")
_RETRIEVAL = (
    "retrieval_accuracy",
    "retrieval_chance",
    "retrieval_skill",
    "retrieval_p_value",
    *(f"retrieval_accuracy@{rank}" for rank in RANKS),
    *(f"retrieval_chance@{rank}" for rank in RANKS),
)
_NATS_ONLY = ("mi_ceiling", *INFORMATION_METRICS)


@dataclass(frozen=True)
class PromptResult:
    """How well the reasonings of one distinct prompt are traced back to it."""

    column: int
    num_rows: int
    accuracy: float
    """Share of its rows that retrieve it, ties shared, 0..1."""
    chance: float
    mean_pmi: float | None
    """Nats per sequence; None without log-probs."""
    retrieved: list[float]
    """[P] share of its rows that retrieve each column."""


@dataclass(frozen=True)
class MatrixMetrics:
    """All metrics of one matrix."""

    num_prompts: int
    """Columns, P."""
    num_rows: int
    """Rows that were compared."""
    metrics: dict[str, MetricValue]
    ragen: dict[str, float]
    """The public code's names without prefix and without its smoothed members."""
    absent: dict[str, str]
    """Metric → why it could not be computed; `ragen` stands for that whole family."""
    prompts: list[PromptResult]
    """Of the prompts that have rows, by column."""


@dataclass(frozen=True)
class _Matrix:
    """Checked input, without the rows that have nothing to be compared with."""

    scores_RP: Floats
    prompt_of_R: Ints
    weight_P: Floats
    num_tokens_R: Ints
    mask_RP: Bools | None

    def rows(self, keep_R: Bools) -> "_Matrix":
        mask_RP = None if self.mask_RP is None else self.mask_RP[keep_R]
        return _Matrix(
            self.scores_RP[keep_R],
            self.prompt_of_R[keep_R],
            self.weight_P,
            self.num_tokens_R[keep_R],
            mask_RP,
        )


@dataclass
class _Findings:
    """What has been found so far; non-finite numbers become reasons."""

    metrics: dict[str, MetricValue] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float, interval: tuple[float, float] | None = None) -> None:
        if not math.isfinite(value):
            self.absent[name] = "not a finite number: a reasoning has probability 0 under a prompt it needs"
            return
        low, high = interval if interval is not None else (None, None)
        self.metrics[name] = MetricValue(value=value, low=low, high=high)

    def leave_out(self, names: tuple[str, ...], reason: str) -> None:
        self.absent.update(dict.fromkeys(names, reason))


def evaluate_matrix(
    cross_log_probs_RP: Floats,
    prompt_of_R: Ints,
    weight_P: Floats | Ints,
    token_counts_R: Ints,
    mask_RP: Bools | None = None,
    *,
    in_nats: bool = True,
    seed: int = 0,
    num_draws: int = NUM_DRAWS,
    num_permutations: int = NUM_PERMUTATIONS,
) -> MatrixMetrics:
    """All metrics that one matrix allows, each with its 95 % interval, and reasons for the others.

    Rows whose every other column is masked are left out: they cannot be compared with anything. With
    fewer than 2 columns only the conditional entropies remain. No value is ever NaN or infinite.

    Args:
        cross_log_probs_RP: nats summed over the reasoning tokens, one column per DISTINCT prompt; any
            similarity (higher is closer) when not `in_nats`. −inf is allowed, NaN and +inf are not.
        prompt_of_R: each row's own column.
        weight_P: how many prompt groups share each column, or their shares. Counts are better: only
            they tell a batch in which every prompt comes twice from one without repetition.
        token_counts_R: reasoning tokens of each row, at least 1.
        mask_RP: True where a column contains the row's own text (a leak); ignored there.
        in_nats: False for scores that are no log-probs: retrieval metrics only.
        seed: of the bootstrap and of the permutations; the same input gives the same output.

    Raises:
        ValueError: shapes do not fit, a score is NaN or +inf, a row's own column is masked, a weight is
            not above 0, or a row has no token.
    """
    given = _checked(cross_log_probs_RP, prompt_of_R, weight_P, token_counts_R, mask_RP)
    matrix = given if given.scores_RP.shape[1] < 2 else given.rows(_comparable_rows(given))
    num_rows, num_prompts = matrix.scores_RP.shape
    found = _Findings()
    if not in_nats:
        found.leave_out((*_NATS_ONLY, "ragen"), "the scores are no log-probs: only retrieval can be measured")
    if num_rows == 0:
        reason = "no scored reasoning" if given.scores_RP.shape[0] == 0 else "every other column is masked"
        found.leave_out((*_RETRIEVAL, *((*_NATS_ONLY, "ragen") if in_nats else ())), reason)
        return MatrixMetrics(num_prompts, 0, found.metrics, {}, found.absent, [])
    if num_prompts < 2:
        return _of_one_prompt(matrix, found, in_nats=in_nats)
    column_of_N, cluster_of_R = np.unique(matrix.prompt_of_R, return_inverse=True)
    draws_BN = _draws_after_the_data(column_of_N.size, num_draws, seed)
    weight_RP = row_weights(matrix.weight_P, matrix.mask_RP, num_rows)
    mean_pmi_N = None
    ragen: dict[str, float] = {}
    if in_nats:
        mean_pmi_N = _add_information(found, matrix, weight_RP, cluster_of_R, draws_BN)
        ragen = _ragen(found, matrix)
    prompts = _add_retrieval(
        found, matrix, weight_RP, cluster_of_R, column_of_N, draws_BN, (num_permutations, seed), mean_pmi_N
    )
    return MatrixMetrics(num_prompts, num_rows, found.metrics, ragen, found.absent, prompts)


def _checked(
    scores_RP: Floats, prompt_of_R: Ints, weight_P: Floats | Ints, num_tokens_R: Ints, mask_RP: Bools | None
) -> _Matrix:
    scores_RP = np.asarray(scores_RP, dtype=np.float64)
    if scores_RP.ndim != 2:
        raise ValueError(f"the matrix needs 2 dimensions, got {scores_RP.ndim}")
    num_rows, num_prompts = scores_RP.shape
    for name, array, wanted in (
        ("prompt_of_R", prompt_of_R, (num_rows,)),
        ("weight_P", weight_P, (num_prompts,)),
        ("token_counts_R", num_tokens_R, (num_rows,)),
        ("mask_RP", mask_RP, (num_rows, num_prompts)),
    ):
        if array is not None and np.shape(array) != wanted:
            raise ValueError(f"{name} has shape {np.shape(array)}, the matrix asks for {wanted}")
    prompts, weights = np.asarray(prompt_of_R, dtype=np.int64), np.asarray(weight_P, dtype=np.float64)
    tokens = np.asarray(num_tokens_R, dtype=np.int64)
    mask = None if mask_RP is None or not np.any(mask_RP) else np.asarray(mask_RP, dtype=np.bool_)
    if num_rows and (prompts.min() < 0 or prompts.max() >= num_prompts):
        raise ValueError(
            f"prompt_of_R names column {prompts.max()} of {num_prompts} (lowest {prompts.min()})"
        )
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"weights must be finite and above 0, got {weights.tolist()}")
    if num_rows and tokens.min() < 1:
        raise ValueError(
            f"row {int(tokens.argmin())} has {tokens.min()} reasoning tokens; at least 1 is needed"
        )
    bad = np.isnan(scores_RP) | (scores_RP == np.inf)
    if mask is not None:
        own_masked = np.flatnonzero(mask[np.arange(num_rows), prompts])
        if own_masked.size:
            raise ValueError(f"the own column of row {own_masked[0]} is masked")
        bad &= ~mask
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"the score of row {row} under column {column} is {scores_RP[row, column]}")
    return _Matrix(scores_RP, prompts, weights, tokens, mask)


def _comparable_rows(matrix: _Matrix) -> Bools:
    if matrix.mask_RP is None:
        return np.ones(matrix.prompt_of_R.size, dtype=np.bool_)
    return np.asarray((~matrix.mask_RP).sum(axis=1) >= 2, dtype=np.bool_)


def _draws_after_the_data(num_clusters: int, num_draws: int, seed: int) -> Floats:
    """[B, N] first each prompt once, then the bootstrap's draws; no draws for a single prompt."""
    data = np.ones((1, num_clusters))
    if num_clusters < 2:
        return data
    return np.concatenate([data, cluster_draws(num_clusters, num_draws=num_draws, seed=seed)])


def _add_with_interval(found: _Findings, values: Mapping[str, Floats]) -> None:
    for name, values_B in values.items():
        found.add(name, float(values_B[0]), percentile_interval(values_B[1:]) if values_B.size > 1 else None)


def _of_one_prompt(matrix: _Matrix, found: _Findings, *, in_nats: bool) -> MatrixMetrics:
    """The entropy of reasoning within the prompt needs no other prompt; everything else does."""
    num_rows, num_prompts = matrix.scores_RP.shape
    reason = f"needs at least 2 distinct prompts, got {num_prompts}"
    found.leave_out(_RETRIEVAL, reason)
    if in_nats:
        matched_R = matrix.scores_RP[np.arange(num_rows), matrix.prompt_of_R]
        found.leave_out((*(name for name in _NATS_ONLY if name not in _CONDITIONAL), "ragen"), reason)
        found.add("conditional_entropy", -float((matched_R / matrix.num_tokens_R).mean()))
        found.add("conditional_entropy_seq", -float(matched_R.mean()))
    return MatrixMetrics(num_prompts, num_rows, found.metrics, {}, found.absent, [])


def _add_information(
    found: _Findings, matrix: _Matrix, weight_RP: Floats, cluster_of_R: Ints, draws_BN: Floats
) -> list[float | None]:
    rows = row_information(matrix.scores_RP, matrix.prompt_of_R, weight_RP, matrix.num_tokens_R)
    ceiling = mi_ceiling(matrix.weight_P)
    found.add("mi_ceiling", ceiling)
    # −inf may meet −inf in a batch with impossible reasonings: the NaN that follows is caught by name.
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        means = resampled_means(row_statistics(rows), cluster_of_R, draws_BN)
        scale = float(np.max(-rows.pmi_R))
        values = information_metrics(means, ceiling=ceiling, evalue_log_scale=scale)
    _add_with_interval(found, values)
    rows_N = np.bincount(cluster_of_R)
    with np.errstate(invalid="ignore"):
        mean_pmi_N = np.bincount(cluster_of_R, weights=rows.pmi_R) / rows_N
    return [float(value) if math.isfinite(value) else None for value in mean_pmi_N]


def _ragen(found: _Findings, matrix: _Matrix) -> dict[str, float]:
    num_columns_P = group_columns(matrix.weight_P)
    if matrix.mask_RP is not None:
        found.absent["ragen"] = "the public code has no leak mask, and this scope needs one"
        return {}
    if num_columns_P is None:
        found.absent["ragen"] = "the weights do not tell how many groups share each prompt"
        return {}
    # There each group is a column of its own, also where its prompt repeats.
    prompt_of_C = np.repeat(np.arange(num_columns_P.size), num_columns_P)
    first_column_P = np.concatenate([[0], np.cumsum(num_columns_P)[:-1]])
    sums_RC = matrix.scores_RP[:, prompt_of_C]
    values = ragen_metrics(
        sums_RC / matrix.num_tokens_R[:, None],
        sums_RC,
        first_column_P[matrix.prompt_of_R],
        signature_N=prompt_of_C.tolist(),
    )
    for name in [name for name, value in values.items() if not math.isfinite(value)]:
        found.absent[f"ragen/{name}"] = f"not a finite number: {values.pop(name)}"
    return values


def _add_retrieval(
    found: _Findings,
    matrix: _Matrix,
    weight_RP: Floats,
    cluster_of_R: Ints,
    column_of_N: Ints,
    draws_BN: Floats,
    permutations: tuple[int, int],
    mean_pmi_N: list[float | None] | None,
) -> list[PromptResult]:
    credit_RP = retrieval_credit(matrix.scores_RP, weight_RP)
    own = np.arange(matrix.prompt_of_R.size), matrix.prompt_of_R
    statistics = {"retrieval_accuracy": credit_RP[own]}
    statistics |= _at_ranks(found, matrix)
    _add_with_interval(found, resampled_means(statistics, cluster_of_R, draws_BN))
    found.add("retrieval_chance", float(weight_RP[own].mean()))
    skill_NN = skill_matrix(credit_RP, weight_RP, cluster_of_R, column_of_N)
    skill_N = np.diagonal(skill_NN)
    _add_with_interval(found, {"retrieval_skill": draws_BN @ skill_N / draws_BN.sum(axis=1)})
    if column_of_N.size < 2:
        found.absent["retrieval_p_value"] = f"needs rows of at least 2 prompts, got {column_of_N.size}"
    else:
        num_permutations, seed = permutations
        p_value = permutation_p_value(skill_NN, num_permutations=num_permutations, seed=seed)
        found.add("retrieval_p_value", p_value)
    return [
        PromptResult(
            column=int(column),
            num_rows=int(member_R.sum()),
            accuracy=float(credit_RP[member_R, column].mean()),
            chance=float(weight_RP[member_R, column].mean()),
            mean_pmi=None if mean_pmi_N is None else mean_pmi_N[number],
            retrieved=[float(share) for share in credit_RP[member_R].mean(axis=0)],
        )
        for number, column in enumerate(column_of_N)
        for member_R in [cluster_of_R == number]
    ]


def _at_ranks(found: _Findings, matrix: _Matrix) -> dict[str, Floats]:
    """Hits at each rank that leaves something to miss; adds their chance levels, or the reason."""
    hits: dict[str, Floats] = {}
    num_columns_P = group_columns(matrix.weight_P)
    for rank in RANKS:
        names = (f"retrieval_accuracy@{rank}", f"retrieval_chance@{rank}")
        if num_columns_P is None:
            found.leave_out(names, "the weights do not tell how many groups share each prompt")
            continue
        columns_RP = masked_columns(num_columns_P, matrix.mask_RP, matrix.prompt_of_R.size)
        fewest = int(columns_RP.sum(axis=1).min())
        if fewest <= rank:
            found.leave_out(names, f"needs more than {rank} columns to choose from, got {fewest}")
            continue
        chance_R = chance_at(rank, matrix.prompt_of_R, columns_RP)
        hits[names[0]] = hits_at(rank, matrix.scores_RP, matrix.prompt_of_R, columns_RP)
        found.add(names[1], float(chance_R.mean()))
    return hits
