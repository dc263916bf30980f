"""How often one host is asked: a few requests at once, then one every so often. Polite, and no wall."""

from __future__ import annotations

from collections import OrderedDict

import anyio

from cellwright.errors import FetchRefused

__all__ = ["HostPace", "next_turn"]

BURST = 4
"""Requests to a host that need not wait."""

_MOST_HOSTS = 1_000


def next_turn(due: float, now: float, interval_s: float) -> tuple[float, float]:
    """How long a request waits for its turn, and when the next one is due; ``due`` is what the last one was told."""
    due = max(due, now)
    return max(0.0, due - now - (BURST - 1) * interval_s), due + interval_s


class HostPace:
    """Who has to wait for a turn with which host."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._due: OrderedDict[str, float] = OrderedDict()

    async def turn(self, host: str, *, until: float) -> None:
        """Wait until the host may be asked.

        Raises:
            FetchRefused: that would be too late.
        """
        now = anyio.current_time()
        wait_s, due = next_turn(self._due.get(host, now), now, self._interval_s)
        if wait_s and now + wait_s >= until:
            raise FetchRefused(
                f"{host} was asked too often: the next turn is in {wait_s:.0f} s",
                hint="Wait, or have the operator lower `fetch_interval_s`",
                setting="fetch_interval_s",
            )
        self._due[host] = due
        self._due.move_to_end(host)
        if len(self._due) > _MOST_HOSTS:
            self._due.popitem(last=False)
        if wait_s:
            await anyio.sleep(wait_s)
