"""Tells the other server processes through Redis what this one has counted, once a second."""

import logging

import redis
from limits.storage import RedisStorage

from collapsewatch_server.queue.feed import connect
from collapsewatch_server.throttling.traffic import WINDOW_SECONDS, Traffic

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 1.0
# A number that is far from its limit need not be told: most never are, and Redis hears nothing of them.
_LEAST_PART = 0.02
_MOST_AT_ONCE = 1000


class SharedTraffic:
    """Adds up what all processes count. Without Redis each of them goes on by its own numbers."""

    def __init__(self, traffic: Traffic, redis_url: str) -> None:
        self._traffic = traffic
        self._storage = storage_at(redis_url)
        self._is_away = False

    def look(self) -> None:
        """Tells what is new, and hears what the others have told."""
        minute, news = self._traffic.to_share(_LEAST_PART)
        try:
            for name, number in sorted(news.items(), key=lambda item: -item[1])[:_MOST_AT_ONCE]:
                total = self._storage.incr(f"{minute}/{name}", 2 * WINDOW_SECONDS, number)
                self._traffic.heard(minute, name, told=number, total=total)
        except (redis.RedisError, OSError) as error:
            if not self._is_away:
                facts = {"error": type(error).__name__}
                log.warning("redis is away, each server process counts requests for itself", extra=facts)
            self._is_away = True
            return
        if self._is_away and news:
            log.info("redis is back, the server processes count requests together")
            self._is_away = False

    def close(self) -> None:
        """Gives its connections back."""
        self._storage.storage.close()


def storage_at(redis_url: str) -> RedisStorage:
    """The library's storage, which never waits long: nothing is asked before it is used."""
    pool = connect(redis_url).connection_pool
    return RedisStorage("redis://", connection_pool=pool, key_prefix="collapsewatch:limits")
