"""Turns for what takes a core for seconds: few at once, and not all of them one caller's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio import Semaphore

from collapsewatch_server.errors import TooManyRequests


@dataclass
class _Caller:
    places: Semaphore
    num_here: int = 0


@dataclass
class CostlyTurns:
    """Lets a few in, and the next wait for a while. Of one event loop."""

    of_caller: int = 4
    """At once, for one caller."""
    of_all: int = 12
    wait_seconds: float = 20.0
    most_waiting: int = 32
    """Of one caller, those inside among them."""
    _callers: dict[str, _Caller] = field(default_factory=dict)
    _places: Semaphore | None = None

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """Holds a turn for the block.

        Raises:
            TooManyRequests: none became free in time, or too many wait already.
        """
        # Made here, because it belongs to the loop that runs now.
        self._places = self._places or Semaphore(self.of_all)
        caller = self._callers.setdefault(name, _Caller(Semaphore(self.of_caller)))
        if caller.num_here >= self.most_waiting:
            raise self._refusal()
        caller.num_here += 1
        try:
            with anyio.move_on_after(self.wait_seconds) as waiting:
                await caller.places.acquire()
            if waiting.cancelled_caught:
                raise self._refusal()
            try:
                async with self._of_all(self._places):
                    yield
            finally:
                caller.places.release()
        finally:
            caller.num_here -= 1
            if not caller.num_here:
                self._callers.pop(name, None)

    @asynccontextmanager
    async def _of_all(self, places: Semaphore) -> AsyncIterator[None]:
        with anyio.move_on_after(self.wait_seconds) as waiting:
            await places.acquire()
        if waiting.cancelled_caught:
            raise self._refusal()
        try:
            yield
        finally:
            places.release()

    def _refusal(self) -> TooManyRequests:
        return TooManyRequests(
            f"{self.of_caller} exports, reports or previews of this caller are being made already, or"
            f" {self.of_all} of all callers; come again later",
            5,
        )
