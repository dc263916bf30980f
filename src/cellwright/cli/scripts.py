"""``cellwright exec --once``: a script in no session. Its streams are the terminal's as they come, its exit code ours."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from cellwright.cli.mcp_client import Caller, call_daemon

__all__ = ["DirectoryOption", "PackageOption", "Script", "SessionOrFile", "run_once"]

_SIGNALLED = 128
_SAID = "[cellwright: "
_PACKAGES = re.compile(r'packages=\["([\w-]+)"\]')
_LANGUAGES = ("python", "typescript", "javascript")
SessionOrFile = Annotated[
    str | None,
    typer.Argument(
        metavar="SESSION_OR_FILE",
        help="A session's id, or its notebook's name; with --once a script, `-` reads it from stdin.",
        show_default=False,
    ),
]
PackageOption = Annotated[
    list[str] | None, typer.Option(help="With --once: an approved package; may be repeated.")
]
DirectoryOption = Annotated[
    str | None,
    typer.Option("--dir", help="With --once: a directory of the data directory. [default: a fresh one]"),
]


@dataclass(frozen=True, slots=True)
class Script:
    """What a person asked for."""

    file: str | None
    code: str | None
    language: str
    packages: list[str]
    directory: str | None
    timeout_s: float | None


def run_once(script: Script, *, as_json: bool) -> None:
    """Run it, and end with its exit code; with 128 and the signal's number where that ended it."""
    source, name = _source(script), "python_execute" if script.language == "python" else "node_execute"
    shown = _Shown()

    async def run(caller: Caller) -> dict[str, Any]:
        language = {} if script.language == "python" else {"language": script.language}
        return await caller.data(
            name,
            progress=None if as_json else shown.hear,
            code=source,
            packages=script.packages,
            workingDir=script.directory,
            timeout=script.timeout_s,
            stream=not as_json,
            response_format="json",
            **language,
        )

    found = call_daemon(run)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        shown.rest(found)
    code = int(found["returnCode"])
    raise typer.Exit(code if code >= 0 else _SIGNALLED - code)


def _source(script: Script) -> str:
    if script.language not in _LANGUAGES:
        raise typer.BadParameter(f"one of {', '.join(_LANGUAGES)}", param_hint="--language")
    if (script.file is None) == (script.code is None):
        raise typer.BadParameter("give a file, or --code", param_hint="SESSION_OR_FILE")
    if "-" in (script.file, script.code):
        return sys.stdin.read()
    if script.code is not None:
        return script.code
    try:
        return Path(str(script.file)).read_text(encoding="utf-8")
    except OSError as error:
        told = f"{script.file}: {error.strerror or error}; a session's cells are run without --once"
        raise typer.BadParameter(told, param_hint="SESSION_OR_FILE") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{script.file} is no text in UTF-8", param_hint="SESSION_OR_FILE") from None


def _in_options(text: str) -> str:
    """The same; what is said of the run at its end has options where it names a tool's arguments."""
    before, begin, said = text.rpartition(_SAID)
    if not begin or said.count("\n") > 1:
        return text
    said = (
        _PACKAGES.sub(r"--package \1", said)
        .replace("workingDir", "--dir")
        .replace("(timeout,", "(--timeout,")
    )
    return f"{before}{begin}{said}"


class _Shown:
    """What the terminal has of a run so far."""

    def __init__(self) -> None:
        self._texts = {"stdout": "", "stderr": ""}

    async def hear(
        self, progress: float, total: float | None, message: str | None
    ) -> None:  # as ``Progress`` has it
        """Show a piece of output; other words about progress are no JSON."""
        try:
            piece = json.loads(message or "")
            self._show(piece["name"], piece["text"])
        except (ValueError, TypeError, KeyError):
            return

    def rest(self, found: dict[str, Any]) -> None:
        """Show what was not told on the way, and which files there are now."""
        for name, text in self._texts.items():
            whole = str(found[name])
            if whole.startswith(text):
                self._show(name, _in_options(whole[len(text) :]))
        for file in found["files"]:
            typer.echo(f"file: {file['path']} ({file['type']}, {file['size']:,} bytes)", err=True)
        for output in (found.get("visualizations") or {}).get("outputs", ()):
            if isinstance(output, dict) and output.get("digest"):
                typer.echo(f"visualization: {output['digest']}", err=True)

    def _show(self, name: str, text: str) -> None:
        self._texts[name] += text
        to: TextIO = sys.stderr if name == "stderr" else sys.stdout
        to.write(text)
        to.flush()
