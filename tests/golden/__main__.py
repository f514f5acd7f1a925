"""Checks this project against folders of golden vectors: `python -m tests.golden FOLDER [FOLDER…]`.

Each folder may hold `matrix_cases.json`, `filter_cases.json` and `model_cases/`, some or all. Prints
every mismatch and at the end `N cases, M mismatches`. Exit status: 0 all match, 1 mismatches or no case
at all, 2 a folder that cannot be read.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.golden.compare import MalformedGoldenError

Checker = Callable[[Path], Iterator[tuple[str, list[str]]]]


def _checkers(folder: Path) -> Iterator[tuple[str, Checker]]:
    """The parts that the folder has; says which it has not. Imports late: models need torch."""
    found = {
        name: (folder / name).exists() for name in ("matrix_cases.json", "filter_cases.json", "model_cases")
    }
    for name in (name for name, present in found.items() if not present):
        print(f"{folder}: no {name}", file=sys.stderr)
    if found["matrix_cases.json"]:
        from tests.golden.matrices import matrix_mismatches

        yield "matrix_cases", matrix_mismatches
    if found["filter_cases.json"]:
        from tests.golden.filters import filter_mismatches

        yield "filter_cases", filter_mismatches
    if found["model_cases"]:
        from tests.golden.models import model_mismatches

        yield "model_cases", model_mismatches


def check(folders: Sequence[Path]) -> tuple[int, int]:
    """Number of cases and of mismatches, each of which is printed.

    Raises:
        MalformedGoldenError: a folder is missing or a file is not what the schema says.
    """
    num_cases = num_mismatches = 0
    for folder in folders:
        if not folder.is_dir():
            raise MalformedGoldenError(f"{folder}: no such folder")
        for part, mismatches in _checkers(folder):
            for case_id, lines in mismatches(folder):
                num_cases += 1
                num_mismatches += len(lines)
                for line in lines:
                    print(f"MISMATCH {part} {case_id}: {line}")
    return num_cases, num_mismatches


def main(arguments: Sequence[str]) -> int:
    """Exit status of the command."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    try:
        num_cases, num_mismatches = check([Path(argument) for argument in arguments])
    except MalformedGoldenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if num_cases == 0:
        print("error: no case found", file=sys.stderr)
    print(f"{num_cases} cases, {num_mismatches} mismatches")
    return 0 if num_cases and not num_mismatches else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
