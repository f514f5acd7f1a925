"""verl's rollout dumps: `{rollout_data_dir}/{step}.jsonl`.

Source: verl 0.9.1, `verl/trainer/ppo/ray_trainer.py` (v0) and `verl/trainer/ppo/v1/trainer_base.py` (v1),
`_log_rollout_data` and `_write_generations`. Each line has `input`, `output`, `gts`, `score` and `step`, and
one field for each piece of extra information that the reward function returned. v1 adds `uid`, which is
`{sample}_{rollout}_{output}`; v0 says nothing of groups, so that equal inputs form one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collapsewatch.importers.files import Reading, json_rows
from collapsewatch.importers.formats import StepFiles, StepFolder, has_keys, numbered
from collapsewatch.importers.steps import (
    BadRowError,
    Means,
    Place,
    Step,
    number_field,
    rollout_of,
    step_field,
    success_of,
    text_field,
)

_NAME = re.compile(r"(\d+)\.jsonl")
_UID = re.compile(r"(?P<sample>.+)_(?P<rollout>\d+)_(?P<output>\d+)")
_OWN = frozenset({"input", "output", "gts", "score", "step", "uid", "request_id"})


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: an output of a rollout, and usually the only one."""

    place: Place
    group: str
    rollout: str | None
    """None: the line is a rollout of its own."""
    output: int
    prompt: str
    response: str
    score: float | None
    success: bool | None


class VerlFormat(StepFolder):
    """A folder of `{step}.jsonl`."""

    name = "verl"
    files = "{step}.jsonl, as trainer.rollout_data_dir or trainer.validation_data_dir has it"

    def find(self, path: Path, reading: Reading) -> list[StepFiles]:
        """Every `{step}.jsonl` of the folder."""
        return [StepFiles(number, (file,)) for number, file in numbered(path, _NAME)]

    def has_fields(self, path: Path) -> bool:
        """Whether the first line has verl's fields."""
        return has_keys(path, "input", "output", "score")

    def read(self, files: StepFiles, reading: Reading) -> Step | None:
        """The rollouts of one file."""
        lines: list[_Line] = []
        means = Means()
        for place, raw in json_rows(files.paths[0], reading.without_tail()):
            try:
                if "step" in raw and step_field(raw) != files.number:
                    raise BadRowError(
                        f"step: must be {files.number}, as the file's name says (given {raw['step']})"
                    )
                lines.append(_line(raw, place))
            except BadRowError as error:
                reading.problems.skip(place, str(error))
                continue
            means.add({name: value for name, value in raw.items() if name not in _OWN})
        rollouts = []
        for members in _by_rollout(lines):
            try:
                rollouts.append(_rollout(members))
            except BadRowError as error:
                reading.problems.skip(members[0].place, str(error))
        if not rollouts:
            return None
        return Step(files.number, rollouts, Place(files.paths[0]), means.values())


def _line(raw: dict[str, Any], place: Place) -> _Line:
    prompt = text_field(raw, "input")
    uid = raw.get("uid")
    match = _UID.fullmatch(uid) if isinstance(uid, str) else None
    return _Line(
        place=place,
        group=prompt_group(prompt) if match is None else match["sample"],
        rollout=None if match is None else f"{match['sample']}_{match['rollout']}",
        output=0 if match is None else int(match["output"]),
        prompt=prompt,
        response=text_field(raw, "output"),
        score=number_field(raw, "score"),
        success=success_of(raw.get("acc")),
    )


def _by_rollout(lines: Iterable[_Line]) -> list[list[_Line]]:
    """The lines of each rollout in the order of its outputs; rollouts in the order of their first lines."""
    found: dict[object, list[_Line]] = {}
    for line in lines:
        found.setdefault(line.rollout or line.place, []).append(line)
    return [sorted(members, key=lambda line: line.output) for members in found.values()]


def _rollout(members: list[_Line]) -> Any:
    # The score of a rollout stands with its last output.
    last = members[-1]
    return rollout_of(
        group_id=last.group,
        rollout_id=last.rollout,
        turns=[{"prompt": line.prompt, "response": line.response} for line in members],
        reward=last.score,
        success=last.success,
    )


def prompt_group(prompt: str) -> str:
    """A group's id made of the prompt, equal in every file."""
    return "prompt-" + blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
