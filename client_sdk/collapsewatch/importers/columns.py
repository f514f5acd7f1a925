"""Any JSONL or Parquet file with a row per rollout, its columns named by the user or by their usual names."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from collapsewatch.importers.files import Reading, first_row, json_rows, plain_suffixes
from collapsewatch.importers.formats import Row, RowFile, said_step
from collapsewatch.importers.parquet import SUFFIX, column_names, parquet_rows
from collapsewatch.importers.steps import (
    BadRowError,
    ImportFailedError,
    Place,
    number_field,
    rollout_of,
    success_of,
    text_field,
)
from collapsewatch.importers.verl import prompt_group

USUAL: dict[str, tuple[str, ...]] = {
    "step": ("step", "global_step", "training_step"),
    "group": ("group_id", "group", "uid", "prompt_id"),
    "prompt": ("prompt", "input", "question", "query", "messages"),
    "response": ("response", "output", "completion", "answer", "generation"),
    "reasoning": ("reasoning", "thinking", "reasoning_content"),
    "action": ("action",),
    "reward": ("reward", "score", "total_reward"),
    "success": ("success", "correct", "acc"),
    "prompt_token_ids": ("prompt_token_ids", "prompt_ids"),
    "response_token_ids": ("response_token_ids", "response_ids", "completion_ids"),
    "response_log_probs": ("response_log_probs", "logprobs", "log_probs"),
}
"""Field of a rollout → columns that are taken for it when none is named, the first that is there."""
_TURN = ("prompt", "response", "reasoning", "action")
_LISTS = ("prompt_token_ids", "response_token_ids", "response_log_probs")
_SUFFIXES = (".jsonl", ".ndjson", SUFFIX)


class ColumnsFormat(RowFile):
    """Rows with a column for prompt and one for response."""

    name = "columns"
    files = "*.jsonl or *.parquet with a row per rollout; --map FIELD=COLUMN names the columns"

    def claims(self, path: Path) -> bool:
        """Whether the file has columns of usual names for prompt and response."""
        files = self.files_of(path)
        columns = _columns(files[0]) if files else []
        has_prompt = any(name in columns for name in (*USUAL["prompt"], *USUAL["prompt_token_ids"]))
        answers = (*USUAL["response"], *USUAL["reasoning"], *USUAL["response_token_ids"])
        return has_prompt and any(name in columns for name in answers)

    def files_of(self, path: Path) -> list[Path]:
        """The file, or those of the folder in the order of their names."""
        if path.is_file():
            return [path]
        return sorted(file for file in path.glob("*") if plain_suffixes(file).endswith(_SUFFIXES))

    def rows(self, path: Path, reading: Reading) -> Iterator[tuple[Place, dict[str, Any]]]:
        """The rows of one file."""
        _check_mapping(reading.mapping, path)
        if path.name.lower().endswith(SUFFIX):
            return parquet_rows(path, reading)
        return json_rows(path, reading)

    def step_of(self, raw: dict[str, Any], path: Path, reading: Reading) -> int:
        """The step's column, else what `--step` or the file's name says."""
        column = reading.mapping.get("step")
        if column is not None:
            return said_step({"step": _value(raw, column)}, path, reading)
        name = next((name for name in USUAL["step"] if name in raw), "step")
        return said_step(raw, path, reading, name)

    def row(self, raw: dict[str, Any], reading: Reading) -> Row:
        """One rollout."""
        given = {name: _field(raw, name, reading.mapping) for name in USUAL}
        turn: dict[str, Any] = {name: text_field(given, name) for name in _TURN if given[name] is not None}
        turn |= {name: given[name] for name in _LISTS if given[name] is not None}
        group = given["group"]
        if group is None and "prompt" not in turn and "prompt_token_ids" not in turn:
            raise BadRowError("prompt: must be given; name its column by --map prompt=COLUMN")
        if group is None:
            group = prompt_group(turn["prompt"] if "prompt" in turn else repr(turn["prompt_token_ids"]))
        rollout = rollout_of(
            group_id=str(group),
            turns=[turn],
            reward=number_field(given, "reward"),
            success=success_of(given["success"]),
        )
        return Row(rollout)


def mapping_of(pairs: list[str]) -> dict[str, str]:
    """The columns by field, of what `--map` was given.

    Raises:
        ImportFailedError: not `FIELD=COLUMN`, or no such field.
    """
    mapping = {}
    for pair in pairs:
        name, sign, column = pair.partition("=")
        if not sign or not column or name not in USUAL:
            fields = ", ".join(USUAL)
            raise ImportFailedError(f"--map {pair}: must be FIELD=COLUMN, with a field of: {fields}")
        mapping[name] = column
    return mapping


def _field(raw: dict[str, Any], name: str, mapping: Mapping[str, str]) -> Any:
    if name in mapping:
        return _value(raw, mapping[name])
    return next((raw[column] for column in USUAL[name] if raw.get(column) is not None), None)


def _value(raw: dict[str, Any], column: str) -> Any:
    """The column's value; dots lead into objects, where no column has that very name."""
    if column in raw:
        return raw[column]
    value: Any = raw
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _columns(path: Path) -> list[str]:
    if path.name.lower().endswith(SUFFIX):
        return column_names(path)
    return list(first_row(path) or {})


def _check_mapping(mapping: Mapping[str, str], path: Path) -> None:
    """Finds a misspelt column before every row is skipped for it."""
    columns = _columns(path)
    for name, column in mapping.items():
        if columns and column not in columns and column.partition(".")[0] not in columns:
            raise ImportFailedError(
                f"--map {name}={column}: {path} has no such column; it has {', '.join(columns)}"
            )
