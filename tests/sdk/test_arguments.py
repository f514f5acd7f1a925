from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from collapsewatch.arguments import finite_values
from collapsewatch.contracts.rollouts import ScalarPoint
from collapsewatch.ready import ready_values

NUMBERS = st.one_of(st.floats(), st.integers(), st.booleans(), st.text(max_size=3), st.none())


@given(st.dictionaries(st.text(max_size=6) | st.integers(), NUMBERS, max_size=6))
def test_values_that_need_no_second_look_are_those_that_the_second_look_leaves_as_they_are(
    values: dict[Any, Any],
) -> None:
    ready = ready_values(values)
    if ready is None:
        return
    kept, problems = finite_values(values)
    assert problems == []
    assert ready == dict(kept)
    sent = from_json(to_json({"step": 3, "logged_at": 1.5, "values": ready}))
    assert ScalarPoint.model_validate(sent) == ScalarPoint(step=3, logged_at=1.5, values=dict(kept))


def test_what_trainers_usually_log_is_ready() -> None:
    assert ready_values({"kl": 0.25, "grad norm/Q1": 3, "β": -1e308}) is not None


@pytest.mark.parametrize(
    "values",
    [
        {},
        {" kl": 1.0},
        {"kl\n": 1.0},
        {"kl": True},
        {"kl": 10**400},
        {"kl": float("nan")},
        {"": 1.0},
        {1: 1.0},
    ],
)
def test_what_may_need_cleaning_or_refusing_is_looked_at(values: dict[Any, Any]) -> None:
    assert ready_values(values) is None
