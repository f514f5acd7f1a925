"""The gate before ingest: bounded in number and in bytes, and honest about when to come again."""

import threading
from contextlib import ExitStack

import anyio
import pytest
from anyio import from_thread

from collapsewatch_server import db
from collapsewatch_server.errors import TooBusy
from collapsewatch_server.web.gate import IntakeGate, Threads


def test_the_next_after_the_last_place_is_told_to_come_again() -> None:
    gate = IntakeGate(max_bytes=100, max_requests=3)
    with ExitStack() as inside:
        for _ in range(3):
            inside.enter_context(gate.admit())
        with pytest.raises(TooBusy) as refused, gate.admit():
            pass
        assert 1 <= int(refused.value.all_headers()["Retry-After"]) <= 60
        assert gate.num_requests == 3
    assert (gate.num_requests, gate.num_refused) == (0, 1)
    with gate.admit():
        assert gate.num_requests == 1


def test_bytes_of_all_places_together_are_bounded_and_come_back() -> None:
    gate = IntakeGate(max_bytes=100, max_requests=10)
    with gate.admit() as first:
        first.hold(60)
        with gate.admit() as second:
            second.hold(30)
            second.hold(40)
            with pytest.raises(TooBusy):
                second.hold(41)
            with pytest.raises(TooBusy):
                first.hold(61)
            assert gate.num_bytes == 100
        first.hold(100)
        assert gate.num_bytes == 100
    assert gate.num_bytes == 0


def test_what_was_guessed_too_large_stays_until_the_end() -> None:
    gate = IntakeGate(max_bytes=100, max_requests=10)
    with gate.admit() as place:
        place.hold(80)
        place.hold(10)
        assert gate.num_bytes == 80


def test_a_guess_gives_way_to_the_size_that_turned_out() -> None:
    gate = IntakeGate(max_bytes=100, max_requests=10)
    with gate.admit() as place:
        place.hold(80)
        place.settle(10)
        assert (place.num_bytes, gate.num_bytes) == (10, 10)
        with gate.admit() as other:
            other.hold(90)
    assert gate.num_bytes == 0


def test_one_alone_may_hold_more_than_all_together() -> None:
    gate = IntakeGate(max_bytes=10, max_requests=10)
    with gate.admit() as large:
        large.hold(1000)
        with gate.admit() as small, pytest.raises(TooBusy):
            small.hold(1)
    with gate.admit() as small:
        small.hold(1)


def test_the_wait_asked_for_is_that_of_the_measured_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("collapsewatch_server.web.gate.time.monotonic", lambda: now)
    gate = IntakeGate(max_bytes=100, max_requests=40)
    with ExitStack() as inside:
        for _ in range(40):
            inside.enter_context(gate.admit())
        inside.enter_context(gate.working())
        for _ in range(20):
            now += 0.5
            gate.note_written()
        # Two are done in a second, so the forty inside take about twenty seconds.
        asked = {gate.refusal("full").retry_after_seconds for _ in range(200)}
        assert 14 <= min(asked) < max(asked) <= 30
        now += 29
        assert gate.refusal("hardly anything moves").retry_after_seconds == 60


def test_quiet_times_say_nothing_about_how_long_the_work_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("collapsewatch_server.web.gate.time.monotonic", lambda: now)
    gate = IntakeGate(max_bytes=100, max_requests=200)
    for _ in range(5):
        with gate.admit(), gate.working():
            now += 0.005
            gate.note_written()
        now += 20
    with ExitStack() as inside:
        for _ in range(200):
            inside.enter_context(gate.admit())
        # A sender that is slow keeps nobody from working.
        now += 20
        with gate.working():
            # Two hundred times five thousandths of a second.
            assert {gate.refusal("full").retry_after_seconds for _ in range(200)} <= {1, 2}


def test_a_lane_that_is_taken_is_told_in_time_and_its_work_knows_the_deadline() -> None:
    threads = Threads(parsing=1, writing=1, checking=1)
    release = threading.Event()
    patience: list[int] = []

    async def check() -> None:
        has_begun = anyio.Event()

        def hold() -> None:
            patience.append(db._patience(10_000))
            from_thread.run_sync(has_begun.set)
            release.wait(60)

        gate, hasty = (
            IntakeGate(max_bytes=100, max_requests=10, answer_seconds=seconds, threads=threads)
            for seconds in (9, 0.2)
        )
        # One lane before both, so that the one who is refused need not wait as long as the other may work.
        hasty.writing = gate.writing
        with gate.admit() as first, hasty.admit() as second:
            async with anyio.create_task_group() as group:
                group.start_soon(first.write, hold)
                await has_begun.wait()
                with pytest.raises(TooBusy):
                    await second.write(lambda: None)
                # The other lanes go on.
                second.expect_answer()
                assert await second.check(lambda: "looked up") == "looked up"
                release.set()

    anyio.run(check)
    assert 0 < patience[0] <= 9000
