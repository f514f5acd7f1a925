"""Where the SDK's trouble ends: it is counted and reported, and training goes on."""

import logging
import os
import threading
from collections import Counter
from collections.abc import Mapping
from types import TracebackType

from collapsewatch.errors import CollapsewatchError, InvalidInputError

log = logging.getLogger("collapsewatch")

STRICT_VARIABLE = "COLLAPSEWATCH_STRICT"
_MAX_KINDS = 200
"""Sorts of trouble that are told apart; a stream of ever new ones must not fill the log."""


def is_strict(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether mistakes raise instead of being logged; for tests of training code."""
    return environ.get(STRICT_VARIABLE, "").strip().lower() in {"1", "true", "yes", "on"}


class Boundary:
    """Counts what was dropped and reports each sort of trouble once. Any thread may call it."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        # Reentrant: a signal's handler may ask what was dropped in the middle of a call.
        self._lock = threading.RLock()
        self._dropped: Counter[str] = Counter()
        self._reported: set[str] = set()

    @property
    def dropped(self) -> dict[str, int]:
        """How much was dropped, by reason; empty when nothing was."""
        with self._lock:
            return dict(self._dropped)

    def drop(self, reason: str, count: int = 1) -> None:
        """Counts what will never reach the server."""
        with self._lock:
            self._dropped[reason] += count

    def report(self, kind: str, message: str, *args: object, level: int = logging.WARNING) -> None:
        """Logs the first trouble of its kind; its repetitions go to DEBUG."""
        with self._lock:
            is_new = kind not in self._reported and len(self._reported) < _MAX_KINDS
            if is_new:
                self._reported.add(kind)
        log.log(level if is_new else logging.DEBUG, message, *args, extra={"kind": kind})

    def guard(
        self, doing: str, *, reason: str | None = None, count: int = 1, level: int = logging.WARNING
    ) -> "Guard":
        """A context that ends every error of its block here, unless strict; `reason` counts what was lost."""
        return Guard(self, doing, reason, count, level)

    def refuse(self, doing: str, problem: InvalidInputError, *, reason: str) -> None:
        """Counts and reports one bad value; raises it when strict."""
        with self.guard(doing, reason=reason):
            raise problem

    def catch(
        self, error: Exception, doing: str, reason: str | None, count: int, level: int = logging.WARNING
    ) -> bool:
        """Counts and reports an error that ended a call; whether it ends here, too: not when strict."""
        if reason is not None:
            self.drop(reason, count)
        if self.strict:
            return False
        self.tell(doing, error, level)
        return True

    def tell(self, doing: str, error: Exception, level: int = logging.WARNING) -> None:
        """Reports an error in the words that help whoever made the call."""
        if isinstance(error, CollapsewatchError):
            kind = error.kind if isinstance(error, InvalidInputError) else type(error).__name__
            self.report(f"{doing}: {kind}", "%s: %s", doing, error, level=level)
        else:
            kind = type(error).__name__
            self.report(f"{doing}: {kind}", "%s failed: %s: %s", doing, kind, _told(error), level=level)


class Guard:
    """The SDK boundary as a context manager: what leaves the block as an error, training never sees."""

    def __init__(self, boundary: Boundary, doing: str, reason: str | None, count: int, level: int) -> None:
        self._boundary = boundary
        self._doing = doing
        self._reason = reason
        self._count = count
        self._level = level

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        # The broad catch of the SDK. KeyboardInterrupt and SystemExit are not errors of ours and pass.
        if not isinstance(error, Exception):
            return False
        return self._boundary.catch(error, self._doing, self._reason, self._count, self._level)


def _told(error: Exception) -> str:
    """The error's own words, bounded; none when it cannot tell."""
    try:
        return str(error)[:500]
    except Exception:  # noqa: BLE001 - the SDK boundary: a foreign `__str__` may do anything
        return "(no message)"
