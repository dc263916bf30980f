"""Checks of a notebook's types, one at a time, beside whatever its kernels do. How one is made is ``kernels.checking``'s."""

from __future__ import annotations

from pathlib import Path

import anyio

from cellwright.hosts.launchers import Launchers
from cellwright.hosts.protocol import CheckTypes, Diagnostic, HostOptions
from cellwright.hosts.whereabouts import find_place
from cellwright.kernels import KernelLaunch, OutputLimits

__all__ = ["TypeChecks"]


class TypeChecks:
    """All checks of one host."""

    def __init__(self, launchers: Launchers, runtime: Path) -> None:
        self._launchers = launchers
        self._runtime = runtime
        # Each takes a processor for a second, and cells come first.
        self._limiter = anyio.CapacityLimiter(1)

    async def check(self, request: CheckTypes, options: HostOptions, directory: Path) -> list[Diagnostic]:
        """What is wrong with the types of a notebook's cells; ``directory`` is made, and gone afterwards.

        Raises:
            KernelError: the check did not get through.
            TimeoutError: it took too long.
        """
        place = await find_place(request.place, options, self._launchers, self._runtime)
        launch = KernelLaunch(
            kernel_id="",
            directory=directory,
            cwd=Path(place.cwd if place is not None else request.cwd),
            environment={},
            limits=OutputLimits(options.max_output_bytes, options.max_output_messages),
            place=place,
            policy=request.policy,
        )
        checker = await self._launchers.type_checker(options)
        async with self._limiter:
            return await checker.check(launch, request.cells, request.tsconfig)
