"""One face for each dialect in use, made when first asked for."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import anyio.abc

from cellwright.engine import Engine
from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from cellwright.mcp import Face
    from cellwright.plans import Planner
    from cellwright.verification import Verifier

__all__ = ["Faces", "UnknownDialect"]


class UnknownDialect(CellwrightError):
    code = "unknown_dialect"


class Faces:
    """Owns the faces of one engine and what they do in the background."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._faces: dict[str | None, Face] = {}
        self._planner: Planner | None = None
        self._verifier: Verifier | None = None
        self._making = anyio.Lock()
        self._tasks = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(exc_type, exc, traceback)

    async def of(self, dialect: str | None) -> Face:
        """The face that speaks a dialect.

        Raises:
            UnknownDialect: there is no such dialect.
        """
        from cellwright.mcp import DIALECTS, Face  # noqa: PLC0415  # the SDK takes a second to import
        from cellwright.plans import Planner  # noqa: PLC0415  # as above
        from cellwright.verification import Verifier  # noqa: PLC0415  # as above

        if dialect is not None and dialect not in DIALECTS:
            raise UnknownDialect(
                f"There is no dialect {dialect!r}", hint=f"Choose one of: {', '.join(DIALECTS)}"
            )
        async with self._making:
            if dialect not in self._faces:
                self._planner = self._planner or Planner(self._engine)
                self._verifier = self._verifier or Verifier(self._engine)
                face = Face(self._engine, planner=self._planner, verifier=self._verifier, dialect=dialect)
                await self._tasks.start(_run, face)
                self._faces[dialect] = face
        return self._faces[dialect]


async def _run(face: Face, *, task_status: anyio.abc.TaskStatus[None]) -> None:
    await face.run(task_status=task_status)
