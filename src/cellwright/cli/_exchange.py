"""The commands that bring notebooks out and in: a file or a session becomes a file of another format, and back.

Formats are written and read in this process (see formats): the daemon gives and takes whole notebooks, so that
pictures, PDF and files beside a page need no second way through it.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, NoReturn

import anyio

from cellwright import formats
from cellwright.cli._allocations import host_named
from cellwright.cli._arguments import Argument, Exit, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._flags import HostOption
from cellwright.cli._mcp_client import Caller, call_daemon
from cellwright.cli._plugins import let_plugins_in
from cellwright.cli._terminal import AsJson, ExitCode, ProgressLine, echo, note, show_data, show_error
from cellwright.daemon.connect import connect
from cellwright.errors import CellwrightError
from cellwright.notebook import Document, write_atomically

if TYPE_CHECKING:
    from cellwright.formats import Exported, FindFile, Imported

__all__ = ["export_notebook", "import_notebook"]

_WRITTEN = "ipynb, json, markdown, html, pdf, src.md, myst, percent or script."


@dataclass(frozen=True, slots=True)
class _Wanted:
    form: str
    output: Path | None
    outputs: bool


def export_notebook(
    named: Annotated[
        str, Argument(metavar="FILE|SESSION", help="A notebook's file, a session's id or its name.")
    ],
    form: Annotated[str | None, Option("--to", "--format", help=_WRITTEN)] = None,
    output: Annotated[Path | None, Option("-o", "--output", help="Write here, not to stdout.")] = None,
    outputs: Annotated[bool, Option(help="Include what the cells put out.")] = True,
    as_json: AsJson = False,
) -> None:
    """Write a notebook in another format. [default: as the output's name says, else ipynb]"""
    try:
        let_plugins_in()
        wanted = _Wanted(form or _format_told(output), output, outputs)
        binary = formats.format_named(wanted.form).binary
        if output is None and (as_json or sys.stdout.isatty()) and binary:
            _usage(f"{wanted.form} is not text", "Give -o FILE, or send stdout to a file")
        document, name = _found(named)
        with ProgressLine(f"writing {wanted.form}"):
            found = anyio.run(_exported, document, name, wanted)
        if output is not None:
            _write(output, found)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.RUN_FAILED) from error
    _tell(found.notices)
    _show(named, wanted, found, as_json=as_json)


def _format_told(output: Path | None) -> str:
    """The format that the output's name tells; ipynb where it has no suffix, or there is none."""
    if output is None or not output.suffix:
        return "ipynb"
    if (guessed := formats.format_of_file(output.name)) is None:
        _usage(
            f"{output.name!r} tells no format that notebooks are written in",
            f"Give --to one of {', '.join(formats.writable())}, or a name that ends in "
            ".ipynb, .json, .md, .src.md, .html, .pdf or .py",
        )
    return guessed.name


def _found(named: str) -> tuple[Document, str]:
    """The notebook of a file that lies here, unless a session has it open and knows better; else a session's."""
    path = Path(named)
    held = None
    if not path.is_file() or (path.suffix == ".ipynb" and _daemon_runs()):
        held = call_daemon(lambda caller: _fetched(caller, named))
    if held is not None:
        return Document.from_bytes(held[0], name=named), held[1]
    imported = _imported(path, None)
    _tell(imported.notices)
    return imported.document, imported.title or path.name.partition(".")[0]


def _daemon_runs() -> bool:
    """Whether there is anybody to ask; a file needs nobody."""
    connection = connect(daemon_paths())
    if connection is None:
        return False
    connection.close()
    return True


async def _fetched(caller: Caller, named: str) -> tuple[bytes, str] | None:
    """A session's notebook and name; none for a file that no session has open."""
    path = await anyio.to_thread.run_sync(Path(named).resolve)
    listed = (await caller.data("notebook_list", filter="all"))["sessions"]
    about = next((one for one in listed if one["path"] == str(path)), None)
    if about is None and await anyio.to_thread.run_sync(path.is_file):
        return None
    if about is None:
        found = await caller.data("execution_list", session_id=named, limit=1)
        about = next(one for one in listed if one["session_id"] == found["session_id"])
    if about["session_id"] != named:
        note(f"{named} is session {about['session_id']}")
    content = await caller.resource(f"notebook://session/{about['session_id']}/export/ipynb")
    return content.encode(), str(about["notebook"])


