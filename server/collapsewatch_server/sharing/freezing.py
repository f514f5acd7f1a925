"""Snapshots: runs as they were at one moment, in a SQLite file of their own that lies in the blob store."""

import io
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from collapsewatch.blobs import BlobNotFound, BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.errors import ShareConflict, ShareEnded
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.reading.downsample import positions
from collapsewatch_server.repositories import snapshots

MAX_STEPS = 2_000
"""Scored steps of each run of which a snapshot keeps everything, down to the single prompt."""
MAX_POINTS = 10_000
"""Points of each series that it keeps."""
_MAX_BYTES = 1 << 30
_ZSTD_LEVEL = 3
_NUM_OPEN = 8
_KEPT_SECONDS = 600.0
_SPARED_SECONDS = 120.0
"""A file that was asked for since then is not taken away: a request may still read it."""


def freeze(source: Database, run_pks: Sequence[int]) -> bytes:
    """The runs' rows as they are now, as a compressed SQLite file.

    Raises:
        ShareConflict: they are too large.
    """
    with tempfile.TemporaryDirectory(prefix="collapsewatch-freeze-") as folder:
        path = Path(folder) / "snapshot.db"
        made = Database(f"sqlite:///{path}")
        upgrade(made.engine)
        made.close()
        with closing(sqlite3.connect(path)) as target, source.read_session() as session:
            # Nobody else knows the file yet, and one that is cut short is thrown away.
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            snapshots.hold(session)
            for run_pk in run_pks:
                steps = snapshots.scored_steps(session, run_pk)
                named = snapshots.alert_steps(session, run_pk)
                named |= snapshots.newest_of_scopes(session, run_pk)
                snapshots.copy_run(session, target, run_pk, kept_steps(steps, named), _thin)
            target.commit()
        if path.stat().st_size > _MAX_BYTES:
            raise ShareConflict("these runs are too large for one snapshot; share fewer, or a live view")
        return _packed(path)


def without_others(packed: bytes, run_pks: Sequence[int]) -> bytes:
    """The snapshot with these of its runs alone."""
    with tempfile.TemporaryDirectory(prefix="collapsewatch-freeze-") as folder:
        path = Path(folder) / "snapshot.db"
        _unpack(packed, path)
        with closing(sqlite3.connect(path)) as target:
            snapshots.keep_only(target, run_pks)
        return _packed(path)


def kept_steps(steps: Sequence[int], named: set[int]) -> set[int] | None:
    """Steps of which everything is kept: the named ones, and others at even distances; none for all."""
    if len(steps) <= MAX_STEPS:
        return None
    last = len(steps) - 1
    return {steps[place * last // (MAX_STEPS - 1)] for place in range(MAX_STEPS)} | named


def _packed(path: Path) -> bytes:
    return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(path.read_bytes())


def _unpack(packed: bytes, path: Path) -> None:
    with path.open("wb") as file:
        zstandard.ZstdDecompressor().copy_stream(io.BytesIO(packed), file)
    database = Database(f"sqlite:///{path}")
    # One that an older version of the program made gets the columns that this one reads.
    upgrade(database.engine)
    database.close()


def _thin(steps: Sequence[int], values: Sequence[float]) -> Iterable[int]:
    if len(steps) <= MAX_POINTS:
        return range(len(steps))
    kept: list[int] = positions(np.array(steps), np.array(values), MAX_POINTS).tolist()
    return kept


@dataclass
class _OpenFile:
    database: Database
    services: Any
    path: Path
    used_at: float


class Snapshots:
    """Opens snapshots: each is unpacked once in a process, and forgotten when others are asked for."""

    def __init__(self, blobs: BlobStore, services_of: Callable[[Database], Any]) -> None:
        self._blobs = blobs
        self._services_of = services_of
        self._files: dict[str, _OpenFile] = {}
        self._lock = threading.Lock()
        self._folder: Path | None = None

    def services(self, key: str) -> Any:
        """What reads the snapshot.

        Raises:
            ShareEnded: it is no longer stored.
        """
        with self._lock:
            file = self._files.get(key)
            if file is None:
                self._make_room()
                file = self._files[key] = self._unpack(key)
            file.used_at = time.monotonic()
            return file.services

    def forget(self, key: str) -> None:
        """Closes and removes the file, if it is here; its link has ended, or has another one now."""
        with self._lock:
            if key in self._files:
                self._forget(key)

    def forget_unused(self) -> None:
        """Closes and removes the files that nobody has asked for in a while."""
        with self._lock:
            for key, file in list(self._files.items()):
                if time.monotonic() - file.used_at > _KEPT_SECONDS:
                    self._forget(key)

    def close(self) -> None:
        """Closes and removes all files."""
        with self._lock:
            for key in list(self._files):
                self._forget(key)
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    def _unpack(self, key: str) -> _OpenFile:
        try:
            packed = self._blobs.read(key)
        except BlobNotFound:
            raise ShareEnded("the snapshot behind this link is no longer stored") from None
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="collapsewatch-snapshots-"))
        descriptor, name = tempfile.mkstemp(dir=self._folder, suffix=".db")
        os.close(descriptor)
        _unpack(packed, Path(name))
        database = Database(f"sqlite:///{name}")
        return _OpenFile(database, self._services_of(database), Path(name), time.monotonic())

    def _make_room(self) -> None:
        longest_ago = sorted(self._files, key=lambda key: self._files[key].used_at)
        for key in longest_ago[: max(0, len(longest_ago) - _NUM_OPEN + 1)]:
            if time.monotonic() - self._files[key].used_at > _SPARED_SECONDS:
                self._forget(key)

    def _forget(self, key: str) -> None:
        file = self._files.pop(key)
        file.database.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{file.path}{suffix}").unlink(missing_ok=True)
