"""Which addresses lie in the open internet, and which a channel may not be aimed at. Pure."""

import ipaddress
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

Address = IPv4Address | IPv6Address

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Written out, because what `ipaddress` knows of them depends on the version of Python. The second is an
# address of a cloud's own machinery that looks like one of the internet.
_SPECIAL = [
    ipaddress.ip_network(one)
    for one in (
        "192.0.0.0/24",
        "168.63.129.16/32",
        "192.88.99.0/24",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "3fff::/20",
        "5f00::/16",
    )
]


def parse(text: str) -> Address:
    """The address, without the zone that an IPv6 address may carry.

    Raises:
        ValueError: it is none.
    """
    return ipaddress.ip_address(text.partition("%")[0])


def why_not_public(text: str) -> str:
    """What speaks against the address as one of the open internet, such as `loopback`; empty when nothing."""
    address = parse(text)
    for one in (address, *_embedded(address)):
        reason = _reason(one)
        if reason:
            return reason
    return ""


def _embedded(address: Address) -> Iterable[Address]:
    """IPv4 addresses that a packet to this address may end up at."""
    if isinstance(address, IPv4Address):
        return
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
    # The deprecated form `::a.b.c.d`; `::` and `::1` are judged as they are.
    if int(address) >> 32 == 0 and int(address) > 1:
        yield IPv4Address(int(address))


def _reason(address: Address) -> str:
    # Only the IPv4 address within it tells where it leads.
    is_nat64 = address in _NAT64
    named = {
        "loopback": address.is_loopback,
        # It reaches the IPv4 address within it, and no name in the internet has a reason to be one.
        "IPv4-mapped": isinstance(address, IPv6Address) and address.ipv4_mapped is not None,
        "unspecified": address.is_unspecified,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
        "site-local": isinstance(address, IPv6Address) and address.is_site_local,
        "set aside for a special purpose": any(address in network for network in _SPECIAL),
        "private": address.is_private and not is_nat64,
        "reserved": address.is_reserved and not is_nat64,
        "not routed in the internet": not address.is_global and not is_nat64,
    }
    return next((reason for reason, holds in named.items() if holds), "")
