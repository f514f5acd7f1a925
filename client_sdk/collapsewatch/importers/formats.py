"""What every format is: it claims a path and gives its steps, from a file per step or from rows of all."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.importers.files import (
    Reading,
    first_row,
    is_settled,
    json_rows,
    plain_suffixes,
    size_of,
)
from collapsewatch.importers.steps import (
    BadRowError,
    ImportFailedError,
    Means,
    Place,
    Step,
    step_field,
)

MAX_ROLLOUTS = 100_000
"""Rollouts of a step that the server takes; a step that claims more is a file without steps."""


class Format(ABC):
    """One way in which rollouts lie on disk."""

    name: ClassVar[str]
    """What `--format` calls it."""
    files: ClassVar[str]
    """What is looked for, for people."""

    @abstractmethod
    def claims(self, path: Path) -> bool:
        """Whether the path looks like this format; reads a line at most."""

    @abstractmethod
    def steps(self, path: Path, reading: Reading) -> Iterator[Step]:
        """The steps below the path in order, one in memory at a time.

        Raises:
            ImportFailedError: nothing can be read there, or a bad row under `strict`.
        """


@dataclass(frozen=True, slots=True)
class StepFiles:
    """The files of one step."""

    number: int
    paths: tuple[Path, ...]

    @property
    def key(self) -> tuple[int, Path]:
        """The same for the same files, and for a step that gets another one later."""
        return self.number, self.paths[0]


class StepFolder(Format):
    """A file or more for each step, found by their names."""

    @abstractmethod
    def find(self, path: Path, reading: Reading) -> list[StepFiles]:
        """What is there now, in order of the steps; `path` may be a file of it."""

    @abstractmethod
    def read(self, files: StepFiles, reading: Reading) -> Step | None:
        """One step; None when nothing of it is usable or new."""

    def claims(self, path: Path) -> bool:
        """Whether a file of such a name is there, and its first row has the fields."""
        found = self.find(path, Reading.for_a_look())
        return bool(found) and self.has_fields(found[0].paths[0])

    def has_fields(self, path: Path) -> bool:
        """Whether the file's content is of this format."""
        return True

    def steps(self, path: Path, reading: Reading) -> Iterator[Step]:
        """The steps in order; while the folder is followed, a file once it is complete."""
        found = False
        for files in _arriving(lambda: self.find(path, reading), reading):
            found = True
            step = self.read(files, reading)
            if step is not None:
                yield step
        if not found:
            raise ImportFailedError(f"{path}: no rollouts of {self.name} here ({self.files})")


def _arriving(find: Callable[[], Sequence[StepFiles]], reading: Reading) -> Iterator[StepFiles]:
    """What is there, in order; while the folder is followed, what comes, once it is complete."""
    done: set[tuple[int, Path]] = set()
    while True:
        fresh = [files for files in find() if files.key not in done]
        size = sum(size_of(path) for files in fresh for path in files.paths)
        reading.meter.num_total = reading.meter.num_done + size
        is_last_look = not reading.watch.follows or reading.watch.stopped.is_set()
        ready = [files for files in fresh if is_last_look or _is_complete(files, fresh)]
        if not ready and not is_last_look:
            is_last_look = not reading.watch.wait()
            # What is left then is taken as it is.
            ready = fresh if is_last_look else []
        for files in ready:
            done.add(files.key)
            reading.watch.saw_news()
            yield files
        if is_last_look:
            return


def _is_complete(files: StepFiles, fresh: Sequence[StepFiles]) -> bool:
    """Whether the files are written: later ones are there, or nobody writes to them any more."""
    return files is not fresh[-1] or all(map(is_settled, files.paths))


@dataclass
class Row:
    """What one line of a file is."""

    rollout: Rollout
    values: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers; their means over the step are shown as the trainer's."""


