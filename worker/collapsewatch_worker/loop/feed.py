"""Which job next: a hint from Redis. It may lose, repeat or be late, and never decides."""

import logging
import time
from collections.abc import Callable
from enum import Enum

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

log = logging.getLogger(__name__)

QUEUE_KEY = "collapsewatch:jobs"
"""Sorted set of queued job ids as text; the score is the time the job was made."""

_CONNECT_SECONDS = 1.0
_SOCKET_MARGIN_SECONDS = 2.0
# While Redis is away the claim call does the waiting, and a probe of Redis this often is enough.
_PROBE_SECONDS = 5.0


class FeedAnswer(Enum):
    """What the feed says when it names no job."""

    empty = "empty"
    """Nothing was queued while it waited."""
    unavailable = "unavailable"
    """Redis cannot be asked now: let the claim call wait instead."""


class RedisFeed:
    """Suggestions from Redis; recovers by itself when Redis comes back."""

    def __init__(
        self, redis_url: str, *, block_seconds: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._block_seconds = block_seconds
        self._clock = clock
        self._away_until: float | None = None
        # Left alone, redis-py retries ten times behind a 5 s timeout: a stopping worker would hang.
        # A socket timeout shorter than the blocking pop would cut the pop off and lose the id it carries.
        self._redis = redis.Redis.from_url(
            redis_url,
            socket_connect_timeout=_CONNECT_SECONDS,
            socket_timeout=block_seconds + _SOCKET_MARGIN_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )

    def next_job_id(self) -> int | FeedAnswer:
        """The id of a job worth claiming, or why there is none. Waits `block_seconds` at most."""
        if self._away_until is not None and self._clock() < self._away_until:
            return FeedAnswer.unavailable
        try:
            popped = self._redis.bzpopmin(QUEUE_KEY, timeout=self._block_seconds)
        except (redis.RedisError, OSError) as error:
            return self._went_away(error)
        if self._away_until is not None:
            log.info("redis is back")
            self._away_until = None
        if popped is None:
            return FeedAnswer.empty
        # Bytes, not text: what a stranger put there need not be text, and decoding it would raise.
        member = popped[1]
        assert isinstance(member, bytes)
        return _job_id(member)

    def close(self) -> None:
        """Gives the connection back."""
        self._redis.close()

    def _went_away(self, error: Exception) -> FeedAnswer:
        if self._away_until is None:
            log.warning("redis is away, the claim call waits instead", extra={"error": type(error).__name__})
        self._away_until = self._clock() + _PROBE_SECONDS
        return FeedAnswer.unavailable


def _job_id(member: bytes) -> int | FeedAnswer:
    try:
        return int(member)
    except ValueError:
        log.warning("the queue holds something that is no job id", extra={"length": len(member)})
        return FeedAnswer.empty
