"""The start of what was given, short whatever it is."""

import time

import pytest

from collapsewatch_server.web.previews import preview


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("x", '"x"'),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (7, "7"),
        ([1, "a"], '[1, "a"]'),
        ({"a": [{"b": {"c": 1}}]}, '{"a": [{"b": {…}}]}'),
        (float("nan"), "NaN"),
        (b"ab\xff", '"ab\\\\xff"'),
        (10**400, "an integer of 1329 bits"),
    ],
)
def test_values_are_shown_as_json(value: object, shown: str) -> None:
    assert preview(value) == shown


def test_nothing_is_longer_than_the_limit_or_slow() -> None:
    large = {"rollouts": [{"turns": ["x" * 1000] * 1000}] * 100_000}
    # The time of this thread's own work: the machine may stand still meanwhile.
    start = time.thread_time()
    for value in (large, "y" * 10**7, list(range(10**6)), {str(i): i for i in range(10**5)}, "\x00" * 500):
        assert len(preview(value)) <= 200
    assert time.thread_time() - start < 2.0


def test_a_lone_surrogate_can_still_be_sent() -> None:
    assert preview("\ud800").encode() == b'"?"'
