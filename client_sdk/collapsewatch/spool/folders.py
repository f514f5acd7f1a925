"""The writer's folder: where it lies, whose it is, and the lock that says its process lives."""

import errno
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from collapsewatch.errors import CollapsewatchError

META_FILE = "meta.json"
LOCK_FILE = "lock"
_VERSION = 1
_MAX_META_BYTES = 64 * 1024
_STALE_SECONDS = 3600.0
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_FILE_NAME = re.compile(r"meta\.json|lock|cursor(\.new)?|[a-z]+-\d+\.seg")
"""Of every file in a writer's folder."""


class SpoolError(CollapsewatchError):
    """A spool folder that cannot be used."""


@dataclass(frozen=True, slots=True)
class SpoolMeta:
    """Who wrote a spool, and for which server. It holds no key."""

    url: str
    run_id: str
    project: str
    name: str
    writer_id: str
    attempt_id: str
    host: str
    pid: int
    created_at: float
    """Seconds since 1970."""


def write_meta(folder: Path, meta: SpoolMeta) -> None:
    """Writes the folder's meta file.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / META_FILE
    path.touch(mode=0o600)
    path.write_text(json.dumps({"version": _VERSION, **asdict(meta)}), encoding="utf-8")


def read_meta(folder: Path) -> SpoolMeta:
    """What the folder's meta file says.

    Raises:
        SpoolError: it is absent, damaged or of another version.
    """
    try:
        with (folder / META_FILE).open("rb") as file:
            stored = json.loads(file.read(_MAX_META_BYTES))
        if stored["version"] != _VERSION:
            raise SpoolError(f"{folder}: written by another version ({stored['version']!r})")
        types: dict[str, type | tuple[type, ...]] = {"pid": int, "created_at": (int, float)}
        values = {field.name: stored[field.name] for field in fields(SpoolMeta)}
        wrong = [name for name, value in values.items() if not isinstance(value, types.get(name, str))]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise SpoolError(f"{folder}: {META_FILE} is unreadable: {type(error).__name__}: {error}") from error
    if wrong or not _IDENTIFIER.fullmatch(values["run_id"]) or not _IDENTIFIER.fullmatch(values["writer_id"]):
        raise SpoolError(f"{folder}: {META_FILE} does not hold what it should: {', '.join(wrong) or 'an id'}")
    return SpoolMeta(**values)


def make_folder(root: Path, meta: SpoolMeta) -> tuple[Path, int]:
    """A new writer folder below the root, and the descriptor that holds its lock.

    It is made under a name that nobody looks for and renamed, so a folder that can be seen is locked.

    Raises:
        OSError: it cannot be made.
    """
    hidden = root / meta.run_id / f".{meta.writer_id}.new"
    folder = root / meta.run_id / meta.writer_id
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for attempt in range(5):
        try:
            hidden.parent.mkdir(mode=0o700, exist_ok=True)
            hidden.mkdir(mode=0o700)
            break
        except FileNotFoundError:
            # Another process of the run removed the run's folder, which it had emptied.
            if attempt == 4:
                raise
    lock: int | None = None
    try:
        lock = take_lock(hidden)
        if lock is None:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock", str(hidden))
        write_meta(hidden, meta)
        hidden.rename(folder)
    except OSError:
        if lock is not None:
            os.close(lock)
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    return folder, lock


def remake_folder(folder: Path, meta: SpoolMeta) -> int:
    """Makes a folder again that somebody removed under its process; the descriptor of its lock.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(folder)
    if lock is None:
        raise BlockingIOError(errno.EWOULDBLOCK, "another process holds the lock", str(folder))
    write_meta(folder, meta)
    return lock


def take_lock(folder: Path) -> int | None:
    """The descriptor that holds the folder's lock; None when a living process holds it.

    Raises:
        OSError: the folder is gone or cannot be locked.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Its holder may have removed the folder between the two lines above.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def remove_folder(folder: Path) -> bool:
    """Removes a writer's folder, and its run's when that is empty; whether it is gone."""
    hidden = folder.with_name(f".{folder.name}.done")
    try:
        # In one step: a folder that can be seen is whole, wherever the process dies.
        folder.rename(hidden)
    except OSError:
        return not folder.exists()
    shutil.rmtree(hidden, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
    return True


def writer_folders(top: Path) -> Iterator[Path]:
    """Writer folders at, or up to two floors below, a spool root, a run's or a writer's folder; sorted."""
    if _is_writer(top):
        yield top
        return
    for child in _folders_in(top):
        if _is_writer(child):
            yield child
        else:
            yield from filter(_is_writer, _folders_in(child))


def _is_writer(folder: Path) -> bool:
    # By the lock as well: a spool whose meta file was lost must be told, not overlooked.
    return (folder / META_FILE).is_file() or (folder / LOCK_FILE).is_file()


def _folders_in(folder: Path) -> list[Path]:
    try:
        entries = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    except OSError:
        return []
    for entry in entries:
        if entry.name.startswith("."):
            _remove_stale(entry)
    return [entry for entry in entries if not entry.name.startswith(".")]


def _remove_stale(hidden: Path) -> None:
    """Removes what a process that died while it made or removed its folder has left."""
    if not hidden.name.endswith((".new", ".done")):
        return
    with suppress(OSError):
        # The folder that is searched may be anybody's: what holds a single file that is not of a spool stays.
        if time.time() - hidden.stat().st_mtime > _STALE_SECONDS and all(map(_is_of_spool, hidden.iterdir())):
            shutil.rmtree(hidden, ignore_errors=True)


def _is_of_spool(path: Path) -> bool:
    return _FILE_NAME.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()
