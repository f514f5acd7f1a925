"""Recorded runs as evaluations, scored without a model as the worker does, and exact drift made from them."""

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from collapsewatch.contracts.scoring import (
    LexicalMethod,
    MetricValue,
    PromptRetrieval,
    ScopeEvaluation,
)
from collapsewatch_server.folds.evaluation import Evaluation
from collapsewatch_worker.batches.batch_metrics import means_by_group
from collapsewatch_worker.metrics.evaluation import evaluate_matrix
from collapsewatch_worker.metrics.variance import reward_statistics
from collapsewatch_worker.scoring.lexical import lexical_scores

_SUFFIX = ".rollouts.jsonl.gz"
_NUM_DRAWS = 200
_NUM_PERMUTATIONS = 199


@dataclass(frozen=True)
class Trace:
    """One rollout."""

    group: str
    prompt: str
    reasoning: str
    """Empty where it was never closed."""
    reward: float


Step = Sequence[Trace]


def names(folder: Path) -> list[str]:
    """The runs that lie in the folder."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}"))


def load(folder: Path, run: str, *, num_rollouts: int | None = None) -> list[Step]:
    """The run's steps in order, of each group the first `num_rollouts`.

    A line holds `step`, `group`, `k`, `prompt`, `reasoning`, `action` and `reward`. A rollout without an
    action never closed its reasoning, or never acted, and counts as one without reasoning.
    """
    steps: dict[int, list[Trace]] = defaultdict(list)
    with gzip.open(folder / f"{run}{_SUFFIX}", "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if num_rollouts is None or row["k"] < num_rollouts:
                steps[row["step"]].append(_trace(row))
    return [steps[step] for step in sorted(steps)]


def _trace(row: Mapping[str, Any]) -> Trace:
    is_closed = row["action"] is not None
    return Trace(row["group"], row["prompt"], row["reasoning"] if is_closed else "", row["reward"])


def swapped(step: Step, share: float, generator: np.random.Generator) -> list[Trace]:
    """The step with that share of the traces of each prompt exchanged for traces of other prompts.

    Of each group equally many are drawn (the share, rounded at random so that it is met on average) and dealt
    out to the other groups in turn: none stays at its own prompt, and none is lost.
    """
    by_group: dict[str, list[int]] = defaultdict(list)
    for position, trace in enumerate(step):
        if trace.reasoning:
            by_group[trace.group].append(position)
    groups = [by_group[group] for group in generator.permutation(list(by_group)).tolist()]
    fewest = min(len(members) for members in groups)
    number = int(np.floor(share * fewest + generator.random())) if share < 1.0 else fewest
    drawn = [generator.permutation(members)[:number].tolist() for members in groups]
    result = list(step)
    for giver, positions in enumerate(drawn):
        for place, source in enumerate(positions):
            taker = (giver + 1 + place % (len(groups) - 1)) % len(groups)
            target = drawn[taker][place]
            taken = step[target]
            result[target] = Trace(taken.group, taken.prompt, step[source].reasoning, taken.reward)
    return result


def terser(step: Step, kept: float, generator: np.random.Generator) -> list[Trace]:
    """The step with words dropped evenly: of each reasoning that share of the words stays, in their order."""
    result = []
    for trace in step:
        words = trace.reasoning.split()
        number = max(1, round(kept * len(words))) if words else 0
        chosen = sorted(generator.permutation(len(words))[:number].tolist())
        text = " ".join(words[position] for position in chosen)
        result.append(Trace(trace.group, trace.prompt, text, trace.reward))
    return result


def evaluation_of(step: Step, number: int) -> Evaluation:
    """The step as the lexical scorer sees it: leave-one-out centroids, all metrics that it allows."""
    valid = [trace for trace in step if trace.reasoning]
    prompts = list(dict.fromkeys(trace.prompt for trace in valid))
    column = {prompt: position for position, prompt in enumerate(prompts)}
    own_R = np.array([column[trace.prompt] for trace in valid])
    scores_RP = lexical_scores(
        [trace.reasoning for trace in valid], prompts, own_R, method=LexicalMethod.group_centroid
    )
    known_R = ~np.isnan(scores_RP).any(axis=1)
    groups = dict.fromkeys((trace.prompt, trace.group) for trace in step)
    weights = [max(sum(prompt == one for one, _ in groups), 1) for prompt in prompts]
    found = evaluate_matrix(
        scores_RP[known_R],
        own_R[known_R],
        np.array(weights),
        np.ones(int(known_R.sum()), dtype=np.int64),
        in_nats=False,
        seed=number,
        num_draws=_NUM_DRAWS,
        num_permutations=_NUM_PERMUTATIONS,
    )
    scope = ScopeEvaluation(
        scope="first_turn",
        num_prompts=found.num_prompts,
        num_rows=found.num_rows,
        metrics=found.metrics,
        absent=found.absent,
        prompts=[
            PromptRetrieval(
                group_ids=[group for prompt, group in groups if prompt == prompts[one.column]],
                num_rows=one.num_rows,
                accuracy=one.accuracy,
                chance=one.chance,
            )
            for one in found.prompts
        ],
        temperature=1.0,
    )
    return Evaluation(number, "lexical", scope, _batch_metrics(step, number))


def _batch_metrics(step: Step, seed: int) -> dict[str, MetricValue]:
    group_ids = [trace.group for trace in step]
    rewards: list[float | None] = [trace.reward for trace in step]
    metrics = dict(reward_statistics(group_ids, rewards, seed=seed, num_draws=_NUM_DRAWS).metrics)
    is_valid_R = np.array([bool(trace.reasoning) for trace in step], dtype=np.float64)
    metrics |= means_by_group({"valid_reasoning_rate": is_valid_R}, group_ids, seed=seed)
    valid = [trace for trace in step if trace.reasoning]
    length_R = np.array([len(trace.reasoning.split()) for trace in valid], dtype=np.float64)
    return metrics | means_by_group(
        {"reasoning_length": length_R}, [trace.group for trace in valid], seed=seed
    )
