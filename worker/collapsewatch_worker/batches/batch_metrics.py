"""What is measured on the whole batch: reward, success, valid reasoning, lengths, and filter previews.

Legend: R values (rollouts or turns), G groups.
Source: docs/metrics.md sections 1 and 3.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.scoring import FilterPreview, GroupReward, MetricValue, VarianceBuckets
from collapsewatch.filters import snr_filter
from collapsewatch_worker.batches.partition import NOT_CUT, PartitionedBatch, PartitionedTurn
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.metrics.intervals import cluster_draws, percentile_interval, resampled_means
from collapsewatch_worker.metrics.variance import bucket_summary, reward_statistics

FILTER_RULES: tuple[dict[str, str | float], ...] = (
    {"strategy": "top_p", "value": 0.9, "top_p_mode": "linear", "score": "std"},
    {"strategy": "top_p", "value": 0.9, "top_p_mode": "softmax", "score": "std"},
    {"strategy": "top_p", "value": 0.9, "top_p_mode": "linear", "score": "variance"},
    {"strategy": "top_k", "value": 0.25, "score": "std"},
    {"strategy": "min_p", "value": 0.5, "score": "std"},
)
"""Rules whose effect on each batch is shown: they keep very different groups."""
_NO_TOKENIZER = "and the batch is left out by choice, for which no tokenizer was found"


class BatchMetrics(NamedTuple):
    """Metrics of the whole batch, its groups, their buckets, and what the filter rules would keep."""

    metrics: dict[str, MetricValue]
    absent: dict[str, str]
    groups: list[GroupReward]
    filters: list[FilterPreview]
    buckets: VarianceBuckets


def batch_metrics(
    batch: RolloutBatch, partitioned: PartitionedBatch, *, seed: int = 0, is_left_out: bool = False
) -> BatchMetrics:
    """Everything that needs no scores: it is measured whoever scores the batch.

    `valid_reasoning_rate` is scored turns over all turns; `reasoning_length` the mean length of scored
    reasoning, in tokens when all of it has token ids, else in words.

    Args:
        is_left_out: the batch is not scored by choice, and its model, with the tokenizer, was not loaded.
            What would then differ from the run's other steps is absent: a length in words among lengths in
            tokens, a rate of turns that nothing could cut.
    """
    group_ids = [rollout.group_id for rollout in batch.rollouts]
    rewards = [rollout.reward for rollout in batch.rollouts]
    statistics = reward_statistics(
        group_ids, rewards, _actions(batch, partitioned), batch.reward_min, batch.reward_max, seed=seed
    )
    metrics, absent = dict(statistics.metrics), dict(statistics.absent)
    for name, (found, reason) in {
        "valid_reasoning_rate": _valid_rate(partitioned, seed, is_left_out=is_left_out),
        "success": _success(batch, seed),
        "reasoning_length": _reasoning_length(partitioned.valid_turns, seed, is_left_out=is_left_out),
    }.items():
        metrics |= found
        if reason:
            absent[name] = reason
    buckets = VarianceBuckets(
        quantile=bucket_summary(statistics.groups), fixed=bucket_summary(statistics.groups, mode="fixed")
    )
    return BatchMetrics(metrics, absent, statistics.groups, _filter_previews(group_ids, rewards), buckets)


def means_by_group(
    per_row: Mapping[str, Floats], group_ids: Sequence[str], *, seed: int = 0
) -> dict[str, MetricValue]:
    """Mean of each statistic over the rows, with a 95 % bootstrap interval over groups.

    A single group gives no interval.

    Args:
        per_row: name → one value per row, at least one row.
        group_ids: one per row.
    """
    number_of = {group_id: number for number, group_id in enumerate(dict.fromkeys(group_ids))}
    group_of_R = np.array([number_of[group_id] for group_id in group_ids])
    intervals: dict[str, tuple[float, float] | None] = {}
    if len(number_of) >= 2:
        means = resampled_means(per_row, group_of_R, cluster_draws(len(number_of), seed=seed))
        intervals = {name: percentile_interval(values_B) for name, values_B in means.items()}
    values: dict[str, MetricValue] = {}
    for name, values_R in per_row.items():
        low, high = intervals.get(name) or (None, None)
        values[name] = MetricValue(value=float(np.mean(values_R)), low=low, high=high)
    return values


def _actions(batch: RolloutBatch, partitioned: PartitionedBatch) -> list[object | None]:
    """What each rollout did, turn by turn; None where an action is unknown."""
    actions: list[list[str | None]] = [[] for _ in batch.rollouts]
    for turn in partitioned.turns:
        actions[turn.rollout_index].append(turn.action_text)
    return [None if None in taken else tuple(taken) for taken in actions]


def _valid_rate(
    partitioned: PartitionedBatch, seed: int, *, is_left_out: bool
) -> tuple[dict[str, MetricValue], str]:
    if is_left_out and NOT_CUT in partitioned.invalid_reasons:
        return {}, f"some turns cannot be cut, {_NO_TOKENIZER}"
    valid_R = np.array([turn.invalid_reason is None for turn in partitioned.turns], dtype=np.float64)
    group_ids = [turn.group_id for turn in partitioned.turns]
    return means_by_group({"valid_reasoning_rate": valid_R}, group_ids, seed=seed), ""


def _success(batch: RolloutBatch, seed: int) -> tuple[dict[str, MetricValue], str]:
    known = [(rollout.group_id, rollout.success) for rollout in batch.rollouts if rollout.success is not None]
    if not known:
        return {}, "the batch does not say which rollouts succeeded"
    success_R = np.array([success for _, success in known], dtype=np.float64)
    return means_by_group({"success": success_R}, [group_id for group_id, _ in known], seed=seed), ""


def _reasoning_length(
    turns: Sequence[PartitionedTurn], seed: int, *, is_left_out: bool
) -> tuple[dict[str, MetricValue], str]:
    if not turns:
        return {}, "no scored reasoning"
    in_tokens = all(turn.reasoning_token_ids is not None for turn in turns)
    if not in_tokens and is_left_out:
        return {}, f"the reasonings came as text, {_NO_TOKENIZER}"
    length_R = np.array(
        [
            len(turn.reasoning_token_ids or ()) if in_tokens else len(turn.reasoning_text.split())
            for turn in turns
        ],
        dtype=np.float64,
    )
    group_ids = [turn.group_id for turn in turns]
    return means_by_group({"reasoning_length": length_R}, group_ids, seed=seed), ""


def _filter_previews(group_ids: Sequence[str], rewards: Sequence[float | None]) -> list[FilterPreview]:
    rewarded = [
        (group, reward) for group, reward in zip(group_ids, rewards, strict=True) if reward is not None
    ]
    if not rewarded:
        return []
    groups, values = [group for group, _ in rewarded], [reward for _, reward in rewarded]
    previews = []
    for rule in FILTER_RULES:
        selection = snr_filter(values, groups, **rule)  # type: ignore[arg-type]
        previews.append(
            FilterPreview(
                rule=selection.rule,
                kept_group_ids=list(selection.selected_group_ids),
                num_groups=len(selection.group_ids),
            )
        )
    return previews
