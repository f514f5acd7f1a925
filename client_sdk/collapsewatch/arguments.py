"""Arguments of the public calls, brought into the form of the wire types."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from collapsewatch.contracts.base import WireModel
from collapsewatch.contracts.rollouts import CrossLogProbs, ReasoningTags, Shard
from collapsewatch.contracts.scoring import ScorerConfig
from collapsewatch.errors import InvalidInputError
from collapsewatch.plain import (
    SupportsToList,
    described,
    group_name,
    invalid_input,
    plain_column,
    plain_value,
)

Scorer = Literal["policy", "reference", "lexical"] | ScorerConfig | Mapping[str, Any]
"""What says who scores."""
Column = Sequence[Any] | SupportsToList
"""One entry per rollout: a list, tuple, array or tensor."""

_MAX_CHECKED_NAMES = 10_000
_NOT_FINITE = " not finite"
_checked_names: set[str] = set()
"""Metric names that are fine as they are."""

Model = TypeVar("Model", bound=WireModel)


def validated(model: type[Model], **given: object) -> Model:
    """The wire type with these fields.

    Raises:
        InvalidInputError: in one line, what was wrong and what was given.
    """
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise invalid_input(error) from error


def scorer_config(scorer: Scorer, **options: object) -> ScorerConfig:
    """A scorer by its name, its fields or itself, with further fields on top.

    Raises:
        InvalidInputError: no scorer, or one with unusable fields.
    """
    if isinstance(scorer, ScorerConfig):
        given = scorer.model_dump(exclude_unset=True)
    elif isinstance(scorer, Mapping):
        given = dict(scorer)
    else:
        given = {"kind": scorer}
    given.update((name, value) for name, value in options.items() if value is not None)
    if isinstance(given.get("checkpoint"), os.PathLike):
        given["checkpoint"] = os.fspath(given["checkpoint"])
    if given.get("probe_group_ids") is not None:
        probes = plain_column("probe_group_ids", given["probe_group_ids"])
        given["probe_group_ids"] = [group_name(group) for group in probes]
    return validated(ScorerConfig, **given)


def tags_argument(tags: ReasoningTags | tuple[str, str] | Mapping[str, Any] | None) -> ReasoningTags:
    """The reasoning tags; `<think>` and `</think>` when absent.

    Raises:
        InvalidInputError: neither tags nor a pair of them.
    """
    if tags is None:
        return ReasoningTags()
    if isinstance(tags, ReasoningTags):
        return tags
    if isinstance(tags, Mapping):
        return validated(ReasoningTags, **tags)
    if isinstance(tags, tuple | list) and len(tags) == 2:
        return validated(ReasoningTags, open=tags[0], close=tags[1])
    raise InvalidInputError(
        f"`reasoning_tags` must be a pair of tags or `ReasoningTags`, got {described(tags)}",
        kind="reasoning_tags",
    )


def range_argument(reward_range: Sequence[float] | None) -> tuple[Any, Any]:
    """Lowest and highest reward; two times None when absent.

    Raises:
        InvalidInputError: not a pair.
    """
    if reward_range is None:
        return None, None
    pair = plain_column("reward_range", reward_range)
    if len(pair) != 2:
        raise InvalidInputError(f"`reward_range` must be a pair (lowest, highest), got {described(pair)}")
    return pair[0], pair[1]


def shard_argument(shard: Shard | tuple[int, int] | None) -> Shard | None:
    """Which part of a step a batch is; None for the whole.

    Raises:
        InvalidInputError: no pair (index, count), or one outside its range.
    """
    if shard is None or isinstance(shard, Shard):
        return shard
    pair = plain_value(shard)
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidInputError(f"`shard` must be a pair (index, count), got {described(pair)}", kind="shard")
    return validated(Shard, index=plain_value(pair[0]), count=plain_value(pair[1]))


def matrix_argument(matrix: CrossLogProbs | Mapping[str, Any] | None) -> Any:
    """The cross-scoring matrix, with arrays made plain."""
    if isinstance(matrix, Mapping):
        return {name: plain_value(value) for name, value in matrix.items()}
    return matrix


def finite_values(values: Mapping[str, Any]) -> tuple[list[tuple[str, float]], list[InvalidInputError]]:
    """The finite numbers among the values, and what is wrong with each of the others.

    Raises:
        InvalidInputError: not a mapping.
    """
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"`log` takes a dict of numbers, got {described(values)}", kind="values type")
    kept: list[tuple[str, float]] = []
    problems: list[InvalidInputError] = []
    for name, value in values.items():
        # The usual case at a tenth of the cost: a trainer logs the same names at every step.
        if type(value) is float and type(name) is str and name in _checked_names and math.isfinite(value):
            kept.append((name, value))
            continue
        try:
            kept.append((_metric_name(name), _finite_number(name, value)))
        except InvalidInputError as problem:
            problems.append(problem)
    return kept, problems


def flat_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values with mappings among them taken apart: `{"a": {"b": 1}}` becomes `{"a.b": 1}`."""
    if not isinstance(values, Mapping) or not any(isinstance(value, Mapping) for value in values.values()):
        return values
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            inner = flat_values(value)
            flat.update((f"{name}.{key}", entry) for key, entry in inner.items())
        else:
            flat[name] = value
    return flat


def why_dropped(problem: InvalidInputError) -> str:
    """Under which name a value that was not taken is counted: NaN and infinity apart from other things."""
    return "values_not_finite" if problem.kind.endswith(_NOT_FINITE) else "values_invalid"


def _metric_name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name.strip()) <= 200:
        raise InvalidInputError(
            f"a metric's name must be text of 1 to 200 characters, got {described(name)}", kind="name"
        )
    stripped = name.strip()
    if "\x00" in stripped or not _is_unicode(stripped):
        raise InvalidInputError(
            "a metric's name holds a character that cannot be kept", kind="name character"
        )
    if len(_checked_names) < _MAX_CHECKED_NAMES:
        _checked_names.add(stripped)
    return stripped


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _finite_number(name: str, value: object) -> float:
    plain = plain_value(value)
    while isinstance(plain, list) and len(plain) == 1:
        plain = plain[0]
    if isinstance(plain, str | bytes):
        raise InvalidInputError(f"{name!r} is no number: {described(plain)}", kind=f"{name} type")
    try:
        number = float(plain)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name!r} is no number: {described(plain)}", kind=f"{name} type") from error
    if not math.isfinite(number):
        raise InvalidInputError(f"{name!r} is {number}: JSON has no such number", kind=f"{name}{_NOT_FINITE}")
    return number
