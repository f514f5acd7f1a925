"""What needs no second look: plain arguments, which go to disk as they are.

A model for each rollout costs a training step more time than the writing does, and its many small objects
bring the garbage collection on. What is not plain goes through the wire types, which clean it or
say what is wrong.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

# The wire types' own limits.
MAX_VALUES_PER_POINT = 1000
MAX_TOKEN_ID = 2**31 - 1
MAX_NAME_CHARS = 200
MAX_TEXT_CHARS = 10_000_000
MAX_ROLLOUTS = 100_000
_MAX_INT = 2**53
"""A float holds every whole number up to here."""

_FLOATS = {float}
_MAX_KNOWN_METRICS = 10_000
_known_metrics: set[str] = set()
"""Metric names that were looked at and are plain."""


def ready_values(values: object) -> dict[str, float] | None:
    """The values as they are, when they are plain finite numbers under plain names; else None."""
    if type(values) is not dict or not 0 < len(values) <= MAX_VALUES_PER_POINT:
        return None
    if not _are_numbers(values.values()):
        return None
    # A trainer logs the same names at every step.
    if not _known_metrics.issuperset(values):
        if not _are_names(values):
            return None
        if len(_known_metrics) + len(values) <= _MAX_KNOWN_METRICS:
            _known_metrics.update(values)
    return values


def are_ready_columns(columns: Mapping[str, Sequence[Any]]) -> bool:
    """Whether the columns of a batch, of equal lengths, are plain and complete."""
    if not columns.keys() <= _TESTS.keys() or not columns.keys() >= {"group_ids"}:
        return False
    if not 0 < len(columns["group_ids"]) <= MAX_ROLLOUTS:
        return False
    if columns.keys().isdisjoint(_PROMPTS) or columns.keys().isdisjoint(_RESPONSES):
        return False
    if not all(_TESTS[name](column) for name, column in columns.items()):
        return False
    tokens, log_probs = columns.get("response_token_ids"), columns.get("response_log_probs")
    return tokens is None or log_probs is None or list(map(len, tokens)) == list(map(len, log_probs))


def _are_numbers(values: Iterable[Any]) -> bool:
    # The loops are the interpreter's own: a step of Python for each number costs ten times as much.
    kinds = set(map(type, values))
    if kinds == _FLOATS:
        # One that is not finite makes the sum so, and only then, or beyond 1e308, is it worth the looking.
        return isfinite(sum(values)) or all(map(isfinite, values))
    return kinds <= {float, int} and all(
        -_MAX_INT <= value <= _MAX_INT or _is_float(value) for value in values
    )


def _is_float(value: object) -> bool:
    return type(value) is float and isfinite(value)


def _are_names(names: Iterable[Any]) -> bool:
    return set(map(type, names)) <= {str} and all(
        # Printable, and a space at neither end: nothing that the wire type would strip or refuse.
        name.isprintable() and 0 < len(name) <= MAX_NAME_CHARS and name[0] != " " and name[-1] != " "
        for name in set(names)
    )


def _are_texts(texts: Sequence[Any]) -> bool:
    return set(map(type, texts)) <= {str} and max(map(len, texts)) <= MAX_TEXT_CHARS


def _are_bools(values: Sequence[Any]) -> bool:
    return set(map(type, values)) <= {bool}


def _are_token_lists(lists: Sequence[Any]) -> bool:
    return set(map(type, lists)) <= {list} and all(
        not tokens or (set(map(type, tokens)) == {int} and min(tokens) >= 0 and max(tokens) <= MAX_TOKEN_ID)
        for tokens in lists
    )


def _are_number_lists(lists: Sequence[Any]) -> bool:
    return set(map(type, lists)) <= {list} and all(map(_are_numbers, lists))


_PROMPTS = frozenset({"prompts", "prompt_token_ids"})
_RESPONSES = frozenset({"responses", "response_token_ids", "reasonings"})
_TESTS: dict[str, Callable[[Sequence[Any]], bool]] = {
    "group_ids": _are_names,
    "prompts": _are_texts,
    "responses": _are_texts,
    "reasonings": _are_texts,
    "actions": _are_texts,
    "rewards": _are_numbers,
    "successes": _are_bools,
    "prompt_token_ids": _are_token_lists,
    "response_token_ids": _are_token_lists,
    "response_log_probs": _are_number_lists,
}
