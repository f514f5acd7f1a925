"""Rules as a TOML file: read with every fault named by its line and field, and written. Pure."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError

from collapsewatch_server.alerts.custom import RuleText
from collapsewatch_server.errors import ErrorDetail, InvalidBody, wrong
from collapsewatch_server.reading.alert_views import DetectorChoice

_TABLES: dict[str, type[BaseModel]] = {"rule": RuleText, "detector": DetectorChoice}
_HEADER = re.compile(r"\s*\[\[\s*\"?(\w+)\"?\s*\]\]")
_KEY = re.compile(r"\s*\"?([A-Za-z_]\w*)\"?\s*=")
_ASIDE = re.compile(r"""\"(?:[^"\\]++|\\.)*+(?:"|$)|'[^']*+(?:'|$)|\#.*""")
"""Strings and comments of a line."""
_MAX_DOTS = 4
_MAX_FAULTS = 20


@dataclass(frozen=True)
class RuleFile:
    """What a file says."""

    rules: Sequence[RuleText]
    detectors: Sequence[DetectorChoice]


def read(text: str, known_detectors: Iterable[str]) -> RuleFile:
    """The rules and the settings of detectors in the file.

    Raises:
        InvalidBody: not TOML, or something in it is wrong; each detail names a line and a field.
    """
    _refuse_costly(text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"the file is not TOML: {error}"
        raise InvalidBody(message, [ErrorDetail(loc="toml", message=str(error))]) from None
    except RecursionError:
        raise InvalidBody("the file is nested too deeply") from None
    lines = _Lines(text, document)
    details = [
        wrong(f"line {lines.of_key(name)}: {name}", "only [[rule]] and [[detector]] are known", value)
        for name, value in islice(_unexpected(document), _MAX_FAULTS)
    ]
    found: dict[str, list[Any]] = {name: [] for name in _TABLES}
    for name, model in _TABLES.items():
        tables = document.get(name, [])
        for position, table in enumerate(tables if isinstance(tables, list) else []):
            if len(details) >= _MAX_FAULTS:
                # To say where each stands takes a look through the file.
                break
            try:
                found[name].append(model.model_validate(table, strict=True))
            except ValidationError as error:
                details += _faults(error, lines, name, position)
    details += [] if details else _repeated(found["rule"], lines)
    details += [] if details else _unknown(found["detector"], set(known_detectors), lines)
    if details:
        raise InvalidBody(f"the file is wrong at {details[0].loc}: {details[0].message}", details)
    return RuleFile(found["rule"], found["detector"])


def _refuse_costly(text: str) -> None:
    """Comes back if the file is read in time that grows with its length alone.

    The library takes the square of the parts of a key, minutes for what fits into a file. Ours have one part.
    Where no string goes over several lines, each line tells by itself what is a key in it.

    Raises:
        InvalidBody: it has keys of many parts, or strings of several lines.
    """
    if '"""' in text or "'''" in text:
        raise InvalidBody("a string stands in one line and between single quotation marks")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MAX_DOTS and _ASIDE.sub("", line).count(".") > _MAX_DOTS:
            message = f"line {number} has a key of many parts, and rules have none"
            raise InvalidBody(message, [ErrorDetail(loc=f"line {number}", message=message)])


def _unexpected(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is neither rules nor detectors."""
    for name, value in document.items():
        if name not in _TABLES or not isinstance(value, list):
            yield name, value


def write(rules: Iterable[RuleText], detectors: Iterable[DetectorChoice]) -> str:
    """The file that `read` reads."""
    blocks = ["# Alert rules. Import them under the same names to change them.\n"]
    blocks += [_block("rule", rule) for rule in rules]
    blocks += [_block("detector", choice) for choice in detectors]
    return "\n".join(blocks)


def _block(table: str, model: BaseModel) -> str:
    values = model.model_dump(exclude_none=True)
    return "\n".join([f"[[{table}]]", *(f"{name} = {_value(value)}" for name, value in values.items()), ""])


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    # A TOML string between double quotes is spelt like one of JSON, and a finite number like Python's.
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


class _Lines:
    """Where in the text a table or a field of it stands; empty words where that cannot be told."""

    def __init__(self, text: str, document: dict[str, Any]) -> None:
        self._lines = text.splitlines()
        self._headers: dict[str, list[int]] = {name: [] for name in _TABLES}
        for number, line in enumerate(self._lines, 1):
            match = _HEADER.match(line)
            if match is not None and match[1] in self._headers:
                self._headers[match[1]].append(number)
        for name in _TABLES:
            tables = document.get(name, [])
            # Tables written in another way than below headers of their own are counted instead.
            if not isinstance(tables, list) or len(tables) != len(self._headers[name]):
                self._headers[name] = []

    def of(self, table: str, position: int, field: str | None) -> str:
        """Such as `line 14: rule.2.threshold`."""
        place = f"{table}.{position + 1}" + (f".{field}" if field else "")
        headers = self._headers[table]
        if not headers:
            return place
        first = headers[position]
        number = next((at for at, key in self._keys(first) if key == field), first)
        return f"line {number}: {place}"

    def of_key(self, name: str) -> int:
        """Line of a key or table that should not be there; 1 when it is not found."""
        for number, line in enumerate(self._lines, 1):
            if re.match(rf"\s*\[*\s*\"?{re.escape(name)}\b", line):
                return number
        return 1

    def _keys(self, header: int) -> Iterator[tuple[int, str]]:
        for number in range(header + 1, len(self._lines) + 1):
            line = self._lines[number - 1]
            if line.lstrip().startswith("["):
                return
            match = _KEY.match(line)
            if match is not None:
                yield number, match[1]


def _faults(error: ValidationError, lines: _Lines, table: str, position: int) -> list[ErrorDetail]:
    found = []
    for item in error.errors(include_url=False):
        field = str(item["loc"][0]) if item["loc"] else _named_field(item["msg"])
        message = item["msg"].removeprefix("Value error, ")
        found.append(wrong(lines.of(table, position, field), message, item.get("input")))
    return found


def _named_field(message: str) -> str | None:
    match = re.search(r"`(\w+)`", message)
    return match[1] if match else None


def _repeated(rules: Sequence[RuleText], lines: _Lines) -> list[ErrorDetail]:
    seen: set[str] = set()
    found = []
    for position, rule in enumerate(rules):
        if rule.name in seen:
            found.append(wrong(lines.of("rule", position, "name"), "the name comes twice", rule.name))
        seen.add(rule.name)
    return found


def _unknown(choices: Sequence[DetectorChoice], known: set[str], lines: _Lines) -> list[ErrorDetail]:
    return [
        wrong(lines.of("detector", position, "rule"), "there is no such detector", choice.rule)
        for position, choice in enumerate(choices)
        if choice.rule not in known
    ]
