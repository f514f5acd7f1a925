"""The demo's folder: a fresh one per demo, so that nothing of the user's own service is touched."""

import datetime
import fcntl
import os
import shutil
from pathlib import Path
from typing import Self

from collapsewatch.settings import home_folder

_LOCK = "demo.lock"
_CHECKPOINTS = "checkpoints"


class DemoHome:
    """Folder of one demo, locked while the demo lives. Checkpoints go when it ends; the service's data stay.

    Args:
        folder: chosen by the user; a fresh one below `~/.collapsewatch/demo` when absent.
    """

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            parent = home_folder() / "demo"
            _remove_orphaned_checkpoints(parent)
            now = datetime.datetime.now().astimezone()
            folder = parent / f"{now:%Y%m%d-%H%M%S}-{os.getpid()}"
        self.folder = folder.expanduser().absolute()
        self.checkpoints = self.folder / _CHECKPOINTS
        self._lock_descriptor: int | None = None

    def __enter__(self) -> Self:
        """Takes the folder.

        Raises:
            BlockingIOError: another demo is running in it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise
        self._lock_descriptor = descriptor
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.checkpoints.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)


def _remove_orphaned_checkpoints(parent: Path) -> None:
    """Frees what killed demos left: the checkpoints of every folder whose lock nobody holds."""
    for lock in parent.glob(f"*/{_LOCK}"):
        with lock.open("rb") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(lock.parent / _CHECKPOINTS, ignore_errors=True)
