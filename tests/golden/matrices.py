"""matrix_cases.json: given matrices of log-probs → the `ragen/…` family, step by step."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from collapsewatch_server.folds.ema import EmaState, fold_ragen_ema
from collapsewatch_worker.metrics.ragen import prompt_of_each_group, ragen_metrics
from tests.golden.compare import (
    Json,
    MalformedGoldenError,
    Tolerance,
    as_matrix,
    compare_ragen,
    need,
    need_length,
    read_cases,
)

FILE = "matrix_cases.json"
_STEP_KEYS = ("label", "column_group_ids", "group_ids", "col_ids", "column_prompts", "token_counts")


class _Tolerances(dict[str, Tolerance]):
    """rtol and atol 1e-9; hits, which the reference averages in float32, atol 1e-6."""

    def __missing__(self, name: str) -> Tolerance:
        if name.startswith(("retrieval_accuracy", "retrieval_above_chance")):
            return Tolerance(1e-6)
        return Tolerance(1e-9, 1e-9)


def matrix_mismatches(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(case id, what differs) of every case, in order.

    Raises:
        MalformedGoldenError: the file is not what the schema says.
    """
    for number, case in enumerate(read_cases(folder / FILE)):
        where = f"{FILE}, case {case.get('id', number)}"
        need(case, ("id", "config", "steps"), where)
        need(case["config"], ("std_eps", "ema_decay"), where)
        yield str(case["id"]), list(_case_mismatches(case, where))


def _case_mismatches(case: Mapping[str, Json], where: str) -> Iterator[str]:
    config = case["config"]
    states: dict[str, EmaState] = {}
    for number, step in enumerate(case["steps"]):
        arrays = _arrays(step, f"{where}, step {number}")
        expected = step["expected_f64"]
        try:
            values = _metrics(step, arrays, float(config["std_eps"]))
        except ValueError as error:
            if expected != {"error": "ValueError"}:
                yield f"step {number}: expected {len(expected)} metrics, got ValueError({error})"
            continue
        if "error" in expected:
            yield f"step {number}: expected {expected['error']}, got {len(values)} metrics"
            continue
        state, smoothed = fold_ragen_ema(
            states.get(step["label"], EmaState.initial()),
            values,
            decay=float(config["ema_decay"]),
            std_eps=float(config["std_eps"]),
        )
        states[step["label"]] = state
        for line in compare_ragen(
            expected, {**values, **smoothed}, _Tolerances(), step.get("tie_bounds") or {}
        ):
            yield f"step {number}: {line}"


_Arrays = tuple[list[list[float]], list[list[float]]]


def _arrays(step: Mapping[str, Json], where: str) -> _Arrays:
    need(step, (*_STEP_KEYS, "mean", "sum", "expected_f64"), where)
    num_columns, num_rows = len(step["column_group_ids"]), len(step["group_ids"])
    for name, length in (("col_ids", num_rows), ("token_counts", num_rows), ("column_prompts", num_columns)):
        need_length(step[name], length, f"{where}, {name}")
    for row, (group, column) in enumerate(zip(step["group_ids"], step["col_ids"], strict=True)):
        if not 0 <= column < num_columns or step["column_group_ids"][column] != group:
            raise MalformedGoldenError(f"{where}: row {row} of group {group} points to column {column}")
    shape = (num_rows, num_columns)
    return as_matrix(step["mean"], shape, f"{where}, mean"), as_matrix(step["sum"], shape, f"{where}, sum")


def _metrics(step: Mapping[str, Json], arrays: _Arrays, std_eps: float) -> dict[str, float]:
    prompts = dict(zip(step["column_group_ids"], map(tuple, step["column_prompts"]), strict=True))
    if "row_prompts" in step:
        prompts = {**prompts, **prompt_of_each_group(step["group_ids"], step["row_prompts"])}
    return ragen_metrics(
        np.array(arrays[0]),
        np.array(arrays[1]),
        np.array(step["col_ids"], dtype=np.int64),
        signature_N=[prompts[group] for group in step["column_group_ids"]],
        std_eps=std_eps,
    )
