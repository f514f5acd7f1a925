"""model_cases/: tokens and real tiny models → cross log-probs and the metrics from them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from transformers import PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from collapsewatch_server.folds.ema import EmaState, fold_ragen_ema
from collapsewatch_worker.errors import JobError
from collapsewatch_worker.metrics.arrays import Bools, Floats, Ints
from collapsewatch_worker.metrics.ragen import ragen_metrics
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs, cross_token_log_probs
from tests.golden.compare import (
    Json,
    MalformedGoldenError,
    Tolerance,
    as_matrix,
    compare_keys,
    compare_ragen,
    need,
    need_length,
    read_cases,
)

FOLDER = "model_cases"
_ATOL = 2e-5
"""Of a mean and of one token's log-prob; of a sum it is times the number of tokens."""
_CASE_KEYS = ("id", "model_dir", "column_group_ids", "column_prompts", "col_ids", "group_ids", "reasonings")
_TOP_LEVEL = "collapse_first_turn_sample/"


class _Tolerances(dict[str, Tolerance]):
    """1e-4, z-scores 1e-3 · (1 + |z|); retrieval exact but for the reference's float32 mean of hits."""

    def __missing__(self, name: str) -> Tolerance:
        name = name.removeprefix(_TOP_LEVEL)
        if name.startswith("retrieval_"):
            return Tolerance(1e-6)
        return Tolerance(1e-3, 1e-3) if name.startswith("mi_zscore") else Tolerance(1e-4)


def model_mismatches(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(case id, what differs) of every case, in order. Models are loaded as the worker loads them.

    Raises:
        MalformedGoldenError: a file is missing or not what the schema says.
    """
    # Models this small are slower on several threads, and much slower when other processes run too.
    torch.set_num_threads(1)
    root = folder / FOLDER
    tokens_of = _token_log_probs(root / "token_logprobs.npz")
    disable_progress_bar()  # type: ignore[no-untyped-call]
    store = ModelStore([root], device="cpu", dtype="float32")
    for number, case in enumerate(read_cases(root / "cases.json")):
        where = f"{FOLDER}/cases.json, case {case.get('id', number)}"
        need(case, (*_CASE_KEYS, "expected"), where)
        need(case["expected"], ("mean_f64", "sum_f64", "metrics_from_f64_matrices"), where)
        need_length(case["column_prompts"], len(case["column_group_ids"]), f"{where}, column_prompts")
        for name in ("col_ids", "group_ids"):
            need_length(case[name], len(case["reasonings"]), f"{where}, {name}")
        key = str(case["id"]).replace("/", "__")
        if key not in tokens_of:
            raise MalformedGoldenError(f"{where}: token_logprobs.npz has no array {key}")
        model = _load(store, str(case["model_dir"]), where)
        yield str(case["id"]), list(_case_mismatches(case, model, tokens_of[key], where))


def _token_log_probs(path: Path) -> dict[str, Floats]:
    try:
        with np.load(path) as arrays:
            return dict(arrays)
    except (OSError, ValueError, BadZipFile) as error:
        raise MalformedGoldenError(f"{path}: {error}") from error


def _load(store: ModelStore, name: str, where: str) -> PreTrainedModel:
    try:
        return store.load(name).model
    except (JobError, OSError) as error:
        raise MalformedGoldenError(f"{where}: {error}") from error


def _case_mismatches(
    case: Mapping[str, Json], model: PreTrainedModel, expected_tokens: Floats, where: str
) -> Iterator[str]:
    prompts, reasonings, expected = case["column_prompts"], case["reasonings"], case["expected"]
    num_tokens_R = np.array([len(reasoning) for reasoning in reasonings], dtype=np.int64)
    shape = (len(reasonings), len(prompts))
    wanted_sum = np.array(as_matrix(expected["sum_f64"], shape, f"{where}, sum_f64"))
    wanted_mean = np.array(as_matrix(expected["mean_f64"], shape, f"{where}, mean_f64"))
    try:
        sums_RN = cross_log_probs(model, prompts, reasonings)
        tokens_RNT = cross_token_log_probs(model, prompts, reasonings)
    except ValueError as error:
        yield f"expected log-probs, got {type(error).__name__}({error})"
        return
    counts = np.maximum(num_tokens_R, 1)[:, None]
    yield from _array_mismatches("sum", wanted_sum, sums_RN, _ATOL * counts)
    yield from _array_mismatches("mean", wanted_mean, sums_RN / counts, np.full((len(reasonings), 1), _ATOL))
    yield from _array_mismatches(
        "token", expected_tokens, tokens_RNT, np.full((len(reasonings), 1, 1), _ATOL)
    )
    yield from _metric_mismatches(case, sums_RN, num_tokens_R)


def _array_mismatches(name: str, expected: Floats, actual: Floats, atol: Floats) -> Iterator[str]:
    if expected.shape != actual.shape:
        yield f"{name}: expected shape {expected.shape}, got {actual.shape}"
        return
    same = (np.abs(expected - actual) <= atol) | (np.isnan(expected) & np.isnan(actual))
    for place in np.argwhere(~same):
        index = tuple(int(each) for each in place)
        yield f"{name}{list(index)}: expected {expected[index]}, got {actual[index]}"


def _metric_mismatches(case: Mapping[str, Json], sums_RN: Floats, num_tokens_R: Ints) -> Iterator[str]:
    expected = case["expected"]
    bounds = expected.get("tie_bounds") or case.get("tie_bounds") or {}
    actual = _metrics(case, sums_RN, num_tokens_R)
    for name in ("metrics_from_f64_matrices", "metrics_reference_f32"):
        for line in compare_ragen(expected.get(name, actual), actual, _Tolerances(), bounds):
            yield f"{name}: {line}"
    if "top_level_first_turn_f32" not in expected:
        return
    # At the top level empty reasonings are dropped first, and prompts that are left without any.
    valid_R = num_tokens_R > 0
    top = {
        "collapse/first_turn_num_total": float(valid_R.size),
        "collapse/first_turn_num_valid": float(valid_R.sum()),
        "collapse/first_turn_valid_rate": float(valid_R.mean()),
    }
    scored = _metrics(case, sums_RN, num_tokens_R, keep_R=valid_R)
    top |= {f"{_TOP_LEVEL}{name}": value for name, value in scored.items()}
    wanted = expected["top_level_first_turn_f32"]
    yield from (f"top_level: {line}" for line in compare_keys(wanted, top))
    for name in wanted.keys() & top.keys():
        if not _Tolerances()[name].accepts(float(wanted[name]), top[name]):
            yield f"top_level: {name}: expected {wanted[name]}, got {top[name]}"


def _metrics(
    case: Mapping[str, Json], sums_RN: Floats, num_tokens_R: Ints, *, keep_R: Bools | None = None
) -> dict[str, float]:
    column_of_R = np.array(case["col_ids"], dtype=np.int64)
    keep = np.ones(column_of_R.size, dtype=np.bool_) if keep_R is None else keep_R
    used_N, column_of_R = np.unique(column_of_R[keep], return_inverse=True)
    sums = sums_RN[keep][:, used_N]
    values = ragen_metrics(
        sums / np.maximum(num_tokens_R[keep], 1)[:, None],
        sums,
        column_of_R,
        signature_N=[tuple(case["column_prompts"][column]) for column in used_N],
    )
    return {**values, **fold_ragen_ema(EmaState.initial(), values)[1]}
