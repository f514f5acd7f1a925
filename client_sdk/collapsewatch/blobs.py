"""Where batches lie between the server and the workers: one small interface, a folder behind it."""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

import zstandard

from collapsewatch.contracts.rollouts import RolloutBatch

_KEY = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_COMPRESSION_LEVEL = 3
# One kilobyte of zstd unfolds to 32 MiB at most (128 KiB for a block of four bytes), so a bomb stops early.
_SLICE_BYTES = 1 << 10
_MAX_WINDOW_BYTES = 1 << 27


class BlobNotFound(KeyError):
    """No blob lies under that key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"no blob under the key {self.key!r}"


class BlobTooLarge(ValueError):
    """A blob holds more than its reader allows."""


class BlobStore(Protocol):
    """Bytes under keys such as `batches/<run>/<batch>.zst`.

    A key matches `[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*` without `.` and `..` as parts; every method raises
    ValueError for another one.
    """

    def write(self, key: str, data: bytes) -> None:
        """Leaves all of `data` under `key`, or nothing; what lay there is replaced."""

    def read(self, key: str) -> bytes:
        """The bytes under `key`.

        Raises:
            BlobNotFound: there are none.
        """

    def delete(self, key: str) -> None:
        """Removes what lies under `key`; harmless when nothing does."""

    def size(self, key: str) -> int:
        """Number of bytes under `key`.

        Raises:
            BlobNotFound: there are none.
        """


class FolderBlobStore:
    """Blobs as files of one folder, which several hosts may share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, key: str, data: bytes) -> None:
        """Leaves all of `data` under `key`, or nothing: through a temporary file and a rename."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                # mkstemp gives 0600; workers under another user of the same group must be able to read.
                os.fchmod(file.fileno(), 0o640)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)

    def read(self, key: str) -> bytes:
        """The bytes under `key`."""
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise BlobNotFound(key) from None

    def delete(self, key: str) -> None:
        """Removes what lies under `key`; harmless when nothing does."""
        self._path(key).unlink(missing_ok=True)

    def size(self, key: str) -> int:
        """Number of bytes under `key`."""
        try:
            return self._path(key).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            raise BlobNotFound(key) from None

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if not _KEY.fullmatch(key) or "." in parts or ".." in parts:
            raise ValueError(f"not a blob key: {key!r}")
        return self.folder.joinpath(*parts)


def open_blob_store(url: str) -> BlobStore:
    """The store behind `url`: `file:///absolute/path` or a plain path.

    Raises:
        ValueError: another scheme, a host in a file URL, or an empty path.
    """
    if "://" not in url:
        if not url:
            raise ValueError("the blob URL is empty")
        return FolderBlobStore(Path(url).expanduser().absolute())
    parts = urlsplit(url)
    if parts.scheme != "file":
        raise ValueError(f"blob URLs are file:///absolute/path or a plain path, got {url!r}")
    if parts.netloc not in ("", "localhost") or not parts.path.strip("/"):
        raise ValueError(f"a file URL needs three slashes and an absolute path, got {url!r}")
    return FolderBlobStore(Path(unquote(parts.path)))


def pack_batch(batch: RolloutBatch) -> bytes:
    """A batch as it lies in the store: zstd-compressed JSON without absent fields."""
    return pack_document(batch.model_dump_json(exclude_none=True).encode())


def pack_document(document: bytes) -> bytes:
    """A batch, given as its JSON, as it lies in the store."""
    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(document)


def unpack_batch(data: bytes, max_bytes: int) -> RolloutBatch:
    """The batch that `pack_batch` packed.

    Raises:
        BlobTooLarge: more than `max_bytes` after decompression; stops there, whatever the header says.
        ValueError: not zstd, cut short, or not a batch.
    """
    return RolloutBatch.model_validate_json(unpack_document(data, max_bytes))


def unpack_document(data: bytes, max_bytes: int) -> bytes:
    """The batch that `pack_batch` packed, as its JSON.

    Raises:
        BlobTooLarge: more than `max_bytes` after decompression; stops there, whatever the header says.
        ValueError: not zstd, or cut short.
    """
    pieces: list[bytes] = []
    num_bytes = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
    try:
        for start in range(0, len(data), _SLICE_BYTES):
            if decompressor.eof:
                raise ValueError(f"{len(data) - start} bytes follow the end of the batch")
            pieces.append(decompressor.decompress(data[start : start + _SLICE_BYTES]))
            num_bytes += len(pieces[-1])
            if num_bytes > max_bytes:
                raise BlobTooLarge(f"the batch holds more than {max_bytes} bytes after decompression")
    except zstandard.ZstdError as error:
        raise ValueError(f"the batch is not zstd: {error}") from error
    if not decompressor.eof:
        raise ValueError(f"the batch is cut short after {len(data)} compressed bytes")
    return b"".join(pieces)


def _sync_folder(folder: Path) -> None:
    # The rename itself is durable only after this; some network file systems refuse it, and then it is moot.
    descriptor = os.open(folder, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
