"""Numbers of a golden folder: read, checked for shape, compared within stated tolerances."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = Any


class MalformedGoldenError(ValueError):
    """A file of the folder is not what the schema says."""


@dataclass(frozen=True)
class Tolerance:
    """|expected − actual| ≤ absolute + relative · |expected|."""

    absolute: float
    relative: float = 0.0

    def accepts(self, expected: float, actual: float) -> bool:
        """NaN matches NaN and an infinity itself; nothing else that is not finite matches."""
        if math.isnan(expected) or math.isnan(actual):
            return math.isnan(expected) and math.isnan(actual)
        if math.isinf(expected) or math.isinf(actual):
            return expected == actual
        return abs(expected - actual) <= self.absolute + self.relative * abs(expected)


def read_cases(path: Path) -> list[dict[str, Json]]:
    """The cases of a JSON file.

    Raises:
        MalformedGoldenError: it cannot be read, is no JSON, or has no list of objects named `cases`.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MalformedGoldenError(f"{path}: {error}") from error
    cases = document.get("cases") if isinstance(document, dict) else None
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise MalformedGoldenError(f"{path}: no list of cases")
    return cases


def need(case: Mapping[str, Json], keys: Sequence[str], where: str) -> None:
    """Checks that the keys are there.

    Raises:
        MalformedGoldenError: naming what is missing.
    """
    missing = [key for key in keys if key not in case]
    if missing:
        raise MalformedGoldenError(f"{where}: no {', '.join(missing)}")


def need_length(values: Json, length: int, where: str) -> None:
    """Checks a list's length.

    Raises:
        MalformedGoldenError: it is no list or has another length.
    """
    if not isinstance(values, list) or len(values) != length:
        found = len(values) if isinstance(values, list) else type(values).__name__
        raise MalformedGoldenError(f"{where}: expected {length} values, found {found}")


def as_matrix(values: Json, shape: tuple[int, int], where: str) -> list[list[float]]:
    """Rows of floats; non-finite values are the strings "nan", "inf" and "-inf".

    Raises:
        MalformedGoldenError: another shape, or something that is no number.
    """
    need_length(values, shape[0], where)
    for row, each in enumerate(values):
        need_length(each, shape[1], f"{where}[{row}]")
    try:
        return [[float(value) for value in row] for row in values]
    except (TypeError, ValueError) as error:
        raise MalformedGoldenError(f"{where}: {error}") from error


def compare_keys(expected: Mapping[str, Json], actual: Mapping[str, Json]) -> Iterator[str]:
    """A line for each key that only one side has."""
    for key in expected.keys() - actual.keys():
        yield f"{key}: expected {expected[key]}, got nothing"
    for key in actual.keys() - expected.keys():
        yield f"{key}: expected nothing, got {actual[key]}"


def compare_list(
    name: str, expected: Sequence[Json], actual: Sequence[float], tolerance: Tolerance
) -> Iterator[str]:
    """A line for each element that differs, or one line when the lengths do."""
    if len(expected) != len(actual):
        yield f"{name}: expected {len(expected)} values, got {len(actual)}"
        return
    for position, (wanted, given) in enumerate(zip(expected, actual, strict=True)):
        if not tolerance.accepts(float(wanted), float(given)):
            yield f"{name}[{position}]: expected {wanted}, got {given}"


def compare_ragen(
    expected: Mapping[str, Json],
    actual: Mapping[str, float],
    tolerance_of: Mapping[str, Tolerance],
    tie_bounds: Mapping[str, Sequence[Json]],
) -> Iterator[str]:
    """A line for each metric of the `ragen/…` family that differs.

    Args:
        expected: metric → value, without prefix.
        actual: the same.
        tolerance_of: metric → tolerance.
        tie_bounds: accuracy → lowest and highest value that some order of ties gives; what is above
            chance moves with it.
    """
    yield from compare_keys(expected, actual)
    for name in expected.keys() & actual.keys():
        wanted, given, tolerance = float(expected[name]), float(actual[name]), tolerance_of[name]
        bounded = name.replace("_above_chance", "_accuracy")
        if bounded in tie_bounds:
            low, high = (float(end) for end in tie_bounds[bounded])
            if bounded != name:
                chance = float(expected[name.replace("_above_chance", "_chance_level")])
                low, high = low - chance, high - chance
            if not low - tolerance.absolute <= given <= high + tolerance.absolute:
                yield f"{name}: expected {low} … {high} (ties), got {given}"
        elif not tolerance.accepts(wanted, given):
            yield f"{name}: expected {wanted}, got {given}, off by {given - wanted:.3g}"
