"""How far a spool has been shipped, and what of it was dropped: one small file, replaced as a whole."""

import json
import os
import threading
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from collapsewatch.spool.records import MAX_SEQ

CURSOR_FILE = "cursor"
_VERSION = 1
_MAX_KEYS = 100
_MAX_BYTES = 64 * 1024


class Cursor:
    """The numbers of one spool. Any thread may call it.

    A file that is absent, damaged or cannot be written costs a second shipping of what had arrived, which
    is harmless: everything that is shipped carries an id.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURSOR_FILE
        self._lock = threading.Lock()
        self.done = 0
        """Highest sequence number that is done with."""
        self._dropped: Counter[str] = Counter()

    @classmethod
    def load(cls, folder: Path) -> "Cursor":
        """What the folder's file says; the beginning when it says nothing that can be trusted."""
        cursor = cls(folder)
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            with cursor._path.open("rb") as file:
                stored = json.loads(file.read(_MAX_BYTES))
            done, dropped = stored["done"], stored["dropped"]
            if stored["checksum"] != _checksum(done, dropped):
                # A larger number than the true one would skip what nobody has.
                return cursor
            if type(done) is int and 0 <= done < MAX_SEQ:
                cursor.done = done
            for key, count in list(dropped.items())[:_MAX_KEYS]:
                if type(count) is int and 0 <= count <= 2**53:
                    cursor._dropped[key] = count
        return cursor

    @property
    def dropped(self) -> dict[str, int]:
        """What will never arrive, by reason."""
        with self._lock:
            return dict(self._dropped)

    def advance(self, done: int) -> None:
        """Everything up to this number is done with."""
        with self._lock:
            self.done = max(self.done, done)
            self._save()

    def drop(self, key: str, count: int) -> None:
        """Counts what will never arrive."""
        with self._lock:
            if key in self._dropped or len(self._dropped) < _MAX_KEYS:
                self._dropped[key] += count
                self._save()

    def _save(self) -> None:
        checksum = _checksum(self.done, self._dropped)
        stored = {"version": _VERSION, "done": self.done, "dropped": self._dropped, "checksum": checksum}
        written = self._path.with_name(f"{CURSOR_FILE}.new")
        with suppress(OSError):
            descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                raw = json.dumps(stored).encode()
                is_whole = os.write(descriptor, raw) == len(raw)
            finally:
                os.close(descriptor)
            if is_whole:
                written.replace(self._path)


def _checksum(done: object, dropped: Mapping[str, int]) -> int:
    return zlib.crc32(json.dumps([done, sorted(dropped.items())]).encode())
