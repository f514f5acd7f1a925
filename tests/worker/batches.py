"""Batches to score, recorded and made up, and the shortest way to score them."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collapsewatch.contracts.rollouts import CrossLogProbs, ReasoningTags, Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import Job, ScorerConfig, ScoringResult
from collapsewatch_worker.process import process
from collapsewatch_worker.scorers import ScoringModel

DATA = Path(__file__).parents[1] / "data"


def job(scorer: ScorerConfig | None = None) -> Job:
    return Job(
        job_id=1,
        run_id="run-1",
        batch_id="batch-1",
        step=0,
        blob_keys=["batches/run-1/batch-1.zst"],
        scorer=scorer or ScorerConfig(),
        start=1,
        lease_seconds=5.0,
    )


def no_model(checkpoint: str) -> ScoringModel:
    raise AssertionError(f"no model was needed, {checkpoint} was asked for")


def score(batch: RolloutBatch, **scorer: Any) -> ScoringResult:
    return process(job(ScorerConfig(**scorer)), batch, worker="worker-1", load_model=no_model)


def recorded_batch(step: int, *, with_ids: bool = False, **fields: Any) -> RolloutBatch:
    """One step of a recorded run that collapses: 8 prompts × 16 rollouts."""
    with gzip.open(DATA / "recorded_steps.jsonl.gz", "rt") as lines:
        records = [record for record in map(json.loads, lines) if record["step"] == step]
    vocabulary: dict[str, int] = {"</think>": 0}
    return RolloutBatch(
        batch_id=f"step-{step}",
        step=step,
        reward_min=0.0,
        reward_max=1.0,
        reasoning_tags=ReasoningTags(close_token_ids=[0]),
        rollouts=[
            Rollout(
                group_id=record["group"],
                reward=record["reward"],
                success=record["reward"] == 1.0,
                turns=[recorded_turn(record, vocabulary if with_ids else None)],
            )
            for record in records
        ],
        **fields,
    )


def recorded_turn(record: dict[str, Any], vocabulary: dict[str, int] | None) -> Turn:
    if vocabulary is None:
        return Turn(prompt=record["prompt"], response=record["response"], action=record["action"])

    def ids(text: str) -> list[int]:
        return [vocabulary.setdefault(word, len(vocabulary)) for word in text.split()]

    return Turn(
        prompt_token_ids=ids(record["prompt"]),
        response_token_ids=ids(record["response"]),
        response_log_probs=record["logprobs"],
        action=record["action"],
    )


def matrix_batch(
    log_probs: Sequence[Sequence[float | None]], groups: Sequence[str], columns: dict[str, str], **fields: Any
) -> RolloutBatch:
    """A batch whose trainer sent `log_probs`; `columns` maps each group to its prompt."""
    return RolloutBatch(
        batch_id="batch-1",
        step=4,
        rollouts=[
            Rollout(group_id=group, turns=[Turn(prompt=columns[group], response="so </think> up")])
            for group in groups
        ],
        cross_log_probs=CrossLogProbs(
            rollout_indices=list(range(len(groups))),
            column_group_ids=list(columns),
            log_probs=[list(row) for row in log_probs],
            token_counts=[2] * len(groups),
        ),
        **fields,
    )


def two_turn_batch(**fields: Any) -> RolloutBatch:
    """Four groups of two rollouts of two turns; each reasoning repeats a token of its own prompt."""
    rollouts = []
    for group in range(4):
        for k in range(2):
            second = [50, 10 + group, 100 + 10 * group + k]
            turns = [
                Turn(
                    prompt_token_ids=[50, 10 + group],
                    response_token_ids=[10 + group, 7],
                    reasoning_span=(0, 1),
                ),
                Turn(prompt_token_ids=second, response_token_ids=[second[-1], 7], reasoning_span=(0, 1)),
            ]
            rollouts.append(Rollout(group_id=f"g{group}", turns=turns))
    return RolloutBatch(batch_id="b", step=12, rollouts=rollouts, **fields)
