"""The grid over a table that a cell showed: what its script asks for, its files, and the chart that it writes a cell for.

The kernel answers, through the session; a preview in the page's HTML stays where no kernel has the table any more.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import msgspec
from starlette.responses import Response, StreamingResponse

from cellwright.engine import Session
from cellwright.engine.grids import GridColumn, GridHead, ShownTable
from cellwright.engine.shown_tables import digest_of, may_have_grid, shown_table
from cellwright.errors import KernelBusy, KernelGone, UnknownCell
from cellwright.notebook import Cell
from cellwright.notebook.languages import cell_metadata
from cellwright.web.requests import PageRequest, action, answer, attachment, page

__all__ = ["ROUTES", "chart_code"]

_MOST_ROWS = 1_000
_MOST_FILTERS = 20
_NUMBER = re.compile(r"\d{1,12}")


async def _head(request: PageRequest) -> Response:
    session, cell, number, table = _asked(request)
    head = await session.grids.head(table)
    told = msgspec.to_builtins(head)
    shown = digest_of(cell.outputs[number])
    # Of a table without a digest nobody can tell.
    told["changed"] = shown is not None and shown not in head.digests
    del told["digests"]
    return answer(told)


async def _rows(request: PageRequest) -> Response:
    session, _, _, table = _asked(request)
    query = request.http.query_params
    order = query.get("sort", "")
    found = await session.grids.rows(
        table,
        start=_whole(query.get("start", "0")),
        count=min(_whole(query.get("count", "100")), _MOST_ROWS),
        sort=(order[1:], order[0] == "-") if order else None,
        filters=_filters(query.get("filters", "")),
    )
    return answer(msgspec.to_builtins(found))


def _whole(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _filters(text: str) -> tuple[tuple[str, str], ...]:
    """The filters of columns by their names, as the script writes them; what is none is left out."""
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return ()
    pairs = found.items() if isinstance(found, dict) else ()
    return tuple((name, str(wanted)[:200]) for name, wanted in list(pairs)[:_MOST_FILTERS])


async def _figures(request: PageRequest) -> Response:
    session, _, _, table = _asked(request)
    figures = await session.grids.figures(table, request.http.query_params.get("column", ""))
    return answer(msgspec.to_builtins(figures))


async def _file(request: PageRequest) -> Response:
    """The whole table. Its first part is had before anything is answered, so that what goes wrong is said."""
    session, cell, _, table = _asked(request)
    wanted = "parquet" if request.http.path_params["format"] == "parquet" else "csv"
    head = await session.grids.head(table)
    parts = session.grids.file(table, "parquet" if wanted == "parquet" else "csv")
    first = await anext(parts)

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for part in parts:
            yield part

    name = f"{head.name or f'{session.name}-{cell.id}'}.{wanted}"
    return StreamingResponse(whole(), media_type="application/octet-stream", headers=attachment(name))


async def _chart(request: PageRequest) -> Response:
    """Write a cell below that draws a column, and run it."""
    session, cell, _, table = _asked(request)
    head = await session.grids.head(table)
    name = (await request.form()).get("column", "")
    column = next((one for one in head.columns if one.name == name), None)
    if column is None:
        raise UnknownCell(f"The table has no column {name!r}", hint="Open it again: it has changed")
    metadata = cell_metadata(language="python") if session.language != "python" else None
    if head.name is None and table.digest is not None:
        raise KernelGone(
            "The table has no name that code could draw it by", hint="Give it one, and display that"
        )
    position = session.document.index(cell.id) + 1
    added = await session.add_cell(chart_code(head, column, table), position=position, metadata=metadata)
    await session.execute(added.id)
    return request.done("The chart is in a cell of its own, below", go=f"#cell-{added.id}")


def chart_code(head: GridHead, column: GridColumn, shown: ShownTable) -> str:
    """Code that draws one column: numbers by how often they are, times as a line, else the commonest values."""
    table, name = head.name or f"Out[{shown.run}]", column.name
    value = next((one.name for one in head.columns if one.kind == "number" and not one.index), None)
    counted = _counted(head, column, table)
    if column.kind == "number":
        lines = [f"show({table}, 'histogram', x={name!r}, title={name!r})"]
    elif column.kind == "time" and value is not None:
        lines = [f"show({table}, 'line', x={name!r}, y={value!r}, title={f'{value} by {name}'!r})"]
    elif counted is not None:
        lines = [f"counts = {counted}", f"show(counts, 'bar', x={name!r}, y='count', title={name!r})"]
    else:
        lines = [f"show({table})"]
    return "\n".join(["from cellwright_kernel import show", "", *lines])


def _counted(head: GridHead, column: GridColumn, table: str) -> str | None:
    """An expression for how often each value is in a column; None where the library has none."""
    name = column.name
    if column.index:
        return f"{table}.index.get_level_values({name!r}).value_counts().head(20)"
    match head.type:
        case "pandas.DataFrame":
            return f"{table}[{name!r}].value_counts().head(20)"
        case "pandas.Series":
            return f"{table}.rename({name!r}).value_counts().head(20)"
        case "polars.DataFrame":
            return f"{table}[{name!r}].value_counts(sort=True).head(20)"
        case _:
            return None


def _asked(request: PageRequest) -> tuple[Session, Cell, int, ShownTable]:
    """The session, the cell, the output's number and its table that an address names.

    Raises:
        KernelBusy: the cell that displayed it is running.
        KernelGone: no live kernel has the output's table.
    """
    session = request.session()
    cell = session.cell(request.http.path_params["cell_id"])
    number: int = request.http.path_params["number"]
    table = shown_table(session, cell, number)
    if table is None and may_have_grid(session, cell, number):
        raise KernelBusy("The cell that shows this table is running", hint="Wait for its end")
    if table is None:
        raise KernelGone("The kernel no longer has this table", hint="Run the cell again")
    return session, cell, number, table


_GRID = "/sessions/{session_id}/cells/{cell_id}/outputs/{number:int}/grid"

ROUTES = [
    page(_GRID, _head, as_data=True),
    page(f"{_GRID}/rows", _rows, as_data=True),
    page(f"{_GRID}/figures", _figures, as_data=True),
    page(f"{_GRID}/all.{{format}}", _file),
    action(f"{_GRID}/chart", _chart),
]
