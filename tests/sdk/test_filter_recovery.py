"""What a filter tells a run, and how starved prompts come in again."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

import collapsewatch
from collapsewatch.filters import RecoveringFilter, snr_filter

from .conftest import Recorder

GROUPS = list("aabbccdd")
REWARDS = [0.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.5]
"""Standard deviations √2, √½, 0, √⅛."""


class Told:
    """Takes scalars as a run does."""

    def __init__(self) -> None:
        self.steps: dict[int, dict[str, float]] = {}

    def log(self, values: Any, step: int | None = None) -> None:
        assert step is not None
        self.steps.setdefault(step, {}).update(values)


@pytest.mark.parametrize("kind", [torch.tensor, np.array, lambda values: [torch.tensor(v) for v in values]])
def test_groups_given_as_tensors_are_the_same_groups(kind: Any) -> None:
    numbers = [0, 0, 1, 1, 2, 2, 3, 3]
    plain = snr_filter(REWARDS, numbers)
    assert snr_filter(kind(REWARDS), kind(numbers)) == plain
    assert plain.group_ids == (0, 1, 2, 3)
    assert plain.selected_group_ids == (0, 1, 3)


def test_a_run_is_told_what_was_kept_and_dropped(recorder: Recorder) -> None:
    with collapsewatch.init("p", "n", url=recorder.url, api_key="k") as run:
        found = collapsewatch.filters.snr_filter(REWARDS, GROUPS, value=0.7, run=run, step=3)
    assert found.dropped_group_ids == ("c", "d")
    values = recorder.scalars()[3]
    assert values["filter/kept_count"] == values["filter/dropped_count"] == 2
    assert values["filter/kept_ratio"] == 0.5
    assert values["filter/zero_count"] == 1
    assert values["filter/in_group_std"] == pytest.approx(
        (math.sqrt(2) + math.sqrt(0.5) + math.sqrt(0.125)) / 4
    )
    assert values["filter/chosen_in_group_std"] == pytest.approx((math.sqrt(2) + math.sqrt(0.5)) / 2)


def test_loss_scales_follow_the_kept_share_of_the_groups() -> None:
    found = snr_filter(REWARDS, GROUPS, strategy="top_k_abs", value=1)
    assert found.loss_scale("none") == 1.0
    assert found.loss_scale("linear") == found.loss_scale() == 0.25
    assert found.loss_scale("sqrt") == 0.5
    assert snr_filter([1.0, 1.0], ["a", "a"]).loss_scale("sqrt") == 0.0
    with pytest.raises(ValueError, match="none, linear, sqrt; got 'log'"):
        found.loss_scale("log")  # type: ignore[arg-type]


def test_without_a_reset_it_is_the_plain_filter() -> None:
    for options in ({}, {"value": 0.5}, {"strategy": "top_k", "value": 0.25, "score": "variance"}):
        filtering: RecoveringFilter[str] = RecoveringFilter(**options)
        assert filtering(REWARDS, GROUPS, step=0) == snr_filter(REWARDS, GROUPS, **options)


def test_every_few_steps_the_longest_starved_come_in() -> None:
    told = Told()
    filtering: RecoveringFilter[str] = RecoveringFilter(
        strategy="top_k_abs", value=1, reset_every=3, reset_share=0.3, run=told
    )
    kept = [filtering(REWARDS, GROUPS, step=step) for step in range(1, 7)]
    # One of three dropped groups, rounded up; all starve equally long at step 3, but b came later to step 6.
    assert [len(found.selected) for found in kept] == [1, 1, 2, 1, 1, 2]
    assert [len(found.injected) for found in kept] == [0, 0, 1, 0, 0, 1]
    assert kept[2].selected_group_ids[0] == kept[5].selected_group_ids[0] == "a"
    assert kept[2].selected_group_ids[1] != kept[5].selected_group_ids[1]
    assert kept[2].to_keep().count(True) == 4
    assert kept[2].metrics["filter_kept_count"] == 2
    assert kept[2].loss_scale() == 0.5
    assert told.steps[3]["filter/injected_count"] == 1
    assert told.steps[2]["filter/coverage"] == 0.25
    assert told.steps[3]["filter/coverage"] == 0.5
    assert told.steps[6]["filter/coverage"] == 0.75
    # The one that was let in at neither reset has waited since step 1.
    assert told.steps[6]["filter/longest_starved_steps"] == 6
    assert told.steps[6]["filter/mean_starved_steps"] == (0 + 3 + 0 + 6) / 4


def test_low_coverage_lets_starved_prompts_in_until_it_is_back() -> None:
    filtering: RecoveringFilter[str] = RecoveringFilter(
        strategy="top_k_abs", value=1, min_coverage=0.75, reset_share=0.01, window=10
    )
    injected = [filtering(REWARDS, GROUPS, step=step).injected for step in range(10)]
    # a alone covers a quarter; one more each at steps 0 and 1, and then three of four are covered.
    assert [len(each) for each in injected] == [1, 1, *[0] * 8]
    assert filtering.coverage(9) == 0.75
    # Step 0 falls out of the window: the prompt that was let in there does not count any more.
    assert [len(filtering(REWARDS, GROUPS, step=step).injected) for step in (10, 11, 12)] == [1, 1, 0]


def test_prompts_of_other_steps_count_as_long_as_the_window_reaches() -> None:
    filtering: RecoveringFilter[str] = RecoveringFilter(window=2)
    filtering([0.0, 0.0], ["old", "old"], step=1)
    filtering([0.0, 1.0], ["new", "new"], step=2)
    assert filtering.coverage(2) == 0.5
    filtering([0.0, 1.0], ["new", "new"], step=3)
    assert filtering.coverage(3) == 1.0


def test_draws_are_seeded_and_a_checkpoint_goes_on_where_it_was() -> None:
    def run(filtering: RecoveringFilter[str], steps: range) -> list[tuple[str, ...]]:
        return [filtering([0.0] * 8, GROUPS, step=step).selected_group_ids for step in steps]

    def fresh(seed: int = 0) -> RecoveringFilter[str]:
        return RecoveringFilter(reset_every=1, reset_share=0.25, seed=seed)

    whole = run(fresh(), range(1, 9))
    assert sorted(group for kept in whole[:4] for group in kept) == list("abcd")
    assert whole == run(fresh(), range(1, 9))
    assert any(run(fresh(seed), range(1, 9)) != whole for seed in range(1, 5))
    first, second = fresh(), fresh()
    start = run(first, range(1, 5))
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert start + run(second, range(5, 9)) == whole


def test_a_training_that_goes_back_forgets_what_lay_ahead() -> None:
    filtering: RecoveringFilter[str] = RecoveringFilter(window=50)
    filtering([0.0, 0.0], ["a", "a"], step=1)
    filtering([0.0, 1.0], ["a", "a"], step=8)
    filtering([0.0, 1.0], ["ahead", "ahead"], step=9)
    filtering([0.0, 0.0], ["a", "a"], step=2)
    assert filtering.coverage(2) == 0.0
    assert filtering.starvation(2)["filter/longest_starved_steps"] == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reset_every": 0}, "reset_every must be at least 1, got 0"),
        ({"min_coverage": 1.5}, r"min_coverage must lie in 0..1, got 1.5"),
        ({"reset_share": 0}, "reset_share must lie above 0"),
        ({"window": 0}, "window must be at least 1"),
        ({"strategy": "top_q"}, "strategy must be one of"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RecoveringFilter(**options)
    with pytest.raises(TypeError, match="no_such"):
        RecoveringFilter(no_such=1)
