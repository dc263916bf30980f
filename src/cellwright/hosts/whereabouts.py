"""Where a session works on this machine: the place that was asked for, as far as it can be had here, made ready."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from cellwright.errors import KernelStartError
from cellwright.hosts.launchers import Launchers
from cellwright.hosts.options import HostOptions
from cellwright.kernels import Kernel
from cellwright.sandbox.workspace import Place, Shared, prepare_storage, refuse_unhidden, without_overlay

__all__ = ["find_place", "shared_place"]


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
    if found.tier == "C":
        place = without_overlay(place) if place.mode == "overlay" else place
        refuse_unhidden(place)
    prepare_storage(place)
    return place


@contextlib.asynccontextmanager
async def shared_place(kernel: Kernel, place: Place | None, *, boxed: bool) -> AsyncIterator[Shared | None]:
    """A kernel's place, for as long as another one is started in it; None where nothing is confined."""
    if place is None or kernel.line is None:
        yield None
        return
    mount_fd = await kernel.line.share(place.top) if boxed else -1
    try:
        # In a box its place is its user's, whoever has the files outside. Without one its sockets tell: the first
        # kernel's of its home, since one that goes on from a checkpoint has a directory that is the host's own.
        owner = os.fstat(mount_fd) if boxed else kernel.home.directory.stat()
        yield Shared(mount_fd, (owner.st_uid, owner.st_gid))
    finally:
        if mount_fd >= 0:
            os.close(mount_fd)
