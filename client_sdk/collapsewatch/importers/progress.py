"""The line that shows how far an import is: rewritten on a terminal, now and then a new one elsewhere."""

import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

from collapsewatch.importers.files import Meter

_WIDTH = 24
_TERMINAL_SECONDS = 0.1
_LOG_SECONDS = 10.0


@dataclass
class Progress:
    """Shows a bar on standard error."""

    meter: Meter = field(default_factory=Meter)
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    num_steps: int = 0
    num_rollouts: int = 0
    step: int | None = None
    num_scored: int = 0
    num_waiting: int = 0

    def __post_init__(self) -> None:
        self._is_terminal = self.stream.isatty()
        self._next = time.monotonic() + (0.0 if self._is_terminal else _LOG_SECONDS)
        self._width = 0

    def read(self, step: int, num_rollouts: int) -> None:
        """One more step was read."""
        self.step = step
        self.num_steps += 1
        self.num_rollouts += num_rollouts
        self.show()

    def scored(self, num_scored: int, num_waiting: int) -> None:
        """So many batches are scored, and so many wait."""
        self.num_scored, self.num_waiting = num_scored, num_waiting
        self.show()

    def tell(self, line: str) -> None:
        """A line for people, above the bar."""
        self._clear()
        self.stream.write(line + "\n")
        self.stream.flush()

    def show(self, *, now: bool = False) -> None:
        """Draws the line anew, unless that was done a moment ago."""
        if not now and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (_TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS)
        line = self.line()
        if self._is_terminal:
            self.stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self.stream.write(line + "\n")
        self.stream.flush()

    def close(self) -> None:
        """The last state, and the end of the line."""
        if self._is_terminal:
            self.show(now=True)
            self.stream.write("\n")
            self.stream.flush()
            self._width = 0

    def line(self) -> str:
        """The bar and the counts."""
        # What is followed grows, so there is no end to draw against; a full bar is all that is there now.
        share = min(1.0, self.meter.num_done / self.meter.num_total) if self.meter.num_total else 0.0
        filled = round(share * _WIDTH)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        where = "" if self.step is None else f"  step {self.step}"
        counts = f"  {self.num_steps:,} steps, {self.num_rollouts:,} rollouts"
        return (
            f"[{bar}] {share:4.0%}{where}{counts}, {self.num_scored:,} scored, {self.num_waiting:,} waiting"
        )

    def _clear(self) -> None:
        if self._is_terminal and self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self._width = 0
