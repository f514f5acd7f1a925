"""What readers hand on: the rollouts of one step, and what was wrong with what they could not use."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collapsewatch.arguments import validated
from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.errors import CollapsewatchError, InvalidInputError
from collapsewatch.plain import described

_MAX_TOLD = 10
_MAX_SHOWN = 60


class ImportFailedError(CollapsewatchError):
    """The import cannot go on, or not as asked; the message is for the user."""


class BadRowError(CollapsewatchError):
    """One row cannot be used: its field, what was wrong with it and what was given."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was read."""

    path: Path
    line: int | None = None
    """Line or row, from 1; None for a file as a whole."""

    def __str__(self) -> str:
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Step:
    """The rollouts of one training step."""

    number: int
    rollouts: list[Rollout]
    place: Place
    """File, or first line, that it was read from."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Plain numbers of the step, such as means of what else the file says of each rollout."""
    policy_version: str | None = None


class Problems:
    """Counts the rows that could not be used and tells some of each sort; under `strict` the first stops.

    Args:
        tell: gets one line for people.
    """

    def __init__(self, tell: Callable[[str], None], *, strict: bool = False) -> None:
        self._tell = tell
        self._strict = strict
        self._told: Counter[str] = Counter()
        self.num_skipped = 0
        """Rows that were left out because something was wrong with them."""
        self.num_repeated = 0
        """Rows that stood in an earlier file already."""

    def skip(self, place: Place, reason: str, *, sort: str | None = None) -> None:
        """Counts one row as left out.

        Args:
            sort: equal for reasons of the same sort; of each sort a few are told.

        Raises:
            ImportFailedError: under `strict`.
        """
        if self._strict:
            raise ImportFailedError(f"{place}: {reason}")
        self.num_skipped += 1
        self._say(f"{place}: skipped: {reason}", sort or reason)

    def note(self, place: Place, message: str) -> None:
        """Tells what is no fault of a row."""
        self._say(f"{place}: {message}", message)

    def _say(self, line: str, sort: str) -> None:
        self._told[sort] += 1
        if self._told[sort] <= _MAX_TOLD:
            self._tell(line)
        if self._told[sort] == _MAX_TOLD:
            self._tell("  (more of this sort are counted, not told)")


def rollout_of(**given: object) -> Rollout:
    """One rollout in the form of the wire type.

    Raises:
        BadRowError: naming the field, what was wrong and what was given.
    """
    try:
        return validated(Rollout, **{name: value for name, value in given.items() if value is not None})
    except InvalidInputError as error:
        raise BadRowError(str(error)) from error


def number_field(row: Mapping[str, Any], name: str, *, default: float | None = None) -> float | None:
    """A number of a row; sums a list of them, as token-level rewards are. The default when it is absent.

    Raises:
        BadRowError: it is there and no number.
    """
    value = row.get(name)
    if value is None:
        return default
    if isinstance(value, list) and value and all(_is_number(item) for item in value):
        return float(sum(value))
    if isinstance(value, bool | int | float):
        return float(value)
    raise BadRowError(f"{name}: must be a number (given {shown(value)})")


def step_field(row: Mapping[str, Any], name: str = "step") -> int:
    """The step of a row.

    Raises:
        BadRowError: absent, or no whole number from 0 on.
    """
    value = row.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 2**53:
        raise BadRowError(f"{name}: must be a whole number from 0 on (given {shown(value)})")
    return value


def text_field(row: Mapping[str, Any], name: str) -> str:
    """A text of a row; a conversation is joined to one.

    Raises:
        BadRowError: absent, or neither.
    """
    value = row.get(name)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        return joined_messages(value)
    if not isinstance(value, str):
        raise BadRowError(f"{name}: must be text (given {shown(value)})")
    return value


def joined_messages(messages: list[Mapping[str, Any]]) -> str:
    """The contents of chat messages as one text, a blank line between two.

    Which chat template a trainer applied is not in its file; the roles alone would be tokens of nobody's.
    """
    return "\n\n".join(message_text(message) for message in messages)


def message_text(message: Mapping[str, Any]) -> str:
    """What a chat message says: text, text parts, or the tool calls that it makes."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    text = content if isinstance(content, str) else ""
    calls = message.get("tool_calls") or []
    told = [_call_text(call) for call in calls if isinstance(call, Mapping)]
    return "\n".join(part for part in (text, *told) if part)


def _call_text(call: Mapping[str, Any]) -> str:
    inner = call.get("function")
    named = inner if isinstance(inner, Mapping) else call
    return f"{named.get('name', '')}({named.get('arguments', '')})"


def success_of(value: object) -> bool | None:
    """A success that a file states as a bool, or as 0 and 1; None for anything else."""
    if isinstance(value, bool):
        return value
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else None


def shown(value: object) -> str:
    """What was given, short enough for a message."""
    if isinstance(value, str) and len(value) <= _MAX_SHOWN:
        return repr(value)
    return "nothing" if value is None else described(value)


class Means:
    """Means of the numbers that the rollouts of a step come with."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: Counter[str] = Counter()

    def add(self, values: Mapping[str, Any]) -> None:
        """Takes in the finite numbers among one rollout's values."""
        for name, value in values.items():
            if isinstance(value, bool | int | float) and abs(value) < 1e300 and 0 < len(name) <= 200:
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] += 1

    def values(self) -> dict[str, float]:
        """The means, over the rollouts that have the number."""
        return {name: self._sums[name] / count for name, count in self._counts.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
