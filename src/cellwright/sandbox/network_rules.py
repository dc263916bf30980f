"""Decides which hosts and ports code may connect to, by the lists that name them.

Pure. A verdict falls twice: over the name before it is looked up, so that not even a lookup carries data out, and
over each address that the lookup gave, so that no name leads inside.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, assert_never

from cellwright.errors import NetworkRuleInvalid

__all__ = [
    "Address",
    "Destination",
    "NetworkMode",
    "NetworkRules",
    "Refusal",
    "parse_address",
    "why_not_public",
]
NetworkMode: TypeAlias = Literal["off", "allow", "deny", "open"]

MODE_SETTING = "network"

ALLOW_SETTING = "network_allow"

DENY_SETTING = "network_deny"

WEB_PORTS = frozenset({80, 443})

_MAX_HOST = 253

_MAX_PORT = 65_535

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"

_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")

# As browsers do: a name whose last part looks like a number is a spelling of an IPv4 address, and only one is taken.
_NUMBER_LIKE = re.compile(r"(?:\d+|0x[0-9a-f]*)")

_PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Destination:
    """A host, by name or address in plain spelling, and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, *, default_port: int | None = None) -> Self:
        """A destination from ``host:port`` as it stands in a request.

        Raises:
            ValueError: it is none, or is spelled in a way that others could read differently.
        """
        host, port = _split(text)
        if port is None and default_port is None:
            raise ValueError("a port is missing")
        return cls(_plain_host(host), _port(port) if port is not None else default_port or 0)

    @property
    def address(self) -> Address | None:
        """The address, where the host is one and no name."""
        return parse_address(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of a list: a host, ``*.example.org`` or a network, and its ports.

    ``*.example.org`` names every host below ``example.org``, and not ``example.org`` itself; ``*`` names every host.
    Without a port an entry names the ports 80 and 443 where it allows and every port where it denies; ``:*`` names
    every port.
    """

    text: str
    name: str | None
    network: ipaddress.IPv4Network | ipaddress.IPv6Network | None
    port: int | Literal["*"] | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """An entry from its spelling.

        Raises:
            NetworkRuleInvalid: it is none.
        """
        try:
            host, port = _split(text.strip())
            ports: int | Literal["*"] | None = None
            if port is not None:
                ports = "*" if port == "*" else _port(port)
            network = _network(host)
            name = None if network is not None else _pattern_host(host)
        except ValueError as error:
            raise NetworkRuleInvalid(
                f"{text!r} is no entry for a list of hosts: {error}",
                hint="Write a host, `*.example.org`, or a network such as 10.0.0.0/8, and `:8080` or `:*` for ports",
            ) from None
        return cls(text.strip(), name, network, ports)

    def names(self, destination: Destination, ports: frozenset[int] | None) -> bool:
        """Whether the host is one of these; ``ports`` stands in where the entry tells none (None: every port)."""
        if not self._has_port(destination.port, ports):
            return False
        if (address := destination.address) is not None:
            return self.name == "*" or (self.network is not None and address in self.network)
        if self.name is None or self.name == "*":
            return self.name == "*"
        if self.name.startswith("*."):
            return destination.host.endswith(self.name[1:])
        return destination.host == self.name

    def holds(self, address: Address, port: int, ports: frozenset[int] | None) -> bool:
        """Whether this names the address itself."""
        return self.network is not None and address in self.network and self._has_port(port, ports)

    @property
    def is_one_address(self) -> bool:
        """Whether this names a single address, and so names it on purpose."""
        return self.network is not None and self.network.num_addresses == 1

    def _has_port(self, port: int, ports: frozenset[int] | None) -> bool:
        if self.port is None:
            return ports is None or port in ports
        return self.port in ("*", port)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a destination may not be reached, the setting that says so, and what would change it."""

    reason: str
    setting: str
    hint: str


@dataclass(frozen=True, slots=True)
class NetworkRules:
    """What one session may reach. An entry that denies wins over one that allows, in every mode."""

    mode: NetworkMode = "off"
    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    @classmethod
    def parse(cls, mode: NetworkMode, *, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> Self:
        """Rules from the spellings of the settings.

        Raises:
            NetworkRuleInvalid: an entry cannot be understood.
        """
        return cls(mode, tuple(map(Pattern.parse, allow)), tuple(map(Pattern.parse, deny)))

    def refuse_name(self, destination: Destination) -> Refusal | None:
        """The verdict before anything is looked up."""
        match self.mode:
            case "off":
                return Refusal(
                    "the network is closed", MODE_SETTING, f"Have the operator open it with `{MODE_SETTING}`"
                )
            case "allow" if not any(entry.names(destination, WEB_PORTS) for entry in self.allow):
                hint = f"Have the operator add `{destination}` to `{ALLOW_SETTING}`"
                return Refusal(f"{destination} is not on the allow-list", ALLOW_SETTING, hint)
            case "allow" | "deny" | "open":
                return self._denied(destination, destination.address)
            case _:
                assert_never(self.mode)

    def refuse_address(self, destination: Destination, address: Address) -> Refusal | None:
        """The verdict over an address that the name leads to, and that will be connected to."""
        if (denied := self._denied(destination, address)) is not None:
            return denied
        inside = why_not_public(address)
        if inside is None:
            return None
        listed = [entry for entry in self.allow if entry.holds(address, destination.port, WEB_PORTS)]
        # Nobody means the cloud's credentials with a whole network.
        if any(entry.is_one_address or not is_metadata(address) for entry in listed):
            return None
        entry = Destination(str(address), destination.port)
        return Refusal(
            f"{destination} leads to {address}, which {inside}",
            ALLOW_SETTING,
            f"Have the operator add `{entry}` to `{ALLOW_SETTING}` if it may be reached",
        )

    def _denied(self, destination: Destination, address: Address | None) -> Refusal | None:
        for entry in self.deny:
            by_address = address is not None and entry.holds(address, destination.port, None)
            if by_address or entry.names(destination, None):
                reason = f"{destination} is on the deny-list as {entry.text}"
                return Refusal(reason, DENY_SETTING, f"Use another source, or have `{DENY_SETTING}` changed")
        return None


def _split(text: str) -> tuple[str, str | None]:
    """Host and port, without brackets; an IPv6 address without brackets has no port."""
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise ValueError("a bracket is not closed")
        if ":" not in host:
            raise ValueError("only an IPv6 address stands in brackets")
        return host, rest[1:] if rest else None
    if text.count(":") > 1:
        return text, None
    host, colon, port = text.partition(":")
    return host, port if colon else None


def _port(text: str) -> int:
    if not _PORT.fullmatch(text) or not 0 < int(text) <= _MAX_PORT:
        raise ValueError(f"{text!r} is no port")
    return int(text)


def _plain_host(text: str) -> str:
    if not text.isascii():
        raise ValueError("a name in another script is written as xn--...")
    host = text.lower().removesuffix(".")
    if "%" in host:
        raise ValueError("an address cannot name an interface")
    if (address := parse_address(host)) is not None:
        return str(address)
    if len(host) > _MAX_HOST or not _NAME.fullmatch(host):
        raise ValueError(f"{text[:_MAX_HOST]!r} is no host name")
    if _NUMBER_LIKE.fullmatch(host.rpartition(".")[2]):
        raise ValueError(f"{text!r} is an address in an unusual spelling")
    return host


def _pattern_host(text: str) -> str:
    if text == "*":
        return text
    if text.startswith("*."):
        return f"*.{_plain_host(text[2:])}"
    return _plain_host(text)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if "/" not in text:
        address = parse_address(text)
        return None if address is None else ipaddress.ip_network(address)
    try:
        return ipaddress.ip_network(text, strict=True)
    except ValueError as error:
        raise ValueError(str(error)) from None


# Which addresses are out on the public network, and which lead back to this machine, its neighbours or its
# cloud.

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
