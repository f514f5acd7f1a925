"""The writers' lock: in order, with an end to the waiting, and never held by nobody."""

import threading
from collections.abc import Callable

import pytest

from collapsewatch_server.turns import Turns
from tests.conftest import WaitUntil


def _start(function: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_threads_are_served_in_the_order_in_which_they_came(wait_until: WaitUntil) -> None:
    turns = Turns()
    served: list[int] = []

    def work(number: int) -> None:
        with turns.take(10) as mine:
            assert mine
            served.append(number)

    threads = []
    with turns.take(1):
        for number in range(8):
            threads.append(_start(lambda number=number: work(number)))  # type: ignore[misc]
            wait_until(lambda number=number: turns.num_waiting == number + 1)  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert served == list(range(8))


def test_one_holds_it_at_a_time_however_many_give_up(wait_until: WaitUntil) -> None:
    turns = Turns()
    inside: list[int] = []
    most: list[int] = []
    got: list[bool] = []

    def work() -> None:
        for _ in range(100):
            # So short that turns arrive while their owners are giving up.
            with turns.take(0.00005) as mine:
                got.append(mine)
                if mine:
                    inside.append(1)
                    most.append(len(inside))
                    inside.pop()

    for thread in [_start(work) for _ in range(8)]:
        thread.join()
    assert max(most) == 1
    assert len(got) == 800
    assert turns.num_waiting == 0
    with turns.take(0.01) as mine:
        assert mine


def test_who_waits_for_too_long_goes_without(wait_until: WaitUntil) -> None:
    turns = Turns()
    answers: list[bool] = []

    def ask() -> None:
        with turns.take(0.01) as mine:
            answers.append(mine)

    with turns.take(1):
        _start(ask).join()
    assert answers == [False]
    _start(ask).join()
    assert answers == [False, True]


def test_an_error_inside_passes_the_turn_on() -> None:
    turns = Turns()
    with pytest.raises(RuntimeError, match="inside"), turns.take(1):
        raise RuntimeError("inside")
    with turns.take(1) as mine:
        assert mine


def test_a_thread_that_would_wait_for_itself_is_told() -> None:
    turns = Turns()
    with turns.take(1), pytest.raises(AssertionError, match="its turn already"), turns.take(1):
        pass
