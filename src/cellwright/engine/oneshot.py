"""One-shot sessions: a kernel and a directory of its own for one run, and no notebook that anybody sees.

What runs in one, what it finds in its directory and what is kept of it is the caller's business (see ``tools.scripts``).
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from cellwright.engine.context import Services
from cellwright.engine.hidden_sessions import Unseen
from cellwright.engine.limits import checked_narrowing
from cellwright.engine.records import SessionRecord
from cellwright.engine.session import Session
from cellwright.notebook import Document
from cellwright.notebook.languages import canonical_language
from cellwright.sandbox.policy import Narrowing

__all__ = ["OneShots", "script_cell"]

_SCRIPT_CELL = (
    "__import__('cellwright_kernel.scripts', fromlist=['run']).run(get_ipython(), {!r}, {!r}, {!r})\n"
)


def script_cell(runtime: str, source: str, name: str, argv: tuple[str, ...] = ()) -> str | None:
    """What a kernel is given to run a script; the execution's ``exit_code`` is then the script's.

    None where kernels of this runtime know no scripts.
    """
    match runtime:
        case "python":
            return _SCRIPT_CELL.format(source, name, argv)
        case "deno":
            return f"__cellwright_script__({json.dumps([source, name, argv])})"
        case _:
            return None


class OneShots:
    """Makes and removes them. Belongs to the engine, whose sessions these are."""

    def __init__(self, services: Services, unseen: Unseen) -> None:
        self._services = services
        self._unseen = unseen
        self._turns = _Turns()
        # Each has a kernel of its own, beside those that max_sessions allows. Whoever comes later waits.
        self._room = anyio.Semaphore(services.options.max_runs)

    @asynccontextmanager
    async def open(
        self,
        language: str,
        *,
        directory: Path | None = None,
        limits: Narrowing | None = None,
        alone_in: str | None = None,
    ) -> AsyncIterator[Session]:
        """A session with an empty directory and no kernel yet.

        What is put into its directory before it first runs something is there then. Its interpreter is the one of
        sessions in ``directory``. Of those that name the same path ``alone_in`` which they are, or one above or below
        it, one is there at a time.

        Raises:
            LimitReached: ``limits`` asks for more than the settings allow.
        """
        options = self._services.options
        limits, language = checked_narrowing(options.policy, limits), canonical_language(language)
        # In this order: who waits for a turn takes no room meanwhile.
        async with self._turns.of(alone_in), self._room:
            record = self._new_record(language, directory or options.root, limits)
            async with self._unseen.open(record, Document.new(language=language)) as session:
                yield session

    def release(self, session: Session) -> None:
        """Have the caller not wait until the session is removed: its run is over, and its files are elsewhere."""
        self._unseen.release(session)

    async def settled(self) -> None:
        """Wait until all that were released are removed."""
        await self._unseen.settled()

    def _new_record(self, language: str, directory: Path, limits: Narrowing | None) -> SessionRecord:
        storage, session_id = self._services.options.storage, self._unseen.new_id()
        wanted = self._services.hosts.wanted(None)
        return SessionRecord(
            id=session_id,
            name="run",
            # In its own directory, where nobody comes across it; it is not even written.
            path=str(storage / "sessions" / session_id / "run.ipynb"),
            language=language,
            created_at=time.time(),
            cwd=str(directory),
            mode="private",
            limits=limits or None,
            # Files are here, and a server has none of them.
            host="local" if wanted.kind == "jupyter" else str(wanted),
            once=True,
        )


class _Turns:
    """Who works where: one at a time in a directory and all below it."""

    def __init__(self) -> None:
        self._taken: list[tuple[str, ...]] = []
        self._freed = anyio.Condition()

    @asynccontextmanager
    async def of(self, path: str | None) -> AsyncIterator[None]:
        """Wait until nobody works there, and work there."""
        if path is None:
            yield
            return
        names = tuple(name for name in path.split("/") if name not in ("", "."))
        async with self._freed:
            while any(_meet(names, other) for other in self._taken):
                await self._freed.wait()
            self._taken.append(names)
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._freed:
                    self._taken.remove(names)
                    self._freed.notify_all()


def _meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]
