"""What processes that are gone have left in their spools: found, and shipped."""

import os
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from collapsewatch.boundary import Boundary
from collapsewatch.heartbeat import ship_adopted
from collapsewatch.settings import Settings
from collapsewatch.spool import RecordKind, Spool, SpoolError, SpoolMeta
from collapsewatch.spool.folders import read_meta, writer_folders
from collapsewatch.spool.status import WHAT_OF_KIND

PATIENCE_SECONDS = 120.0
"""How long a server may take nothing before the rest is left for another time."""

_adopted: "weakref.WeakSet[Spool]" = weakref.WeakSet()


class LeftoverState(StrEnum):
    """How it stands with a writer's folder."""

    shipped = "shipped"
    """Nothing is left of it."""
    left = "left"
    """Some of it is still there: the server takes nothing at the moment, or not with this key."""
    refused = "refused"
    """Some of it is still there: the server takes nothing for this run."""
    live = "live"
    """Its process lives and ships it, or somebody else is at it."""
    unreadable = "unreadable"
    """Nobody can tell whose it is, or it is not ours to read."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """What became of one writer's folder."""

    folder: Path
    state: LeftoverState
    meta: SpoolMeta | None = None
    sent: dict[str, int] = field(default_factory=dict)
    """What the server took: runs, updates, batches, values."""
    dropped: dict[str, int] = field(default_factory=dict)
    """What will never arrive, by reason, as far as it turned out now."""
    left_records: int = 0
    left_bytes: int = 0
    reason: str = ""
    """Why something is left."""


def spool_roots(settings: Settings) -> list[Path]:
    """Where this user's processes have logged to: the spool, and its substitutes in the temporary folder."""
    roots = [] if settings.spool_root is None else [settings.spool_root]
    for folder in sorted(Path(tempfile.gettempdir()).glob("collapsewatch-*")):
        with suppress(OSError):
            # Anybody may have made a folder of this name.
            if folder.lstat().st_uid == os.getuid() and (folder / "spool").is_dir():
                roots.append(folder / "spool")
    return roots


def ship_leftovers(
    root: Path,
    settings: Settings,
    boundary: Boundary,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
) -> list[Leftover]:
    """Ships what is left below the root for this server, in this thread; ends early when it takes nothing.

    What is meant for another server is not touched: the key at hand is not for it.
    """
    results: list[Leftover] = []
    for folder in writer_folders(root):
        try:
            is_ours = read_meta(folder).url == settings.url
        except SpoolError:
            continue
        if is_ours:
            results.append(ship_leftover(folder, settings, boundary, patience_seconds=patience_seconds))
            if results[-1].state is LeftoverState.left:
                break
    return results


def ship_leftover(
    folder: Path,
    settings: Settings,
    boundary: Boundary,
    *,
    patience_seconds: float = PATIENCE_SECONDS,
    on_begin: Callable[[Spool], None] = lambda spool: None,
) -> Leftover:
    """Ships one writer's folder in this thread, and removes it when nothing is left.

    Args:
        patience_seconds: gives up when the server has taken nothing for so long.
        on_begin: called with the spool before the first request.
    """
    damaged = Counter[str]()

    def on_drop(kind: RecordKind, num_items: int, reason: str) -> None:
        what = f"{WHAT_OF_KIND[kind]}_{reason}"
        damaged[what] += num_items
        boundary.drop(what, num_items)
        boundary.report(what, "%s: %s in %s", WHAT_OF_KIND[kind], reason, folder)

    try:
        spool = Spool.adopt(folder, max_bytes=settings.max_spool_bytes, on_drop=on_drop)
    except (SpoolError, OSError) as error:
        return Leftover(folder, LeftoverState.unreadable, reason=str(error))
    if spool is None:
        return Leftover(folder, LeftoverState.live)
    with _released(spool):
        on_begin(spool)
        before = spool.status().dropped
        reason, is_about_run = _ship_patiently(spool, settings, boundary, patience_seconds)
        kept = LeftoverState.refused if is_about_run else LeftoverState.left
        status = spool.status()
        # Some of the damage may have turned out before the first look at the counts.
        dropped = {**(Counter(status.dropped) - Counter(before)), **damaged}
        sent = Counter({WHAT_OF_KIND[kind]: count for kind, count in spool.acknowledged.items()})
        refused = Counter({what: dropped.get(f"{what}_rejected", 0) for what in sent})
        return Leftover(
            folder,
            LeftoverState.shipped if spool.is_drained else kept,
            spool.meta,
            dict(sent - refused),
            dropped,
            status.num_records,
            status.num_bytes,
            reason,
        )


def _ship_patiently(
    spool: Spool, settings: Settings, boundary: Boundary, patience_seconds: float
) -> tuple[str, bool]:
    """Ships for as long as it gets on. Why something is left, and whether that concerns this run alone."""
    spool.close()
    if patience_seconds <= 0 and not spool.is_drained:
        return f"{settings.url} takes nothing", False
    while not spool.is_drained:
        waiting_before = spool.status().num_records
        deadline = time.monotonic() + patience_seconds
        shipment = ship_adopted(spool, settings, boundary, timeout_seconds=patience_seconds)
        if shipment.refusal is not None:
            return shipment.refusal, shipment.is_about_run
        if shipment.is_drained:
            break
        if time.monotonic() < deadline:
            return "the rest cannot be read", True
        if spool.status().num_records == waiting_before:
            return f"{settings.url} took nothing for {patience_seconds:g} s", False
    return "", False


@contextmanager
def _released(spool: Spool) -> Iterator[None]:
    _adopted.add(spool)
    try:
        yield
    finally:
        _adopted.discard(spool)
        spool.release()


def _leave_adopted_to_parent() -> None:
    for spool in list(_adopted):
        spool.leave_to_parent()
    _adopted.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_adopted_to_parent)
