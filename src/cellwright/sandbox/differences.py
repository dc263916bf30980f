"""One file of a session against the project's, as a unified diff that ``git apply`` takes. Blocking; see ``overlays``."""

from __future__ import annotations

import difflib
import json

from cellwright.errors import SandboxError
from cellwright.sandbox.files import Entry, Workdir
from cellwright.sandbox.listing import shown_path
from cellwright.sandbox.originals import Shadow

__all__ = ["file_difference"]

_MAX_BYTES = 1_000_000
_NO_NEWLINE = "\n\\ No newline at end of file\n"


def file_difference(layer: Workdir, project: Workdir, shadow: Shadow, *, conflict: bool) -> str:
    """What applying one change would do; a directory shows by what is in it."""
    ours, theirs = _seen(shadow.ours), _seen(shadow.theirs)
    if ours is None and theirs is None:
        return ""
    old, new = _quoted(f"a/{shadow.path}"), _quoted(f"b/{shadow.path}")
    head = [f"diff --git {old} {new}\n"]
    if conflict:
        head.append("# changed in the project meanwhile: applying it would overwrite that\n")
    if ours is None:
        head.append(f"deleted file mode {_mode(theirs)}\n")
    elif theirs is None:
        head.append(f"new file mode {_mode(ours)}\n")
    elif ours.executable != theirs.executable:
        head += [f"old mode {_mode(theirs)}\n", f"new mode {_mode(ours)}\n"]
    before, after = _lines(project, shadow.path, theirs), _lines(layer, shadow.path, ours)
    if before is None or after is None:
        size = ours.size if ours is not None else 0
        return "".join([*head, f"# no text, {size:,} bytes: {_what(ours or theirs)}\n"])
    names = ("/dev/null" if theirs is None else old, "/dev/null" if ours is None else new)
    return "".join([*head, *difflib.unified_diff(before, after, *names)])


def _seen(entry: Entry | None) -> Entry | None:
    return None if entry is None or entry.type == "directory" else entry


def _mode(entry: Entry | None) -> str:
    if entry is not None and entry.type == "link":
        return "120000"
    return "100755" if entry is not None and entry.executable else "100644"


def _what(entry: Entry | None) -> str:
    return entry.type if entry is not None and entry.type != "file" else "binary"


def _quoted(path: str) -> str:
    text = shown_path(path)
    return text if text.isprintable() and not {'"', "\\"} & set(text) else json.dumps(text)


def _lines(directory: Workdir, path: str, entry: Entry | None) -> list[str] | None:
    """The lines of a text; None where it is none, or too long to show."""
    if entry is None:
        return []
    try:
        text = directory.read(path, _MAX_BYTES).decode()
    except (SandboxError, UnicodeDecodeError):
        return None
    if "\0" in text:
        return None
    *whole, rest = text.split("\n")
    lines = [f"{line}\n" for line in whole]
    return [*lines, rest + _NO_NEWLINE] if rest else lines
