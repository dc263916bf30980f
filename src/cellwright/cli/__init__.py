"""The command line: data on stdout, all else on stderr, ``--json`` on every command. Translates; decides nothing.

``cellwright mcp`` is started by impatient clients, so it is recognised here, before anything else is imported.
"""

from __future__ import annotations

import atexit
import gc
import sys

__all__ = ["main"]

# They go on when whoever started them has read where they listen.
_LISTENING = ("serve", "ui", "lab")


def main() -> None:
    # The process's end frees all there is; looking for garbage first would take half a second of every command.
    atexit.register(gc.freeze)
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "mcp":
        from cellwright.cli._mcp import mcp  # see above

        sys.exit(mcp(arguments[1:]))
    from cellwright.cli._closed_pipe import ended_by_reader  # see above
    from cellwright.cli._commands import app, narrowed  # see above

    command = narrowed(app, arguments)
    if arguments and arguments[0] in _LISTENING:
        command()
        return
    with ended_by_reader():
        command()
