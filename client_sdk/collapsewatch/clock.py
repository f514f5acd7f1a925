"""The time at which things are logged: never the same twice in one process, and never going back."""

import math
import os
import threading
import time


class Clock:
    """Seconds since 1970, strictly growing, whatever the system's clock does. Any thread may ask."""

    def __init__(self) -> None:
        # Reentrant: a signal's handler may open a run in the middle of a call.
        self._lock = threading.RLock()
        self._last = 0.0

    def now(self) -> float:
        """The time; later than every answer before."""
        with self._lock:
            while True:
                last = self._last
                # Of several values of one step the last logged counts, so an equal time would be a tie, and
                # a clock that was set back would let the older value win.
                now = time.time()
                if now <= last:
                    now = math.nextafter(last, math.inf)
                # A signal's handler may have asked in between.
                if self._last == last:
                    self._last = now
                    return now

    def unlock(self) -> None:
        """In a forked child: a new lock, for the fork may have copied a held one."""
        self._lock = threading.RLock()


CLOCK = Clock()
"""This process's."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CLOCK.unlock)
