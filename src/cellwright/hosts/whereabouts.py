"""Where a session works on this machine: the place that was asked for, as far as it can be had here, made ready."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cellwright.errors import KernelStartError
from cellwright.hosts.launchers import Launchers
from cellwright.hosts.options import HostOptions
from cellwright.sandbox.places import Place, without_overlay
from cellwright.sandbox.storage import prepare_storage

__all__ = ["find_place"]


async def find_place(
    wanted: Place | None, options: HostOptions, launchers: Launchers, runtime: Path
) -> Place | None:
    """The place of a session; None where nothing is confined. ``runtime`` is the host's own, and never seen there.

    Raises:
        KernelStartError: what is confined needs a place, and there is none.
    """
    if options.policy is None:
        if wanted is not None and wanted.mode == "private":
            prepare_storage(wanted)
        return None
    if wanted is None:
        raise KernelStartError("A confined kernel needs a place to work in")
    found = await launchers.finding(options)
    place = replace(wanted, hidden=(*wanted.hidden, str(runtime)))
    if place.mode == "overlay" and found.tier == "C":
        place = without_overlay(place)
    prepare_storage(place)
    return place
