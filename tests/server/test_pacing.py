"""How much a channel is told at once, and when it is tried again."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.notify.pacing import Retries, next_message
from collapsewatch_server.repositories.deliveries import Waiting

WINDOW = 60.0
TICK = 1.0


def simulate(arrivals: list[float], digest_after: int) -> list[tuple[float, list[int]]]:
    """(when, changes) of each message, of a channel that is looked at every second."""
    waiting = [Waiting(number, at) for number, at in enumerate(sorted(arrivals))]
    sent: list[tuple[float, list[int]]] = []
    now = 0.0
    while waiting:
        here = [one for one in waiting if one.planned_at <= now]
        made_at = [at for at, _ in sent]
        found = next_message(here, made_at, digest_after=digest_after, window_seconds=WINDOW, now=now)
        if found:
            sent.append((now, found))
            waiting = [one for one in waiting if one.change_id not in found]
        else:
            now += TICK
    return sent


@given(
    st.lists(st.integers(0, 300).map(float), max_size=60),
    st.integers(1, 8),
)
def test_every_change_is_told_once_in_order_and_soon(arrivals: list[float], digest_after: int) -> None:
    sent = simulate(arrivals, digest_after)
    assert [one for _, changes in sent for one in changes] == list(range(len(arrivals)))
    for at, changes in sent:
        for number in changes:
            assert 0 <= at - sorted(arrivals)[number] <= WINDOW + TICK


@given(st.lists(st.integers(0, 300).map(float), max_size=200), st.integers(1, 8))
def test_no_window_has_more_messages_than_singles_and_two_digests(
    arrivals: list[float], digest_after: int
) -> None:
    """Two, because what waited through one window ends within the next, where new ones may wait again."""
    times = [at for at, _ in simulate(arrivals, digest_after)]
    for begin in times:
        assert sum(begin <= at < begin + WINDOW for at in times) <= digest_after + 2


def test_a_few_changes_have_a_message_each() -> None:
    assert simulate([0.0] * 5, 5) == [(0.0, [number]) for number in range(5)]


def test_a_flood_that_finds_a_quiet_channel_is_told_at_once_in_one_message() -> None:
    assert simulate([0.0] * 6, 5) == [(0.0, [0, 1, 2, 3, 4, 5])]


def test_what_comes_after_a_few_waits_for_the_rest_of_its_window() -> None:
    sent = simulate([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 30.0], 5)
    assert sent == [*((float(number), [number]) for number in range(5)), (65.0, [5, 6, 7])]


@pytest.mark.parametrize("seed", range(3))
def test_waits_double_up_to_the_longest_and_are_shortened_by_chance(seed: int) -> None:
    retries, generator = Retries(), random.Random(seed)
    waits = [retries.wait_seconds(attempts, None, generator) for attempts in range(1, 12)]
    for attempts, waited in enumerate(waits, 1):
        assert waited is not None
        whole = min(5.0 * 2 ** (attempts - 1), 900.0)
        assert whole / 2 <= waited <= whole
    assert retries.wait_seconds(12, None, generator) is None
    assert 3975 / 2 < sum(filter(None, waits)) < 3975


def test_a_receiver_is_not_asked_again_before_it_wants_to_be_nor_forgotten_for_it() -> None:
    retries, generator = Retries(), random.Random(0)
    assert retries.wait_seconds(1, 120.0, generator) == 120.0
    assert retries.wait_seconds(1, 1e9, generator) == 3600.0
    waited = retries.wait_seconds(9, 1.0, generator)
    assert waited is not None
    assert waited >= 450
