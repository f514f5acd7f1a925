"""A recorded collapse, and how it is logged."""

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import collapsewatch

DATA = Path(__file__).parents[1] / "data"


def recorded_steps() -> dict[int, list[dict[str, Any]]]:
    steps: dict[int, list[dict[str, Any]]] = defaultdict(list)
    with gzip.open(DATA / "collapsing_run.jsonl.gz", "rt") as lines:
        for line in lines:
            rollout = json.loads(line)
            steps[rollout["step"]].append(rollout)
    return steps


def log_step(run: collapsewatch.Run, step: int, rollouts: list[dict[str, Any]]) -> None:
    run.log_rollouts(
        step,
        prompts=[rollout["prompt"] for rollout in rollouts],
        responses=[rollout["response"] for rollout in rollouts],
        rewards=[rollout["reward"] for rollout in rollouts],
        group_ids=[rollout["group"] for rollout in rollouts],
        reward_range=(0.0, 1.0),
    )
