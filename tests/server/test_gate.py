"""The gate before ingest: bounded in number and in bytes, and honest about when to come again."""

from contextlib import ExitStack

import pytest

from collapsewatch_server.errors import TooBusy
from collapsewatch_server.web.gate import IntakeGate


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
        for _ in range(20):
            now += 0.5
            gate.note_written()
        # Two are done in a second, so the forty inside take about twenty seconds.
        asked = {gate.refusal("full").retry_after_seconds for _ in range(200)}
        assert 14 <= min(asked) < max(asked) <= 30
        now += 29
        assert gate.refusal("hardly anything moves").retry_after_seconds == 60
