"""Which responses stand for the prompts that drove an alert, and how much of each is shown."""

from typing import Any

import pytest

from collapsewatch_server.reading.alert_views import DrivingPrompt
from collapsewatch_server.reading.traces import (
    Moment,
    StoredBatch,
    StoredRollout,
    counterparts,
    driven,
    fault_words,
    prompt_traces,
    samples_of,
)

THEN, NOW = Moment(20, "a1"), Moment(97, "a2")


def prompt(*group_ids: str, preview: str = "") -> DrivingPrompt:
    return DrivingPrompt(
        group_ids=list(group_ids),
        preview=preview,
        accuracy=0.0,
        chance=0.5,
        baseline_accuracy=None,
        num_rows=8,
        mean_pmi=None,
        taken_for=None,
        taken_for_share=0.0,
    )


def rollout(group: str, *turns: tuple[str | None, str | None], **more: Any) -> StoredRollout:
    made = [{"prompt": seen, "response": wrote} for seen, wrote in turns]
    return StoredRollout.model_validate({"group_id": group, "turns": made, **more})


def responses(found: list[list[Any]]) -> list[list[str | None]]:
    return [[sample.rollout.turns[sample.turn].text for sample in own] for own in found]


def test_each_prompt_shows_the_first_two_of_its_rollouts() -> None:
    rollouts = [rollout(group, ("q", f"{group}{n}")) for n in range(3) for group in ("a", "b", "c")]
    found = samples_of(rollouts, [prompt("c"), prompt("a", "b")], "first_turn")
    assert responses(found) == [["c0", "c1"], ["a0", "b0"]]


def test_no_more_of_a_batch_is_read_than_is_shown() -> None:
    read = []

    def batch() -> Any:
        for number in range(100):
            read.append(number)
            yield rollout("a", ("q", "r"))

    samples_of(batch(), [prompt("a")], "first_turn")
    assert read == [0, 1]


def test_the_turn_is_that_of_the_scope() -> None:
    rollouts = [rollout("a", ("q0", "r0"), ("q1", "r1")), rollout("a", ("q0", "s0"))]
    assert responses(samples_of(rollouts, [prompt("a")], "turn/1")) == [["r1"]]
    assert responses(samples_of(rollouts, [prompt("a")], "turn/0")) == [["r0", "s0"]]


def test_of_a_trajectory_it_is_the_turn_whose_prompt_was_traced_back_badly() -> None:
    turns = (("the start", "r0"), ("the start r0 and then", "r1"))
    rollouts = [rollout("a", *turns)]
    wanted = [prompt("a", preview="…r0 and then"), prompt("a", preview="the start<think>")]
    assert responses(samples_of(rollouts, wanted, "trajectory")) == [["r1"], ["r0"]]


def test_what_came_as_token_ids_cannot_be_shown() -> None:
    rollouts = [rollout("a", ("q", None)), rollout("a", (None, "r"))]
    (own,) = samples_of(rollouts, [prompt("a")], "first_turn")
    shown = prompt_traces(prompt("a"), own, NOW, None, None)
    assert [(one.prompt, one.response) for one in shown.traces] == [(None, "r")]


def test_a_reasoning_that_the_trainer_cut_stands_with_its_action() -> None:
    batch = {
        "rollouts": [{"group_id": "a", "turns": [{"prompt": "q", "reasoning": "think", "action": "up"}]}]
    }
    rollouts = StoredBatch.model_validate(batch).rollouts
    assert responses(samples_of(rollouts, [prompt("a")], "first_turn")) == [["think\nup"]]


def test_the_end_of_the_prompt_and_the_start_of_the_response_are_shown() -> None:
    seen, wrote = "x" * 5 + "y" * 600, "a" * 1500 + "b" * 7
    (own,) = samples_of([rollout("a", (seen, wrote), reward=0.25)], [prompt("a")], "first_turn")
    (trace,) = prompt_traces(prompt("a"), own, NOW, None, None).traces
    assert (trace.prompt, trace.prompt_left_out) == ("y" * 600, 5)
    assert (trace.response, trace.response_left_out) == ("a" * 1500, 7)
    assert (trace.step, trace.attempt_id, trace.reward, trace.success) == (97, "a2", 0.25, None)
    (own,) = samples_of([rollout("a", ("short", "b" * 1500))], [prompt("a")], "first_turn")
    (trace,) = prompt_traces(prompt("a"), own, NOW, None, None).traces
    assert (trace.prompt, trace.prompt_left_out, trace.response_left_out) == ("short", 0, 0)


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        # The same text under another group id is the same prompt.
        ([("a", "other", "1"), ("z", "qa", "2")], [("2", True), None]),
        # The same group id at another prompt is the next best.
        ([("b", "other", "1"), ("a", "another", "2")], [("2", False), ("1", False)]),
        # Nothing of either: the first of the batch, once.
        ([("y", "other", "1"), ("z", "another", "2")], [("1", False), None]),
        ([], [None, None]),
    ],
)
def test_the_baseline_is_compared_by_the_prompts_own_text(then: Any, expected: Any) -> None:
    prompts = [prompt("a"), prompt("b")]
    now = [rollout("a", ("qa", "ra")), rollout("b", ("qb", "rb"))]
    before = [rollout(group, (seen, wrote)) for group, seen, wrote in then]
    found = counterparts(before, prompts, samples_of(now, prompts, "first_turn"), "first_turn")
    shown = [
        prompt_traces(one, [], NOW, counterpart, THEN)
        for one, counterpart in zip(prompts, found, strict=True)
    ]
    assert [one.baseline and (one.baseline.response, one.is_same_prompt) for one in shown] == expected
    assert {one.baseline.step for one in shown if one.baseline} <= {20}


def test_four_prompts_are_shown_and_none_twice() -> None:
    found = driven([prompt("b"), prompt("a"), prompt("b"), prompt("c"), prompt("d"), prompt("e")])
    assert [one.group_ids for one in found] == [["b"], ["a"], ["c"], ["d"]]


def test_what_could_not_be_read_is_said_of_the_batch_or_of_its_parts() -> None:
    assert fault_words(7, 1, []) is None
    assert fault_words(7, 1, ["no longer stored"]) == "the batch of step 7 is no longer stored"
    assert fault_words(7, 4, ["no longer stored", "not readable", "no longer stored"]) == (
        "parts of the batch of step 7 are missing here: 2 of 4 no longer stored; 1 of 4 not readable"
    )
