"""``cellwright folders …``: what a person says about folders that code sees only after being asked, and the asking."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cellwright.audit import AuditLog, acting
from cellwright.cli._arguments import Argument, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, confirm, fail, note, show_data, table
from cellwright.errors import CellwrightError
from cellwright.sandbox.chosen_folders import (
    ChosenFolder,
    forget_answer,
    judge_folder,
    read_answers,
    remember_answer,
)
from cellwright.sandbox.workspace import find_project

__all__ = ["AllowFolderOption", "allow", "forget", "list_folders", "refuse", "settle_folder"]

FolderArgument = Annotated[Path, Argument(metavar="FOLDER", help="The folder.")]


AllowFolderOption = Annotated[
    bool, Option("--allow-folder", help="Let code read this folder, where that is asked first.")
]


def allow(folder: FolderArgument, as_json: AsJson = False) -> None:
    """Let code read a folder that it would be asked about, such as a home, in new notebooks that are made there."""
    _answer(folder, allow=True, as_json=as_json)


def refuse(folder: FolderArgument, as_json: AsJson = False) -> None:
    """Keep code from a folder, and be asked no more."""
    _answer(folder, allow=False, as_json=as_json)


def forget(folder: FolderArgument, as_json: AsJson = False) -> None:
    """Forget what was said about a folder, to be asked again."""
    path = folder.resolve()
    try:
        forget_answer(_storage(), path)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    _write_down(forgotten=str(path))
    show_data({"folder": str(path), "forgotten": True}, f"{path}  forgotten", as_json=as_json)


def list_folders(as_json: AsJson = False) -> None:
    """List what was said about folders."""
    try:
        answers = read_answers(_storage())
    except CellwrightError as error:
        fail(error)
    rows = [(path, "allowed" if allowed else "refused") for path, allowed in answers.items()]
    data = {"folders": [{"folder": path, "allowed": allowed} for path, allowed in answers.items()]}
    show_data(data, table(("FOLDER", "ANSWER"), rows), as_json=as_json)


def settle_folder(*, allow: bool) -> None:
    """Have it said whether code may see the folder that a command was called in, where that is not known.

    ``allow`` says so; otherwise a person at a terminal is asked, once, and nobody else.
    """
    home = Path.home().resolve()
    if find_project(Path.cwd(), home=home) is not None:
        return
    try:
        judged = judge_folder(Path.cwd(), home=home, storage=_storage())
        if allow and not judged.is_seen:
            _remember(judged, allow=True)
        elif judged.is_to_ask and sys.stdin.isatty() and sys.stderr.isatty():
            note(f"Code would read everything in {judged.path}, and {judged.reason}")
            _remember(judged, allow=confirm("Let it?", default=False))
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)


def _answer(folder: Path, *, allow: bool, as_json: bool) -> None:
    try:
        judged = judge_folder(folder, home=Path.home().resolve(), storage=_storage())
        _remember(judged, allow=allow)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    text = f"{judged.path}  {'allowed' if allow else 'refused'}"
    show_data({"folder": str(judged.path), "allowed": allow}, text, as_json=as_json)
    if judged.reason is None:
        note(
            "Code sees this folder without being allowed to, in notebooks that are made there"
            if allow
            else "Code goes on seeing this folder where somebody works in it: it is none that is asked about"
        )


def _remember(folder: ChosenFolder, *, allow: bool) -> None:
    remember_answer(_storage(), folder, allow=allow)
    _write_down(folder=str(folder.path), allowed="yes" if allow else "no")


def _write_down(**about: str) -> None:
    with acting("command line"):
        AuditLog(_storage()).note("folders", **about)


def _storage() -> Path:
    return Path(daemon_paths().storage)
