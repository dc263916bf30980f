"""A grid over the table that a cell showed: asks the live kernel for its columns, rows, figures and files.

Only the rows that a page shows leave the kernel. No kernel is started for a grid: where the kernel is gone the grid is
refused, and where it runs a cell the grid waits.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from cellwright.engine._context import SessionContext
from cellwright.engine.kernel import SessionKernel
from cellwright.errors import KernelError, KernelGone

__all__ = ["GridColumn", "GridFigures", "GridHead", "GridRows", "SessionGrids", "ShownTable"]

GRID_REQUEST = "cellwright_grid_request"
# A million texts are sorted within seconds; a larger frame takes its time.
_TIMEOUT_S = 120.0

FileFormat: TypeAlias = Literal["csv", "parquet"]
T = TypeVar("T")


class ShownTable(msgspec.Struct, frozen=True):
    """A table in a cell's outputs."""

    run: int
    """The number that the cell ran under."""
    digest: str | None = None
    """The kernel's mark of a table that ``display()`` showed; None for the cell's result."""


class GridColumn(msgspec.Struct, frozen=True):
    name: str
    kind: str
    dtype: str
    index: bool = False
    """Whether it names the rows."""


class GridHead(msgspec.Struct, frozen=True):
    """What a grid begins with."""

    type: str
    columns: tuple[GridColumn, ...]
    width: int
    """How many columns there are; only the first are shown."""
    total: int
    runs: int
    """How many cells had run: after another one the frame may be a different one."""
    digests: tuple[str, ...] = ()
    """Changes when the table is no longer the one that was shown."""
    name: str | None = None
    """The variable that code knows it by."""


class GridRows(msgspec.Struct, frozen=True):
    start: int
    found: int
    """How many rows the filters leave."""
    rows: tuple[tuple[Any, ...], ...]
    total: int
    runs: int


class GridFigures(msgspec.Struct, frozen=True):
    """The figures over all values of a column, for its head."""

    missing: int
    least: Any = None
    most: Any = None
    bars: tuple[int, ...] = ()
    distinct: int | None = None
    common: tuple[tuple[str, int], ...] = ()


class _Part(msgspec.Struct, frozen=True):
    text: str
    runs: int
    next: int | None = None


class SessionGrids:
    """The grids of one session."""

    def __init__(self, session: SessionContext, kernel: SessionKernel) -> None:
        self._session = session
        self._kernel = kernel

    async def head(self, table: ShownTable) -> GridHead:
        """The columns and the size of the table that a cell showed.

        Raises:
            KernelBusy: a cell is running.
            KernelGone: there is no kernel that has it.
            KernelError: the table is gone from the kernel.
        """
        return await self._ask(table, {"want": "open"}, GridHead)

    async def rows(
        self,
        table: ShownTable,
        *,
        start: int,
        count: int,
        sort: tuple[str, bool] | None = None,
        filters: tuple[tuple[str, str], ...] = (),
    ) -> GridRows:
        """Some rows, of those that the filters leave, by the order of a column."""
        request = {"want": "rows", "start": start, "count": count, "sort": sort or (), "filters": filters}
        return await self._ask(table, request, GridRows)

    async def figures(self, table: ShownTable, column: str) -> GridFigures:
        """What a column holds, counted over all rows."""
        return await self._ask(table, {"want": "column", "name": column}, GridFigures)

    async def file(
        self, table: ShownTable, format: FileFormat
    ) -> AsyncIterator[bytes]:  # what people call it
        """The whole table as a file, part by part.

        Raises:
            KernelError: another cell ran meanwhile: the parts would not belong together.
        """
        start: int | None = 0
        runs: int | None = None
        while start is not None:
            part = await self._ask(table, {"want": format, "start": start}, _Part)
            if runs is not None and part.runs != runs:
                raise KernelError("A cell ran while the table was written", hint="Take it once more")
            runs, start = part.runs, part.next
            yield part.text.encode() if format == "csv" else base64.b64decode(part.text)

    async def _ask(self, table: ShownTable, content: dict[str, Any], kind: type[T]) -> T:
        if self._session.record.kernel_id is None:
            raise KernelGone("The kernel that has this table is gone", hint="Run the cell again")
        reply = await self._kernel.ask(
            GRID_REQUEST, {"run": table.run, "digest": table.digest, **content}, timeout_s=_TIMEOUT_S
        )
        if reply.get("status") != "ok":
            is_gone = reply.get("ename") == "LookupError"
            hint = "Run the cell again" if is_gone else "Change the filter, the order or the format"
            raise KernelError(f"The table cannot be shown so: {reply.get('evalue')}", hint=hint)
        try:
            return msgspec.convert(reply, kind)
        except msgspec.ValidationError as error:
            # What runs in a kernel can change what it answers.
            raise KernelError(f"The kernel's answer about the table cannot be read: {error}") from error
