"""Which addresses are out on the public network, and which lead back to this machine, its neighbours or its cloud.

Pure. A name tells nothing about where it leads: only the address that is really connected to counts.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

__all__ = ["Address", "is_metadata", "parse_address", "why_not_public"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# An IPv6 address can carry an IPv4 one to a translator: judged as if it led inside, because it may.
_TRANSLATED = {
    "64:ff9b::/96": "NAT64",
    "64:ff9b:1::/48": "NAT64",
    "2002::/16": "6to4",
    "2001::/32": "Teredo",
    "::/96": "IPv4-compatible",
    "::ffff:0:0:0/96": "IPv4-translated",
}
# Where clouds answer a machine with its own credentials; the last one lies in the public range.
_METADATA = {
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "100.100.100.200",
    "192.0.0.192",
    "168.63.129.16",
}
_SPECIAL = {
    "0.0.0.0/8": "names this machine",
    "100.64.0.0/10": "belongs to the provider's own network",
    "192.0.0.0/24": "is reserved",
    "192.88.99.0/24": "is a 6to4 relay",
    "198.18.0.0/15": "is reserved for benchmarks",
    "240.0.0.0/4": "is reserved",
    "fec0::/10": "is site-local",
    "100::/64": "is a discard prefix",
    "5f00::/16": "is reserved",
}
_TRANSLATED_NETWORKS = [(ipaddress.ip_network(net), kind) for net, kind in _TRANSLATED.items()]
_SPECIAL_NETWORKS = [(ipaddress.ip_network(net), what) for net, what in _SPECIAL.items()]
_METADATA_ADDRESSES = frozenset(ipaddress.ip_address(text) for text in _METADATA)


def parse_address(text: str) -> Address | None:
    """An address in its one plain spelling, a v4-mapped one as the IPv4 address it is, or None for a name."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found


def is_metadata(address: Address) -> bool:
    """Whether a cloud gives credentials away at this address."""
    return address in _METADATA_ADDRESSES


def why_not_public(address: Address) -> str | None:
    """What an address leads to if not to the public network, or None."""
    if is_metadata(address):
        return "is a cloud's metadata service"
    for network, kind in _TRANSLATED_NETWORKS:
        if address in network and not (address.is_loopback or address.is_unspecified):
            return f"is an IPv4 address in disguise ({kind})"
    for what in ("loopback", "link_local", "multicast", "unspecified"):
        if getattr(address, f"is_{what}"):
            return f"is {what.replace('_', '-')}"
    for network, what in _SPECIAL_NETWORKS:
        if address in network:
            return what
    if address.is_private:
        return "is private"
    return None if address.is_global else "is not public"
