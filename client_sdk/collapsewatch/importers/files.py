"""Lines of JSON from files, plain or compressed, whole or still being written, in bounded memory."""

import gzip
import io
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import IO, Any, cast

import zstandard

from collapsewatch.importers.steps import ImportFailedError, Place, Problems

COMPRESSED = (".gz", ".zst")
SETTLE_SECONDS = 5.0
"""A file that did not change for so long is taken for complete while its folder is followed."""
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin")
_PIECE_BYTES = 2**14
_DAMAGED = (OSError, EOFError, zlib.error, zstandard.ZstdError)


class Watch:
    """Says how long to go on looking for more: not at all, or until told to stop or nothing came for a while.

    Args:
        idle_seconds: a follow ends when nothing new came for so long; None: only when it is stopped.
    """

    def __init__(
        self, *, follows: bool = False, idle_seconds: float | None = None, poll_seconds: float = 1.0
    ) -> None:
        self.follows = follows
        self.stopped = Event()
        self._idle_seconds = idle_seconds
        self._poll_seconds = poll_seconds
        self._waited_seconds = 0.0
        """Since something new was read. What the import itself takes its time for does not count."""

    def saw_news(self) -> None:
        """Something new was read."""
        self._waited_seconds = 0.0

    def wait(self) -> bool:
        """Whether to look again; waits a moment first."""
        if not self.follows:
            return False
        if self._idle_seconds is not None and self._waited_seconds >= self._idle_seconds:
            return False
        began = time.monotonic()
        is_stopped = self.stopped.wait(self._poll_seconds)
        self._waited_seconds += time.monotonic() - began
        return not is_stopped


@dataclass
class Meter:
    """How far the reading has come, in bytes on disk."""

    num_done: int = 0
    num_total: int = 0


@dataclass
class Reading:
    """What a reader works with beside the path."""

    problems: Problems
    watch: Watch = field(default_factory=Watch)
    meter: Meter = field(default_factory=Meter)
    mapping: dict[str, str] = field(default_factory=dict)
    """Field of a rollout → column, as the user said it."""
    step: int | None = None
    """Step of a file that does not say it."""
    is_folder: bool = False
    """Whether the user named a folder."""
    part: str = "train"
    """Which of a trainer's folders is read: `train` or `eval`."""

    def ordinal(self, path: Path, files: Sequence[Path]) -> int:
        """The place of a file among the others, from 0; 0 for a file on its own."""
        return files.index(path) if path in files and self.is_folder else 0

    @classmethod
    def for_a_look(cls) -> "Reading":
        """For finding out what is there; nothing is told."""
        return cls(Problems(lambda line: None))

    def without_tail(self) -> "Reading":
        """The same for a file that is complete: its end is not waited at."""
        return replace(self, watch=Watch())


def refuse_pickle(path: Path) -> None:
    """Does nothing to other files.

    Raises:
        ImportFailedError: to read this file is to run what is in it.
    """
    if path.suffix.lower() in _PICKLES:
        raise ImportFailedError(
            f"{path}: pickled files are not read: loading one runs whatever code it holds. Export the "
            "rollouts as JSONL or Parquet; see docs/importing.md"
        )


def json_rows(path: Path, reading: Reading) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The JSON objects of a file, one per line, with their places; what is no object is skipped and counted.

    Blank lines are let pass. While the file is followed, the iterator waits for more.
    """
    for number, line in _lines(path, reading):
        if not line.strip():
            continue
        place = Place(path, number)
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = f"not JSON: {getattr(error, 'msg', None) or type(error).__name__}"
            reading.problems.skip(place, reason)
            continue
        if not isinstance(row, dict):
            reading.problems.skip(place, f"must be a JSON object (given {type(row).__name__})")
            continue
        yield place, row


def first_row(path: Path) -> dict[str, Any] | None:
    """The first JSON object of a file; None when it does not begin with one."""
    try:
        with _opened(path) as (_, file):
            for _ in range(20):
                line = file.readline(2**26)
                if line.strip():
                    row = json.loads(line)
                    return row if isinstance(row, dict) else None
    except (ValueError, RecursionError, *_DAMAGED):
        pass
    return None


def plain_suffixes(path: Path) -> str:
    """The file's name without the suffix of a compression, in lower case."""
    name = path.name.lower()
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    return name


def is_settled(path: Path) -> bool:
    """Whether nobody has written to the file for a while."""
    try:
        return time.time() - path.stat().st_mtime >= SETTLE_SECONDS
    except OSError:
        return False


def size_of(path: Path) -> int:
    """Bytes of the file; 0 when it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _lines(path: Path, reading: Reading) -> Iterator[tuple[int, bytes]]:
    may_grow = reading.watch.follows and not path.name.lower().endswith(COMPRESSED)
    before, number, held = reading.meter.num_done, 1, b""
    try:
        with _opened(path) as (num_read, file):
            while True:
                piece = file.readline()
                reading.meter.num_done = before + num_read()
                held += piece
                if held.endswith(b"\n"):
                    reading.watch.saw_news()
                    yield number, held
                    number, held = number + 1, b""
                elif not piece and not (may_grow and size_of(path) >= num_read() and reading.watch.wait()):
                    break
    except _DAMAGED as error:
        if number == 1 and isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise ImportFailedError(f"{path}: cannot be read: {error.strerror}") from error
        reason = f"the rest cannot be read: {error or type(error).__name__}"
        reading.problems.skip(Place(path, number), reason, sort="damaged")
        return
    if held:
        yield number, held


class _ZstdFrames(io.RawIOBase):
    """The content of a file's frames; a log that was compressed piece by piece consists of several.

    The library's own stream reader takes a frame that was cut off for one that has ended.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_fed = False
        self._rest = b""
        """Input behind the end of the frame."""
        self._content = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer with what comes next; 0 at the end.

        Raises:
            EOFError: the file ends within a frame.
        """
        while not self._content:
            piece = self._rest or self._raw.read(_PIECE_BYTES)
            if not piece:
                if self._is_fed:
                    raise EOFError("the compressed file was cut off")
                return 0
            self._content = self._frame.decompress(piece)
            self._is_fed, self._rest = True, b""
            if self._frame.eof:
                self._rest, self._is_fed = self._frame.unused_data, False
                self._frame = zstandard.ZstdDecompressor().decompressobj()
        size = min(len(buffer), len(self._content))
        buffer[:size] = self._content[:size]
        self._content = self._content[size:]
        return size


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Callable[[], int], IO[bytes]]]:
    """How many bytes of the file were read so far, and its content."""
    name = path.name.lower()
    with path.open("rb") as raw:
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=raw) as file:
                yield raw.tell, cast("IO[bytes]", file)
        elif name.endswith(".zst"):
            with io.BufferedReader(_ZstdFrames(raw), 2**20) as buffered:
                yield raw.tell, buffered
        else:
            yield raw.tell, raw
