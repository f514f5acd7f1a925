import math
import statistics
import subprocess
import sys
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch.filters import FilterSelection, snr_filter, variance_buckets

GROUPS = ["a", "a", "b", "b", "c", "c", "d", "d"]
REWARDS = [0.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.5]
"""Standard deviations √2, √½, 0, √⅛; variances 2, ½, 0, ⅛."""


def select(**options: object) -> FilterSelection[str]:
    return snr_filter(REWARDS, GROUPS, **options)  # type: ignore[arg-type]


def kept(**options: object) -> str:
    return "".join(select(**options).selected_group_ids)


def test_the_papers_rule_keeps_the_fewest_groups_that_reach_the_share() -> None:
    # Shares of the variance: a 0.762, b 0.190, d 0.048.
    assert kept(score="variance", value=0.7) == "a"
    assert kept(score="variance", value=0.77) == "ab"
    assert kept(score="variance", value=0.96) == "abd"
    assert kept(score="variance", value=1.0) == "abd"


def test_a_share_that_is_reached_exactly_needs_no_further_group() -> None:
    # Three equal variances of 0.005: two of them are two thirds, whatever their sum rounds to.
    rewards, ids = [0.0, 0.1, 0.0, 0.1, 0.0, 0.1], list("aabbcc")
    assert snr_filter(rewards, ids, score="variance", value=2 / 3).selected_group_ids == ("a", "b")
    assert snr_filter(rewards, ids, score="variance", value=1 / 3).selected_group_ids == ("a",)


def test_the_public_codes_rule_ranks_by_standard_deviation() -> None:
    # Shares of the standard deviation: a 0.571, b 0.286, d 0.143.
    assert kept(score="std", value=0.5) == "a"
    assert kept(score="std", value=0.7) == "ab"
    assert kept(score="std", value=0.9) == "abd"
    assert kept(score="std", value=1.0) == "abd"
    assert kept(score="std", value=1.0, include_zero=True) == "abcd"


def test_the_public_codes_rule_keeps_nothing_when_it_cannot_reach_its_threshold() -> None:
    assert kept(value=0.9, selection_eps=-100) == ""
    assert kept(value=0.0) == ""


@given(
    st.lists(st.lists(st.floats(-2, 2), min_size=2, max_size=3), min_size=1, max_size=6),
    st.floats(0.05, 0.99),
)
def test_no_smaller_set_reaches_the_papers_share(rewards: list[list[float]], share: float) -> None:
    flat = [reward for group in rewards for reward in group]
    ids = [number for number, group in enumerate(rewards) for _ in group]
    found = snr_filter(flat, ids, score="variance", value=share, include_zero=True)
    variances = [statistics.variance(group) for group in rewards]
    threshold = share * math.fsum(variances)
    reached = math.fsum(variances[position] for position in found.selected)
    assert reached >= threshold * (1 - 1e-9)
    if found.selected:
        smaller = combinations(variances, len(found.selected) - 1)
        assert all(math.fsum(each) < threshold * (1 + 1e-9) + 1e-300 for each in smaller)


def test_the_other_strategies() -> None:
    assert kept(strategy="top_k", value=0.5) == "ab"
    assert kept(strategy="top_k", value=0.01) == "a"
    assert kept(strategy="top_k_abs", value=3) == "abd"
    assert kept(strategy="top_k_abs", value=2, filter_type="smallest") == "db"
    assert kept(strategy="top_k_abs", value=2, filter_type="smallest", include_zero=True) == "cd"
    assert kept(strategy="min_p", value=0.4) == "ab"
    assert kept(strategy="min_p", value=0.4, filter_type="smallest") == "bd"
    assert kept(strategy="min_p", value=0.6, filter_type="smallest") == "d"
    assert kept(score="mean", strategy="top_k_abs", value=2) == "ac"
    assert kept(score="sum", strategy="top_k_abs", value=1) == "a"


def test_softmax_with_binary_rewards_keeps_nearly_everything() -> None:
    rewards = [float(row % 8 < group % 8) for group in range(32) for row in range(8)]
    ids = [group for group in range(32) for _ in range(8)]
    softmax = snr_filter(rewards, ids, value=0.9, top_p_mode="softmax", include_zero=True)
    linear = snr_filter(rewards, ids, value=0.9, include_zero=True)
    assert len(softmax.selected) > len(linear.selected)
    assert len(softmax.selected) >= 0.85 * 32


