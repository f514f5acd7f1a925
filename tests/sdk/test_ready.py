import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from collapsewatch import ready
from collapsewatch.arguments import finite_values
from collapsewatch.columns import plain_columns
from collapsewatch.contracts.rollouts import RolloutBatch, ScalarPoint
from collapsewatch.encoding import point_json
from collapsewatch.ready import are_ready_columns, ready_values

from .conftest import USUAL

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


def test_what_trainers_usually_send_is_ready() -> None:
    assert are_ready_columns(plain_columns(USUAL))
    arrays = {"prompts": np.array(["p", "q"]), "responses": ["r", "s"], "rewards": np.array([0.5, 1.0])}
    assert are_ready_columns(plain_columns(arrays))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("rewards", [0.5, None]),
        ("rewards", [0.5, math.nan]),
        ("rewards", [True, 0.5]),
        ("rewards", [2**60, 0.5]),
        ("prompts", ["p", None]),
        ("prompts", ["p", b"q"]),
        ("group_ids", ["g", " h"]),
        ("group_ids", ["g", "h\x00"]),
        ("group_ids", ["g", ""]),
        ("successes", [True, 1]),
        ("prompt_token_ids", [[1], [-1]]),
        ("prompt_token_ids", [[1], [2**31]]),
        ("prompt_token_ids", [[1], [True]]),
        ("prompt_token_ids", [[1], (2,)]),
        ("response_log_probs", [[-0.5], [-1.0]]),
        ("response_log_probs", [[-0.5], [-1.0, math.inf]]),
    ],
)
def test_a_column_that_may_need_cleaning_or_refusing_is_looked_at(name: str, column: list[Any]) -> None:
    assert not are_ready_columns(plain_columns({**USUAL, name: column}))


def test_group_ids_that_cannot_be_names_are_left_to_the_wire_type() -> None:
    assert not are_ready_columns({**USUAL, "group_ids": [["g"], ["h"]]})


def test_a_name_of_another_type_that_equals_a_known_one_is_that_name() -> None:
    class Text(str):
        pass

    assert ready_values({"seen before": 1.0}) is not None
    ready = ready_values({Text("seen before"): 1.0})
    assert ready is not None
    assert json.loads(point_json(1, ready, 2.0))["values"] == {"seen before": 1.0}
    assert ready_values({Text("not seen"): 1.0}) is None


def test_the_known_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "_known_metrics", set())
    for number in range(30):
        assert ready_values({f"{number}/{k}": 1.0 for k in range(500)}) is not None
    assert len(ready._known_metrics) <= ready._MAX_KNOWN_METRICS


def test_the_limits_are_the_wire_types_own() -> None:
    schema = RolloutBatch.model_json_schema()
    turn, rollout = schema["$defs"]["Turn"]["properties"], schema["$defs"]["Rollout"]["properties"]
    assert schema["properties"]["rollouts"]["maxItems"] == ready.MAX_ROLLOUTS
    assert turn["prompt"]["anyOf"][0]["maxLength"] == ready.MAX_TEXT_CHARS
    assert turn["response_token_ids"]["anyOf"][0]["items"]["exclusiveMaximum"] == ready.MAX_TOKEN_ID + 1
    assert rollout["group_id"]["maxLength"] == ready.MAX_NAME_CHARS
    values = ScalarPoint.model_json_schema()["properties"]["values"]
    assert values["maxProperties"] == ready.MAX_VALUES_PER_POINT
    assert values["propertyNames"]["maxLength"] == ready.MAX_NAME_CHARS
