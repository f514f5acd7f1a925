"""Which job next: a hint to the workers. It may lose, repeat or be late, and never decides."""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from collapsewatch_server.repositories.jobs import DEFERRED

log = logging.getLogger(__name__)

QUEUE_KEY = "collapsewatch:jobs"
"""Sorted set of queued job ids; the score is the job's place in the queue."""

_CONNECT_SECONDS = 0.5
_ANSWER_SECONDS = 1.0
_MOST_READ = 10_000
# While Redis is away nothing waits for it; the reconciler pushes everything again once it is back.
_PAUSE_SECONDS = 2.0


Queued = Iterable[tuple[int, float]]
"""Jobs as (id, place in the queue)."""


class Feed(Protocol):
    """Tells waiting workers of queued jobs. No method ever raises or waits long."""

    def push(self, jobs: Queued) -> None:
        """Suggests jobs that were queued or moved."""

    def remind(self, read: Callable[[], Queued]) -> None:
        """Suggests all queued jobs again, if a suggestion can get lost."""

    def forget(self, job_ids: Iterable[int]) -> None:
        """Suggests these jobs no longer."""

    def is_up(self) -> bool:
        """Whether it can be asked now."""

    def close(self) -> None:
        """Gives its connections back."""


class LocalFeed:
    """No list at all: claims wait at the server, are woken, and look into the jobs table."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def push(self, jobs: Queued) -> None:
        """Wakes the waiting claims, if there is anything."""
        if any(True for _ in jobs):
            self._wake()

    def remind(self, read: Callable[[], Queued]) -> None:
        """Nothing to do: a claim that was not woken looks by itself in a moment."""

    def forget(self, job_ids: Iterable[int]) -> None:
        """Nothing to do."""

    def is_up(self) -> bool:
        """Always: there is nothing that could be away."""
        return True

    def close(self) -> None:
        """Nothing to do."""


class RedisFeed:
    """A sorted set in Redis. A job pushed twice is one job; one that was failed keeps its place."""

    def __init__(
        self, redis_url: str, wake: Callable[[], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._redis = connect(redis_url)
        self._wake = wake
        self._clock = clock
        self._away_until: float | None = None

    def push(self, jobs: Queued) -> None:
        """Suggests jobs; forgotten when Redis is away, because the reconciler pushes them again."""
        members = {str(job_id): score for job_id, score in jobs}
        if not members:
            return
        # Workers that cannot reach Redis wait here instead.
        self._wake()
        # Back alone: what the reconciler read before a job was deferred must not undo it. `forget` comes
        # before a move ahead, and `remind` sees to it that it did.
        self._ask(lambda: self._redis.zadd(QUEUE_KEY, members, gt=True))

    def remind(self, read: Callable[[], Queued]) -> None:
        """Pushes again what Redis may have lost, and puts right what it never heard of."""
        if self._is_away():
            return
        # Asked before the jobs are read: places are written there first, so one that lies behind is old.
        far = self._ask(
            lambda: self._redis.zrange(
                QUEUE_KEY, DEFERRED, "+inf", byscore=True, offset=0, num=_MOST_READ, withscores=True
            )
        )
        places = dict(read())
        self.forget(int(member) for member, score in far or () if places.get(int(member), score) < score)
        self.push(places.items())

    def forget(self, job_ids: Iterable[int]) -> None:
        """Takes jobs out; one that stays, because Redis is away, is a hint that leads nowhere."""
        members = [str(job_id) for job_id in job_ids]
        if members:
            self._ask(lambda: self._redis.zrem(QUEUE_KEY, *members))

    def _is_away(self) -> bool:
        return self._away_until is not None and self._clock() < self._away_until

    def _ask(self, call: Callable[[], Any]) -> Any:
        """The answer; none when Redis is away."""
        if self._is_away():
            return None
        try:
            answer = call()
        except (redis.RedisError, OSError) as error:
            if self._away_until is None:
                log.warning("redis is away, jobs start later", extra={"error": type(error).__name__})
            self._away_until = self._clock() + _PAUSE_SECONDS
            return None
        if self._away_until is not None:
            log.info("redis is back")
            self._away_until = None
        return answer

    def is_up(self) -> bool:
        """Whether Redis answers."""
        try:
            return bool(self._redis.ping())
        except (redis.RedisError, OSError):
            return False

    def close(self) -> None:
        """Gives the connections back."""
        self._redis.close()


def open_feed(redis_url: str | None, wake: Callable[[], None]) -> Feed:
    """The feed of that Redis, or one without; `wake` wakes the claims that wait at this server."""
    return RedisFeed(redis_url, wake) if redis_url else LocalFeed(wake)


def connect(redis_url: str) -> Any:
    """A client that gives up soon.

    Unless told otherwise, redis-py tries ten times behind a socket timeout of five seconds, and a request
    that only wanted to push a hint would hang for as long.
    """
    return redis.Redis.from_url(
        redis_url,
        socket_connect_timeout=_CONNECT_SECONDS,
        socket_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )
