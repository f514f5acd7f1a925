"""RAGEN's exported trajectories: JSONL with `custom_id`, `messages` and `metadata`.

Source: RAGEN at 20daedc (April 2026, RAGEN-2), `ragen/llm_agent/agent_proxy.py`, `_save_as_jsonl`, and
`scripts/convert_to_jsonl.py`. A file holds the episodes of one evaluation: `messages` alternates between what
the environment said (`user`) and what the model wrote (`assistant`); `metadata` has `group_id`,
`total_reward`, usually `success`, and the environment's metrics. No step is in it: it comes from the file's
name or `--step`, and files of a folder without either count as steps in the order of their names.
"""

import re
from pathlib import Path
from typing import Any

from collapsewatch.importers.files import Reading, first_row, plain_suffixes
from collapsewatch.importers.formats import Row, RowFile, has_keys
from collapsewatch.importers.steps import (
    BadRowError,
    joined_messages,
    message_text,
    number_field,
    rollout_of,
    shown,
    success_of,
)

_OWN = frozenset({"env_id", "group_id", "num_turns", "total_reward", "success"})
_STEP = re.compile(r"step[_-]?(\d+)")


class RagenFormat(RowFile):
    """One JSONL file of episodes, or a folder of them."""

    name = "ragen"
    files = "*.jsonl with custom_id, messages and metadata"

    def claims(self, path: Path) -> bool:
        """Whether the first row has RAGEN's fields."""
        files = self.files_of(path)
        if not files or not has_keys(files[0], "custom_id", "messages", "metadata"):
            return False
        row = first_row(files[0])
        return row is not None and isinstance(row["metadata"], dict) and "group_id" in row["metadata"]

    def files_of(self, path: Path) -> list[Path]:
        """The file, or those of the folder by step and name."""
        if path.is_file():
            return [path]
        found = [file for file in path.glob("*.jsonl*") if plain_suffixes(file).endswith(".jsonl")]
        return sorted(found, key=lambda file: (_named_step(file) or 0, file.name))

    def step_of(self, raw: dict[str, Any], path: Path, reading: Reading) -> int:
        """The step in the file's name, else `--step`, else the file's place in its folder."""
        named = _named_step(path)
        if named is not None:
            return named
        if reading.step is not None:
            return reading.step
        return reading.ordinal(path, self.files_of(path.parent))

    def row(self, raw: dict[str, Any], reading: Reading) -> Row:
        """One episode, each reply of the model a turn."""
        messages, metadata = raw.get("messages"), raw.get("metadata")
        if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
            raise BadRowError(f"messages: must be a list of objects (given {shown(messages)})")
        if not isinstance(metadata, dict) or metadata.get("group_id") is None:
            raise BadRowError(f"metadata.group_id: must be given (given {shown(metadata)})")
        turns = [
            {"prompt": joined_messages(messages[:position]), "response": message_text(message)}
            for position, message in enumerate(messages)
            if message.get("role") == "assistant"
        ]
        if not turns:
            raise BadRowError("messages: must hold a reply of the assistant (given none)")
        rollout = rollout_of(
            group_id=str(metadata["group_id"]),
            rollout_id=raw.get("custom_id"),
            turns=turns,
            reward=number_field(metadata, "total_reward"),
            success=success_of(metadata.get("success")),
        )
        return Row(rollout, {name: value for name, value in metadata.items() if name not in _OWN})


def _named_step(path: Path) -> int | None:
    match = _STEP.search(plain_suffixes(path))
    return None if match is None else int(match[1])
