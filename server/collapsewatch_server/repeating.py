"""What the server does every few seconds beside its requests."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool

log = logging.getLogger(__name__)

# A look that waits for a database that hangs takes so long before it fails.
_PATIENCE_SECONDS = 60.0


class Repeated:
    """Looks again and again until the server stops, whatever goes wrong in a single look."""

    def __init__(self, name: str, look: Callable[[], None], seconds: float) -> None:
        self.name = name
        self._look = look
        self._seconds = seconds
        self._looked_at: float | None = None

    def problem(self) -> str:
        """Why its work is not done; empty when all is well, and before it has begun."""
        if self._looked_at is None:
            return ""
        silent_seconds = time.monotonic() - self._looked_at
        if silent_seconds <= 3 * self._seconds + _PATIENCE_SECONDS:
            return ""
        return f"its last look that succeeded was {silent_seconds:.0f} s ago; the log says why"

    async def run(self, stopping: asyncio.Event) -> None:
        """Looks every few seconds until `stopping` is set."""
        self._looked_at = time.monotonic()
        while not stopping.is_set():
            try:
                await run_in_threadpool(self._look)
                self._looked_at = time.monotonic()
            except Exception as error:
                # Nobody else takes leases back or misses the dead, so one bad look may not be the last.
                facts = {"who": self.name, "error": type(error).__name__}
                log.exception("it could not look", extra=facts)
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), self._seconds)
