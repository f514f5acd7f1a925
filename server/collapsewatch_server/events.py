"""Live events for open pages: the events table tells what happened, the bell only when to look."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import redis
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from collapsewatch_server.queue.feed import connect
from collapsewatch_server.repositories.events import StoredEvent

log = logging.getLogger(__name__)

CHANNEL = "collapsewatch:bell"
_RECONNECT_SECONDS = 1.0
_LOOK_ANYWAY_SECONDS = 3.0


class EventHub:
    """Wakes what waits in this process: the open streams, and another one the claims.

    Made outside the event loop, opened inside it.
    """

    def __init__(self) -> None:
        self.sequence = 0
        """Goes up with each ring. Read it before looking: a ring in between is then not lost."""
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._rung: asyncio.Event | None = None

    def open(self) -> None:
        """Binds the hub to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self.closed = False

    def ring(self) -> None:
        """Wakes every stream; may be called from any thread."""
        self._call(self._ring)

    def close(self) -> None:
        """Ends every stream; may be called from any thread and from a signal handler."""
        self.closed = True
        self._call(self._ring)

    async def wait(self, sequence: int, timeout_seconds: float) -> None:
        """Comes back when the bell was rung since `sequence` was read, at the latest after the timeout."""
        rung = self._rung
        if self.closed or self.sequence != sequence or rung is None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(rung.wait(), timeout_seconds)

    def _call(self, function: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(function)

    def _ring(self) -> None:
        # Everyone who waits now holds the old event; who comes later waits for the next ring.
        self.sequence += 1
        rung, self._rung = self._rung, asyncio.Event()
        if rung is not None:
            rung.set()


class RedisBell:
    """Carries rings between the server processes that share one Redis."""

    def __init__(self, redis_url: str, hub: EventHub) -> None:
        self._redis_url = redis_url
        self._hub = hub
        self._publisher = connect(redis_url)
        # One thread: rings that meet a Redis that is away wait behind each other, and requests do not.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="bell")
        self._is_ringing = False

    def ring(self) -> None:
        """Wakes the streams of this process at once, and those of the others soon."""
        self._hub.ring()
        if not self._is_ringing:
            self._is_ringing = True
            with suppress(RuntimeError):  # a ring during shutdown
                self._executor.submit(self._publish)

    async def listen(self) -> None:
        """Passes on the rings of other processes until it is cancelled."""
        while True:
            try:
                await self._listen_once()
            except (redis.RedisError, OSError) as error:
                log.debug("no bell from redis", extra={"error": type(error).__name__})
            await asyncio.sleep(_RECONNECT_SECONDS)

    def close(self) -> None:
        """Gives the connections back."""
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._publisher.close()

    def _publish(self) -> None:
        # Cleared first: what is committed from here on rings again.
        self._is_ringing = False
        with suppress(redis.RedisError, OSError):
            self._publisher.publish(CHANNEL, b"")

    async def _listen_once(self) -> None:
        client = redis.asyncio.Redis.from_url(
            self._redis_url, socket_connect_timeout=1.0, socket_timeout=None, retry=Retry(NoBackoff(), 0)
        )
        async with client, client.pubsub(ignore_subscribe_messages=True) as subscription:
            await subscription.subscribe(CHANNEL)
            # Rings may have been lost until now.
            self._hub.ring()
            async for _ in subscription.listen():
                self._hub.ring()


async def follow(
    hub: EventHub, read_after: Callable[[int], Awaitable[list[StoredEvent]]], last_id: int
) -> AsyncIterator[StoredEvent]:
    """Every event newer than `last_id`, in order, until the hub closes.

    It also looks every few seconds without a ring: another process may have written while Redis was away.
    """
    while not hub.closed:
        sequence = hub.sequence
        for event in await read_after(last_id):
            last_id = event.event_id
            yield event
            sequence = -1
        if sequence >= 0:
            await hub.wait(sequence, _LOOK_ANYWAY_SECONDS)
