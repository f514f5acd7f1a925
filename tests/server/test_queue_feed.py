"""The feed in Redis: what it suggests follows the places of the jobs, whatever it missed."""

from collections.abc import Iterator

import pytest
import redis

from collapsewatch_server.queue.feed import QUEUE_KEY, RedisFeed
from collapsewatch_server.repositories.jobs import DEFERRED


@pytest.fixture
def feed(fresh_redis_url: str) -> Iterator[RedisFeed]:
    made = RedisFeed(fresh_redis_url, lambda: None)
    yield made
    made.close()


def places(url: str) -> dict[int, float]:
    with redis.Redis.from_url(url) as client:
        members = client.zrange(QUEUE_KEY, 0, -1, withscores=True)
        return {int(member): score for member, score in members}


def test_a_job_that_was_queued_again_while_redis_was_away_is_moved_ahead(
    feed: RedisFeed, fresh_redis_url: str
) -> None:
    feed.push([(7, DEFERRED + 100.0), (9, DEFERRED + 50.0)])
    feed.remind(lambda: [(7, 200.0), (8, 300.0), (9, DEFERRED + 50.0)])
    assert places(fresh_redis_url) == {7: 200.0, 8: 300.0, 9: DEFERRED + 50.0}


def test_what_was_read_before_a_job_was_deferred_does_not_undo_it(
    feed: RedisFeed, fresh_redis_url: str
) -> None:
    def read() -> list[tuple[int, float]]:
        feed.push([(7, DEFERRED + 100.0)])
        return [(7, 100.0)]

    feed.push([(7, 100.0)])
    feed.remind(read)
    assert places(fresh_redis_url) == {7: DEFERRED + 100.0}
