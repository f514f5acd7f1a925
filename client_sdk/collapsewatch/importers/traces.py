"""Traces of verifiers, as prime-rl writes them: `rollouts/step_N/{train,eval}/{effective,all}/traces.jsonl`.

Source: prime-rl 0.8.0 (559b447, August 2026), `src/prime_rl/monitors/file.py`, and verifiers 0.4.0,
`verifiers/v1/episode.py`, `trace.py` and `graph.py`. A line is an episode with its `traces`, or a trace. A
trace is a graph of messages: each node has its `parent`, its `message`, and where the trainer served the
model also `token_ids`, a `mask` over them (true where sampled) and the `logprobs` of the sampled ones. A
sampled node is a turn, whose prompt is all on the way to it from the root. Absent keys mean None.

`effective` holds what was trained on and is taken where it is there; `all` also holds what failed or was
filtered.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.importers.files import Reading, first_row, json_rows
from collapsewatch.importers.formats import StepFiles, StepFolder
from collapsewatch.importers.steps import (
    BadRowError,
    Means,
    Place,
    Step,
    joined_messages,
    message_text,
    rollout_of,
    shown,
)
from collapsewatch.importers.verl import prompt_group

_STEP = re.compile(r"step_(\d+)")
_FILES = ("traces.jsonl", "traces.jsonl.gz", "traces.jsonl.zst")
_SUBSETS = ("effective", "all")


class TracesFormat(StepFolder):
    """A run's folder, its `rollouts`, one step of it, or one file."""

    name = "prime-rl"
    files = "rollouts/step_N/train/{effective,all}/traces.jsonl, or a traces.jsonl of verifiers"

    def find(self, path: Path, reading: Reading) -> list[StepFiles]:
        """The file of each step."""
        if path.is_file():
            return [StepFiles(_step_above(path, reading), (path,))]
        if not path.is_dir():
            return []
        root = path / "rollouts" if (path / "rollouts").is_dir() else path
        own = _STEP.fullmatch(root.name)
        folders = [(int(own[1]), root)] if own else []
        folders += [
            (int(match[1]), folder)
            for folder in root.iterdir()
            if (match := _STEP.fullmatch(folder.name)) is not None and folder.is_dir()
        ]
        found = [
            StepFiles(number, (file,))
            for number, folder in sorted(folders)
            for file in _file(folder, reading)
        ]
        if not found and (plain := _first_file(path)):
            return [StepFiles(_step_above(plain[0], reading), plain)]
        return found

    def has_fields(self, path: Path) -> bool:
        """Whether the first line is an episode or a trace."""
        row = first_row(path)
        return row is not None and any(isinstance(trace.get("nodes"), list) for trace in _traces(row) or [{}])

    def read(self, files: StepFiles, reading: Reading) -> Step | None:
        """The rollouts of one file; episodes that failed before the model said anything are skipped."""
        rollouts: list[Rollout] = []
        means, versions = Means(), set[int]()
        for place, raw in json_rows(files.paths[0], reading.without_tail()):
            version = _policy_version(raw)
            versions |= set() if version is None else {version}
            for trace in _traces(raw):
                try:
                    rollout = _rollout(trace, raw)
                except BadRowError as error:
                    reading.problems.skip(place, str(error))
                    continue
                if rollout is not None:
                    rollouts.append(rollout)
                    means.add(trace.get("metrics") or {})
        if not rollouts:
            return None
        # An asynchronous batch mixes policies; the oldest one has seen the least.
        policy = str(min(versions)) if versions else None
        return Step(files.number, rollouts, Place(files.paths[0]), means.values(), policy)


def episode_rollouts(record: Mapping[str, Any]) -> list[Rollout]:
    """The rollouts of one episode, or trace, that trains the policy; those that failed are left out."""
    rollouts = []
    for trace in _traces(record):
        with suppress(BadRowError):
            rollout = _rollout(trace, record)
            if rollout is not None:
                rollouts.append(rollout)
    return rollouts


def _file(step_folder: Path, reading: Reading) -> tuple[Path, ...]:
    # While a step is still going on, `all` alone is there, and never complete.
    for subset in _SUBSETS[:1] if reading.watch.follows else _SUBSETS:
        found = _first_file(step_folder / reading.part / subset)
        if found:
            return found
    return ()


