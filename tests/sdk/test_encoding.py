import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json

from collapsewatch import encoding
from collapsewatch.columns import plain_columns, rollouts_of_columns
from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.encoding import batch_json
from collapsewatch.errors import InvalidInputError

from .conftest import USUAL

HEAD: dict[str, Any] = {"batch_id": "b1", "step": 3, "logged_at": 1.5, "attempt_id": "a1"}
TEXTS = st.text(max_size=5) | st.none() | st.integers(0, 3)
NUMBERS = st.floats() | st.integers() | st.booleans() | st.none()
TOKENS = st.lists(st.integers(-1, 5) | st.just(2**31), max_size=3) | st.none()
ENTRIES = {
    "group_ids": st.text(max_size=3) | st.integers(),
    "prompts": TEXTS,
    "responses": TEXTS,
    "rewards": NUMBERS,
    "successes": st.booleans() | st.none(),
    "reasonings": TEXTS,
    "actions": TEXTS,
    "prompt_token_ids": TOKENS,
    "response_token_ids": TOKENS,
    "response_log_probs": st.lists(NUMBERS, max_size=3),
}


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    """Columns of one length, plain ones more often than one would get by chance."""
    length = draw(st.integers(0, 3))
    names = draw(st.sets(st.sampled_from(sorted(ENTRIES)), min_size=1))
    usual: dict[str, Any] = {
        "group_ids": st.just("g"),
        "rewards": st.floats(-1, 1),
        "successes": st.booleans(),
        "prompt_token_ids": st.just([1, 2]),
        "response_token_ids": st.just([3, 4]),
        "response_log_probs": st.just([-0.5, -1.0]),
    }
    odd_name = draw(st.sampled_from([None, *sorted(names)]))
    return {
        name: draw(
            st.lists(
                ENTRIES[name] if name == odd_name else usual.get(name, st.text(max_size=5)),
                min_size=length,
                max_size=length,
            )
        )
        for name in names
    }


def by_models(given_columns: dict[str, Any]) -> RolloutBatch | None:
    """What the wire type makes of the columns; None when it refuses them."""
    try:
        rows = rollouts_of_columns(plain_columns(given_columns))
        return RolloutBatch.model_validate({**HEAD, "rollouts": rows})
    except (InvalidInputError, ValueError):
        return None


@given(columns())
def test_a_batch_is_the_same_with_and_without_a_second_look(given_columns: dict[str, Any]) -> None:
    expected = by_models(given_columns)
    try:
        sent = batch_json(None, given_columns, None, **HEAD)
    except InvalidInputError:
        assert expected is None
        return
    assert RolloutBatch.model_validate(from_json(sent)) == expected


def test_half_a_surrogate_pair_is_refused_where_it_is() -> None:
    with pytest.raises(InvalidInputError, match=r"rollouts\.1\.turns\.0\.prompt"):
        batch_json(None, {**USUAL, "prompts": ["p", "\ud800"]}, None, **HEAD)


def test_a_bad_head_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="temperature"):
        batch_json(None, USUAL, None, **HEAD, temperature=-1.0)


def test_rollouts_of_many_rows_are_all_sent_in_order() -> None:
    num_rows = 3 * encoding._ROWS_AT_ONCE + 1
    numbers = list(range(num_rows))
    given_columns: dict[str, Any] = {
        "group_ids": numbers,
        "prompts": ["p"] * num_rows,
        "responses": ["r"] * num_rows,
    }
    given_columns["rewards"] = numbers
    sent = from_json(batch_json(None, given_columns, None, **HEAD))
    assert [rollout["reward"] for rollout in sent["rollouts"]] == numbers
    assert [rollout["group_id"] for rollout in sent["rollouts"]] == [str(number) for number in numbers]


def test_a_usual_batch_wakes_no_garbage_collection() -> None:
    num_rows = 512
    given_columns: dict[str, Any] = {"prompts": ["p"] * num_rows, "responses": ["r"] * num_rows}
    batch_json(None, given_columns, None, **HEAD)
    collected: list[str] = []

    def note(phase: str, _: dict[str, int]) -> None:
        collected.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        batch_json(None, given_columns, None, **HEAD)
    finally:
        gc.callbacks.remove(note)
    assert collected == []
