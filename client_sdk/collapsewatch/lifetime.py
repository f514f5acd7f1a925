"""Runs that are open, and what becomes of them when the process ends or forks."""

import atexit
import os
import sys
import time
from typing import Literal, Protocol

from collapsewatch.reentry import forget_deferred

EXIT_SECONDS = 10.0
"""How long the interpreter's exit may wait for runs that were not finished."""


class OpenRun(Protocol):
    """A run, as far as the end of the process concerns it."""

    def finish(self, timeout_seconds: float, *, state: Literal["finished", "failed"]) -> None:
        """Sends what is left, for a bounded time."""

    def leave_to_parent(self) -> None:
        """Does nothing more: this is a forked child."""


open_runs: set[OpenRun] = set()


def _finish_at_exit() -> None:
    """Sends what open runs still hold when the interpreter exits, for a bounded time over all of them."""
    deadline = time.monotonic() + EXIT_SECONDS
    uncaught = getattr(sys, "last_value", None)
    # An interactive session keeps its last error there too, long after it went on.
    has_failed = uncaught is not None and not hasattr(sys, "ps1")
    for run in list(open_runs):
        run.finish(max(0.0, deadline - time.monotonic()), state="failed" if has_failed else "finished")


def _leave_runs_to_parent() -> None:
    for run in list(open_runs):
        run.leave_to_parent()
    open_runs.clear()
    forget_deferred()


atexit.register(_finish_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_runs_to_parent)
