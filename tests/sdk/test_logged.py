from collections.abc import Callable

import numpy as np
import pytest

import collapsewatch
from collapsewatch.contracts.rollouts import ScalarBatch

from .conftest import COLUMNS, Recorder


def test_columns_become_single_turn_rollouts(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.log_rollouts(
        7,
        **COLUMNS,
        group_ids=[4, 4, 5],
        prompt_token_ids=[[1], [1], [2, 3]],
        response_token_ids=[[5, 6], [7], [8]],
        response_log_probs=[[-0.5, -0.25], [-1], [-2]],
        reasonings=["a", "b", "c"],
        actions=["1", "2", "3"],
        successes=[False, True, True],
        policy_version=3,
        temperature=0.7,
        reward_range=(0, 1),
        reasoning_tags=("<r>", "</r>"),
    )
    run.finish()
    (batch,) = recorder.batches()
    assert (batch.step, batch.policy_version, batch.temperature) == (7, "3", 0.7)
    assert (batch.reward_min, batch.reward_max) == (0, 1)
    assert (batch.reasoning_tags.open, batch.reasoning_tags.close) == ("<r>", "</r>")
    assert [rollout.group_id for rollout in batch.rollouts] == ["4", "4", "5"]
    assert [rollout.reward for rollout in batch.rollouts] == [0.0, 1.0, 0.5]
    assert [rollout.success for rollout in batch.rollouts] == [False, True, True]
    turn = batch.rollouts[0].turns[0]
    assert (turn.prompt, turn.response, turn.reasoning, turn.action) == ("p <think>", "a</think>1", "a", "1")
    assert (turn.prompt_token_ids, turn.response_token_ids, turn.response_log_probs) == (
        [1],
        [5, 6],
        [-0.5, -0.25],
    )


def test_numpy_columns_are_the_same_as_lists(run: collapsewatch.Run, recorder: Recorder) -> None:
    lists = {
        "prompts": ["a", "b"],
        "responses": ["x", "y"],
        "rewards": [0.5, 1.0],
        "group_ids": [1, 2],
        "response_token_ids": [[1, 2], [3, 4]],
        "successes": [True, False],
    }
    arrays = {name: np.array(column) for name, column in lists.items()}
    arrays["rewards"] = np.array([0.5, 1.0], dtype=np.float32)
    run.log_rollouts(np.int64(1), **lists)  # type: ignore[arg-type]
    run.log_rollouts(np.int64(2), **arrays)  # type: ignore[arg-type]
    ragged = [np.array([1, 2]), np.array([3, 4])]
    run.log_rollouts(3, **{**lists, "response_token_ids": ragged})  # type: ignore[arg-type]
    run.log_rollouts(4, **{**lists, "rewards": [np.float32(0.5), np.float64(1)]})  # type: ignore[arg-type]
    run.finish()
    first, *others = recorder.batches()
    assert len(others) == 3
    assert all(other.rollouts == first.rollouts for other in others)


def test_torch_columns_are_the_same_as_lists(run: collapsewatch.Run, recorder: Recorder) -> None:
    torch = pytest.importorskip("torch")
    run.log_rollouts(
        torch.tensor(2),
        prompts=["a", "b"],
        response_token_ids=[torch.tensor([1, 2]), torch.tensor([3])],
        rewards=torch.tensor([0.5, 1.0], dtype=torch.bfloat16, requires_grad=True),
        successes=[torch.tensor(True), torch.tensor(False)],
    )
    run.log({"loss": torch.tensor(0.25, requires_grad=True), "kl": torch.tensor([0.5])})
    run.finish()
    (batch,) = recorder.batches()
    assert [rollout.reward for rollout in batch.rollouts] == [0.5, 1.0]
    assert [rollout.turns[0].response_token_ids for rollout in batch.rollouts] == [[1, 2], [3]]
    assert [rollout.success for rollout in batch.rollouts] == [True, False]
    assert recorder.scalars() == {2: {"loss": 0.25, "kl": 0.5}}


def test_without_group_ids_identical_prompts_form_a_group_in_every_batch(
    run: collapsewatch.Run, recorder: Recorder
) -> None:
    run.log_rollouts(1, **COLUMNS)
    run.log_rollouts(2, **{name: column[::-1] for name, column in COLUMNS.items()})
    run.log_rollouts(3, prompt_token_ids=[[1, 2], [1, 2], [12]], responses=["x", "y", "z"])
    run.finish()
    first, second, third = ([rollout.group_id for rollout in batch.rollouts] for batch in recorder.batches())
    assert first[0] == first[1] != first[2]
    assert second == first[::-1]
    assert third[0] == third[1] != third[2]


def test_rollouts_of_several_turns_are_sent_as_they_are(run: collapsewatch.Run, recorder: Recorder) -> None:
    turns = [collapsewatch.Turn(prompt="p", response="r"), collapsewatch.Turn(prompt="p r o", response="s")]
    whole = collapsewatch.Rollout(group_id="g", turns=turns, reward=1.0)
    as_dict = {"group_id": "g", "turns": [{"prompt": "p", "response": "t"}]}
    matrix = {
        "rollout_indices": np.array([0, 1]),
        "column_group_ids": ["g"],
        "log_probs": np.array([[-1.0], [-2.0]]),
        "token_counts": (3, 4),
    }
    run.log_rollouts(1, [whole, as_dict], cross_log_probs=matrix)
    run.finish()
    (batch,) = recorder.batches()
    assert batch.rollouts[0] == whole
    assert batch.rollouts[1].turns[0].response == "t"
    assert batch.cross_log_probs is not None
    assert batch.cross_log_probs.log_probs == [[-1.0], [-2.0]]


def test_the_caller_may_change_its_lists_afterwards(offline_recorder: Recorder) -> None:
    run = collapsewatch.init(url=offline_recorder.url)
    token_ids = [[1, 2], [3]]
    prompts = ["a", "b"]
    turns = [{"prompt": "p", "response_token_ids": token_ids[0]}]
    rollout = collapsewatch.Rollout(group_id="g", turns=[collapsewatch.Turn(prompt="p", response="r")])
    values = {"a": 1.0}
    run.log_rollouts(1, prompts=prompts, response_token_ids=token_ids)
    run.log_rollouts(2, [{"group_id": "g", "turns": turns}, rollout])
    run.log(values)
    prompts[0] = "changed"
    token_ids[0].append(99)
    turns.clear()
    rollout.turns.clear()
    values["a"] = 2.0
    offline_recorder.up()
    run.finish()
    first, second = offline_recorder.batches()
    assert first.rollouts[0].turns[0].prompt == "a"
    assert first.rollouts[0].turns[0].response_token_ids == [1, 2]
    assert second.rollouts[0].turns[0].response_token_ids == [1, 2]
    assert second.rollouts[1].turns[0].response == "r"
    assert offline_recorder.scalars() == {2: {"a": 1.0}}


def test_the_last_named_step_is_the_step_of_a_bare_log(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.log({"a": 0})
    run.log_rollouts(5, **COLUMNS)
    run.log({"a": 5})
    run.log({"a": 6}, step=6)
    run.log({"b": 6})
    run.log_rollouts(3, **COLUMNS)
    run.log({"a": 3})
    run.finish()
    assert recorder.scalars() == {0: {"a": 0}, 5: {"a": 5}, 6: {"a": 6, "b": 6}, 3: {"a": 3}}


def test_what_is_no_finite_number_is_dropped_counted_and_told_once(
    run: collapsewatch.Run, recorder: Recorder, sdk_log: Callable[[], list[str]]
) -> None:
    for step in range(3):
        run.log({"good": step, "bad": float("nan")}, step=step)
    bad = {
        "inf": np.inf,
        "text": "1.5",
        "none": None,
        "list": [1, 2],
        "big": 10**400,
        "": 1.0,
        3: 1.0,
        "i": 1j,
    }
    run.log({**bad, "np": np.float32(0.5), "int": 3, "yes": True, "zero-d": np.array(2)}, step=9)  # type: ignore[dict-item]
    run.finish()
    assert recorder.scalars() == {
        0: {"good": 0},
        1: {"good": 1},
        2: {"good": 2},
        9: {"np": 0.5, "int": 3, "yes": 1, "zero-d": 2},
    }
    # NaN three times, and infinity once.
    assert run.dropped == {"values_not_finite": 4, "values_invalid": len(bad) - 1}
    assert sum("'bad' is nan" in message for message in sdk_log()) == 1


def test_more_values_than_fit_in_a_point_are_all_sent(run: collapsewatch.Run, recorder: Recorder) -> None:
    values = {f"metric_{number}": float(number) for number in range(2500)}
    run.log(values, step=1)
    run.finish()
    assert recorder.scalars() == {1: values}
    for seen in recorder.of("/scalars"):
        ScalarBatch.model_validate(seen.body)
