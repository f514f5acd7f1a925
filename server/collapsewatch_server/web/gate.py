"""How much data is taken in at once. What is too much is told when to come again, before it costs anything.

Reading routes, heartbeats and workers never pass here: they have threads of their own, and so they answer
while data is being turned away.
"""

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import CapacityLimiter, to_thread

from collapsewatch_server.errors import TooBusy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Parsing holds the interpreter's lock: more threads would only make everybody else wait longer for it.
_PARSING_THREADS = 2
# Writing waits for disks and for the database.
_WRITING_THREADS = 16
_CHECKING_THREADS = 8
_WAIT_SECONDS = 10.0
_UNKNOWN_DRAIN_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 60
_REMEMBERED_SECONDS = 30.0


class IntakeGate:
    """Lets requests with data in, up to a number and up to a number of bytes."""

    def __init__(self, *, max_bytes: int, max_requests: int) -> None:
        self.num_requests = 0
        """Requests that are inside now."""
        self.num_bytes = 0
        """Bytes of bodies that they hold, as far as is known, decompressed."""
        self.num_refused = 0
        """Requests that were told to come again, since the start."""
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._guard = threading.Lock()
        self._written: deque[float] = deque(maxlen=64)
        self.checking = Lane(_CHECKING_THREADS, self)
        """Looks up keys and runs."""
        self.parsing = Lane(_PARSING_THREADS, self)
        self.writing = Lane(_WRITING_THREADS, self)

    @contextmanager
    def admit(self) -> Iterator["Place"]:
        """A place inside, for the length of the block.

        Raises:
            TooBusy: all are taken.
        """
        with self._guard:
            is_full = self.num_requests >= self._max_requests
            self.num_requests += not is_full
        if is_full:
            raise self.refusal(f"{self._max_requests} requests are being taken in already")
        place = Place(self)
        try:
            yield place
        finally:
            with self._guard:
                self.num_requests -= 1
                self.num_bytes -= place.num_bytes

    def refusal(self, reason: str) -> TooBusy:
        """The error that says why, and when to come again: by then those inside should have left."""
        with self._guard:
            self.num_refused += 1
            now = time.monotonic()
            recent = [moment for moment in self._written if now - moment < _REMEMBERED_SECONDS]
            drain_seconds = _UNKNOWN_DRAIN_SECONDS
            if recent:
                drain_seconds = self.num_requests * (now - recent[0]) / len(recent)
        # Spread, or all that were refused together would come again together.
        seconds = math.ceil(drain_seconds * random.uniform(0.75, 1.5))
        return TooBusy(f"{reason}; come again later", min(max(seconds, 1), _LONGEST_RETRY_SECONDS))

    def hold(self, place: "Place", num_bytes: int) -> None:
        """Notes that the place holds `num_bytes` in all; what it has noted before counts as a part of them.

        One request alone may hold any number: the limits of a single body are checked elsewhere.

        Raises:
            TooBusy: all requests together would hold too much.
        """
        with self._guard:
            others = self.num_bytes - place.num_bytes
            fits = others == 0 or others + num_bytes <= self._max_bytes
            if fits and num_bytes > place.num_bytes:
                self.num_bytes = others + num_bytes
                place.num_bytes = num_bytes
        if not fits:
            raise self.refusal(f"{others} bytes are being taken in already")

    def note_written(self) -> None:
        """Notes that a request has done its work: how often that happens says how long others wait."""
        with self._guard:
            self._written.append(time.monotonic())


class Place:
    """One request's place inside."""

    def __init__(self, gate: IntakeGate) -> None:
        self.num_bytes = 0
        self._gate = gate

    def hold(self, num_bytes: int) -> None:
        """Notes that the request holds so many bytes in all. Raises TooBusy when that is too much."""
        self._gate.hold(self, num_bytes)

    async def parse(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run where bodies are parsed."""
        return await self._gate.parsing.run(function, *arguments)

    async def write(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run where data is stored."""
        result = await self._gate.writing.run(function, *arguments)
        self._gate.note_written()
        return result


class Lane:
    """A few threads and a queue before them; nobody waits there for long."""

    def __init__(self, num_threads: int, gate: IntakeGate) -> None:
        self._places = CapacityLimiter(num_threads)
        # A cancelled wait for this one would leave a call running that nobody hears of.
        self._threads = CapacityLimiter(num_threads)
        self._gate = gate

    async def run(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run in one of the threads.

        Raises:
            TooBusy: no thread became free in time.
        """
        borrower = object()
        try:
            with anyio.fail_after(_WAIT_SECONDS):
                await self._places.acquire_on_behalf_of(borrower)
        except TimeoutError:
            raise self._gate.refusal(f"no thread became free within {_WAIT_SECONDS:g} s") from None
        try:
            return await to_thread.run_sync(function, *arguments, limiter=self._threads)
        finally:
            self._places.release_on_behalf_of(borrower)
