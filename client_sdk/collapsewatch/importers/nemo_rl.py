"""NeMo-RL's training data: `train_data_step{N}.jsonl` in the log folder.

Source: NeMo-RL 0.6.0 (7ea279a, August 2026), `nemo_rl/algorithms/grpo.py` and `nemo_rl/utils/logger.py`,
`log_batched_dict_as_jsonl`. Each line is a batch of one, so that every value but `idx` is a list with one
entry: `content` (the texts of the messages), `rewards`, `input_lengths`, `token_ids` (padded on the right),
`token_loss_mask` (1 on what the model wrote), `generation_logprobs`, and more. Stretches of the mask are the
turns. Nothing names the group: equal prompts form one.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any

from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.importers.files import Reading, json_rows
from collapsewatch.importers.formats import StepFiles, StepFolder, has_keys, numbered
from collapsewatch.importers.steps import BadRowError, Place, Step, number_field, rollout_of, shown

_NAME = re.compile(r"train_data_step(\d+)\.jsonl")


class NemoRlFormat(StepFolder):
    """A folder with `train_data_step{N}.jsonl`."""

    name = "nemo-rl"
    files = "train_data_step{N}.jsonl in logger.log_dir"

    def find(self, path: Path, reading: Reading) -> list[StepFiles]:
        """Every `train_data_step{N}.jsonl`."""
        return [StepFiles(number, (file,)) for number, file in numbered(path, _NAME)]

    def has_fields(self, path: Path) -> bool:
        """Whether the first line has the token ids and their mask."""
        return has_keys(path, "token_ids", "token_loss_mask")

    def read(self, files: StepFiles, reading: Reading) -> Step | None:
        """The rollouts of one file."""
        rollouts: list[Rollout] = []
        for place, raw in json_rows(files.paths[0], reading.without_tail()):
            try:
                rollouts.append(_rollout(raw))
            except BadRowError as error:
                reading.problems.skip(place, str(error))
        return Step(files.number, rollouts, Place(files.paths[0])) if rollouts else None


def _rollout(raw: dict[str, Any]) -> Rollout:
    row = {name: _only(value) for name, value in raw.items()}
    length = number_field(row, "input_lengths")
    ids = _ids(row, "token_ids")
    ids = ids if length is None else ids[: int(length)]
    mask = _ids(row, "token_loss_mask")[: len(ids)]
    if len(mask) != len(ids):
        raise BadRowError(f"token_loss_mask: must be as long as token_ids (given {len(mask)} for {len(ids)})")
    spans = _spans(mask)
    if not spans:
        raise BadRowError("token_loss_mask: must mark what the model wrote (given no token)")
    texts = _texts(row.get("content"), len(spans), ends_with_reply=bool(mask[-1]))
    log_probs = row.get("generation_logprobs")
    turns = []
    for (start, end), (prompt, response) in zip(spans, texts, strict=True):
        turn: dict[str, Any] = {"prompt_token_ids": ids[:start], "response_token_ids": ids[start:end]}
        turn |= {} if prompt is None else {"prompt": prompt, "response": response}
        if isinstance(log_probs, list) and len(log_probs) >= end:
            turn["response_log_probs"] = log_probs[start:end]
        turns.append(turn)
    # With dynamic sampling `rewards` are those of all that was sampled; these are those of the rows at hand.
    name = "filtered_rewards" if "filtered_rewards" in row else "rewards"
    return rollout_of(group_id=_group(ids[: spans[0][0]]), turns=turns, reward=number_field(row, name))


def _spans(mask: Sequence[object]) -> list[tuple[int, int]]:
    """Half-open ranges of the stretches that the model wrote."""
    spans, position = [], 0
    for is_written, members in groupby(mask, key=bool):
        length = len(list(members))
        if is_written and position:
            spans.append((position, position + length))
        position += length
    return spans


def _texts(content: object, num_turns: int, *, ends_with_reply: bool) -> list[tuple[str | None, str | None]]:
    """Prompt and response of each turn; None where the messages do not fit to the mask.

    Replies and what the environment says alternate at the end; what comes before the first reply is the
    prompt.
    """
    unknown: list[tuple[str | None, str | None]] = [(None, None)] * num_turns
    if not isinstance(content, list) or not all(isinstance(text, str) for text in content):
        return unknown
    last = len(content) - (1 if ends_with_reply else 2)
    replies = [last - 2 * back for back in range(num_turns)][::-1]
    if replies[0] < 1:
        return unknown
    return [("".join(content[:position]), content[position]) for position in replies]


def _only(value: object) -> object:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _ids(row: dict[str, Any], name: str) -> list[Any]:
    value = row.get(name)
    if not isinstance(value, list) or not value:
        raise BadRowError(f"{name}: must be a list (given {shown(value)})")
    return value


def _group(prompt_ids: Sequence[object]) -> str:
    return "prompt-" + blake2b(repr(list(prompt_ids)).encode(), digest_size=8).hexdigest()
