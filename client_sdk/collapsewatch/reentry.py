"""One call at a time in each thread, although signal handlers and finalisers may come in the middle of one.

A handler that logs or finishes would else wait for a lock that its own interrupted thread holds, or close the
file that this thread is writing.
"""

import threading
from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

Arguments = ParamSpec("Arguments")


class _Thread(threading.local):
    """What one thread is doing."""

    is_inside = False

    def __init__(self) -> None:
        self.deferred: deque[Callable[[], Any]] = deque()


_thread = _Thread()


def one_at_a_time(call: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """Puts a call that comes in the middle of another one of the same thread off to the end of that one."""

    @wraps(call)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        thread = _thread
        if thread.is_inside:
            thread.deferred.append(lambda: call(*args, **kwargs))
            return
        try:
            # In here: a handler that raises must not leave it behind as true.
            thread.is_inside = True
            call(*args, **kwargs)
        finally:
            thread.is_inside = False
            if thread.deferred:
                run_deferred()

    return guarded


def run_deferred() -> None:
    """Makes up for what was put off; one that raises leaves the others to the end of the next call."""
    thread = _thread
    while thread.deferred and not thread.is_inside:
        try:
            thread.is_inside = True
            thread.deferred.popleft()()
        finally:
            thread.is_inside = False


def forget_deferred() -> None:
    """In a forked child: what was put off is the parent's."""
    _thread.deferred.clear()
