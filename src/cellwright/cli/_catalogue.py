"""Every command by its name, with the function that does it: a table that costs nothing to read.

The program finds one command here and loads only that one's module; help and completions are made from the same table.
A command that few need stands below a noun (``session suspend``). Names of earlier versions still work, and are not
listed.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "COMMANDS",
    "DEFAULTS",
    "GROUPS",
    "MCP",
    "NOUNS",
    "OLD_NAMES",
    "SCREEN",
    "find",
    "function_of",
    "names_below",
]

GROUPS = ("Notebooks", "Run", "History", "Agent", "Hosts", "Server", "Setup")

SCREEN: dict[str, tuple[str, ...]] = {
    "Notebooks": ("new", "list", "show", "export", "session"),
    "Run": ("run", "exec", "verify", "plan"),
    "History": ("checkpoint", "rollback", "branch"),
    "Agent": ("ask", "chat"),
    "Hosts": ("host",),
    "Server": ("ui", "daemon"),
    "Setup": ("install", "tutorial", "doctor"),
}
"""What the first screen shows."""

COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("Notebooks", "_new:new"),
    "list": ("Notebooks", "_notebooks:list_sessions"),
    "show": ("Notebooks", "_notebooks:show"),
    "export": ("Notebooks", "_exchange:export_notebook"),
    "import": ("Notebooks", "_exchange:import_notebook"),
    "session add": ("Notebooks", "_notebooks:add"),
    "session edit": ("Notebooks", "_notebooks:edit"),
    "session delete": ("Notebooks", "_notebooks:delete"),
    "session suspend": ("Notebooks", "_executions:suspend"),
    "session logs": ("Notebooks", "_notebooks:logs"),
    "session wait": ("Notebooks", "_executions:wait_for_execution"),
    "session cancel": ("Notebooks", "_executions:cancel"),
    "session replay": ("Notebooks", "_replays:replay"),
    "session adopt": ("Notebooks", "_checkpoints:adopt"),
    "session lab": ("Notebooks", "_lab:lab"),
    "files list": ("Notebooks", "_environment:list_files"),
    "files diff": ("Notebooks", "_environment:diff_files"),
    "files apply": ("Notebooks", "_environment:apply_files"),
    "files ls": ("Notebooks", "_files:list_directory"),
    "files read": ("Notebooks", "_files:read"),
    "files write": ("Notebooks", "_files:write"),
    "files rm": ("Notebooks", "_files:remove"),
    "files mv": ("Notebooks", "_files:move"),
    "files mkdir": ("Notebooks", "_files:make_directory"),
    "files info": ("Notebooks", "_files:info"),
    "folders list": ("Notebooks", "_folders:list_folders"),
    "folders allow": ("Notebooks", "_folders:allow"),
    "folders refuse": ("Notebooks", "_folders:refuse"),
    "folders forget": ("Notebooks", "_folders:forget"),
    "templates list": ("Notebooks", "_templates:list_templates"),
    "templates search": ("Notebooks", "_templates:search"),
    "templates show": ("Notebooks", "_templates:show"),
    "templates add": ("Notebooks", "_templates:add"),
    "templates remove": ("Notebooks", "_templates:remove"),
    "templates index": ("Notebooks", "_templates:index"),
    "packages add": ("Notebooks", "_environment:add_packages"),
    "run": ("Run", "_run:run"),
    "exec": ("Run", "_executions:execute"),
    "verify": ("Run", "_verify:verify"),
    "review": ("Run", "_review:review"),
    "plan run": ("Run", "_plans:continue_plan"),
    "plan status": ("Run", "_plans:plan_status"),
    "plan fix": ("Run", "_plans:fix"),
    "plan skip": ("Run", "_plans:skip"),
    "tool calc": ("Run", "_tool:calc"),
    "tool fetch": ("Run", "_tool:fetch"),
    "tool visualize": ("Run", "_tool:visualize"),
    "tool call": ("Run", "_tool:call"),
    "checkpoint": ("History", "_checkpoints:checkpoint"),
    "rollback": ("History", "_checkpoints:rollback"),
    "branch": ("History", "_checkpoints:branch"),
    "ask": ("Agent", "_ask:ask"),
    "chat": ("Agent", "_chat:chat"),
    "conversations list": ("Agent", "_traces:list_conversations"),
    "conversations show": ("Agent", "_traces:show_conversation"),
    "conversations trace": ("Agent", "_traces:trace"),
    "conversations delete": ("Agent", "_traces:delete_conversation"),
    "host list": ("Hosts", "_allocations:hosts"),
    "host start": ("Hosts", "_allocations:start"),
    "host stop": ("Hosts", "_allocations:stop"),
    "host wait": ("Hosts", "_allocations:wait"),
    "host status": ("Hosts", "_allocations:host_status"),
    "ui": ("Server", "_serve:ui"),
    "serve": ("Server", "_serve:serve"),
    "daemon status": ("Server", "_daemons:status"),
    "daemon start": ("Server", "_daemons:start"),
    "daemon stop": ("Server", "_daemons:stop_daemon"),
    "daemon logs": ("Server", "_daemons:logs"),
    "people list": ("Server", "_people:list_people"),
    "people add": ("Server", "_people:add"),
    "people role": ("Server", "_people:set_role"),
    "people remove": ("Server", "_people:remove"),
    "sign-ins list": ("Server", "_sign_ins:list_sign_ins"),
    "sign-ins end": ("Server", "_sign_ins:end"),
    "approvals list": ("Server", "_approvals:list_approvals"),
    "approvals forget": ("Server", "_approvals:forget"),
    "audit show": ("Server", "_audit:show"),
    "audit export": ("Server", "_audit:export"),
    "audit verify": ("Server", "_audit:verify"),
    "install": ("Setup", "_install:install"),
    "tutorial": ("Setup", "_tutorial:tutorial"),
    "demo": ("Setup", "_demo:demo"),
    "doctor": ("Setup", "_doctor:doctor"),
    "completion": ("Setup", "_completion:completion"),
    "plugins list": ("Setup", "_plugins:list_plugins"),
    "plugins enable": ("Setup", "_plugins:enable"),
    "plugins disable": ("Setup", "_plugins:disable"),
    "plugins new": ("Setup", "_plugins:new"),
}
"""Each command with its group, and the module and the function that do it."""

NOUNS = {
    "session": "Add and edit cells, end, wait for and bring back sessions.",
    "files": "Look at files of the data directory and of sessions, and bring them over.",
    "folders": "Say which folders code may see beside projects.",
    "templates": "Find notebooks and plans to begin with, and bring them from galleries.",
    "packages": "Install packages for a session.",
    "plan": "Run, fix and look at a notebook's plan.",
    "tool": "Calculate, fetch and draw without a notebook, and call tools by name.",
    "conversations": "What was asked of the data agent, and can be gone on with.",
    "host": "Where kernels live: this machine, SLURM, Jupyter servers.",
    "daemon": "Start, stop and look at the daemon.",
    "people": "Let others look at the page, each with a token.",
    "sign-ins": "Clients that were let in over HTTP.",
    "approvals": "What is asked about before it is done, and what was allowed for longer.",
    "plugins": "What plugins add, what each costs, and which are left out.",
    "audit": "Who ran, applied, installed, opened and took over what.",
}
"""What stands below each noun, in a line."""

DEFAULTS = {
    "templates": "templates list",
    "conversations": "conversations list",
    "sign-ins": "sign-ins list",
    "approvals": "approvals list",
    "audit": "audit show",
    "plugins": "plugins list",
}
"""What a noun alone does, or one with options only; other nouns show their help."""

# `mcp` reads its own arguments (see ``_mcp``).
MCP = "mcp"

OLD_NAMES = {
    "add": "session add",
    "delete": "session delete",
    "logs": "session logs",
    "suspend": "session suspend",
    "cancel": "session cancel",
    "replay": "session replay",
    "adopt": "session adopt",
    "lab": "session lab",
    "continue": "plan run",
    "fix": "plan fix",
    "skip": "plan skip",
    "calc": "tool calc",
    "fetch": "tool fetch",
    "visualize": "tool visualize",
    "trace": "conversations trace",
    "hosts": "host list",
    "start": "host start",
    "stop": "host stop",
}
"""Names that commands had before they stood below a noun."""

_OLD_PAIRS = {"wait": "_executions:wait", "status": "_plans:status"}
# One name for two commands: what it is given says which is meant.


def find(arguments: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the command that these arguments name, and the arguments that are left for it; None if they name none."""
    if not arguments:
        return None
    first, rest = arguments[0], list(arguments[1:])
    first = "plugins" if first == "plugin" else first
    if first in NOUNS:
        if rest and f"{first} {rest[0]}" in COMMANDS:
            return f"{first} {rest[0]}", rest[1:]
        if first == "tool" and rest and not rest[0].startswith("-"):
            return "tool call", rest  # one that a plugin brings
        alone = first in DEFAULTS and (not rest or rest[0].startswith("-"))
        return (DEFAULTS[first], rest) if alone else None
    if first in COMMANDS or first in _OLD_PAIRS:
        return first, rest
    return (OLD_NAMES[first], rest) if first in OLD_NAMES else None


def function_of(command: str) -> tuple[str, str]:
    """Return the module and the name of the function that does a command."""
    target = _OLD_PAIRS[command] if command in _OLD_PAIRS else COMMANDS[command][1]
    module, _, name = target.partition(":")
    return f"{__package__}.{module}", name


def names_below(noun: str) -> list[str]:
    """Return what may stand after a noun, in the table's order."""
    return [name.split(" ", 1)[1] for name in COMMANDS if name.startswith(f"{noun} ")]
