"""How much is taken in at once. What is too much is told when to come again, before it costs anything.

There is a gate for data, one for signs of life and one for workers, each with threads of its own; what only
reads passes through none. None of them therefore waits for another.
"""

import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import CapacityLimiter, to_thread

from collapsewatch_server.db import answer_by
from collapsewatch_server.errors import TooBusy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_UNKNOWN_DRAIN_SECONDS = 5.0
_LONGEST_RETRY_SECONDS = 60
_REMEMBERED_SECONDS = 30.0
# A worker waits three seconds for an answer to a heartbeat and fifteen for all others, a trainer five.
_BEAT_SECONDS = 2.0
_WORK_SECONDS = 10.0
_MAX_BEATS = 512
_MAX_BEAT_BYTES = 16 * 2**20
_MAX_ENTRIES = 128
_MAX_ENTRY_BYTES = 8 * 2**20
# Claims that wait for a job are among them.
_MAX_WORKER_CALLS = 1024


@dataclass(frozen=True)
class Threads:
    """How many threads do the work behind a gate."""

    # Parsing holds the interpreter's lock: more threads would only make everybody else wait longer for it.
    parsing: int = 2
    # Writing waits for disks and for the database.
    writing: int = 16
    checking: int = 8


class IntakeGate:
    """Lets requests with bodies in, up to a number and up to a number of bytes."""

    def __init__(
        self,
        *,
        max_bytes: int,
        max_requests: int,
        answer_seconds: float = 20.0,
        threads: Threads = Threads(),
    ) -> None:
        """The gate.

        Args:
            answer_seconds: within this time after its body has come a request is answered, or told to come
                again; its client waits for somewhat longer.
        """
        self.num_requests = 0
        """Requests that are inside now."""
        self.num_bytes = 0
        """Bytes of bodies that they hold, as far as is known, decompressed."""
        self.num_refused = 0
        """Requests that were told to come again, since the start."""
        self.answer_seconds = answer_seconds
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._guard = threading.Lock()
        self._clock = WorkingClock()
        self._written: deque[float] = deque(maxlen=64)
        self.checking = Lane(threads.checking, self)
        """Looks up keys and runs."""
        self.parsing = Lane(threads.parsing, self)
        self.writing = Lane(threads.writing, self)

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
            now = self._clock.now()
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

    def settle(self, place: "Place", num_bytes: int) -> None:
        """Notes that the place holds `num_bytes` and no more, whatever was guessed before."""
        with self._guard:
            self.num_bytes += num_bytes - place.num_bytes
            place.num_bytes = num_bytes

    @contextmanager
    def working(self) -> Iterator[None]:
        """Counts the time of the block, once however many such blocks there are, as time at work."""
        with self._guard:
            self._clock.begin()
        try:
            yield
        finally:
            with self._guard:
                self._clock.end()

    def note_written(self) -> None:
        """Notes that a request has done its work: how often that happens says how long others wait."""
        with self._guard:
            self._written.append(self._clock.now())


class WorkingClock:
    """Stands still while nobody works: a quiet hour says nothing about how fast the work is done."""

    def __init__(self) -> None:
        self._num_working = 0
        self._since = 0.0
        self._total_seconds = 0.0

    def now(self) -> float:
        """Seconds of work so far."""
        running = time.monotonic() - self._since if self._num_working else 0.0
        return self._total_seconds + running

    def begin(self) -> None:
        """Somebody begins to work."""
        if not self._num_working:
            self._since = time.monotonic()
        self._num_working += 1

    def end(self) -> None:
        """Somebody who began is done."""
        self._num_working -= 1
        if not self._num_working:
            self._total_seconds += time.monotonic() - self._since


class Place:
    """One request's place inside."""

    def __init__(self, gate: IntakeGate) -> None:
        self.num_bytes = 0
        self._gate = gate
        self._deadline = 0.0
        self.expect_answer()

    def hold(self, num_bytes: int) -> None:
        """Notes that the request holds so many bytes in all. Raises TooBusy when that is too much."""
        self._gate.hold(self, num_bytes)

    def settle(self, num_bytes: int) -> None:
        """Notes that it holds so many and no more."""
        self._gate.settle(self, num_bytes)

    def expect_answer(self) -> None:
        """Begins the time within which the client is answered: its body has come, or it waits on purpose."""
        self._deadline = time.monotonic() + self._gate.answer_seconds

    async def check(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run where keys and runs are looked up."""
        return await self._gate.checking.run(self._deadline, function, *arguments)

    async def parse(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run where bodies are parsed."""
        with self._gate.working():
            return await self._gate.parsing.run(self._deadline, function, *arguments)

    async def write(self, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run where data is stored."""
        with self._gate.working():
            result = await self._gate.writing.run(self._deadline, function, *arguments)
            self._gate.note_written()
        return result


class Lane:
    """A few threads and a queue before them; nobody waits there, or in there for others' writes, too long."""

    def __init__(self, num_threads: int, gate: IntakeGate) -> None:
        self._places = CapacityLimiter(num_threads)
        # A cancelled wait for this one would leave a call running that nobody hears of.
        self._threads = CapacityLimiter(num_threads)
        self._gate = gate

    async def run(self, deadline: float, function: Callable[[*Ts], T], *arguments: *Ts) -> T:
        """What `function` returns, run in one of the threads.

        Raises:
            TooBusy: no thread became free in time.
        """
        borrower = object()
        try:
            # A free thread is taken however late it is: only waiting for one is in question.
            self._places.acquire_on_behalf_of_nowait(borrower)
        except anyio.WouldBlock:
            await self._wait_for_place(borrower, deadline)

        def work() -> T:
            with answer_by(deadline):
                return function(*arguments)

        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        finally:
            self._places.release_on_behalf_of(borrower)

    async def _wait_for_place(self, borrower: object, deadline: float) -> None:
        try:
            # Half of the time for the queue, or none would be left for the work.
            with anyio.fail_after(max(0.0, (deadline - time.monotonic()) / 2)):
                await self._places.acquire_on_behalf_of(borrower)
        except TimeoutError:
            raise self._gate.refusal("no thread became free in time") from None


def beat_gate() -> IntakeGate:
    """The gate for signs of life."""
    return IntakeGate(
        max_bytes=_MAX_BEAT_BYTES,
        max_requests=_MAX_BEATS,
        answer_seconds=_BEAT_SECONDS,
        threads=Threads(parsing=1, writing=4, checking=2),
    )


def work_gate(max_bytes: int) -> IntakeGate:
    """The gate for the calls of workers, whose results hold `max_bytes` at once."""
    return IntakeGate(
        max_bytes=max_bytes,
        max_requests=_MAX_WORKER_CALLS,
        answer_seconds=_WORK_SECONDS,
        threads=Threads(parsing=2, writing=4, checking=2),
    )


def entry_gate() -> IntakeGate:
    """The gate for who is not signed in yet: whoever holds its places keeps no trainer out."""
    return IntakeGate(
        max_bytes=_MAX_ENTRY_BYTES,
        max_requests=_MAX_ENTRIES,
        threads=Threads(parsing=1, writing=1, checking=1),
    )
