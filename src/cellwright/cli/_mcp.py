"""``cellwright mcp``: the way in for MCP clients. Reads its own few arguments."""

from __future__ import annotations

import os
import sys

__all__ = ["mcp"]

_USAGE = """\
Usage: cellwright mcp [OPTIONS]

Serve MCP on stdin and stdout, for a client that starts its servers. See `cellwright install`.

Options:
  --dialect NAME    Also speak the tools of another system: jlab, jupyter, monadic or srcbook.
  --toolset NAMES   Only these tools: core, which brings the others on demand, or notebooks, plans, history, hosts,
                    once, agent, separated by commas.
  --in-process      Run the engine in this process and use no daemon, as in a container.
  --set NAME=VALUE  Change a setting; may be repeated. Counts for the daemon only if this starts it.
  --unsafe-no-sandbox
                    Confine nothing: the same as --set unsafe_no_sandbox=true.
  --help            Show this message and exit.
"""
_BAD_USAGE = 2
# What each flag sets.
_FLAGS = {"--in-process": {}, "--unsafe-no-sandbox": {"CELLWRIGHT_UNSAFE_NO_SANDBOX": "true"}}


def mcp(arguments: list[str]) -> int:
    """Read the arguments and serve; the exit code."""
    chosen: dict[str, str | None] = {"dialect": None, "toolset": None}
    in_process = False
    waiting = arguments[::-1]
    while waiting:
        name, given, value = waiting.pop().partition("=")
        if name == "--help":
            sys.stdout.write(_USAGE)
            return 0
        if name in _FLAGS and not given:
            in_process |= name == "--in-process"
            os.environ |= _FLAGS[name]
            continue
        if name not in ("--dialect", "--toolset", "--set"):
            return _refuse(f"there is no option {name}")
        if not given:
            if not waiting:
                return _refuse(f"{name} needs a value")
            value = waiting.pop()
        if name != "--set":
            chosen[name.removeprefix("--")] = value
            continue
        setting, equals, text = value.partition("=")
        if not equals:
            return _refuse(f"--set needs NAME=VALUE, not {value!r}")
        os.environ[f"CELLWRIGHT_{setting.strip().upper()}"] = text.strip()
    if in_process:
        from cellwright.daemon.inprocess import serve_stdio  # the heavy way

        return serve_stdio(**chosen)
    from cellwright.daemon.pump import pump  # the quick way

    return pump(**chosen)


def _refuse(problem: str) -> int:
    sys.stderr.write(f"error: {problem}\nhint: See `cellwright mcp --help`\n")
    return _BAD_USAGE
