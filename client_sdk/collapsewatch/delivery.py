"""The way from a run to the server: the spool on disk, and the threads that ship it."""

import logging
import os
import shlex
import stat
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from collapsewatch.boundary import Boundary
from collapsewatch.clock import CLOCK
from collapsewatch.contracts.base import WireModel
from collapsewatch.contracts.runs import RunStart, RunUpdate
from collapsewatch.encoding import model_json
from collapsewatch.errors import SettingsError
from collapsewatch.heartbeat import Heart, host_name
from collapsewatch.leftovers import ship_leftovers
from collapsewatch.sender import Sender
from collapsewatch.settings import Settings
from collapsewatch.spool import RecordKind, Spool, SpoolMeta
from collapsewatch.spool.status import WHAT_OF_KIND
from collapsewatch.wire import THREAD_NAMES

_LAST_BEAT_SECONDS = 2.0
_LOOK_SECONDS = 0.2
"""How often it is asked whether the sender's thread is still there."""
_DROP_CAUSES = {
    "spool_full": "the disk takes no more, or more waits than COLLAPSEWATCH_SPOOL_MAX_BYTES; the oldest go",
    "damaged": "what the disk gave back is not what was written",
}
_catching_up: dict[tuple[Path, str], threading.Thread] = {}


@dataclass(frozen=True, slots=True)
class End:
    """What a delivery left when it was ended."""

    num_left: int
    """Records that are still in the spool."""
    command: str
    """Sends them."""


class Delivery:
    """Takes a run's records to disk at once and from there to the server, when it is `online`."""

    def __init__(
        self,
        start: RunStart,
        settings: Settings,
        boundary: Boundary,
        *,
        mode: Literal["online", "offline"],
        rank: int | None,
    ) -> None:
        """Opens the spool, with the run's start in it, and begins to send.

        Raises:
            SettingsError: there is no place for a spool.
        """
        self._boundary = boundary
        self._spool = open_spool(settings, start, boundary)
        self._sender: Sender | None = None
        self._next_look = 0.0
        self._heart: Heart | None = None
        self.append(RecordKind.start, start)
        if mode == "online":
            # Here and not in the thread that needs it: a trainer that forks while another thread imports
            # leaves its child a half-made module. httpx imports the others when it makes its first client.
            for module in ("httpx", "httpcore", "certifi"):
                import_module(module)
            self._heart = Heart(self._spool, settings, rank=rank, dropped=lambda: boundary.dropped)
            self._sender = Sender(self._spool, settings, boundary, on_accepted=self._on_accepted)
            self._settings = settings
            self._start_sender()

    @property
    def spool(self) -> Spool:
        """What waits."""
        return self._spool

    def append(self, kind: RecordKind, model: WireModel, num_items: int = 1) -> None:
        """Puts a record on disk."""
        logged_at = getattr(model, "logged_at", None) or CLOCK.now()
        self.append_body(kind, model_json(model), num_items, logged_at)

    def append_body(self, kind: RecordKind, body: bytes, num_items: int, logged_at: float) -> None:
        """Puts a record on disk whose JSON is at hand."""
        self._spool.append(kind, body, num_items=num_items, logged_at=logged_at)
        if self._sender is None:
            return
        if kind is not RecordKind.scalars:
            self._sender.hurry()
        if logged_at < self._next_look:
            return
        self._next_look = logged_at + _LOOK_SECONDS
        if self._sender.is_stuck:
            self._boundary.report("sender died", "the sender's thread was gone and is started again")
            self._start_sender()

    def end(self, last: RunUpdate, timeout_seconds: float) -> End:
        """Puts the last record on disk and sends what is left, for a bounded time; the spool is let go."""
        try:
            self.append(RecordKind.update, last)
            deadline = time.monotonic() + timeout_seconds
            self._spool.close()
            if self._sender is not None and self._heart is not None:
                self._sender.close(timeout_seconds)
                self._heart.close(min(_LAST_BEAT_SECONDS, deadline - time.monotonic()))
            self._spool.give_up_unwritten()
            num_left = self._spool.status().num_records
        finally:
            self._spool.release()
        return End(num_left, f"collapsewatch sync {shlex.quote(str(self._spool.folder))}")

    def leave_to_parent(self) -> None:
        """In a forked child: the threads are not here, and the spool is the parent's."""
        self._sender = self._heart = None
        self._spool.leave_to_parent()

    def _start_sender(self) -> None:
        assert self._sender is not None
        try:
            self._sender.start()
        except RuntimeError as error:
            # No more threads, or an interpreter that is going down: the spool keeps what is logged.
            self._boundary.report("no thread", "nothing is sent for now: %s", error)

    def _on_accepted(self) -> None:
        heart = self._heart
        if heart is not None and heart.begin():
            begin_leftovers(self._spool.folder.parents[1], self._settings)


def open_spool(settings: Settings, start: RunStart, boundary: Boundary) -> Spool:
    """The run's spool, below the temporary folder when there is no room at its usual place.

    Raises:
        SettingsError: neither place will do.
    """

    def on_drop(kind: RecordKind, num_items: int, reason: str) -> None:
        what = WHAT_OF_KIND[kind]
        boundary.drop(f"{what}_{reason}", num_items)
        boundary.report(f"{what} {reason}", "%s dropped: %s", what, _DROP_CAUSES.get(reason, reason))

    assert start.attempt is not None
    assert start.writer_id is not None
    meta = SpoolMeta(
        url=settings.url,
        run_id=start.run_id,
        project=start.project,
        name=start.name,
        writer_id=start.writer_id,
        attempt_id=start.attempt.attempt_id,
        host=host_name(),
        pid=os.getpid(),
        created_at=CLOCK.now(),
    )
    problem: object = "no home folder"
    if settings.spool_root is not None:
        try:
            return Spool.create(
                settings.spool_root, meta, max_bytes=settings.max_spool_bytes, on_drop=on_drop
            )
        except OSError as error:
            problem = error
    try:
        spool = Spool.create(temporary_root(), meta, max_bytes=settings.max_spool_bytes, on_drop=on_drop)
    except OSError as error:
        raise SettingsError(f"there is no place for a spool: {problem}; {error}") from error
    boundary.report("spool moved", "%s; the run waits in %s", problem, spool.folder, level=logging.WARNING)
    return spool


def temporary_root() -> Path:
    """A spool root of this user's own below the system's temporary folder.

    Raises:
        OSError: it cannot be made.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"collapsewatch-{user}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        # Anybody may have made a folder of this name, to read what is put into it.
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    except FileExistsError:
        is_ours = False
    if not is_ours:
        folder = Path(tempfile.mkdtemp(prefix="collapsewatch-"))
    return folder / "spool"


def begin_leftovers(root: Path, settings: Settings) -> None:
    """Ships what dead processes left below the root for this server, in a daemon thread; one at a time."""
    key = (root, settings.url)
    running = _catching_up.get(key)
    if running is not None and running.is_alive():
        return

    def ship() -> None:
        # Counts of its own: what another run lost is no loss of this one.
        boundary = Boundary(strict=False)
        with boundary.guard("leftovers"):
            ship_leftovers(root, settings, boundary)

    thread = threading.Thread(target=ship, name=f"{THREAD_NAMES}leftovers", daemon=True)
    # No more threads, or an interpreter that is going down: the next `init` comes.
    with suppress(RuntimeError):
        thread.start()
        _catching_up[key] = thread
