"""Recorded rollouts: `<run>.rollouts.jsonl`, plain or compressed, with `<run>.metrics.jsonl` beside it.

One object per rollout: `step`, `group`, `prompt` (ending with the opening tag), `reasoning`, `response`
(reasoning, closing tag, action), `action` (null when it could not be parsed) and `reward`. Only `step`,
`group`, `prompt` and `response` must be there. Of the metrics file, one object per step, three columns are
taken: `eval`, `entropy` and `kl`.
"""

from pathlib import Path
from typing import Any

from collapsewatch.importers.files import Reading, json_rows, plain_suffixes
from collapsewatch.importers.formats import Row, RowFile, has_keys
from collapsewatch.importers.steps import BadRowError, number_field, rollout_of, step_field, text_field

_METRICS = {"eval": "success", "entropy": "entropy", "kl": "kl"}
"""Column of the metrics file → the name under which trainers log it."""


class RecordedFormat(RowFile):
    """Rows with `step` and `group`."""

    name = "recorded"
    files = "<run>.rollouts.jsonl[.gz|.zst]"

    def claims(self, path: Path) -> bool:
        """Whether the first row has step, group, prompt and response."""
        return path.is_file() and has_keys(path, "step", "group", "prompt", "response")

    def step_of(self, raw: dict[str, Any], path: Path, reading: Reading) -> int:
        """The row's own step."""
        return step_field(raw)

    def row(self, raw: dict[str, Any], reading: Reading) -> Row:
        """One rollout. A reasoning that was never closed is left for the scoring to find."""
        response = text_field(raw, "response")
        turn = {"prompt": text_field(raw, "prompt"), "response": response}
        if isinstance(raw.get("action"), str):
            turn["action"] = raw["action"]
        group = raw.get("group")
        rollout = rollout_of(
            group_id=str(group) if isinstance(group, int) else group,
            turns=[turn],
            reward=number_field(raw, "reward"),
        )
        return Row(rollout)

    def step_values(self, path: Path, reading: Reading) -> dict[int, dict[str, float]]:
        """What `<run>.metrics.jsonl` says, where it lies beside the file."""
        stem = plain_suffixes(path).removesuffix(".jsonl").removesuffix(".rollouts")
        metrics = path.with_name(path.name[: len(stem)] + ".metrics.jsonl")
        if not metrics.is_file() or metrics == path:
            return {}
        found: dict[int, dict[str, float]] = {}
        look = reading.for_a_look()
        for _, raw in json_rows(metrics, look):
            try:
                values = {name: number_field(raw, column) for column, name in _METRICS.items()}
                found[step_field(raw)] = {name: value for name, value in values.items() if value is not None}
            except BadRowError:
                # Numbers beside the rollouts are a gift: without them the import is as good.
                continue
        return found
