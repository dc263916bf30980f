"""``cellwright audit …``: who did what. Reads the files themselves, so that it needs no daemon and believes none."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from cellwright.audit import check, is_line, read_lines
from cellwright.cli._arguments import Argument, BadArgument, Exit, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, fail, note, show_data
from cellwright.errors import CellwrightError

__all__ = ["export", "show", "verify"]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

SessionOption = Annotated[str | None, Option("--session", help="Only of this session, by its id.")]
KindOption = Annotated[list[str] | None, Option("--kind", help="Only of this kind; may be repeated.")]
SinceOption = Annotated[
    str | None, Option("--since", help="Only since then: `2h`, `7d`, or a date such as `2026-05-31`.")
]


class BadTime(CellwrightError):
    code = "bad_time"


def show(
    session: SessionOption = None,
    kind: KindOption = None,
    since: SinceOption = None,
    limit: Annotated[int, Option("--limit", min=1, help="At most so many, the newest.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show the newest lines, oldest first."""
    lines = [told for _, told in _chosen(session, kind, since)][-limit:]
    show_data({"lines": lines}, "\n".join(map(_text, lines)), as_json=as_json)


def export(
    session: SessionOption = None,
    kind: KindOption = None,
    since: SinceOption = None,
    output: Annotated[Path | None, Option("-o", "--output", help="A file. [default: stdout]")] = None,
) -> None:
    """Write the lines as they are, one JSON value each. Without a filter the file can be verified like the log itself."""
    data = b"".join(raw for raw, _ in _chosen(session, kind, since))
    if output is None:
        sys.stdout.buffer.write(data)
    else:
        output.write_bytes(data)
        note(f"{len(data.splitlines())} lines in {output}")


def verify(
    file: Annotated[
        Path | None,
        Argument(help="An exported log. [default: the log itself]"),
    ] = None,
    known: Annotated[
        str | None, Option("--known", help="A hash that was noted earlier, and must be in it still.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow the chain of hashes, and say which line breaks it first."""
    lines = _lines_of(file) if file is not None else read_lines(_storage())
    found = check(lines, known=known)
    data = {"lines": found.lines, "first": found.first_seq, "hash": found.last_hash, "problem": found.problem}
    last = f", the last with the hash {found.last_hash}" if found.last_hash else ""
    text = f"broken: {found.problem}" if found.problem else f"whole: {found.lines} lines{last}"
    show_data(data, text, as_json=as_json)
    if found.problem is not None:
        raise Exit(ExitCode.RUN_FAILED)


def _lines_of(file: Path) -> list[bytes]:
    try:
        return file.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise BadArgument(f"{file} cannot be read: {error.strerror}", argument="FILE") from None


def _chosen(
    session: str | None, kinds: list[str] | None, since: str | None
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The lines that are asked for; one that is broken is passed over, which ``verify`` tells."""
    try:
        begin = _time(since) if since is not None else 0.0
    except BadTime as error:
        fail(error, ExitCode.BAD_USAGE)
    for raw in filter(is_line, read_lines(_storage())):
        told = json.loads(raw)
        right = (session is None or told.get("session") == session) and (
            not kinds or told.get("kind") in kinds
        )
        if right and told["time"] >= begin:
            yield raw, told


def _time(text: str) -> float:
    if found := re.fullmatch(r"(\d{1,9})([smhd])", text):
        return time.time() - int(found[1]) * _SECONDS[found[2]]
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise BadTime(
            f"{text!r} is no time", hint="Give for instance `2h`, `7d` or `2026-05-31T12:00`"
        ) from None


def _text(told: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(told["time"]).astimezone()
    about = {**told.get("about", {}), **{name: told[name] for name in ("session",) if name in told}}
    # As JSON: names that programs and files gave themselves cannot pass for anything else on a terminal.
    words = [f"{name}={json.dumps(value)}" for name, value in about.items()]
    refused = [f"REFUSED {json.dumps(told['refused'])}"] if "refused" in told else []
    return " ".join([f"{at:%Y-%m-%d %H:%M:%S}", told["kind"], json.dumps(told["by"]), *refused, *words])


def _storage() -> Path:
    return Path(daemon_paths().storage)
