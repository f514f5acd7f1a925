"""The file that a backup is: a tar whose first member says what it is, and whose last one that it is whole.

manifest.json               format, version of the program, revision of the schema, when it was made
tables/<name>/<part>.zst    JSON lines, zstd; the first line of a part names its columns
blobs/<key>                 as they lie in the blob store
end.json                    rows of each table, number of blobs, SHA-256 of all that comes before
"""

import contextlib
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

FORMAT = 1
_MANIFEST = "manifest.json"
_END = "end.json"
_MOST_SMALL_BYTES = 1 << 20


class BadArchive(ValueError):
    """The file is no backup, was cut short, or was changed."""


@dataclass(frozen=True)
class Manifest:
    """What a backup says of itself."""

    version: str
    """Of the program that made it."""
    revision: str
    """Of the schema that its rows have."""
    created_at: float
    """Seconds since 1970."""
    has_blobs: bool
    format: int = FORMAT


@dataclass
class Contents:
    """How much is in a backup."""

    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows by table."""
    num_blobs: int = 0
    num_blob_bytes: int = 0
    missing_blobs: list[str] = field(default_factory=list)
    """Keys that rows named and under which nothing lay."""


class ArchiveWriter:
    """Writes a backup beside its place and moves it there when it is whole; only its owner can read it.

    Raises:
        FileExistsError: something lies there already.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        if path.exists():
            raise FileExistsError(f"{path} exists already; name another file")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        self._manifest = manifest
        self._digest = hashlib.sha256()

    def __enter__(self) -> Self:
        descriptor = os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self._tar = tarfile.open(fileobj=self._file, mode="w", format=tarfile.PAX_FORMAT)
        try:
            self.add(_MANIFEST, json.dumps(vars(self._manifest)).encode())
        except BaseException:
            self._end()
            raise
        return self

    def add(self, name: str, data: bytes) -> None:
        """One member more."""
        _note(self._digest, name, data)
        self._add(name, data)

    def finish(self, contents: Contents) -> None:
        """Ends the file and puts it in its place."""
        end = {**vars(contents), "sha256": self._digest.hexdigest()}
        self._add(_END, json.dumps(end).encode())
        self._tar.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        # A link instead of a rename: what somebody else has put there meanwhile stays.
        os.link(self._partial, self._path)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        # What it still holds may not fit either; the file goes all the same.
        with contextlib.suppress(OSError):
            self._file.close()
        self._partial.unlink(missing_ok=True)

    def _add(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        member.mtime = int(self._manifest.created_at)
        member.mode = 0o600
        self._tar.addfile(member, io.BytesIO(data))


def read_manifest(path: Path) -> Manifest:
    """What the backup says of itself, from its first member.

    Raises:
        BadArchive: it is none, or a later version of the program made it.
        OSError: it cannot be read.
    """
    for name, data in _members(path):
        if name != _MANIFEST:
            break
        return _manifest(data)
    raise BadArchive(f"{path} is no backup of collapsewatch")


def check(path: Path) -> Contents:
    """What is in the backup, after all of it was read once and found whole.

    Raises:
        BadArchive: it was cut short or changed.
        OSError: it cannot be read.
    """
    read_manifest(path)
    digest = hashlib.sha256()
    for name, data in _members(path):
        if name == _END:
            end = _json(data)
            if end.pop("sha256", None) != digest.hexdigest():
                raise BadArchive(f"{path} was changed since it was made: its checksum does not fit")
            return Contents(**end)
        _note(digest, name, data)
    raise BadArchive(f"{path} is cut short: its end is missing")


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of tables' parts and blobs, in the order in which they were written."""
    return ((name, data) for name, data in _members(path) if name not in (_MANIFEST, _END))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                file = tar.extractfile(member)
                if file is None:
                    raise BadArchive(f"{path} is no backup: {member.name!r} is not a file")
                data = file.read()
                if len(data) != member.size:
                    raise BadArchive(f"{path} is cut short within {member.name!r}")
                yield member.name, data
    except tarfile.TarError as error:
        raise BadArchive(f"{path} is no backup, or is cut short: {error}") from error


def _manifest(data: bytes) -> Manifest:
    found = _json(data)
    if found.get("format") != FORMAT:
        raise BadArchive(f"the backup has format {found.get('format')}; this version reads {FORMAT}")
    try:
        return Manifest(**found)
    except TypeError as error:
        raise BadArchive(f"the backup's manifest is not understood: {error}") from error


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data) if len(data) <= _MOST_SMALL_BYTES else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadArchive("the backup's description is not readable")
    return found


def _note(digest: "hashlib._Hash", name: str, data: bytes) -> None:
    digest.update(f"{name}\0{len(data)}\0".encode())
    digest.update(data)