class RowFile(Format):
    """Rows of all steps one after the other, in one file or in several."""

    @abstractmethod
    def row(self, raw: dict[str, Any], reading: Reading) -> Row:
        """The rollout of one line.

        Raises:
            BadRowError: it is none.
        """

    @abstractmethod
    def step_of(self, raw: dict[str, Any], path: Path, reading: Reading) -> int:
        """The step of one line.

        Raises:
            BadRowError: it names none.
        """

    def rows(self, path: Path, reading: Reading) -> Iterator[tuple[Place, dict[str, Any]]]:
        """The rows of one file."""
        return json_rows(path, reading)

    def files_of(self, path: Path) -> list[Path]:
        """The files below the path, in order."""
        return [path] if path.is_file() else []

    def step_values(self, path: Path, reading: Reading) -> dict[int, dict[str, float]]:
        """Numbers of whole steps that lie beside the file."""
        return {}

    def steps(self, path: Path, reading: Reading) -> Iterator[Step]:
        """The steps in the order in which they stand there; the last is complete when the file ends."""
        if not self.files_of(path) and not reading.watch.follows:
            raise ImportFailedError(f"{path}: no rollouts of {self.name} here ({self.files})")

        def listed() -> list[StepFiles]:
            return [StepFiles(0, (file,)) for file in self.files_of(path)]

        gathered = _Gathered(self.step_values(path, reading))
        # A file of its own is followed line by line, those of a folder one by one.
        part = reading.without_tail() if path.is_dir() else reading
        for each in _arriving(listed, reading if path.is_dir() else reading.without_tail()):
            for place, raw in self.rows(each.paths[0], part):
                try:
                    number = self.step_of(raw, each.paths[0], reading)
                    row = self.row(raw, reading)
                    complete = gathered.add(number, row, place)
                except BadRowError as error:
                    reading.problems.skip(place, str(error))
                    continue
                if complete is not None:
                    yield complete
        last = gathered.step()
        if last is not None:
            yield last


class _Gathered:
    """The rows of the step that is being read."""

    def __init__(self, step_values: dict[int, dict[str, float]]) -> None:
        self._step_values = step_values
        self._number: int | None = None
        self._done: set[int] = set()
        self._rollouts: list[Rollout] = []
        self._means = Means()
        self._place = Place(Path())

    def add(self, number: int, row: Row, place: Place) -> Step | None:
        """Takes a row in; the step before it, when the row begins another one.

        Raises:
            BadRowError: its step is over, or has more rollouts than any step.
        """
        if number in self._done:
            raise BadRowError(
                f"step {number} comes back after step {self._number}: rows of a step must stand together"
            )
        complete = None
        if number != self._number:
            complete = self.step()
            if self._number is not None:
                self._done.add(self._number)
            self._number, self._place = number, place
            self._rollouts, self._means = [], Means()
        if len(self._rollouts) >= MAX_ROLLOUTS:
            raise BadRowError(f"step {number} has more than {MAX_ROLLOUTS:,} rollouts")
        self._rollouts.append(row.rollout)
        self._means.add(row.values)
        return complete

    def step(self) -> Step | None:
        """The step as far as it has come; None without a row."""
        if self._number is None or not self._rollouts:
            return None
        values = self._means.values() | self._step_values.get(self._number, {})
        return Step(self._number, self._rollouts, self._place, values)


def numbered(path: Path, pattern: re.Pattern[str]) -> list[tuple[int, Path]]:
    """Files whose whole name matches, with the number in it: of a folder, or the one given."""
    candidates = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
    found = []
    for file in candidates:
        match = pattern.fullmatch(plain_suffixes(file))
        if match is not None and file.is_file():
            found.append((int(match[1]), file))
    return sorted(found)


def has_keys(path: Path, *names: str) -> bool:
    """Whether the first row of a JSONL file has all these fields."""
    row = first_row(path)
    return row is not None and all(name in row for name in names)


def said_step(raw: dict[str, Any], path: Path, reading: Reading, column: str = "step") -> int:
    """The step by a row's column, else by `--step`, else by the number in the file's name.

    Raises:
        BadRowError: none of them.
    """
    if column in raw:
        return step_field(raw, column)
    if reading.step is not None:
        return reading.step
    match = re.search(r"step[_-]?(\d+)|^(\d+)\b", plain_suffixes(path))
    if match is None:
        raise BadRowError("step: must be given: no such column, no number in the file's name; say --step N")
    return int(match[1] or match[2])
