"""Requests and bytes of each minute, by caller and by address.

Counted here and not in a storage of the library `limits`: its memory storage starts a thread for what
expires, which costs 150 to 470 microseconds a request, and its Redis storage waits for Redis. What several
server processes have counted they tell one another through Redis, beside the requests
(`throttling.sharing`).
"""

import hashlib
import ipaddress
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

from collapsewatch_server.errors import TooManyRequests

WINDOW_SECONDS = 60
# Made-up keys would fill the memory; of callers beyond this only the addresses count.
_MAX_NAMES = 100_000
_IPV6_NETWORK_BITS = 64


class Bucket(StrEnum):
    """What is counted apart, so that one kind of work does not use up another's share."""

    reads = "reads"
    writes = "writes"
    ingest = "ingest"
    worker = "worker"
    links = "links"
    entry = "entry"
    """Signing in and joining, by whoever comes along."""


_WORDS = {
    Bucket.reads: "reading requests",
    Bucket.writes: "changing requests",
    Bucket.ingest: "requests with data",
    Bucket.worker: "calls of workers",
    Bucket.links: "requests by links",
    Bucket.entry: "attempts to sign in or to join",
}


@dataclass(frozen=True)
class Rates:
    """What one caller may do in a minute; 0 sets no limit."""

    requests: Mapping[Bucket, int]
    num_bytes: int = 0
    """Of bodies, as sent."""
    address_times: int = 4
    """An address may do so many times what a caller may: an office is behind one."""
    streams: int = 0
    """Live streams of a caller that are open at once."""


@dataclass(frozen=True)
class Sender:
    """Whose requests count together."""

    caller: str | None
    """Stands for its key, session or link; none for who shows nothing."""
    address: str


@dataclass
class Counts:
    """Numbers of one minute."""

    minute: int = -1
    mine: dict[str, int] = field(default_factory=dict)
    """What this process has counted, by name."""
    told: dict[str, int] = field(default_factory=dict)
    """How much of it the others know."""
    others: dict[str, int] = field(default_factory=dict)
    """What they have counted, when last heard of."""


class Traffic:
    """Counts, and refuses what is too much. Quick enough for every request: it only looks into dicts."""

    def __init__(self, rates: Rates, *, clock: Callable[[], float] = time.time) -> None:
        self.num_refused = 0
        """Requests that were told to come again, since the start."""
        self._rates = rates
        self._clock = clock
        self._guard = threading.Lock()
        self._counts = Counts()
        self._streams: dict[str, int] = {}

    def count(self, bucket: Bucket, sender: Sender) -> None:
        """Counts a request.

        Raises:
            TooManyRequests: the caller, or all at its address, have sent too many this minute.
        """
        limit = self._rates.requests.get(bucket, 0)
        if limit:
            self._take(bucket, sender, limit, 1, _WORDS[bucket], f"rate_{bucket}")

    def count_bytes(self, sender: Sender, num_bytes: int) -> None:
        """Counts bytes of a body.

        Raises:
            TooManyRequests: the same for bytes.
        """
        if self._rates.num_bytes and num_bytes:
            self._take("bytes", sender, self._rates.num_bytes, num_bytes, "bytes of bodies", "rate_bytes")

    @contextmanager
    def streaming(self, sender: Sender) -> Iterator[None]:
        """Holds a live stream open for the block.

        Raises:
            TooManyRequests: the caller has too many of them.
        """
        name = sender.caller or f"@{sender.address}"
        limit = self._rates.streams * (1 if sender.caller else self._rates.address_times)
        with self._guard:
            num_open = self._streams.get(name, 0)
            is_full = limit > 0 and num_open >= limit
            if not is_full:
                self._streams[name] = num_open + 1
        if is_full:
            raise TooManyRequests(f"{limit} live streams of this caller are open already; close some", 10)
        try:
            yield
        finally:
            with self._guard:
                self._streams[name] -= 1
                if not self._streams[name]:
                    del self._streams[name]

    def to_share(self, least: float) -> tuple[int, dict[str, int]]:
        """The minute, and what is counted together with others: by name, how much is new to them.

        Args:
            least: part of its limit that a number has to reach; smaller ones decide nothing.
        """
        with self._guard:
            counts = self._of_this_minute()
            return counts.minute, {
                name: number - counts.told.get(name, 0)
                for name, number in counts.mine.items()
                if number >= least * self._limit_of(name)
            }

    def heard(self, minute: int, name: str, *, told: int, total: int) -> None:
        """Notes that `told` more of this name is known to all, and that all together have counted `total`."""
        with self._guard:
            counts = self._counts
            if counts.minute != minute:
                return
            counts.told[name] = counts.told.get(name, 0) + told
            counts.others[name] = max(0, total - counts.told[name])

    def _take(self, kind: str, sender: Sender, limit: int, amount: int, what: str, setting: str) -> None:
        times = self._rates.address_times
        shares = [(f"{kind}@{sender.address}", limit * times)]
        if sender.caller is not None:
            shares.append((f"{kind}:{sender.caller}", limit))
        with self._guard:
            counts = self._of_this_minute()
            full = next((share for share in shares if not self._fits(counts, *share, amount)), None)
            if full is None:
                # What is refused counts nowhere: one caller's flood uses up no share of its neighbours.
                for name, _ in shares:
                    self._add(counts, name, amount)
                return
            self.num_refused += 1
        by_address = full is shares[0]
        who = "this address" if by_address else "this caller"
        name = f"COLLAPSEWATCH_{setting.upper()}"
        raise TooManyRequests(
            f"{who} may send {full[1]} {what} a minute; come later, or raise `{name}`"
            + (f", of which an address has {times} times as many" if by_address else ""),
            max(1, math.ceil(WINDOW_SECONDS - self._clock() % WINDOW_SECONDS)),
        )

    @staticmethod
    def _fits(counts: Counts, name: str, limit: int, amount: int) -> bool:
        return counts.mine.get(name, 0) + counts.others.get(name, 0) + amount <= limit

    @staticmethod
    def _add(counts: Counts, name: str, amount: int) -> None:
        before = counts.mine.get(name)
        if before is not None or len(counts.mine) < _MAX_NAMES:
            counts.mine[name] = (before or 0) + amount

    def _of_this_minute(self) -> Counts:
        minute = int(self._clock() // WINDOW_SECONDS)
        if self._counts.minute != minute:
            self._counts = Counts(minute)
        return self._counts

    def _limit_of(self, name: str) -> int:
        kind = name.partition("@")[0].partition(":")[0]
        limit = self._rates.num_bytes if kind == "bytes" else self._rates.requests[Bucket(kind)]
        return limit * (self._rates.address_times if name.startswith(f"{kind}@") else 1)


def sender_of(credential: str | None, address: str) -> Sender:
    """Whose requests count together with this one.

    Args:
        credential: what the request shows of itself: a key, a session's token or a link's. It is not kept.
    """
    caller = None
    if credential:
        caller = hashlib.blake2b(credential.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
    return Sender(caller, network_of(address))


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The address, or of IPv6 the network that one subscriber has."""
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address.partition("%")[0], _IPV6_NETWORK_BITS), strict=False))
    except ValueError:
        return address
