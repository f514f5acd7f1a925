"""A step that several ranks sent in parts, as one batch."""

from collections.abc import Sequence

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch_worker.errors import BatchNotScorable

_SAME = ("reasoning_tags", "temperature")
"""Fields without which the rollouts of two shards cannot be compared."""


def whole_step(shards: Sequence[RolloutBatch]) -> RolloutBatch:
    """The first shard's batch with the rollouts of all, in their order; a single batch is itself.

    Rollouts of one group may come in several shards. The policy version stays only if all shards name the
    same one; the range of rewards is the widest.

    Raises:
        BatchNotScorable: shards that cut their reasoning out differently, or sampled at other temperatures.
    """
    first = shards[0]
    if len(shards) == 1:
        return first
    for number, shard in enumerate(shards[1:], start=2):
        for field in _SAME:
            one, other = getattr(first, field), getattr(shard, field)
            if one != other:
                raise BatchNotScorable(
                    f"shard number {number} of the step has another `{field}` than the first: "
                    f"{str(other)[:200]!r} and {str(one)[:200]!r}"
                )
    versions = {shard.policy_version for shard in shards}
    return first.model_copy(
        update={
            "rollouts": [rollout for shard in shards for rollout in shard.rollouts],
            "policy_version": first.policy_version if len(versions) == 1 else None,
            "reward_min": min((s.reward_min for s in shards if s.reward_min is not None), default=None),
            "reward_max": max((s.reward_max for s in shards if s.reward_max is not None), default=None),
            "shard": None,
        }
    )