def _first_file(folder: Path) -> tuple[Path, ...]:
    return tuple(folder / name for name in _FILES if (folder / name).is_file())[:1]


def _step_above(path: Path, reading: Reading) -> int:
    if reading.step is not None:
        return reading.step
    numbers = [int(match[1]) for part in path.parts if (match := _STEP.fullmatch(part)) is not None]
    return numbers[-1] if numbers else 0


def _traces(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    traces = raw.get("traces") if "traces" in raw else [raw] if "nodes" in raw else []
    return [trace for trace in traces if isinstance(trace, dict)] if isinstance(traces, list) else []


def _rollout(trace: Mapping[str, Any], episode: Mapping[str, Any]) -> Rollout | None:
    """The rollout of one trace; None for one that does not train the policy."""
    agent = _mapping(trace.get("agent"))
    if agent.get("trainable") is False:
        return None
    nodes = trace.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(node, dict) for node in nodes):
        raise BadRowError(f"nodes: must be a list of objects (given {shown(nodes)})")
    turns = [_turn(nodes, position) for position, node in enumerate(nodes) if node.get("sampled")]
    if not turns:
        raise BadRowError("nodes: must hold a message that was sampled (given none)")
    task = _mapping(trace.get("task") or episode.get("task"))
    group = _mapping(episode.get("group")).get("id") or task.get("key") or task.get("hash")
    agents = {_mapping(each.get("agent")).get("name") for each in _traces(episode)}
    name = f"/{agent.get('name')}" if len(agents) > 1 else ""
    return rollout_of(
        group_id=f"{group or prompt_group(turns[0]['prompt'])}{name}",
        rollout_id=trace.get("id"),
        turns=turns,
        reward=_reward(trace.get("rewards")),
    )


def _turn(nodes: Sequence[Mapping[str, Any]], position: int) -> dict[str, Any]:
    path = list(_path(nodes, position))
    node, before = path[-1], path[:-1]
    message = _mapping(node.get("message"))
    turn: dict[str, Any] = {
        "prompt": joined_messages([_mapping(each.get("message")) for each in before]),
        "response": _response(message),
    }
    mask, ids = node.get("mask") or [], node.get("token_ids") or []
    if True in mask and len(mask) == len(ids) and all(each.get("token_ids") for each in before):
        start = mask.index(True)
        end = len(mask) - mask[::-1].index(True)
        turn["prompt_token_ids"] = [token for each in before for token in each["token_ids"]] + ids[:start]
        turn["response_token_ids"] = ids[start:end]
        log_probs = node.get("logprobs") or []
        if len(log_probs) == end - start:
            turn["response_log_probs"] = log_probs
    return turn


def _path(nodes: Sequence[Mapping[str, Any]], position: int) -> Iterator[Mapping[str, Any]]:
    """The nodes from the root to one, itself included."""
    path = [position]
    while (parent := nodes[path[-1]].get("parent")) is not None:
        if not isinstance(parent, int) or not 0 <= parent < len(nodes) or len(path) > len(nodes):
            raise BadRowError(f"nodes.parent: must be the place of an earlier node (given {shown(parent)})")
        path.append(parent)
    return (nodes[each] for each in reversed(path))


def _response(message: Mapping[str, Any]) -> str:
    """What the model wrote: servers that parse the reasoning cut it out, tags and all."""
    reasoning, said = message.get("reasoning_content"), message_text(message)
    return f"<think>{reasoning}</think>{said}" if isinstance(reasoning, str) and reasoning else said


def _reward(rewards: object) -> float | None:
    """The weighted sum; None when nothing was scored."""
    known = [each for each in _mapping(rewards).values() if each is not None]
    if not known:
        return None
    total = 0.0
    for each in known:
        score = each.get("score") if isinstance(each, Mapping) else each
        weight = each.get("weight", 1.0) if isinstance(each, Mapping) else 1.0
        if not isinstance(score, int | float) or not isinstance(weight, int | float):
            raise BadRowError(f"rewards: must be numbers (given {shown(score)} × {shown(weight)})")
        total += score * weight
    return total


def _policy_version(episode: Mapping[str, Any]) -> int | None:
    work = _mapping(_mapping(episode.get("run")).get("work"))
    start = _mapping(work.get("policy")).get("start")
    return start if isinstance(start, int) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
