"""The Redis hint, against a real Redis that comes and goes."""

import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
import redis

from collapsewatch_worker.loop.feed import QUEUE_KEY, FeedAnswer, RedisFeed

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


class RedisServer:
    """A Redis of the test's own, on a free port, without a file."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.client = redis.Redis(port=self.port, socket_timeout=60, decode_responses=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.client.ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                return
        raise TimeoutError("redis-server did not start within 60 s")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def queue(self, job_id: object, created: float) -> None:
        self.client.zadd(QUEUE_KEY, {str(job_id): created}, nx=True)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.client.close()
    server.stop()


@pytest.fixture
def make_feed(server: RedisServer) -> Iterator[Callable[..., RedisFeed]]:
    feeds: list[RedisFeed] = []

    def make(clock: Callable[[], float] = time.monotonic) -> RedisFeed:
        feeds.append(RedisFeed(server.url, block_seconds=0.2, clock=clock))
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.close()


def test_the_oldest_job_is_suggested_first(server: RedisServer, make_feed: Callable[..., RedisFeed]) -> None:
    feed = make_feed()
    server.queue(12, created=200.0)
    server.queue(31, created=100.0)
    assert [feed.next_job_id(), feed.next_job_id(), feed.next_job_id()] == [31, 12, FeedAnswer.empty]


def test_an_empty_queue_is_waited_at_and_no_longer(make_feed: Callable[..., RedisFeed]) -> None:
    started = time.monotonic()
    assert make_feed().next_job_id() is FeedAnswer.empty
    assert 0.1 < time.monotonic() - started < 10


def test_what_is_no_job_id_is_passed_over(server: RedisServer, make_feed: Callable[..., RedisFeed]) -> None:
    server.queue("nonsense", created=1.0)
    server.client.zadd(QUEUE_KEY, {b"\xff\xfe": 1.5})
    server.queue(5, created=2.0)
    feed = make_feed()
    assert feed.next_job_id() is FeedAnswer.empty
    assert feed.next_job_id() is FeedAnswer.empty
    assert feed.next_job_id() == 5


def test_redis_gone_is_told_once_at_once_and_forgiven_when_it_is_back(
    server: RedisServer, make_feed: Callable[..., RedisFeed], caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    feed = make_feed(clock)
    server.queue(1, created=1.0)
    assert feed.next_job_id() == 1
    server.stop()
    started = time.monotonic()
    with caplog.at_level(logging.INFO):
        for _ in range(5):
            assert feed.next_job_id() is FeedAnswer.unavailable
            clock.now += 3.0
    # The library's own defaults would take ten retries, up to 5 s each, every time.
    assert time.monotonic() - started < 10
    assert [record.getMessage() for record in caplog.records] == [
        "redis is away, the claim call waits instead"
    ]
    server.start()
    server.queue(2, created=1.0)
    clock.now += 60.0
    with caplog.at_level(logging.INFO):
        assert feed.next_job_id() == 2
    assert caplog.records[-1].getMessage() == "redis is back"
