"""What a check found, and how a list of checks is gone through."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Level = Literal["ok", "note", "bad"]
"""`note`: it works, though not as most people would want it."""

_GIB = 2**30
LITTLE_BYTES = _GIB
NO_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    subject: str
    """What it is about, in one or two words."""
    message: str
    mend: str = ""
    """What to do about it; empty when nothing needs to be done."""


Look = Callable[[], Finding | list[Finding]]
"""One check. It may raise: that is a finding as well."""


def go_through(looks: Sequence[tuple[str, Look]]) -> Iterator[Finding]:
    """Findings of all checks, each as soon as it is known; a check that fails stops no other."""
    for subject, look in looks:
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what was looked for)
            found = bad(subject, f"{type(error).__name__}: {error}", "see the message")
        yield from found if isinstance(found, list) else [found]


def ok(subject: str, message: str) -> Finding:
    """All is well."""
    return Finding("ok", subject, message)


def note(subject: str, message: str, mend: str) -> Finding:
    """It works, and could be better."""
    return Finding("note", subject, message, mend)


def bad(subject: str, message: str, mend: str) -> Finding:
    """It does not work, or soon will not."""
    return Finding("bad", subject, message, mend)


def room(subject: str, folder: Path) -> Finding:
    """Whether the disk below the folder, or below the nearest one above it that exists, has room."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(place).free
    words = f"{free / _GIB:.1f} GiB free at {folder}"
    if free < NO_BYTES:
        return bad(subject, words, "make room, or move it to another disk")
    if free < LITTLE_BYTES:
        return note(subject, words, "make room before it is full")
    return ok(subject, words)
