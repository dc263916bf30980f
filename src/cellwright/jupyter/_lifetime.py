"""The life of a kernel on a Jupyter server: what ends it, what is told then, and what is done about it there.

There is no process of ours to signal. That it lives is asked by ``_rest`` every few seconds and heard over ``_channels``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import anyio

from cellwright.jupyter._rest import Api, ServerRefused
from cellwright.kernels.processes import Exit, Lifetime
from cellwright.sandbox.exit_reasons import LimitHit

__all__ = [
    "RemoteKernel",
    "RemoteLifetime",
    "culled",
    "ended_there",
    "restarted_there",
    "silent",
    "stopped",
    "unreachable",
]

BEAT_S = 15.0
# A server waits five seconds for a kernel to end by itself before it kills it.
END_S = 20.0
_ASK_AGAIN_S = 0.2
_FAILED = 500
EMPTY = "Run the cells again: the next one starts an empty kernel there"


@dataclass(frozen=True, slots=True)
class RemoteKernel:
    """A kernel on a server, and whose it is."""

    api: Api
    kernel_id: str
    ours: bool
    """Whether we started it, so that it ends with us."""


class RemoteLifetime(Lifetime):
    """The lifetime of one kernel on a Jupyter server."""

    def __init__(self, tenancy: RemoteKernel) -> None:
        super().__init__(pid=0)
        self.tenancy = tenancy
        self._over = anyio.Event()
        self._told: Exit | None = None

    async def watch(self) -> None:
        """Notice the end, or bring it about; explain it."""
        try:
            async with anyio.create_task_group() as looking:
                looking.start_soon(self._beat)
                await self._over.wait()
                looking.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                self._exit = await self._leave()
            self._ended.set()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or is about to be ended."""
        return self._over.is_set()

    def told(self, end: Exit) -> None:
        """It was heard that it has ended."""
        self._told = self._told or end
        self._over.set()

    def kill_tree(self, reason: str | LimitHit) -> None:
        """End it there where it is ours, let it go where it is somebody else's; the reason is told."""
        if not self._over.is_set():
            self._killed_by_us = self._killed_by_us or str(reason)
            self._over.set()

    async def look(self) -> None:
        """Ask whether it is still there."""
        name, is_stopped = self.tenancy.api.name, self.tenancy.api.is_stopped
        try:
            model = await self.tenancy.api.kernel(self.tenancy.kernel_id)
        except ServerRefused:
            # Anything else may pass; how long it lasts is seen by whoever holds the connection.
            if is_stopped is not None and await is_stopped():
                self.told(stopped(name))
            return
        if model is None:
            self.told(culled(name))
        elif model.get("execution_state") == "dead":
            self.told(ended_there(name, str(model.get("reason") or "")))

    async def _beat(self) -> None:
        """Look now and then: not every kernel says so when it ends."""
        while True:
            await anyio.sleep(BEAT_S)
            await self.look()

    async def _leave(self) -> Exit:
        tenancy, end = self.tenancy, self._told
        if end is not None and end.cause in ("culled", "unreachable"):
            return end
        # What does not stop is ended, whoever looks on; else one that others work on as well goes on without us.
        forced = end is None and not self.end_expected
        if not tenancy.ours or (not forced and await self._is_shared()):
            return end or _let_go(self._killed_by_us, tenancy.api.name)
        problem = await self._end_there()
        if end is None:
            return _killed(self._killed_by_us, problem)
        return replace(end, message=end.message + problem)

    async def _is_shared(self) -> bool:
        try:
            model = await self.tenancy.api.kernel(self.tenancy.kernel_id)
        except ServerRefused:
            return False
        return model is not None and int(model.get("connections") or 0) > 1

    async def _end_there(self) -> str:
        """End it, and say what became of that where it did not work."""
        problem = f"; its server did not say within {END_S:g} s that it has ended"
        with anyio.move_on_after(END_S):
            while True:
                try:
                    await self.tenancy.api.end_kernel(self.tenancy.kernel_id)
                except ServerRefused as error:
                    problem = f"; it may live on there: {error.message}"
                    if (error.status or 0) < _FAILED:
                        return problem
                    # A server says that one has died before it starts it again, and fails to end it meanwhile.
                    await anyio.sleep(_ASK_AGAIN_S)
                else:
                    return ""
        return problem


def culled(server: str) -> Exit:
    """The server no longer has it."""
    message = (
        f"The Jupyter server {server!r} no longer has the kernel: "
        "it was culled as idle, or somebody shut it down, and its variables went with it"
    )
    step = f"{EMPTY}. How long idle kernels are kept is the server's cull_idle_timeout"
    return Exit(None, None, "culled", message, step)


def stopped(server: str) -> Exit:
    """Its hub has stopped the whole server."""
    message = f"The hub stopped the Jupyter server {server!r}, as it does with idle ones, and its kernels went with it"
    return Exit(None, None, "culled", message, f"{EMPTY}, once the hub has started the server again")


def ended_there(server: str, reason: str = "") -> Exit:
    """Its process ended by itself."""
    more = f" ({reason})" if reason else ""
    message = f"The kernel's process on the Jupyter server {server!r} died{more}, and its variables with it"
    step = (
        f"{EMPTY}; look for os._exit, a crash in native code, or more memory than the server gives a kernel"
    )
    return Exit(None, None, "exit", message, step)


def restarted_there(server: str) -> Exit:
    """It was restarted, and not by us."""
    message = (
        f"The kernel on the Jupyter server {server!r} was restarted, by somebody or because it had died, "
        "and its variables are gone"
    )
    return Exit(None, None, "killed", message, "Run the cells again")


def unreachable(server: str, seconds: float, why: str) -> Exit:
    """Nobody can be asked any more; it may well live."""
    message = f"The Jupyter server {server!r} could not be reached for {seconds:.0f} s: {why}"
    step = (
        "The kernel may live on there: go on when the server is back, and it is found again with its state. "
        "How long is waited is the setting jupyter_unreachable_s"
    )
    return Exit(None, None, "unreachable", message, step)


def silent(seconds: float) -> Exit:
    """One that was there before does not answer: it may only be busy."""
    message = f"It is there and did not answer within {seconds:g} s; it goes on there, with whatever runs"
    step = "Try again when that is done, or restart the session, which empties the kernel"
    return Exit(None, None, "unreachable", message, step)


def _killed(reason: str | None, problem: str) -> Exit:
    message = f"The kernel was ended: {reason or 'whoever started it let it go'}{problem}"
    return Exit(None, None, "killed", message, "Run the cells again in a new kernel")


def _let_go(reason: str | None, server: str) -> Exit:
    message = (
        f"The kernel was let go: {reason or 'nobody needs it here any more'}; it is not ours alone and goes on "
        f"on the Jupyter server {server!r}, with whatever runs there"
    )
    return Exit(None, None, "killed", message, "Attach to it again, or start one of your own")