async def _exported(document: Document, name: str, wanted: _Wanted) -> Exported:
    from cellwright.formats.renderer import PAGES, render  # other commands do without formats

    if wanted.form in PAGES:
        return await render(document, name=name, format=wanted.form, include_outputs=wanted.outputs)
    directory = f"{wanted.output.stem}_files" if wanted.output is not None else None
    return formats.export(
        document, name=name, format=wanted.form, include_outputs=wanted.outputs, files_at=directory
    )


def _write(output: Path, found: Exported) -> None:
    """The file and what it refers to; what is there already is replaced, as every ``-o`` does."""
    for name, content in (*found.files.items(), (output.name, found.content)):
        target = output.parent / name
        try:
            target.parent.mkdir(exist_ok=True)
        except OSError as error:
            _usage(f"cannot write {target}: {error.strerror}", "Choose another --output")
        write_atomically(target, content)
    beside = f" and {_pictures(len(found.files))} beside it" if found.files else ""
    note(f"wrote {output}{beside}")


def _pictures(count: int) -> str:
    return "1 picture" if count == 1 else f"{count} pictures"


def _show(named: str, wanted: _Wanted, found: Exported, *, as_json: bool) -> None:
    about = {"notebook": named, "format": wanted.form, "notices": list(found.notices)}
    if wanted.output is not None:
        written = {"path": str(wanted.output), "files": sorted(found.files)}
        show_data({**about, **written}, "", as_json=as_json)
    elif as_json:
        show_data({**about, "path": None, "content": found.content.decode()}, "", as_json=True)
    else:
        # As bytes: a terminal's encoding and its line ends are none of the file's business.
        sys.stdout.buffer.write(found.content)
        sys.stdout.flush()


def import_notebook(
    file: Annotated[Path, Argument(help="The file to read; `-` is stdin.")],
    form: Annotated[
        str | None,
        Option(
            "--from",
            "--format",
            help="ipynb, json, markdown, src.md, myst or percent. [default: as the file's name and content say]",
        ),
    ] = None,
    name: Annotated[str | None, Option(help="What the new notebook is for.")] = None,
    host: HostOption = None,
    as_json: AsJson = False,
) -> None:
    """Make a new notebook and session from a file. Nothing is run."""
    try:
        let_plugins_in()
        imported = _imported(file, form)
    except CellwrightError as error:
        show_error(error)
        raise Exit(ExitCode.RUN_FAILED) from error
    _tell(imported.notices)
    title = name or imported.title or (file.name.partition(".")[0] if str(file) != "-" else None)
    content = imported.document.to_bytes().decode()
    data = call_daemon(
        lambda caller: caller.data(
            "notebook_import", content=content, format="ipynb", name=title, host=host_named(host)
        ),
        doing="making the notebook",
    )
    show_data(data, data["session_id"], as_json=as_json)
    if wanted := data.get("dependencies"):
        note(f"it needs packages: `cellwright packages add {data['session_id']} {shlex.join(wanted)}`")


def _imported(file: Path, form: str | None) -> Imported:
    if str(file) == "-":
        return formats.read(sys.stdin.buffer.read(), name="stdin", format=form)
    try:
        content = file.read_bytes()
    except OSError as error:
        _usage(f"cannot read {file}: {error.strerror}", "Name a file that exists")
    return formats.read(content, name=file.name, format=form, find_file=_beside(file))


def _beside(file: Path) -> FindFile:
    """Finds files in the directory of one that is read, and nowhere above it."""
    directory = file.resolve().parent

    def find(name: str) -> bytes | None:
        relative = PurePosixPath(name)
        target = (directory / relative).resolve()
        if relative.is_absolute() or not target.is_relative_to(directory) or not target.is_file():
            return None
        return target.read_bytes()

    return find


def _tell(notices: tuple[str, ...]) -> None:
    for notice in notices:
        note(f"note: {notice}")


def _usage(problem: str, hint: str) -> NoReturn:
    echo(f"error: {problem}\nhint: {hint}", err=True)
    raise Exit(ExitCode.BAD_USAGE)
