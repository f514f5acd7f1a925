"""A lock that serves threads in the order in which they came."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """First come, first served, with an end to the waiting. Not for a thread that has its turn already."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holder: int | None = None
        self._waiting: deque[tuple[int, threading.Event]] = deque()

    @property
    def num_waiting(self) -> int:
        """Threads that wait now."""
        return len(self._waiting)

    @contextmanager
    def take(self, timeout_seconds: float) -> Iterator[bool]:
        """Whether it is this thread's turn, for the length of the block; False when it came too late."""
        mine = self._acquire(timeout_seconds)
        try:
            yield mine
        finally:
            if mine:
                self._pass_on()

    def _acquire(self, timeout_seconds: float) -> bool:
        me = threading.get_ident()
        with self._guard:
            assert self._holder != me, "this thread has its turn already and would wait for itself"
            if self._holder is None:
                self._holder = me
                return True
            place = (me, threading.Event())
            self._waiting.append(place)
        if place[1].wait(timeout_seconds):
            return True
        with self._guard:
            # The turn may have come between the end of the waiting and this look.
            if place[1].is_set():
                return True
            self._waiting.remove(place)
            return False

    def _pass_on(self) -> None:
        with self._guard:
            self._holder = None
            if self._waiting:
                self._holder, came = self._waiting.popleft()
                came.set()
