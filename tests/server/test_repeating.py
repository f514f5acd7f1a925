"""What runs beside the requests goes on, whatever goes wrong once."""

import asyncio
import logging

import pytest

from collapsewatch_server import repeating
from collapsewatch_server.launch import embedded
from collapsewatch_server.launch.embedded import EmbeddedWorker
from collapsewatch_server.repeating import Repeated


def test_a_look_that_fails_in_any_way_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    looks = 0

    async def look_until_the_third() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()

        def look() -> None:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise OSError(28, "no room")
            if looks == 3:
                loop.call_soon_threadsafe(stopping.set)

        await Repeated("watch", look, 0.001).run(stopping)

    asyncio.run(look_until_the_third())
    assert looks == 3
    (record,) = [record for record in caplog.records if record.name == repeating.__name__]
    assert (record.levelno, record.__dict__["error"]) == (logging.ERROR, "OSError")


def test_one_that_has_not_succeeded_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("collapsewatch_server.repeating.time.monotonic", lambda: now)
    stopping = asyncio.Event()

    def look() -> None:
        nonlocal now
        stopping.set()
        now += 600
        raise ValueError("what nobody thought of")

    repeated = Repeated("watch", look, 5.0)
    assert repeated.problem() == ""
    asyncio.run(repeated.run(stopping))
    assert "600 s ago" in repeated.problem()


def test_a_worker_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_FIRST_PAUSE_SECONDS", 0.001)
    tries = 0

    async def start_until_the_third() -> None:
        enough = asyncio.Event()

        async def no_process(*command: object, **options: object) -> None:
            nonlocal tries
            tries += 1
            if tries == 3:
                enough.set()
            raise OSError(12, "Cannot allocate memory")

        monkeypatch.setattr(asyncio, "create_subprocess_exec", no_process)
        worker = EmbeddedWorker({}, ["/bin/false"])
        worker.start()
        async with asyncio.timeout(20):
            await enough.wait()
        await worker.stop()

    asyncio.run(start_until_the_third())
    assert tries == 3
