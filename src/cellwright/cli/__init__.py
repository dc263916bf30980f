"""The command line: data on stdout, all else on stderr, ``--json`` on every command. Translates; decides nothing.

What most people wait for comes first and loads next to nothing: ``cellwright mcp``, which impatient clients start, help
(from a record), and what the state of things is. Any other command loads its own module and no other's.
"""

from __future__ import annotations

import atexit
import gc
import sys

__all__ = ["main"]

# They go on when whoever started them has read where they listen.
_LISTENING = ("serve", "ui", "session lab")


def main() -> None:
    # The process's end frees all there is; looking for garbage first would take half a second of every command.
    atexit.register(gc.freeze)
    arguments = sys.argv[1:]
    if not sys.platform.startswith("linux"):
        from cellwright.cli._elsewhere import answer as answer_elsewhere  # see above

        sys.exit(answer_elsewhere(arguments))
    if arguments and arguments[0] == "mcp":
        from cellwright.cli._mcp import mcp  # see above

        sys.exit(mcp(arguments[1:]))
    # Nothing of what is imported from here on is garbage.
    gc.disable()
    if not arguments:
        from cellwright.cli._overview import show_overview  # see above

        sys.exit(show_overview())
    from cellwright.cli._help import answer  # see above

    code = answer(arguments)
    if code is not None:
        sys.exit(code)
    from cellwright.cli._catalogue import find  # see above
    from cellwright.cli._closed_pipe import ended_by_reader  # see above
    from cellwright.cli._commands import run_command  # see above

    found = find(arguments)
    assert found is not None, "help answers what names no command"
    if found[0] in _LISTENING:
        run_command(*found)
        return
    with ended_by_reader():
        run_command(*found)
