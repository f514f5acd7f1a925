import math
import statistics

import pytest

from collapsewatch.contracts.metrics import METRICS
from collapsewatch.contracts.scoring import VarianceCause
from collapsewatch_worker.metrics.variance import RewardStatistics, bucket_summary, reward_statistics

GROUPS = list("aaabbbcccddde")
REWARDS = [0.0, 1.0, 2.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 3.0]
ACTIONS = list("lrulllllllruu")


def measured() -> RewardStatistics:
    return reward_statistics(GROUPS, REWARDS, ACTIONS, 0.0, 1.0)


def test_each_group_is_told_with_its_spread_and_its_cause() -> None:
    groups = {group.group_id: group for group in measured().groups}
    assert list(groups) == ["a", "b", "c", "d", "e"]
    assert (groups["a"].mean, groups["a"].minimum, groups["a"].maximum, groups["a"].std) == (1, 0, 2, 1)
    assert groups["a"].cause is None
    assert groups["b"].cause is VarianceCause.too_easy
    assert groups["c"].cause is VarianceCause.too_hard
    assert groups["d"].cause is VarianceCause.reward_insensitive
    assert (groups["e"].num_rollouts, groups["e"].std, groups["e"].cause) == (1, None, None)


def test_batch_metrics_match_the_standard_library() -> None:
    metrics = measured().metrics
    variances = [1.0, 0.0, 0.0, 0.0]
    expected = {
        "reward": statistics.mean(REWARDS),
        "reward_variance": statistics.mean(variances),
        "reward_std": statistics.mean(variances),
        "reward_variance_std": statistics.stdev(variances),
        "reward_variance_dispersion": statistics.stdev(variances) / statistics.mean(variances),
        "zero_variance_fraction": 3 / 4,
        "zero_variance_too_easy": 1 / 4,
        "zero_variance_too_hard": 1 / 4,
        "zero_variance_reward_insensitive": 1 / 4,
        "zero_variance_tied": 0,
    }
    assert {name: metric.value for name, metric in metrics.items()} == pytest.approx(expected)
    assert METRICS.keys() >= metrics.keys()
    assert not measured().absent
    low, high = metrics["reward_variance"].low, metrics["reward_variance"].high
    assert low is not None and high is not None and 0 <= low <= 0.25 <= high <= 1


def test_same_actions_or_unknown_actions_are_only_tied() -> None:
    for actions in (["l", "l"], ["l", None], None):
        found = reward_statistics(["a", "a"], [0.5, 0.5], actions, 0, 1)
        assert found.groups[0].cause is VarianceCause.tied
        assert found.metrics["zero_variance_tied"].value == 1
    assert reward_statistics(["a", "a"], [0.5, 0.5], None, 0, 1).absent[
        "zero_variance_reward_insensitive"
    ] == ("needs the actions")


def test_without_the_range_the_cause_is_open() -> None:
    found = reward_statistics(["a", "a", "b", "b"], [1.0, 1.0, 0.0, 1.0], ["l", "r", "l", "r"])
    assert found.groups[0].cause is VarianceCause.tied
    assert found.metrics["zero_variance_tied"].value == 0.5
    for cause in ("too_easy", "too_hard", "reward_insensitive"):
        assert "reward_m" in found.absent[f"zero_variance_{cause}"]
        assert f"zero_variance_{cause}" not in found.metrics


def test_one_end_of_the_range_settles_its_own_cause() -> None:
    found = reward_statistics(["a", "a"], [1.0, 1.0], None, None, 1.0)
    assert found.groups[0].cause is VarianceCause.too_easy
    assert "zero_variance_too_hard" in found.absent and "zero_variance_too_easy" in found.metrics


def test_single_rollouts_have_a_reward_and_no_variance() -> None:
    found = reward_statistics(["a", "b"], [1.0, 2.0])
    assert found.metrics.keys() == {"reward"}
    assert "single rollout" in found.absent["reward_variance"]
    assert "single rollout" in found.absent["zero_variance_fraction"]
    assert all(group.std is None for group in found.groups)


