"""Foreign values as plain Python: arrays and tensors as lists, configs as JSON, mistakes in words."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Protocol

from pydantic import BaseModel, JsonValue, ValidationError

from collapsewatch.errors import InvalidInputError

_MAX_DEPTH = 20
_MAX_PROBLEMS = 3
_PLAIN_TYPES = frozenset({str, int, float, bool, list})
_NAME_FIELDS = frozenset({"project", "name", "run_id", "kind", "lexical_method", "scopes", "policy_version"})
"""Where text is a name that may be shown."""


class SupportsToList(Protocol):
    """A numpy array, a torch tensor, a pandas column."""

    def tolist(self) -> Any: ...


def plain_value(value: object) -> Any:
    """The value, or its `tolist()` when it has one."""
    # Not by isinstance: checking a runtime protocol takes 30 times as long as this, for every entry.
    to_list = getattr(value, "tolist", None)
    return to_list() if callable(to_list) else value


def plain_column(name: str, column: object) -> list[Any]:
    """A column as a list of plain values.

    Raises:
        InvalidInputError: not a list, tuple, array or tensor.
    """
    column = plain_value(column)
    if not isinstance(column, Sequence) or isinstance(column, str | bytes | bytearray):
        raise InvalidInputError(
            f"`{name}` must be a list, an array or a tensor, got {type(column).__name__}", kind=f"{name} type"
        )
    # The interpreter's own loop: entries that are plain, as most are, need no step of Python each.
    if _PLAIN_TYPES.issuperset(map(type, column)):
        return list(column)
    return [plain_value(item) for item in column]


def group_name(group: object) -> object:
    """A group's id: numbers as text; anything else is left for the validation to judge."""
    return str(group) if isinstance(group, int) else group


def plain_step(step: object) -> int:
    """The step as an int; whole floats and 0-d arrays are welcome.

    Raises:
        InvalidInputError: not a whole number, or below 0.
    """
    step = plain_value(step)
    if isinstance(step, float) and step.is_integer():
        step = int(step)
    try:
        number = operator.index(step)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidInputError(
            f"`step` must be a whole number, got {described(step)}", kind="step"
        ) from error
    if not 0 <= number <= 2**53:
        raise InvalidInputError(f"`step` must lie in 0..2**53, got {number}", kind="step range")
    return number


def json_config(config: object) -> dict[str, JsonValue]:
    """A run's config as JSON: mappings, dataclasses, pydantic models, `argparse.Namespace`.

    What JSON does not know (paths, dtypes, NaN) becomes its text, so that no config is refused.

    Raises:
        InvalidInputError: not a config at all.
    """
    if config is None:
        return {}
    converted = _json_value(config, depth=0)
    if not isinstance(converted, dict):
        converted = _json_value(getattr(config, "__dict__", None), depth=0)
    if not isinstance(converted, dict):
        raise InvalidInputError(f"`config` must be a mapping, got {type(config).__name__}", kind="config")
    return converted


def _json_value(value: object, depth: int) -> JsonValue:
    if value is None or isinstance(value, bool | int | str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth >= _MAX_DEPTH:
        return str(value)[:1000]
    if isinstance(value, Enum):
        return _json_value(value.value, depth + 1)
    if isinstance(value, BaseModel):
        value = dict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        value = {entry.name: getattr(value, entry.name) for entry in fields(value)}
    elif hasattr(value, "tolist"):
        return _json_value(plain_value(value), depth + 1)
    if isinstance(value, Mapping):
        return {str(key): _json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes | bytearray):
        return [_json_value(item, depth + 1) for item in value]
    return str(value)[:1000]


def described(value: object) -> str:
    """What was given, in a few words. Text is only measured: prompts and keys stay out of logs."""
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 2**63 else "an integer beyond 64 bits"
    if isinstance(value, str | bytes):
        return f"{type(value).__name__} of length {len(value)}"
    if isinstance(value, list | tuple | dict):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def invalid_input(error: ValidationError) -> InvalidInputError:
    """What pydantic found, in one line: where, what was wrong, what was given."""
    problems = error.errors(include_url=False)
    told = [_problem(problem) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        told.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    return InvalidInputError("; ".join(told), kind=f"{place} {first['type']}")


def _problem(problem: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    given = problem["input"]
    is_name = isinstance(given, str) and not _NAME_FIELDS.isdisjoint(problem["loc"])
    shown = repr(given[:60]) if is_name else described(given)
    return f"{where + ': ' if where else ''}{problem['msg']} (given {shown})"


def num_values(values: object) -> int:
    """How many values a call of `log` was given, or meant to be given."""
    return len(values) if type(values) is dict else 1
