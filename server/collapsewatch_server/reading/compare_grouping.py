"""Which runs belong together: those whose settings are the same. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pydantic import JsonValue

ALL_BUT_SEEDS = "*"
"""Stands for all settings but those that tell one seed from another."""
_NOT_SET = "not set"
# What differs between two seeds of one experiment beside the seed itself, by the names that trainers use.
_OF_A_SINGLE_RUN = frozenset(
    {
        "default_local_dir",
        "exp_name",
        "experiment_name",
        "hub_model_id",
        "log_dir",
        "logging_dir",
        "output_dir",
        "run_id",
        "run_name",
        "wandb_run_id",
    }
)
_MAX_DEPTH = 6


class Group(NamedTuple):
    """Runs with the same settings."""

    label: str
    settings: dict[str, JsonValue]
    """What the runs have in common and other groups do not."""
    members: list[int]
    """Positions of the runs, in their order."""


def flat(config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Settings by their path, such as `optimizer.lr`; lists stay whole."""
    found: dict[str, JsonValue] = {}
    _flatten(config, "", 1, found)
    return found


def _flatten(config: Mapping[str, JsonValue], before: str, depth: int, found: dict[str, JsonValue]) -> None:
    for key, value in config.items():
        if isinstance(value, dict) and value and depth < _MAX_DEPTH:
            _flatten(value, f"{before}{key}.", depth + 1, found)
        else:
            found[f"{before}{key}"] = value


def is_of_a_single_run(key: str) -> bool:
    """Whether the setting tells one run of an experiment from another: its seed, its name, its folder."""
    last = key.rpartition(".")[2].lower()
    return last == "seed" or last.endswith(("_seed", "-seed")) or last in _OF_A_SINGLE_RUN


def grouped(configs: Sequence[Mapping[str, JsonValue]], by: Sequence[str]) -> list[Group]:
    """The runs in groups, in the order of their first runs.

    Args:
        by: settings that a group's runs share; `*` for all but those of a single run.
    """
    flattened = [flat(config) for config in configs]
    keys = _keys(flattened) if ALL_BUT_SEEDS in by else list(dict.fromkeys(by))
    members: dict[str, list[int]] = {}
    for position, config in enumerate(flattened):
        members.setdefault(json.dumps([_told(config, key) for key in keys]), []).append(position)
    first = [flattened[positions[0]] for positions in members.values()]
    telling = [key for key in keys if len({json.dumps(_told(config, key)) for config in first}) > 1]
    if ALL_BUT_SEEDS not in by:
        telling = keys
    return [
        Group(_label(config, telling), {key: config.get(key) for key in telling}, positions)
        for config, positions in zip(first, members.values(), strict=True)
    ]


def _keys(flattened: Sequence[Mapping[str, JsonValue]]) -> list[str]:
    return sorted({key for config in flattened for key in config if not is_of_a_single_run(key)})


def _told(config: Mapping[str, JsonValue], key: str) -> JsonValue:
    """The value in a form in which one that is not set differs from null, and key order says nothing."""
    return [json.dumps(config[key], sort_keys=True)] if key in config else []


def _label(config: Mapping[str, JsonValue], keys: Sequence[str]) -> str:
    parts = [f"{key} = {_words(config[key]) if key in config else _NOT_SET}" for key in keys]
    return ", ".join(parts) or "all runs"


def _words(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
