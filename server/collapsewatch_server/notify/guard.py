"""Whom the server may speak to of its own accord: the open internet, and hosts that the operator names."""

import queue
import socket
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from collapsewatch_server.notify import addresses

_RESOLVE_SECONDS = 5.0


class Refused(Exception):
    """The channel points where the server may not go, or at no host at all."""


class Unreachable(Exception):
    """The host's name leads nowhere at the moment."""


class Allowed(NamedTuple):
    """A host of the operator's own network that channels may reach."""

    host: str
    port: int | None
    """The only port; any when absent."""


Resolve = Callable[[str, int], list[str]]


def resolve(host: str, port: int) -> list[str]:
    """Addresses of the host, the way the system's own resolver spells them.

    It also understands `2130706433`, `0x7f.1` and `127.1`, which name addresses without looking like them.

    Raises:
        Unreachable: the name is unknown, or nobody answers what it means.
    """
    answers: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([str(one[4][0]) for one in found])
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else OSError(str(error)))

    # The system's resolver knows no time limit; a thread that hangs in it is left behind.
    threading.Thread(target=ask, daemon=True, name="resolve").start()
    try:
        answer = answers.get(timeout=_RESOLVE_SECONDS)
    except queue.Empty:
        raise Unreachable(f"no answer for the name {host!r} within {_RESOLVE_SECONDS:g} s") from None
    if isinstance(answer, OSError):
        raise Unreachable(f"the name {host!r} is not known: {answer.strerror or answer}")
    return list(dict.fromkeys(answer))


class OutgoingGuard:
    """Says to which addresses a message for a host may be sent."""

    def __init__(
        self, *, allow_private: bool = False, hosts: Iterable[str] = (), resolve: Resolve = resolve
    ) -> None:
        """The guard.

        Args:
            allow_private: anything goes; the operator trusts whoever sets up channels.
            hosts: `name` or `name:port` of the own network, as they stand in a channel's URL.
            resolve: how names become addresses.
        """
        self.allow_private = allow_private
        self.hosts = tuple(hosts)
        self._allowed = frozenset(parse_host(one) for one in self.hosts)
        self._resolve = resolve

    def addresses_of(self, host: str, port: int) -> list[str]:
        """Addresses to connect to, which must be used as they are: the name may mean another one by then.

        Raises:
            Refused: one of them is not of the open internet.
            Unreachable: there are none.
        """
        found = self._resolve(host, port)
        if not found:
            raise Unreachable(f"the name {host!r} has no address")
        if not self.is_named(host, port):
            for address in found:
                self.check(address, host)
        return found

    def is_named(self, host: str, port: int) -> bool:
        """Whether the operator allows the host wherever it is."""
        name = _plain(host)
        return self.allow_private or bool({Allowed(name, None), Allowed(name, port)} & self._allowed)

    def check(self, address: str, host: str) -> None:
        """Comes back if the address is of the open internet.

        Raises:
            Refused: it is not, or is no address.
        """
        try:
            reason = addresses.why_not_public(address)
        except ValueError:
            raise Refused(f"{address!r} is no address") from None
        if reason:
            raise Refused(
                f"{host!r} leads to an address that is {reason}; the operator can allow it by "
                "COLLAPSEWATCH_CHANNEL_HOSTS, or all by COLLAPSEWATCH_ALLOW_PRIVATE_CHANNELS"
            )


def parse_host(text: str) -> Allowed:
    """The host, and its port if one is named: `mail.lan`, `mail.lan:25`, `10.0.0.5:8065`, `[fd00::1]:443`.

    Raises:
        ValueError: it is neither.
    """
    text = text.strip()
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        port = port.removeprefix(":")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if (
        not host
        or any(c in host for c in "/@ ")
        or (port and not (port.isdecimal() and 0 < int(port) < 2**16))
    ):
        raise ValueError(f"a host is `name` or `name:port`, got {text!r}")
    return Allowed(_plain(host), int(port) if port else None)


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()
