"""Child processes of the demo: started on a leash, listened to, and stopped with all they started."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STOP_SECONDS = 8.0
"""How long children may take to end after SIGTERM."""


class ChildFailedError(Exception):
    """A child process ended as it should not; the message ends with its last lines."""


@dataclass(frozen=True)
class Child:
    """A running program, in a process group of its own."""

    name: str
    process: subprocess.Popen[str]
    log_path: Path
    """Receives its standard error."""

    def check(self) -> bool:
        """Whether it has ended well; False while it runs.

        Raises:
            ChildFailedError: it ended with an error.
        """
        code = self.process.poll()
        if code is None or code == 0:
            return code == 0
        raise ChildFailedError(f"{self.name} ended with code {code}; its last lines:\n{self.last_lines()}")

    def last_lines(self, count: int = 15) -> str:
        """The end of its log, and where the rest lies."""
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([*lines[-count:], f"(all of it: {self.log_path})"])


def start_child(
    name: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    log_path: Path,
    on_line: Callable[[str], None],
) -> Child:
    """Starts `python -m …`. Call it in the main thread: the child lives as long as the thread.

    Args:
        on_line: gets each line of its standard output, in a thread of its own.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    leash = [sys.executable, "-m", "collapsewatch.demo.leash", str(os.getpid())]
    with log_path.open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own modules
            [*leash, sys.executable, "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=dict(environment),
            text=True,
            start_new_session=True,
        )
    threading.Thread(target=_pump, args=(process, on_line), daemon=True).start()
    return Child(name, process, log_path)


def _pump(process: subprocess.Popen[str], on_line: Callable[[str], None]) -> None:
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            on_line(line.rstrip("\n"))


def event_of(line: str) -> dict[str, Any] | None:
    """The event in a line of `progress.report`; None for any other line."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def stop_children(children: Sequence[Child]) -> None:
    """Ends the children, all at the same time, and then whatever is left of their process groups."""
    running = [child.process for child in children if child.process.returncode is None]
    for process in running:
        _signal(os.kill, process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    for process in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        # At once: as long as the group has members, nobody else can get its number.
        _signal(os.killpg, process.pid, signal.SIGKILL)
        process.wait()


def _signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    # No such process: it is gone already, which is what was wanted.
    with contextlib.suppress(ProcessLookupError):
        send(pid, number)
