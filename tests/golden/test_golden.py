"""The checker itself: it accepts the recorded vectors, and it sees what does not match."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "data" / "golden"


def run_checker(*folders: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.golden", *map(str, folders)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def one_case(
    folder: Path, file: str, wanted: Callable[[dict[str, Any]], bool], change: Callable[[Any], None]
) -> None:
    """Writes the first case that is wanted to the folder, changed."""
    document = json.loads((VECTORS / file).read_text(encoding="utf-8"))
    case = copy.deepcopy(next(case for case in document["cases"] if wanted(case)))
    change(case)
    document["cases"] = [case]
    (folder / file).parent.mkdir(exist_ok=True)
    (folder / file).write_text(json.dumps(document), encoding="utf-8")


def test_the_recorded_vectors_match() -> None:
    result = run_checker(VECTORS)
    assert result.stdout.splitlines()[-1].endswith(" cases, 0 mismatches"), result.stdout + result.stderr
    num_cases = int(result.stdout.splitlines()[-1].split()[0])
    recorded = [
        len(json.loads((VECTORS / file).read_text(encoding="utf-8"))["cases"])
        for file in ("matrix_cases.json", "filter_cases.json", "model_cases/cases.json")
    ]
    assert num_cases == sum(recorded) > 100
    assert result.returncode == 0


def matrix(case: dict[str, Any]) -> bool:
    return len(case["steps"][0]["expected_f64"]) == 29 and "tie_bounds" not in case["steps"][0]


def off_by(key: str, amount: float) -> Callable[[Any], None]:
    def change(case: Any) -> None:
        case["steps"][0]["expected_f64"][key] += amount

    return change


@pytest.mark.parametrize(
    ("key", "amount", "found"),
    [
        *(("mi_estimate", 1e-7, True), ("mi_estimate", 1e-10, False), ("marginal_std_ema_seq", 1e-5, True)),
        *(("retrieval_accuracy", 2e-6, True), ("retrieval_accuracy", 5e-7, False)),
        *(("retrieval_chance_level@4", 1e-7, True), ("mi_zscore_ema", 1e-6, True)),
    ],
)
def test_a_metric_that_is_off_is_found_and_rounding_is_not(
    tmp_path: Path, key: str, amount: float, found: bool
) -> None:
    one_case(tmp_path, "matrix_cases.json", matrix, off_by(key, amount))
    result = run_checker(tmp_path)
    assert result.returncode == int(found)
    assert result.stdout.splitlines()[-1] == f"1 cases, {int(found)} mismatches"
    assert (f"step 0: {key}: expected" in result.stdout) == found


def test_a_missing_and_an_extra_key_are_mismatches(tmp_path: Path) -> None:
    def change(case: Any) -> None:
        expected = case["steps"][0]["expected_f64"]
        expected["entropy_of_nothing"] = expected.pop("mi_zscore_seq")

    one_case(tmp_path, "matrix_cases.json", matrix, change)
    result = run_checker(tmp_path)
    assert result.returncode == 1
    assert "mi_zscore_seq: expected nothing" in result.stdout
    assert "entropy_of_nothing: expected" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 cases, 2 mismatches"
    assert "no filter_cases.json" in result.stderr and "no model_cases" in result.stderr


def test_a_value_outside_its_tie_bounds_is_found(tmp_path: Path) -> None:
    def change(case: Any) -> None:
        step = next(step for step in case["steps"] if "tie_bounds" in step)
        step["tie_bounds"]["retrieval_accuracy"] = [1.5, 2.0]

    one_case(tmp_path, "matrix_cases.json", lambda case: "tie_bounds" in case["steps"][0], change)
    result = run_checker(tmp_path)
    assert "retrieval_accuracy: expected 1.5 … 2.0 (ties)" in result.stdout
    assert "retrieval_above_chance: expected" in result.stdout


def test_a_missed_error_is_found(tmp_path: Path) -> None:
    def change(case: Any) -> None:
        case["steps"][0]["expected_f64"] = {"error": "ValueError"}

    one_case(tmp_path, "matrix_cases.json", matrix, change)
    assert "expected ValueError, got" in run_checker(tmp_path).stdout


@pytest.mark.parametrize(
    ("part", "line"),
    [
        *(("selected", "selected: expected"), ("kept_rows", "kept_rows: expected")),
        *(("metrics", "in_group_std: expected"), ("group_std", "group_std[0]: expected")),
        *(("buckets", "bucket_1.group_ids[0]: expected"), ("error", "expected ValueError, got a selection")),
    ],
)
def test_a_selection_that_is_off_is_found(tmp_path: Path, part: str, line: str) -> None:
    def change(case: Any) -> None:
        expected = case["expected_f64"]
        if part == "selected":
            expected["selected"] = [*expected["selected"][1:], expected["selected"][0]]
        elif part == "kept_rows":
            expected["kept_rows"] = expected["kept_rows"][1:]
        elif part == "metrics":
            expected["metrics"]["in_group_std"] *= 1 + 1e-8
        elif part == "group_std":
            expected["group_std"][0] *= 1 + 1e-8
        elif part == "buckets":
            case["expected_f32"]["buckets"]["bucket_1"]["group_ids"][0] += 1
        else:
            case["expected_f64"] = {"error": "ValueError"}

    def wanted(case: dict[str, Any]) -> bool:
        selected = case["expected_f64"].get("selected", [])
        return not case["order_ambiguous"] and len(selected) > 1 and "buckets" in case["expected_f32"]

    one_case(tmp_path, "filter_cases.json", wanted, change)
    result = run_checker(tmp_path)
    assert result.returncode == 1
    assert line in result.stdout


def test_a_log_prob_that_is_off_is_found(tmp_path: Path) -> None:
    shutil.copytree(VECTORS / "model_cases", tmp_path / "model_cases")
    wrong: list[str] = []

    def change(case: Any) -> None:
        case["expected"]["sum_f64"][1][0] += 0.01
        wrong.append(case["id"])

    one_case(tmp_path, "model_cases/cases.json", lambda case: True, change)
    path = tmp_path / "model_cases" / "token_logprobs.npz"
    with np.load(path) as arrays:
        tokens = {name: np.array(array) for name, array in arrays.items()}
    tokens[wrong[0].replace("/", "__")][0, 0, 0] += 1e-4
    np.savez(path, **tokens)  # type: ignore[arg-type]
    result = run_checker(tmp_path)
    assert result.returncode == 1
    assert "sum[1, 0]: expected" in result.stdout and "token[0, 0, 0]: expected" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 cases, 2 mismatches"


def test_nothing_to_check_is_a_failure(tmp_path: Path) -> None:
    result = run_checker(tmp_path)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "0 cases, 0 mismatches"
    assert "no case found" in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "matrix_cases.json: "),
        ('{"cases": 3}', "no list of cases"),
        ('{"cases": [{"id": "x"}]}', "x: no config"),
    ],
)
def test_a_malformed_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "matrix_cases.json").write_text(content, encoding="utf-8")
    result = run_checker(tmp_path)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_missing_folder_or_file_is_named(tmp_path: Path) -> None:
    assert "nowhere: no such folder" in run_checker(tmp_path / "nowhere").stderr
    (tmp_path / "model_cases").mkdir()
    result = run_checker(tmp_path)
    assert result.returncode == 2 and "token_logprobs.npz" in result.stderr