def test_equal_rewards_have_no_spread_at_all() -> None:
    # In floating point the mean of three times 0.1 is not 0.1, and the deviations from it are not 0.
    found = reward_statistics(["a"] * 3, [0.1] * 3)
    assert (found.groups[0].std, found.groups[0].mean) == (0.0, 0.1)
    assert found.metrics["zero_variance_fraction"].value == 1


def test_one_group_has_no_spread_of_spreads_and_no_interval() -> None:
    found = reward_statistics(["a", "a"], [0.0, 1.0])
    assert found.metrics["reward_variance"].low is None
    assert "at least 2 groups" in found.absent["reward_variance_std"]


def test_variances_that_are_all_zero_have_no_dispersion() -> None:
    found = reward_statistics(["a", "a", "b", "b"], [1.0, 1.0, 2.0, 2.0])
    assert found.metrics["reward_variance_std"].value == 0
    assert "mean variance is 0" in found.absent["reward_variance_dispersion"]


def test_rollouts_without_a_reward_are_left_out() -> None:
    found = reward_statistics(["a", "a", "a", "b"], [1.0, None, 3.0, None])
    assert [group.num_rollouts for group in found.groups] == [2]
    assert found.metrics["reward"].value == 2


@pytest.mark.parametrize(
    ("rewards", "reason"), [([None, None], "no rewards"), ([1e200, 0.0], "rollout 0 is 1e")]
)
def test_a_batch_without_usable_rewards_says_why(rewards: list[float | None], reason: str) -> None:
    found = reward_statistics(["a", "a"], rewards)
    assert not found.metrics and not found.groups
    assert reason in found.absent["reward"] and reason in found.absent["reward_variance"]


def test_bad_input_is_refused_with_what_was_given() -> None:
    with pytest.raises(ValueError, match="1 rewards for 2 group_ids"):
        reward_statistics(["a", "b"], [1.0])
    with pytest.raises(ValueError, match="1 actions for 2 group_ids"):
        reward_statistics(["a", "b"], [1.0, 2.0], ["l"])
    with pytest.raises(ValueError, match="rollout 1 is nan"):
        reward_statistics(["a", "b"], [1.0, float("nan")])


def test_quantile_buckets_put_the_remainder_in_the_last() -> None:
    groups = reward_statistics(
        [f"g{i // 2}" for i in range(16)], [float(i % 2 * (20 - i)) for i in range(16)]
    ).groups
    buckets = bucket_summary(groups)
    assert [bucket.name for bucket in buckets] == ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6"]
    assert [bucket.num_groups for bucket in buckets] == [1, 1, 1, 1, 1, 3]
    stds = [bucket.reward_std for bucket in buckets]
    assert stds == sorted(stds)
    # The last bucket holds the groups with rewards (0, 19), (0, 17) and (0, 15).
    last = buckets[-1]
    assert last.reward == pytest.approx((19 + 17 + 15) / 2 / 3)
    assert last.reward_variance == pytest.approx((19**2 + 17**2 + 15**2) / 2 / 3)
    assert last.reward_std == pytest.approx((19 + 17 + 15) / math.sqrt(2) / 3)


def test_fixed_buckets_have_names_and_no_empty_ones() -> None:
    groups = reward_statistics(list("aabbcc"), [0.0, 0.2, 0.0, 3.0, 0.0, 99.0]).groups
    buckets = bucket_summary(groups, mode="fixed")
    assert [(bucket.name, bucket.num_groups) for bucket in buckets] == [
        ("[0, 1)", 1),
        ("[2, 3)", 1),
        ("[5, ∞)", 1),
    ]


def test_groups_without_a_spread_are_in_no_bucket() -> None:
    groups = reward_statistics(["a", "b", "b"], [1.0, 0.0, 1.0]).groups
    assert [(bucket.name, bucket.num_groups) for bucket in bucket_summary(groups)] == [("Q1", 1)]
    assert bucket_summary([]) == []
