"""``cellwright tutorial``: three notebooks that teach by doing, opened on the page, or else in the terminal.

They are shipped as Markdown, which people can read and change, and become notebooks in the folder where they are tried.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

from cellwright.cli._arguments import Option
from cellwright.cli._flags import WorkMode
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._terminal import AsJson, fail, note, show_data, table
from cellwright.errors import CellwrightError, NotebookError

__all__ = ["tutorial"]

_SHIPPED = Path(__file__).with_name("tutorial")
_FOLDER = Path("cellwright-tutorial")


def tutorial(
    no_open: Annotated[bool, Option("--no-open", help="Open no browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Open three notebooks that teach by doing: a first one, an agent beside you, checkpoints and branches.

    They go into cellwright-tutorial/; what is there already stays as it is, so that you can go on another day.
    """
    try:
        files = _written(_FOLDER.absolute())
    except CellwrightError as error:
        fail(error)
    opened = call_daemon(lambda caller: _opened(caller, files), doing="opening the notebooks")
    rows = [(session, Path(path).stem) for session, path in opened.items()]
    show_data({"sessions": opened}, table(("SESSION", "NOTEBOOK"), rows), as_json=as_json)
    note(f"in {_FOLDER}/")
    first = next(iter(opened))
    if importlib.util.find_spec("jinja2") is None:
        note(
            f"Begin with `cellwright show {first}` and `cellwright exec {first}`. `pip install 'cellwright[web]'`, or "
            "uvx 'cellwright[web]' tutorial, shows them as pages"
        )
    elif not as_json:
        from cellwright.cli._serve import ui  # without the extra there is no page

        ui(first, no_open=no_open)


def _written(folder: Path) -> list[Path]:
    """Write the notebooks that are not there yet; all of them, in their order.

    Raises:
        NotebookError: the folder cannot be written.
    """
    from cellwright import formats  # other commands do without formats

    files = []
    try:
        folder.mkdir(exist_ok=True)
        for source in sorted(_SHIPPED.glob("*.md")):
            file = folder / f"{source.stem}.ipynb"
            files.append(file)
            if not file.exists():
                imported = formats.read(source.read_bytes(), name=source.name, format="markdown")
                file.write_bytes(imported.document.to_bytes())
    except OSError as error:
        raise NotebookError(
            f"{error.filename or folder} cannot be written: {error.strerror}",
            hint="Call `cellwright tutorial` in a folder that you may write to",
        ) from error
    return files


async def _opened(caller: Caller, files: list[Path]) -> dict[str, str]:
    """A session for each file, with its path."""
    found: dict[str, str] = {}
    for file in files:
        opened: dict[str, Any] = await caller.data(
            "notebook_open", path=str(file), mode=WorkMode.DIRECT.value
        )
        found[opened["session_id"]] = opened["path"]
    return found
