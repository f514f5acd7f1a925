"""Slows down who guesses passwords and links, and locks nobody out for good.

Wrong passwords count three ways. By name and address together, so that whoever guesses from elsewhere does
not keep the owner out. By address, for who tries one password on many names. And by name alone, for who
guesses from many addresses: that limit does not hold at an address from which this name was signed in with
within a month. A session that is open is never asked for a password; and whoever runs the server can make a
new link for an account there at any time.
"""

import hashlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import redis
from limits import RateLimitItem, RateLimitItemPerDay, RateLimitItemPerHour, RateLimitItemPerMinute
from limits.storage import MemoryStorage, Storage
from limits.strategies import MovingWindowRateLimiter

from collapsewatch_server.errors import (
    InvitationEnded,
    ServerError,
    ShareNotFound,
    TooManyRequests,
    WrongCredentials,
)
from collapsewatch_server.throttling.sharing import storage_at
from collapsewatch_server.throttling.traffic import network_of

log = logging.getLogger(__name__)

T = TypeVar("T")
_Limit = tuple[RateLimitItem, tuple[str, ...]]

# Each later one is reached by who goes on after the earlier: the wait grows from minutes to a day.
_OF_NAME_AND_ADDRESS = (
    RateLimitItemPerMinute(5, 5),
    RateLimitItemPerHour(10),
    RateLimitItemPerDay(20),
)
_OF_NAME = (RateLimitItemPerHour(100),)
_OF_ADDRESS = (RateLimitItemPerMinute(30, 5), RateLimitItemPerDay(500))
_OF_INVITATIONS = (RateLimitItemPerMinute(30, 5),)
# Many times what can be guessed, and what tabs ask for that were left open on a link that is gone.
_OF_SHARES = (RateLimitItemPerMinute(600, 5),)
_KNOWN = RateLimitItemPerDay(1, 30)
_AWAY_SECONDS = 15.0


class Guesses:
    """Counts what was wrong, in Redis where there is one."""

    def __init__(self, redis_url: str | None, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._own: Storage = MemoryStorage()
        self._shared = None if redis_url is None else storage_at(redis_url)
        self._away_until = 0.0

    @contextmanager
    def of_password(self, name: str, address: str) -> Iterator[None]:
        """Around the check of a password. A right one forgets what was wrong before.

        Raises:
            TooManyRequests: too many were wrong. Those that are being checked do not count yet: they are few,
                because each takes a core for a twentieth of a second.
        """
        name, address = _digest(name.lower()), network_of(address)
        narrow: list[_Limit] = [(item, ("password", name, address)) for item in _OF_NAME_AND_ADDRESS]
        wide: list[_Limit] = [(item, ("address", address)) for item in _OF_ADDRESS]
        of_name: list[_Limit] = [(item, ("name", name)) for item in _OF_NAME]
        known: _Limit = (_KNOWN, ("known", name, address))
        is_known = self._ask(lambda limiter: not limiter.test(known[0], *known[1]))
        self._refuse("wrong passwords", [*narrow, *wide, *([] if is_known else of_name)])
        with self._counting((WrongCredentials,), [*narrow, *wide, *of_name]):
            yield
        self._ask(partial(_forget, limits=[*narrow, *of_name]))
        self._ask(partial(_hit, limits=[known]))

    @contextmanager
    def of_invitation(self, address: str) -> Iterator[None]:
        """Around the look at a link to join by.

        Raises:
            TooManyRequests: too many from this address were no good.
        """
        with self._of_token("invitation", InvitationEnded, _OF_INVITATIONS, address):
            yield

    @contextmanager
    def of_share(self, address: str) -> Iterator[None]:
        """The same for a link that shows runs. Those that have ended are no guesses."""
        with self._of_token("share", ShareNotFound, _OF_SHARES, address):
            yield

    def close(self) -> None:
        """Gives its connections back."""
        if self._shared is not None:
            self._shared.storage.close()

    @contextmanager
    def _of_token(
        self, kind: str, wrong: type[ServerError], items: Sequence[RateLimitItem], address: str
    ) -> Iterator[None]:
        limits: list[_Limit] = [(item, (kind, network_of(address))) for item in items]
        self._refuse("links that are no good", limits)
        with self._counting((wrong,), limits):
            yield

    def _refuse(self, what: str, limits: Sequence[_Limit]) -> None:
        until = self._ask(partial(_full_until, limits=limits))
        if until is not None:
            seconds = max(1, math.ceil(until - self._clock()))
            raise TooManyRequests(f"too many {what}; try again in {_shown(seconds)}", seconds)

    @contextmanager
    def _counting(self, wrong: tuple[type[ServerError], ...], limits: Sequence[_Limit]) -> Iterator[None]:
        try:
            yield
        except wrong:
            self._ask(partial(_hit, limits=limits))
            raise

    def _ask(self, ask: Callable[[MovingWindowRateLimiter], T]) -> T:
        """The answer of Redis, or of this process while Redis is away."""
        if self._shared is not None and time.monotonic() >= self._away_until:
            try:
                answer = ask(MovingWindowRateLimiter(self._shared))
                self._away_until = 0.0
                return answer
            except (redis.RedisError, OSError) as error:
                if not self._away_until:
                    facts = {"error": type(error).__name__}
                    log.warning("redis is away, each server process counts guesses for itself", extra=facts)
                self._away_until = time.monotonic() + _AWAY_SECONDS
        return ask(MovingWindowRateLimiter(self._own))


def _full_until(limiter: MovingWindowRateLimiter, limits: Sequence[_Limit]) -> float | None:
    """When there is room in all of them again; None when there is now."""
    found = [limiter.get_window_stats(item, *names) for item, names in limits]
    return max((stats.reset_time for stats in found if stats.remaining <= 0), default=None)


def _hit(limiter: MovingWindowRateLimiter, limits: Sequence[_Limit]) -> None:
    for item, names in limits:
        limiter.hit(item, *names)


def _forget(limiter: MovingWindowRateLimiter, limits: Sequence[_Limit]) -> None:
    for item, names in limits:
        limiter.clear(item, *names)


def _digest(name: str) -> str:
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def _shown(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} seconds"
    return f"{math.ceil(seconds / 60)} minutes" if seconds < 7200 else f"{math.ceil(seconds / 3600)} hours"
