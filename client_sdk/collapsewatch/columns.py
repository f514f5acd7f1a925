"""Columns of a batch, one entry per rollout, turned into single-turn rollouts."""

from array import array
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import repeat
from typing import Any, cast

from collapsewatch.errors import InvalidInputError
from collapsewatch.plain import described, group_name, plain_column

_TURN_FIELDS = {
    "prompts": "prompt",
    "prompt_token_ids": "prompt_token_ids",
    "responses": "response",
    "response_token_ids": "response_token_ids",
    "response_log_probs": "response_log_probs",
    "reasonings": "reasoning",
    "actions": "action",
}
_ROLLOUT_FIELDS = {"group_ids": "group_id", "rewards": "reward", "successes": "success", "turns": "turns"}


def plain_columns(columns: Mapping[str, object]) -> dict[str, list[Any]]:
    """The columns that are not None, as lists of equal lengths, with the groups' names among them.

    Without `group_ids`, rows with the same prompt form a group, whose id is the same in every batch.

    Raises:
        InvalidInputError: no column, columns of different lengths, or nothing to group by.
    """
    given = {name: plain_column(name, column) for name, column in columns.items() if column is not None}
    if not given:
        raise InvalidInputError("a batch needs `rollouts`, or columns such as `prompts` and `responses`")
    lengths = {name: len(column) for name, column in given.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidInputError(f"columns differ in length: {told}", kind="column lengths")
    if "group_ids" not in given:
        given["group_ids"] = _prompt_groups(given)
    given["group_ids"] = [group_name(group) for group in given["group_ids"]]
    return given


def rollouts_of_columns(given: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """One rollout per row of `plain_columns`, in the form of `Rollout`."""
    turns = _rows(given, _TURN_FIELDS) or [{} for _ in given["group_ids"]]
    return _rows({**given, "turns": [[turn] for turn in turns]}, _ROLLOUT_FIELDS)


def _rows(columns: Mapping[str, list[Any]], fields: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of the columns that have a field, by field; none without such a column."""
    names = [name for name in fields if name in columns]
    keys = [fields[name] for name in names]
    rows = zip(*(columns[name] for name in names), strict=True)
    # Loops of the interpreter's own: a step of Python for each row takes twice as long.
    return list(map(dict, map(zip, repeat(keys), rows)))


def _prompt_groups(columns: Mapping[str, list[Any]]) -> list[str]:
    """A name for each row's prompt: a digest of its token ids, else of its text."""
    prompts = columns.get("prompt_token_ids") or columns.get("prompts")
    if prompts is None:
        raise InvalidInputError("without `prompts` or `prompt_token_ids`, a batch needs `group_ids`")
    return ["prompt-" + blake2b(_prompt_bytes(prompt), digest_size=8).hexdigest() for prompt in prompts]


def _prompt_bytes(prompt: object) -> bytes:
    if isinstance(prompt, str):
        return prompt.encode("utf-8", "surrogatepass")
    try:
        return array("q", cast(Iterable[int], prompt)).tobytes()
    except (TypeError, OverflowError) as error:
        raise InvalidInputError(
            f"a prompt must be text or token ids, got {described(prompt)}", kind="prompt type"
        ) from error