def test_rollouts_are_kept_by_group_wherever_they_stand() -> None:
    found = snr_filter([0, 5, 2, 5], ["x", "y", "x", "y"], value=0.9)
    assert found.to_keep() == [True, False, True, False]
    assert found.kept_rows == [0, 2]
    assert found.group_ids == ("x", "y")
    assert found.selected_group_ids == ("x",)


def test_groups_may_differ_in_size() -> None:
    found = snr_filter([0, 1, 2, 4, 4], ["x", "x", "x", "y", "y"], value=0.9)
    assert found.group_std == (1.0, 0.0)
    assert found.metrics["in_group_reward_sum"] == 5.5


def test_a_single_rollout_has_no_spread_and_is_never_nan() -> None:
    found = snr_filter([1, 2, 3], ["x", "y", "y"], score="variance", value=0.9, include_zero=True)
    assert found.group_std[0] is None
    assert found.group_std[1] == pytest.approx(math.sqrt(0.5))
    assert found.selected_group_ids == ("y",)
    assert found.metrics["in_group_std"] is None
    assert found.metrics["chosen_in_group_std"] == pytest.approx(math.sqrt(0.5))


def test_equal_rewards_have_exactly_no_spread() -> None:
    found = snr_filter([0.1] * 10, ["x"] * 10, strategy="top_k", value=1)
    assert found.group_std == (0.0,)
    assert found.selected == ()
    assert found.metrics["filter_zero_count"] == 1


def test_the_rule_names_itself() -> None:
    assert select(value=0.9).rule == "top_p 0.9 linear std"
    assert select(strategy="top_k", value=0.25, score="variance").rule == "top_k 0.25 variance"
    assert select(strategy="min_p", value=0.5, filter_type="smallest").rule == "min_p 0.5 std smallest"


def test_rewards_beyond_any_reason_are_no_error() -> None:
    found = snr_filter([1e308, -1e308, 1e308, 0.0, 1.0, 0.0], list("aabbcc"), value=0.9)
    assert set(found.selected_group_ids) <= set("abc")
    assert all(value is None or math.isfinite(value) for value in found.metrics.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "top_q"}, "strategy must be one of top_p, top_k, top_k_abs, min_p; got 'top_q'"),
        ({"score": "kurtosis"}, "score must be one of"),
        ({"filter_type": "middle"}, "filter_type must be one of"),
        ({"top_p_mode": "log"}, "top_p_mode must be one of"),
        ({"value": math.nan}, "value must be finite, got nan"),
        ({"score": "variance", "value": 1.2}, r"needs a share in \(0, 1\], got 1.2"),
    ],
)
def test_bad_options_are_refused_with_what_was_given(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select(**options)


@pytest.mark.parametrize(
    ("rewards", "groups", "message"),
    [
        ([1.0], ["a", "b"], "1 rewards for 2 group_ids"),
        ([], [], "at least one rollout"),
        ([1.0, math.inf], ["a", "a"], "reward 1 is inf"),
    ],
)
def test_bad_rewards_are_refused_with_what_was_given(
    rewards: list[float], groups: list[str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        snr_filter(rewards, groups)


def test_quantile_buckets_are_even_with_the_remainder_last() -> None:
    stds = [5.0, 1.0, 4.0, 2.0, 3.0, 0.0, 6.0, 7.0]
    assert variance_buckets(stds, num_buckets=3) == [(5, 1), (3, 4), (2, 0, 6, 7)]
    assert variance_buckets([2.0, 1.0]) == [(1,), (0,)]
    assert variance_buckets([]) == []


def test_fixed_buckets_take_their_lower_edge() -> None:
    stds = [0.0, 0.999, 1.0, 4.999999999999999, 5.0, 80.0]
    assert variance_buckets(stds, mode="fixed") == [(0, 1), (2,), (), (), (), (3, 4, 5)]


def test_bad_buckets_are_refused() -> None:
    with pytest.raises(ValueError, match="'quantile' or 'fixed', got 'log'"):
        variance_buckets([1.0], mode="log")
    with pytest.raises(ValueError, match="at least 1, got 0"):
        variance_buckets([1.0], num_buckets=0)
    with pytest.raises(ValueError, match="belongs to no bucket"):
        variance_buckets([math.nan])


def test_the_filter_needs_no_numpy() -> None:
    code = "import sys; from collapsewatch.filters import snr_filter; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
