"""Reward variance within prompt groups: the signal that a group carries for the task.

Legend: G groups, K rollouts of a group, R rollouts that have a reward, B bootstrap draws.
Source: docs/metrics.md section 3; arXiv 2604.06268.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from collapsewatch.contracts.scoring import GroupReward, MetricValue, VarianceBucket, VarianceCause
from collapsewatch.filters import FIXED_BUCKET_EDGES, ZERO_STD, variance_buckets
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.metrics.intervals import (
    NUM_DRAWS,
    cluster_draws,
    percentile_interval,
    resampled_means,
)

_LARGEST_REWARD = 1e150

_CAUSES = tuple(f"zero_variance_{cause.value}" for cause in VarianceCause)
_SPREADS = ("reward_variance", "reward_std", "zero_variance_fraction", *_CAUSES)
_SPREADS_OF_SPREADS = ("reward_variance_std", "reward_variance_dispersion")


class RewardStatistics(NamedTuple):
    """Rewards of a batch: metrics with intervals over groups, each group, and what is missing."""

    metrics: dict[str, MetricValue]
    groups: list[GroupReward]
    absent: dict[str, str]


def reward_statistics(
    group_ids: Sequence[str],
    rewards: Sequence[float | None],
    actions: Sequence[object | None] | None = None,
    reward_min: float | None = None,
    reward_max: float | None = None,
    *,
    seed: int = 0,
    num_draws: int = NUM_DRAWS,
) -> RewardStatistics:
    """Reward, its variance within groups, and why some groups have none.

    Groups come in order of first appearance. Rollouts without a reward are left out. A group with one
    rollout counts towards `reward` only: one number does not vary. Shares of zero-variance groups are of
    the groups with at least two rollouts.

    Args:
        group_ids: one per rollout.
        rewards: one per rollout.
        actions: one per rollout, anything hashable; None where unknown.
        reward_min: lowest possible reward.
        reward_max: highest possible reward.

    Raises:
        ValueError: lengths differ, or a reward is not finite.
    """
    _check_lengths(group_ids, rewards, actions)
    members = _rows_by_group(group_ids, rewards)
    unusable = _unusable(rewards)
    if unusable is not None:
        return RewardStatistics({}, [], dict.fromkeys(("reward", *_SPREADS, *_SPREADS_OF_SPREADS), unusable))
    reward_of_G = [np.array([rewards[row] for row in rows], dtype=np.float64) for rows in members.values()]
    action_of_G = [[actions[row] if actions else None for row in rows] for rows in members.values()]
    groups = [
        _group_reward(group_id, values, chosen, reward_min, reward_max)
        for group_id, values, chosen in zip(members, reward_of_G, action_of_G, strict=True)
    ]
    metrics = _mean_reward(reward_of_G, num_draws, seed)
    spread, absent = _spread(groups, num_draws, seed)
    metrics |= spread
    has_actions = any(action is not None for action in actions or ())
    for name, reason in _undecidable(reward_min, reward_max, has_actions=has_actions).items():
        metrics.pop(name, None)
        absent.setdefault(name, reason)
    return RewardStatistics(metrics, groups, absent)


def bucket_summary(
    groups: Sequence[GroupReward], *, mode: str = "quantile", num_buckets: int = 6
) -> list[VarianceBucket]:
    """Groups that have a spread, sorted into buckets by it; empty buckets are left out.

    `quantile`: Q1 … Q6, equal numbers of groups, the remainder in the last, fewer buckets for fewer
    groups. `fixed`: `[0, 1)` … `[5, ∞)`, by standard deviation.

    Raises:
        ValueError: another mode, or no bucket asked for.
    """
    varied = [(group, group.std) for group in groups if group.std is not None]
    buckets = variance_buckets([std for _, std in varied], mode=mode, num_buckets=num_buckets)
    names = [f"Q{number + 1}" for number in range(len(buckets))]
    if mode == "fixed":
        ends = [*(f"{edge:g})" for edge in FIXED_BUCKET_EDGES[1:]), "∞)"]
        names = [f"[{low:g}, {end}" for low, end in zip(FIXED_BUCKET_EDGES, ends, strict=True)]
    return [
        _bucket(name, [varied[position] for position in positions])
        for name, positions in zip(names, buckets, strict=True)
        if positions
    ]


def _bucket(name: str, members: Sequence[tuple[GroupReward, float]]) -> VarianceBucket:
    return VarianceBucket(
        name=name,
        num_groups=len(members),
        reward_variance=math.fsum(std**2 for _, std in members) / len(members),
        reward_std=math.fsum(std for _, std in members) / len(members),
        reward=math.fsum(group.mean for group, _ in members) / len(members),
    )


def _check_lengths(
    group_ids: Sequence[str], rewards: Sequence[float | None], actions: Sequence[object | None] | None
) -> None:
    if len(rewards) != len(group_ids):
        raise ValueError(f"{len(rewards)} rewards for {len(group_ids)} group_ids")
    if actions is not None and len(actions) != len(group_ids):
        raise ValueError(f"{len(actions)} actions for {len(group_ids)} group_ids")
    for row, reward in enumerate(rewards):
        if reward is not None and not math.isfinite(reward):
            raise ValueError(f"reward of rollout {row} is {reward}")


def _unusable(rewards: Sequence[float | None]) -> str | None:
    if all(reward is None for reward in rewards):
        return "the batch carries no rewards"
    for row, reward in enumerate(rewards):
        if reward is not None and abs(reward) > _LARGEST_REWARD:
            return f"the reward of rollout {row} is {reward:g}: its square is beyond what a float can hold"
    return None


def _rows_by_group(group_ids: Sequence[str], rewards: Sequence[float | None]) -> dict[str, list[int]]:
    members: dict[str, list[int]] = {}
    for row, (group_id, reward) in enumerate(zip(group_ids, rewards, strict=True)):
        if reward is not None:
            members.setdefault(group_id, []).append(row)
    return members


def _group_reward(
    group_id: str,
    rewards_K: Floats,
    actions_K: Sequence[object | None],
    reward_min: float | None,
    reward_max: float | None,
) -> GroupReward:
    low, high = float(rewards_K.min()), float(rewards_K.max())
    std = None if rewards_K.size < 2 else 0.0 if low == high else float(rewards_K.std(ddof=1))
    cause = None
    if std is not None and abs(std) <= ZERO_STD:
        cause = _cause(low, high, actions_K, reward_min, reward_max)
    return GroupReward(
        group_id=group_id,
        num_rollouts=rewards_K.size,
        # The mean of equal numbers may round away from them; their value is known.
        mean=low if low == high else float(rewards_K.mean()),
        minimum=low,
        maximum=high,
        std=std,
        cause=cause,
    )


def _cause(
    low: float,
    high: float,
    actions_K: Sequence[object | None],
    reward_min: float | None,
    reward_max: float | None,
) -> VarianceCause:
    if reward_max is not None and low >= reward_max - ZERO_STD:
        return VarianceCause.too_easy
    if reward_min is not None and high <= reward_min + ZERO_STD:
        return VarianceCause.too_hard
    # Without both ends of the range this might still be a group that is too easy or too hard.
    range_known = reward_min is not None and reward_max is not None
    known_actions = {action for action in actions_K if action is not None}
    if range_known and len(known_actions) > 1:
        return VarianceCause.reward_insensitive
    return VarianceCause.tied


def _undecidable(reward_min: float | None, reward_max: float | None, *, has_actions: bool) -> dict[str, str]:
    """Causes that nothing in the batch can tell, with the reason. Their groups are counted as tied."""
    reasons: dict[str, str] = {}
    if reward_max is None:
        reasons["zero_variance_too_easy"] = "needs the highest possible reward (reward_max)"
    if reward_min is None:
        reasons["zero_variance_too_hard"] = "needs the lowest possible reward (reward_min)"
    if reward_min is None or reward_max is None:
        reasons["zero_variance_reward_insensitive"] = "needs the reward's range (reward_min and reward_max)"
    elif not has_actions:
        reasons["zero_variance_reward_insensitive"] = "needs the actions"
    return reasons


def _mean_reward(reward_of_G: Sequence[Floats], num_draws: int, seed: int) -> dict[str, MetricValue]:
    rewards_R = np.concatenate(reward_of_G)
    group_of_R = np.repeat(np.arange(len(reward_of_G)), [values.size for values in reward_of_G])
    value = float(rewards_R.mean())
    interval = None
    if len(reward_of_G) >= 2:
        draws_BG = cluster_draws(len(reward_of_G), num_draws=num_draws, seed=seed)
        interval = percentile_interval(resampled_means({"reward": rewards_R}, group_of_R, draws_BG)["reward"])
    low, high = interval or (None, None)
    return {"reward": MetricValue(value=value, low=low, high=high)}


def _spread(
    groups: Sequence[GroupReward], num_draws: int, seed: int
) -> tuple[dict[str, MetricValue], dict[str, str]]:
    varied = [group for group in groups if group.std is not None]
    if not varied:
        reason = "every group has a single rollout: one reward does not vary"
        return {}, dict.fromkeys((*_SPREADS, *_SPREADS_OF_SPREADS), reason)
    std_G = np.array([group.std for group in varied], dtype=np.float64)
    per_group = {
        "reward_variance": std_G**2,
        "reward_std": std_G,
        "zero_variance_fraction": std_G <= ZERO_STD,
    }
    for cause in VarianceCause:
        per_group[f"zero_variance_{cause.value}"] = np.array([group.cause is cause for group in varied])
    means_B = _means_over_groups(np.stack([*per_group.values()]).astype(np.float64), num_draws, seed)
    metrics = dict(zip(per_group, (_with_interval(values) for values in means_B), strict=True))
    if len(varied) < 2:
        reason = "needs at least 2 groups with at least 2 rollouts, got 1"
        return metrics, dict.fromkeys(_SPREADS_OF_SPREADS, reason)
    spread_B = _std_over_groups(std_G**2, num_draws, seed)
    metrics["reward_variance_std"] = _with_interval(spread_B)
    mean_B = means_B[0]
    if mean_B[0] <= 0:
        return metrics, {"reward_variance_dispersion": "no group's rewards vary: the mean variance is 0"}
    # A draw of groups that all lack variance has no ratio; the interval is then left out.
    with np.errstate(invalid="ignore", divide="ignore"):
        metrics["reward_variance_dispersion"] = _with_interval(spread_B / mean_B)
    return metrics, {}


def _draws(num_groups: int, num_draws: int, seed: int) -> Floats:
    """[B, G] first each group once, then the bootstrap's draws, none for a single group."""
    data = np.ones((1, num_groups))
    if num_groups < 2:
        return data
    return np.concatenate([data, cluster_draws(num_groups, num_draws=num_draws, seed=seed)])


def _means_over_groups(values_SG: Floats, num_draws: int, seed: int) -> Floats:
    draws_BG = _draws(values_SG.shape[1], num_draws, seed)
    return np.asarray(values_SG @ draws_BG.T / values_SG.shape[1], dtype=np.float64)


def _std_over_groups(values_G: Floats, num_draws: int, seed: int) -> Floats:
    """[B] sample standard deviation (G − 1) over the groups of each draw."""
    centred_G = values_G - values_G.mean()
    first_B, second_B = _means_over_groups(np.stack([centred_G, centred_G**2]), num_draws, seed)
    variance_B = np.maximum(second_B - first_B**2, 0.0) * values_G.size / (values_G.size - 1)
    return np.asarray(np.sqrt(variance_B), dtype=np.float64)


def _with_interval(values_B: Floats) -> MetricValue:
    interval = percentile_interval(values_B[1:]) if values_B.size > 1 else None
    low, high = interval or (None, None)
    return MetricValue(value=float(values_B[0]), low=low, high=high)
