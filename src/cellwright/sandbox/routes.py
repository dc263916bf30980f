"""The way from a name to a connection that the rules permit: judged, looked up once, judged again, connected to.

The one guard of everything that leaves for the network: the proxy of sessions (``egress``) and what is fetched on the
host's side go through here. Carries nothing (see relay).
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio

from cellwright.sandbox.addresses import Address, parse_address
from cellwright.sandbox.destinations import Destination, NetworkRules
from cellwright.sandbox.relay import Cut, EgressLimits
from cellwright.sandbox.wires import Wire, connect_to

__all__ = ["Resolver", "connected", "permitted", "system_resolver"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


async def system_resolver(host: str, port: int) -> list[Address]:
    """The addresses that this machine's resolver gives for a name, in its order."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = (parse_address(str(entry[4][0])) for entry in found)
    return list(dict.fromkeys(address for address in addresses if address is not None))


async def permitted(
    destination: Destination, rules: NetworkRules, limits: EgressLimits, resolve: Resolver
) -> list[Address]:
    """The addresses of a destination that may be connected to.

    Raises:
        Cut: there are none, with the reason.
    """
    refusal = rules.refuse_name(destination)
    if refusal is not None:
        raise Cut.refused(refusal)
    literal = destination.address
    addresses = [literal] if literal else await _look_up(destination, limits, resolve)
    allowed = []
    for address in addresses:
        verdict = rules.refuse_address(destination, address)
        if verdict is None:
            allowed.append(address)
        else:
            refusal = refusal or verdict
    if not allowed and refusal is not None:
        raise Cut.refused(refusal)
    return allowed


async def connected(addresses: Sequence[Address], destination: Destination, limits: EgressLimits) -> Wire:
    """A connection to the first of these addresses that answers.

    Raises:
        Cut: none does.
    """
    told = "nobody answered"
    for address in addresses:
        try:
            with anyio.fail_after(limits.connect_timeout_s):
                # An address, never the name again: a second lookup could answer differently.
                return await connect_to(address, destination.port)
        except TimeoutError:
            told = f"no answer within {limits.connect_timeout_s:g} s"
        except OSError as error:
            told = str(error)
    raise Cut.failed(502, f"{destination} cannot be reached: {told}", "Check that it is up")


async def _look_up(destination: Destination, limits: EgressLimits, resolve: Resolver) -> Sequence[Address]:
    try:
        with anyio.fail_after(limits.connect_timeout_s):
            found = await resolve(destination.host, destination.port)
    except (OSError, TimeoutError):
        found = []
    if not found:
        raise Cut.failed(502, f"no address was found for {destination.host}", "Check the host's name")
    # Never an unbounded row of attempts, whatever a name server answers.
    return list(found)[: limits.max_addresses]
