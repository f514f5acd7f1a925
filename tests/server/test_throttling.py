"""What is counted of callers, addresses and guessers, without a server around it."""

import logging
from types import SimpleNamespace
from typing import Any

import anyio
import limits.storage.memory
import limits.storage.redis
import pytest

from collapsewatch_server.errors import InvitationEnded, ShareNotFound, TooManyRequests, WrongCredentials
from collapsewatch_server.throttling import traffic as traffic_module
from collapsewatch_server.throttling.guesses import Guesses
from collapsewatch_server.throttling.sharing import SharedTraffic
from collapsewatch_server.throttling.traffic import Bucket, Rates, Sender, Traffic, network_of, sender_of
from collapsewatch_server.throttling.turns import CostlyTurns
from tests.servers import free_port

HOME, CAFE = "192.0.2.1", "198.51.100.7"


class Clock:
    """Stands still until it is told otherwise; a full minute begins with it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def traffic_of(clock: Clock, *, num_bytes: int = 0, streams: int = 0, **requests: int) -> Traffic:
    rates = Rates(
        {Bucket(name): number for name, number in requests.items()},
        num_bytes=num_bytes,
        address_times=3,
        streams=streams,
    )
    return Traffic(rates, clock=clock)


def num_let_in(traffic: Traffic, bucket: Bucket, sender: Sender, tries: int = 100) -> int:
    for number in range(tries):
        try:
            traffic.count(bucket, sender)
        except TooManyRequests:
            return number
    return tries


# Requests and bytes.


def test_a_caller_is_refused_beyond_its_limit_until_the_next_minute(clock: Clock) -> None:
    traffic, one = traffic_of(clock, reads=5), sender_of("key", HOME)
    clock.now += 12.5
    assert num_let_in(traffic, Bucket.reads, one) == 5
    with pytest.raises(
        TooManyRequests, match=r"5 reading requests a minute.*COLLAPSEWATCH_RATE_READS"
    ) as found:
        traffic.count(Bucket.reads, one)
    assert found.value.all_headers() == {"Retry-After": "48"}
    assert num_let_in(traffic, Bucket.reads, sender_of("another", HOME)) == 5
    clock.now += 47.6
    assert num_let_in(traffic, Bucket.reads, one) == 5


def test_one_kind_of_work_does_not_use_up_anothers_share(clock: Clock) -> None:
    traffic, one = traffic_of(clock, reads=5, writes=2), sender_of("key", HOME)
    assert num_let_in(traffic, Bucket.reads, one) == 5
    assert num_let_in(traffic, Bucket.writes, one) == 2
    # Nothing is said of this one.
    assert num_let_in(traffic, Bucket.links, one) == 100


def test_made_up_keys_share_what_their_address_may(clock: Clock) -> None:
    traffic = traffic_of(clock, ingest=5)
    let_in = sum(num_let_in(traffic, Bucket.ingest, sender_of(f"key {n}", HOME)) for n in range(10))
    assert let_in == 15
    with pytest.raises(TooManyRequests, match=r"this address may send 15 .* 3 times as many$"):
        traffic.count(Bucket.ingest, sender_of("good key", HOME))
    assert num_let_in(traffic, Bucket.ingest, sender_of("good key", CAFE)) == 5
    # Who shows nothing is not one caller with all others who show nothing.
    assert num_let_in(traffic, Bucket.ingest, sender_of(None, "203.0.113.1")) == 15


def test_one_subscribers_ipv6_addresses_are_one() -> None:
    assert network_of("2001:db8:1:2:3:4:5:6") == network_of("2001:db8:1:2::1") == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::1") != network_of("2001:db8:1:2::1")
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert (network_of(HOME), network_of(""), network_of("not:an:address")) == (HOME, "", "not:an:address")


def test_bytes_that_were_refused_keep_no_smaller_body_out(clock: Clock) -> None:
    traffic, one = traffic_of(clock, num_bytes=100), sender_of("key", HOME)
    traffic.count_bytes(one, 60)
    with pytest.raises(TooManyRequests, match="100 bytes of bodies a minute"):
        traffic.count_bytes(one, 41)
    traffic.count_bytes(one, 40)
    with pytest.raises(TooManyRequests):
        traffic.count_bytes(one, 1)


def test_made_up_keys_take_no_memory_beyond_a_limit(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_module, "_MAX_NAMES", 10)
    traffic = traffic_of(clock, reads=1000)
    for number in range(100):
        traffic.count(Bucket.reads, sender_of(f"key {number}", HOME))
    _, news = traffic.to_share(0.0)
    assert len(news) == 10
    assert news[f"reads@{HOME}"] == 100


def test_streams_count_while_they_are_open(clock: Clock) -> None:
    traffic, one = traffic_of(clock, streams=2), sender_of("key", HOME)
    with traffic.streaming(one):
        with traffic.streaming(one), pytest.raises(TooManyRequests, match="2 live streams"):
            traffic.streaming(one).__enter__()
        with traffic.streaming(one), traffic.streaming(sender_of("another", HOME)):
            pass
    with traffic.streaming(one), traffic.streaming(one):
        pass


def test_server_processes_add_up_what_they_count(clock: Clock, fresh_redis_url: str) -> None:
    here, there = traffic_of(clock, reads=10), traffic_of(clock, reads=10)
    shared = [SharedTraffic(one, fresh_redis_url) for one in (here, there)]
    one = sender_of("key", HOME)
    assert [num_let_in(here, Bucket.reads, one, 6), num_let_in(there, Bucket.reads, one, 3)] == [6, 3]
    for _ in range(2):
        for each in shared:
            each.look()
    assert [num_let_in(here, Bucket.reads, one), num_let_in(there, Bucket.reads, one)] == [1, 1]
    clock.now += 60
    for each in shared:
        each.look()
    assert num_let_in(there, Bucket.reads, one) == 10
    for each in shared:
        each.close()


def test_without_redis_each_process_goes_on_and_says_so_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    traffic = traffic_of(clock, reads=5)
    shared = SharedTraffic(traffic, f"redis://127.0.0.1:{free_port()}/0")
    for _ in range(3):
        num_let_in(traffic, Bucket.reads, sender_of("key", HOME))
        shared.look()
        clock.now += 60
    assert num_let_in(traffic, Bucket.reads, sender_of("key", HOME)) == 5
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.message for record in told] == [
        "redis is away, each server process counts requests for itself"
    ]
    shared.close()


# Guesses.


@pytest.fixture(params=["memory", "redis"])
def guesses(request: pytest.FixtureRequest, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Any:
    url = None if request.param == "memory" else request.getfixturevalue("fresh_redis_url")
    for storage in (limits.storage.memory, limits.storage.redis):
        monkeypatch.setattr(storage, "time", SimpleNamespace(time=clock))
    found = Guesses(url, clock=clock)
    yield found
    found.close()


def guess(guesses: Guesses, name: str, address: str, *, right: bool = False) -> str:
    """`in`, `wrong`, or how long to wait."""
    try:
        with guesses.of_password(name, address):
            if not right:
                raise WrongCredentials("the name or the password is wrong")
    except WrongCredentials:
        return "wrong"
    except TooManyRequests as error:
        return f"{error.retry_after_seconds} s"
    return "in"


def test_five_wrong_passwords_cost_minutes_ten_an_hour_twenty_a_day(guesses: Guesses, clock: Clock) -> None:
    waits = []
    for _ in range(4):
        assert [guess(guesses, "ada", HOME) for _ in range(5)] == ["wrong"] * 5
        wait = guess(guesses, "Ada", HOME, right=True)
        waits.append(wait)
        clock.now += float(wait.partition(" ")[0]) + 1
    assert waits[0] == "300 s"
    assert 3200 < int(waits[1].partition(" ")[0]) <= 3600
    assert 80_000 < int(waits[3].partition(" ")[0]) <= 86_400
    assert guess(guesses, "ada", HOME, right=True) == "in"


def test_a_right_password_forgets_what_was_wrong_before(guesses: Guesses) -> None:
    for _ in range(6):
        assert [guess(guesses, "ada", HOME) for _ in range(4)] == ["wrong"] * 4
        assert guess(guesses, "ada", HOME, right=True) == "in"


def test_guesses_from_elsewhere_keep_nobody_out(guesses: Guesses) -> None:
    assert guess(guesses, "ada", HOME, right=True) == "in"
    for number in range(34):
        for _ in range(3):
            last = guess(guesses, "ada", f"10.0.0.{number}")
    assert last.endswith(" s")
    # The name is guessed at from everywhere: now only where its owner was signed in before.
    assert guess(guesses, "ada", CAFE, right=True).endswith(" s")
    assert guess(guesses, "ada", HOME, right=True) == "in"
    assert guess(guesses, "bob", CAFE, right=True) == "in"


def test_one_password_on_many_names_is_slowed_down_by_address(guesses: Guesses) -> None:
    answers = [guess(guesses, f"name{number}", HOME) for number in range(31)]
    assert answers == ["wrong"] * 30 + ["300 s"]
    assert guess(guesses, "name0", CAFE, right=True) == "in"


def test_links_that_are_no_good_are_slowed_down_by_address(guesses: Guesses) -> None:
    for _ in range(30):
        with pytest.raises(InvitationEnded), guesses.of_invitation(HOME):
            raise InvitationEnded("no")
    with pytest.raises(TooManyRequests, match="too many links that are no good; try again in 5 minutes"):
        guesses.of_invitation(HOME).__enter__()
    with guesses.of_invitation(CAFE), guesses.of_share(HOME):
        pass
    for _ in range(600):
        with pytest.raises(ShareNotFound), guesses.of_share(HOME):
            raise ShareNotFound("no")
    with pytest.raises(TooManyRequests):
        guesses.of_share(HOME).__enter__()


def test_what_is_no_guess_does_not_count(guesses: Guesses) -> None:
    for _ in range(50):
        with pytest.raises(ConnectionError), guesses.of_password("ada", HOME):
            raise ConnectionError
    assert guess(guesses, "ada", HOME) == "wrong"


def test_guesses_count_without_redis_too_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    guesses = Guesses(f"redis://127.0.0.1:{free_port()}/0")
    assert [guess(guesses, "ada", HOME) for _ in range(5)] == ["wrong"] * 5
    assert guess(guesses, "ada", HOME, right=True).endswith(" s")
    assert [record.message for record in caplog.records] == [
        "redis is away, each server process counts guesses for itself"
    ]
    guesses.close()


# Costly answers.


def test_costly_answers_wait_for_their_turn_and_not_for_ever() -> None:
    async def main() -> None:
        turns = CostlyTurns(of_caller=2, of_all=3, wait_seconds=0.2, most_waiting=4)
        let_go, all_refused = anyio.Event(), anyio.Event()
        inside: list[str] = []
        refused: list[str] = []

        async def work(name: str) -> None:
            try:
                async with turns.turn(name):
                    inside.append(name)
                    await let_go.wait()
            except TooManyRequests:
                refused.append(name)
                if len(refused) == 4:
                    all_refused.set()

        async with anyio.create_task_group() as tasks:
            for name in ("a", "a", "a", "a", "a", "b", "b"):
                tasks.start_soon(work, name)
            await anyio.wait_all_tasks_blocked()
            # Two of one caller, three in all; the fifth of one caller need not even wait.
            assert (inside, refused[:1]) == (["a", "a", "b"], ["a"])
            with anyio.fail_after(60):
                await all_refused.wait()
            assert sorted(refused) == ["a", "a", "a", "b"]
            let_go.set()
        # All places were given back, also those of who waited in vain.
        async with turns.turn("a"), turns.turn("a"), turns.turn("b"):
            pass

    anyio.run(main)
