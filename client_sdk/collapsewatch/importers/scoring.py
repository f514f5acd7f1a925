"""How far the scoring of what was imported has come."""

import time
from collections.abc import Callable

from collapsewatch.asking.reader import ServerReader
from collapsewatch.importers.steps import ImportFailedError

STALL_SECONDS = 600.0
"""Scoring that makes no progress for so long is given up."""
_POLL_SECONDS = 0.5
_HINT_SECONDS = 20.0


class Scoring:
    """How far the scoring of one run has come.

    Args:
        on_change: told the numbers of scored and waiting batches.
        tell: told, once, what the server lacks when nothing is scored for a while.
        check: raises when who scores has died.
    """

    def __init__(
        self,
        reader: ServerReader,
        run_id: str,
        *,
        on_change: Callable[[int, int], None],
        tell: Callable[[str], None],
        check: Callable[[], None] = lambda: None,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._reader = reader
        self._run_id = run_id
        self._on_change = on_change
        self._tell = tell
        self._is_told = False
        self._check = check
        self._stall_seconds = stall_seconds
        self._num_settled = 0
        self._last_progress = time.monotonic()
        self.jobs: dict[str, int] = {}

    @property
    def num_waiting(self) -> int:
        """Batches without a result that will get one."""
        return self.jobs.get("queued", 0) + self.jobs.get("leased", 0)

    def look(self) -> None:
        """Brings the numbers up to date.

        Raises:
            AskingFailedError: the server does not answer.
        """
        self._check()
        run = self._reader.run(self._run_id)
        self.jobs = {} if run is None else run["jobs"]
        settled = sum(self.jobs.values()) - self.num_waiting
        if settled != self._num_settled or not self.num_waiting:
            self._num_settled = settled
            self._last_progress = time.monotonic()
        self._on_change(self.jobs.get("done", 0), self.num_waiting)

    def wait(self, most_waiting: int) -> None:
        """Returns when no more batches than that wait.

        Raises:
            ImportFailedError: nothing was scored for too long.
        """
        self.look()
        self._last_progress = time.monotonic()
        while self.num_waiting > most_waiting:
            waited = time.monotonic() - self._last_progress
            if waited > _HINT_SECONDS and not self._is_told:
                self._is_told = True
                for complaint in self._reader.complaints():
                    self._tell(f"nothing was scored for {waited:.0f} s: {complaint}")
            if waited > self._stall_seconds:
                raise ImportFailedError(
                    f"nothing was scored for {waited:.0f} s while {self.num_waiting} batches wait: does a "
                    f"worker run for {self._reader.url}? The same command goes on"
                )
            time.sleep(_POLL_SECONDS)
            self.look()
