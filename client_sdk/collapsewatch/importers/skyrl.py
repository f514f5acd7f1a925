"""SkyRL's dumped evaluations: `dumped_evals/global_step_{N}_evals/{data_source}.jsonl`.

Source: SkyRL at a956457 (August 2026), `skyrl/train/utils/trainer_utils.py`, `dump_per_dataset_eval_results`,
and `skyrl/train/evaluate.py`. Each line has `input_prompt`, `output_response`, `score` (a number, or one per
token), `stop_reason`, `env_class`, `env_extras` and `data_source`; equal prompts form a group. The training
batches of SkyRL (`dumped_data/*.pkl`) are pickled and are not read.
"""

import re
from pathlib import Path
from typing import Any

from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.importers.files import Reading, json_rows, plain_suffixes
from collapsewatch.importers.formats import StepFiles, StepFolder, has_keys
from collapsewatch.importers.steps import BadRowError, Place, Step, number_field, rollout_of, text_field
from collapsewatch.importers.verl import prompt_group

_FOLDER = re.compile(r"global_step_(\d+)_evals")
_SUMMARY = "aggregated_results.jsonl"
_ONLY = "eval_only"


class SkyrlFormat(StepFolder):
    """`dumped_evals`, one step's folder of it, or one file."""

    name = "skyrl"
    files = "dumped_evals/global_step_{N}_evals/*.jsonl"

    def find(self, path: Path, reading: Reading) -> list[StepFiles]:
        """The files of each step."""
        if path.is_file():
            number = _step(path.parent.name)
            number = reading.step if number is None else number
            return [StepFiles(number or 0, (path,))] if _is_rollouts(path) else []
        if not path.is_dir():
            return []
        folder = path / "dumped_evals" if (path / "dumped_evals").is_dir() else path
        folders = [folder] if _step(folder.name) is not None else sorted(folder.iterdir())
        found = []
        for step_folder in folders:
            number = _step(step_folder.name)
            if number is None or not step_folder.is_dir():
                continue
            files = tuple(file for file in sorted(step_folder.iterdir()) if _is_rollouts(file))
            if files:
                found.append(StepFiles(number, files))
        return sorted(found, key=lambda files: files.number)

    def has_fields(self, path: Path) -> bool:
        """Whether the first line has SkyRL's fields."""
        return has_keys(path, "input_prompt", "output_response", "score")

    def read(self, files: StepFiles, reading: Reading) -> Step | None:
        """The rollouts of a step, of all its data sources."""
        rollouts: list[Rollout] = []
        for path in files.paths:
            for place, raw in json_rows(path, reading.without_tail()):
                try:
                    rollouts.append(_rollout(raw))
                except BadRowError as error:
                    reading.problems.skip(place, str(error))
        return Step(files.number, rollouts, Place(files.paths[0])) if rollouts else None


def _rollout(raw: dict[str, Any]) -> Rollout:
    prompt = text_field(raw, "input_prompt")
    return rollout_of(
        group_id=prompt_group(prompt),
        turns=[{"prompt": prompt, "response": text_field(raw, "output_response")}],
        reward=number_field(raw, "score"),
    )


def _step(folder: str) -> int | None:
    if folder == _ONLY:
        return 0
    match = _FOLDER.fullmatch(folder)
    return None if match is None else int(match[1])


def _is_rollouts(path: Path) -> bool:
    return path.is_file() and plain_suffixes(path).endswith(".jsonl") and plain_suffixes(path) != _SUMMARY
