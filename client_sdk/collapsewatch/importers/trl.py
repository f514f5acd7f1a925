"""TRL's logged completions: `{output_dir}/completions/completions_{step:05d}.parquet`.

Source: TRL 1.16.0, `trl/trainer/grpo_trainer.py`, `GRPOTrainer.log` and `_generate_and_score_completions`.
The columns are `step`, `prompt`, `completion`, one for each reward function, then what a reward function
logged by `log_extra`, then `advantage`. Nothing says which rows form a group: a prompt's completions stand in
a row, a multiple of `num_generations` of them.

The trainer keeps as many rows as a generation batch has, and writes them whenever it logs; new rows push old
ones out at the front. So a file can begin with rows that ended the file before, or be equal to it, namely
when a batch serves several steps: those rows are left out. An evaluation writes to the same buffer and the
same place: made at a step that was logged, it takes the place of that file, and nothing tells its rows from
the training's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from math import gcd
from pathlib import Path
from typing import Any

from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.importers.files import Reading
from collapsewatch.importers.formats import StepFiles, StepFolder, numbered
from collapsewatch.importers.parquet import column_names, parquet_rows
from collapsewatch.importers.steps import (
    BadRowError,
    Means,
    Place,
    Step,
    number_field,
    rollout_of,
    text_field,
)
from collapsewatch.importers.verl import prompt_group

_NAME = re.compile(r"completions_(\d+)\.parquet")
_OWN = ("step", "prompt", "completion", "advantage")
_CLOSE = 1e-3
Row = tuple[Place, dict[str, Any]]


class TrlFormat(StepFolder):
    """A folder of `completions_{step}.parquet`, or the trainer's `output_dir` around it."""

    name = "trl"
    files = "completions/completions_{step}.parquet, as GRPOConfig(log_completions=True) writes them"

    def __init__(self) -> None:
        self._before: list[bytes] = []
        """Digests of the rows of the file before, in their order."""

    def find(self, path: Path, reading: Reading) -> list[StepFiles]:
        """Every `completions_{step}.parquet`."""
        folder = path / "completions" if (path / "completions").is_dir() else path
        return [StepFiles(number, (file,)) for number, file in numbered(folder, _NAME)]

    def has_fields(self, path: Path) -> bool:
        """Whether the columns are TRL's."""
        return {"prompt", "completion"} <= set(column_names(path))

    def read(self, files: StepFiles, reading: Reading) -> Step | None:
        """The rows of one file that the file before did not hold."""
        place = Place(files.paths[0])
        rows = list(parquet_rows(files.paths[0], reading))
        digests = [_digest(row) for _, row in rows]
        num_repeated = overlap(self._before, digests)
        fresh = rows[num_repeated:]
        reading.problems.num_repeated += num_repeated
        self._before = digests
        if not fresh:
            reading.problems.note(place, "holds nothing but rows of the file before")
            return None
        columns = _reward_columns(fresh, reading.mapping.get("reward"))
        rollouts, values = _rollouts(fresh, columns, reading)
        return Step(files.number, rollouts, place, values) if rollouts else None


def _rollouts(
    rows: Sequence[Row], columns: Sequence[str], reading: Reading
) -> tuple[list[Rollout], dict[str, float]]:
    rollouts: list[Rollout] = []
    means = Means()
    for group_id, members in _groups(rows):
        for place, row in members:
            try:
                rewards = [number_field(row, column) for column in columns]
                known = [reward for reward in rewards if reward is not None and reward == reward]
                rollout = rollout_of(
                    group_id=group_id,
                    turns=[{"prompt": text_field(row, "prompt"), "response": text_field(row, "completion")}],
                    # A reward function that returned None says NaN, and does not count.
                    reward=sum(known) if known else None,
                )
            except BadRowError as error:
                reading.problems.skip(place, str(error))
                continue
            rollouts.append(rollout)
            means.add({name: value for name, value in row.items() if name not in _OWN})
    return rollouts, means.values()


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Rows in a row with one prompt, cut at the largest size that all such stretches are made of."""
    stretches = [list(members) for _, members in groupby(rows, key=lambda row: repr(row[1].get("prompt")))]
    size = gcd(*map(len, stretches))
    seen: dict[str, int] = {}
    for members in stretches:
        name = prompt_group(repr(members[0][1].get("prompt")))
        # Without a common size a stretch is one group: nothing says where it would be cut.
        length = size if size > 1 else len(members)
        for start in range(0, len(members), length):
            seen[name] = seen.get(name, 0) + 1
            yield name if seen[name] == 1 else f"{name}-{seen[name]}", members[start : start + length]


def _reward_columns(rows: Sequence[Row], chosen: str | None) -> list[str]:
    """The columns whose sum is the reward.

    Extra columns can be numbers, too, and stand behind the rewards. An advantage is the reward less the mean
    of its group, over one scale per group: the shortest beginning of the numeric columns that fulfils it.
    """
    if chosen is not None:
        return [column.strip() for column in chosen.split("+")]
    first = rows[0][1]
    numeric = [
        name
        for name in first
        if name not in _OWN and any(isinstance(row.get(name), int | float) for _, row in rows)
    ]
    for count in range(1, len(numeric)):
        if all(_is_explained(members, numeric[:count]) for _, members in _groups(rows)):
            return numeric[:count]
    return numeric


def _is_explained(members: Sequence[Row], columns: Sequence[str]) -> bool:
    """Whether the group's advantages are its rewards, centred, times a positive number."""
    rewards = [sum(_number(row.get(column)) for column in columns) for _, row in members]
    advantages = [_number(row.get("advantage")) for _, row in members]
    mean = sum(rewards) / len(rewards)
    centred = [reward - mean for reward in rewards]
    dot = sum(a * b for a, b in zip(centred, advantages, strict=True))
    squares = sum(a * a for a in centred), sum(b * b for b in advantages)
    if min(squares) < _CLOSE**2:
        return max(squares) < _CLOSE**2
    return dot > 0 and bool(dot * dot >= (1 - _CLOSE) * squares[0] * squares[1])


def _number(value: object) -> float:
    is_number = isinstance(value, int | float) and value == value
    return float(value) if is_number else 0.0  # type: ignore[arg-type]


def overlap(before: Sequence[bytes], now: Sequence[bytes]) -> int:
    """How many of the first rows now are the last rows before, in the same order: the most that fit."""
    for start, digest in enumerate(before):
        if now and digest == now[0] and list(before[start:]) == list(now[: len(before) - start]):
            return len(before) - start
    return 0


def _digest(row: Mapping[str, Any]) -> bytes:
    told = repr([(name, value) for name, value in row.items() if name != "step"])
    return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).digest()
