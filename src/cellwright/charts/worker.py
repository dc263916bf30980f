"""The process that draws: reads requests from its standard input and answers on its standard output, one by one.

What it is given may be anybody's: it has no network, reads no files but libraries and fonts, writes none, and has
memory up to a limit. It may end at any moment; ``renderer`` starts it again. Run as
``python -m cellwright.charts.worker MEMORY_BYTES``.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import BinaryIO

from cellwright.charts.datafiles import read_table
from cellwright.charts.glyphs import letters_without_font, told_letters
from cellwright.charts.manifests import Output
from cellwright.charts.painting import paint
from cellwright.charts.specguard import check_spec
from cellwright.charts.specs import chart_spec
from cellwright.charts.wire import Build, Draw, Drawn, Failed, Request, framed, read_frame
from cellwright.errors import CellwrightError, ChartRefused
from cellwright_kernel.confinement import confine
from cellwright_kernel.htmltables import html_table
from cellwright_kernel.tables import Table

__all__ = ["main"]

_TOO_LARGE = "There is not enough memory for this chart"


def main() -> None:
    limit = int(sys.argv[1])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no reply
    confine(limit)
    while (request := read_frame(sys.stdin.buffer)) is not None:  # type: ignore[arg-type]  # it is buffered
        _answer(request, replies)


def _answer(request: Request, replies: BinaryIO) -> None:
    try:
        # Millions of values are made and dropped at once: looking for cycles among them takes as long as making them.
        gc.disable()
        reply = framed(_drawn(request) if isinstance(request, Draw) else _built(request))
    except ChartRefused as error:
        reply = framed(Failed(error.code, error.problems))
    except CellwrightError as error:
        reply = framed(Failed(error.code, (error.message,), error.hint))
    except MemoryError:
        reply = framed(Failed("drawing_failed", (_TOO_LARGE,), "Draw fewer rows"))
    except Exception as error:  # noqa: BLE001  # boundary: one chart must not end the process for the others
        reply = framed(Failed("drawing_failed", (f"{type(error).__name__}: {error}",)))
    finally:
        gc.enable()
    replies.write(reply)
    replies.flush()


def _drawn(request: Draw) -> Drawn:
    check_spec(request.spec)
    png = paint(request.spec, theme=request.theme, scale=request.scale, max_width=request.max_width)
    return Drawn(png, request.spec)


def _built(request: Build) -> Drawn:
    output = request.output
    if request.table is not None:
        table = Table.from_wire(request.table)
    else:
        table = _read(output, request.content or b"")
    built = chart_spec(output, table, theme=request.theme)
    png, notices, digest = None, built.notices, built.digest
    if built.vega_lite is not None and request.picture:
        png = paint(built.vega_lite, theme=None, scale=request.scale, max_width=request.max_width)
        if boxes := letters_without_font(built.vega_lite):
            notices, digest = (*notices, told_letters(boxes)), f"{digest}\nnotice: {told_letters(boxes)}"
    html = html_table(built.table, title=output.title) if built.table is not None else None
    return Drawn(png, built.vega_lite, digest, notices, html, built.type)


def _read(output: Output, content: bytes) -> Table:
    try:
        return read_table(content, output.data_file)
    except ChartRefused as error:
        place = f"{output.path}.dataFile: " if output.path else ""
        raise ChartRefused(*(f"{place}{problem}" for problem in error.problems)) from None


if __name__ == "__main__":
    main()
