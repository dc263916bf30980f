"""``cellwright review``: what makes a notebook slow, and cells that do the same faster; in an engine of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio

from cellwright.cli._arguments import Argument, Exit, Option
from cellwright.cli._flags import UnsafeOption
from cellwright.cli._session_names import existing_file
from cellwright.cli._terminal import ExitCode, ProgressLine, echo, show_error
from cellwright.errors import CellwrightError, NotebookError

if TYPE_CHECKING:
    from cellwright.review import Hint, Review

__all__ = ["review"]

_HEAD = ("cell", "line", "hint", "now", "after", "speed-up")
_ALL = "all"
_KIB = 1024


@dataclass(frozen=True, slots=True)
class _Request:
    """What a person asked for."""

    notebook: Path
    min_seconds: float
    timeout_s: float | None
    apply: tuple[str, ...]
    unsafe: bool
    models: tuple[str, ...]


def review(  # a command's options
    notebook: Annotated[Path, Argument(help="The notebook to look into.", metavar="NOTEBOOK.ipynb")],
    top: Annotated[int, Option(min=1, help="How many hints to show, the dearest first.")] = 10,
    min_seconds: Annotated[float, Option(min=0, help="Leave out what costs less.")] = 0.1,
    apply: Annotated[
        list[str] | None,
        Option(metavar="CELL|all", help="Rewrite a cell, by its number or id; may be repeated."),
    ] = None,
    timeout: Annotated[
        float | None,
        Option(min=0.001, help="Seconds a cell may run. [default: the setting cell_timeout_s]"),
    ] = None,
    model: Annotated[
        list[str] | None, Option(help="Ask this model where no rule has a faster cell; as in ask.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
    unsafe: UnsafeOption = False,
) -> None:
    """Measure a notebook's cells and try faster ones. Exits 0, with hints or without; 1 if a cell failed."""
    from cellwright.review import data_of  # other commands do without the engine

    try:
        request = _Request(notebook, min_seconds, timeout, tuple(apply or ()), unsafe, tuple(model or ()))
        found, applied = anyio.run(_review, request)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.ENGINE_FAILED) from None
    except KeyboardInterrupt:
        echo("interrupted: nothing is left of it, and the notebook is as it was", err=True)
        raise Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        echo(json.dumps({**data_of(found, top=top), "applied": applied}, ensure_ascii=False))
    else:
        _show(found, top, applied)
    raise Exit(ExitCode.OK if found.reason is None else ExitCode.RUN_FAILED)


async def _review(request: _Request) -> tuple[Review, list[str]]:
    from cellwright.assembly import open_engine
    from cellwright.daemon.advisers import open_adviser  # as above
    from cellwright.review import apply_rewrites, review

    source = existing_file(request.notebook)
    flags: dict[str, Any] = {"unsafe_no_sandbox": True} if request.unsafe else {}
    from cellwright.settings import load_settings  # most commands do without pydantic

    settings = load_settings(root=source.parent, standby_kernels=1, host_idle_s=5, max_sessions=2, **flags)
    async with (
        open_adviser(request.models, os.environ, settings) as adviser,
        open_engine(settings, ephemeral=True) as engine,
    ):
        session = await engine.open(source, mode="direct")
        if session.banner is not None:
            echo(session.banner, err=True)
        with ProgressLine() as line:

            async def tell(message: str) -> None:
                if line.wanted:
                    await line.tell(0, None, message)

            found = await review(
                engine,
                session,
                min_seconds=request.min_seconds,
                timeout_s=request.timeout_s,
                adviser=adviser,
                tell=tell,
            )
        chosen = _chosen(found, request.apply)
        return found, await apply_rewrites(session, found, chosen) if chosen else []


def _chosen(found: Review, wanted: Sequence[str]) -> list[str]:
    """The cells that were named, by id."""
    if _ALL in wanted:
        return list(found.sources)
    ids = {str(cell.number): cell.cell_id for cell in found.cells}
    known = {*ids.values()}
    for name in wanted:
        if name not in ids and name not in known:
            raise NotebookError(f"No cell {name!r} has run", hint="Name it by its number, as the table does")
    return [ids.get(name, name) for name in wanted]


# What people see -----------------------------------------------------------------------------------------------------


def _show(found: Review, top: int, applied: Sequence[str]) -> None:
    shown = found.hints[:top]
    if shown:
        _table([_HEAD, *(_row(hint) for hint in shown)])
    for hint in shown:
        _explain(hint)
    if len(found.hints) > top:
        echo(f"{len(found.hints) - top} more; --top shows them", err=True)
    if found.reason is not None:
        echo(f"error: {found.reason}", err=True)
    ran, slowest = len(found.cells), max(found.cells, key=lambda cell: cell.seconds, default=None)
    told = f"{ran} of {found.total} cells ran in {_time(found.seconds)}"
    if slowest is not None:
        memory = max((cell.memory_bytes or 0 for cell in found.cells), default=0)
        told += f", cell {slowest.number} the slowest with {_time(slowest.seconds)}, {_size(memory)} at most on top"
    echo(f"{told}; {len(found.hints)} hint{'s' * (len(found.hints) != 1)}", err=True)
    if applied:
        echo(f"rewritten: {', '.join(applied)}", err=True)
    elif found.sources:
        numbers = [str(cell.number) for cell in found.cells if cell.cell_id in found.sources]
        echo(f"the notebook is unchanged; --apply {numbers[0]} or --apply all rewrites it", err=True)


def _row(hint: Hint) -> tuple[str, ...]:
    offer = hint.offer
    now = _time(offer.before_s) if offer is not None else _time(hint.seconds)
    after, gain = (_time(offer.after_s), f"{offer.speedup:.3g}x") if offer is not None else ("", "")
    return (str(hint.number), str(hint.line), hint.kind, now, after, gain)


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[place]) for row in rows) for place in range(len(_HEAD))]
    for row in rows:
        cells = [
            text.ljust(width) if name == "hint" else text.rjust(width)
            for text, width, name in zip(row, widths, _HEAD, strict=True)
        ]
        echo("  ".join(cells).rstrip())


def _explain(hint: Hint) -> None:
    times = f", {hint.hits:,} times" if hint.hits > 1 else ""
    where = f" (run by cell {hint.ran_in})" if hint.ran_in != hint.number else ""
    echo(f"\ncell {hint.number}, line {hint.line}{where}: {hint.what}{times}")
    echo(f"  {_time(hint.seconds)}, {hint.share:.0%} of the cell. {hint.why}")
    offer = hint.offer
    if offer is None:
        if hint.seen:
            echo(f"  Not rewritten: {hint.seen}")
        return
    same = f"the same outputs and {offer.compared} variables"
    unseen = f" (not compared: {', '.join(offer.unseen)})" if offer.unseen else ""
    echo(f"  Tried {offer.rounds} times each in a branch: {same}{unseen}")
    for line in offer.diff.splitlines():
        echo(f"  {line}")


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1_000:.3g} ms"


def _size(size: int) -> str:
    return f"{size / _KIB / _KIB:,.0f} MiB"
