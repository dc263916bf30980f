"""``cellwright plugins …``: which plugins there are, what each costs, why one is left out, and switching them on and off."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cellwright.cli._arguments import Argument, Option
from cellwright.cli._daemon_line import daemon_paths
from cellwright.cli._terminal import AsJson, ExitCode, ProgressLine, fail, note, show_data, table
from cellwright.errors import CellwrightError

if TYPE_CHECKING:
    from cellwright.plugins.registry import Plugin

__all__ = ["disable", "enable", "let_plugins_in", "list_plugins", "new"]

PluginArgument = Annotated[
    str, Argument(metavar="NAME", help="A distribution, or one plugin of it such as `tools:roll`.")
]


class UnknownPlugin(CellwrightError):
    """No plugin and no distribution with plugins has that name."""

    code = "unknown_plugin"


def list_plugins(
    measure: Annotated[
        bool, Option("--measure", help="Import Cellwright's own too, to see what each costs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List plugins, where each comes from, what it costs, and why one is left out."""
    found = [_described(plugin, measure=measure) for plugin in _plugins()]
    headers = ("PLUGIN", "FROM", "VERSION", "IMPORT MS", "TOKENS", "STATE")
    rows = [
        (
            one["plugin"],
            one["distribution"],
            one["version"],
            "-" if one["import_ms"] is None else f"{one['import_ms']:.0f}",
            one["tokens"] or "-",
            f"refused: {one['refused']}" if one["refused"] else "trusted" if one["trusted"] else "in",
        )
        for one in found
    ]
    show_data({"plugins": found}, table(headers, rows), as_json=as_json)


def enable(name: PluginArgument, as_json: AsJson = False) -> None:
    """Let a plugin in again that was disabled, or taken out because it failed."""
    from cellwright.plugins.choices import allow  # most commands do without msgspec
    from cellwright.plugins.registry import examine_again, installed_ids  # as above

    _change(name, partial(allow, covers=installed_ids), enabled=True, as_json=as_json)
    examine_again(name)


def disable(name: PluginArgument, as_json: AsJson = False) -> None:
    """Leave a plugin out."""
    from cellwright.plugins.choices import forbid  # as above

    _change(name, forbid, enabled=False, as_json=as_json)


def let_plugins_in() -> None:
    """Know the plugins of other distributions in this process, which reads and writes files itself.

    Raises:
        PluginChoicesError: what is kept about them cannot be read.
    """
    from cellwright.plugins.registry import let_in  # as above

    let_in(_storage())


def new(
    name: Annotated[str, Argument(metavar="NAME", help="The package's name, such as `acme-dice`.")],
    as_json: AsJson = False,
) -> None:
    """Write a package with one plugin of each kind into a new directory here."""
    from cellwright.plugins.skeleton import write_package  # of no use to other commands

    try:
        directory, files = write_package(name, Path.cwd())
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    show_data(
        {"directory": str(directory), "files": [str(file) for file in files]}, str(directory), as_json=as_json
    )
    note(f"Install it beside Cellwright: `pip install --editable {name}`, then `cellwright plugins`")


def _change(name: str, change: Any, *, enabled: bool, as_json: bool) -> None:
    from cellwright.audit import AuditLog, acting  # as above
    from cellwright.plugins.registry import installed_ids  # as above

    try:
        ids = installed_ids(name)
        if not ids:
            raise UnknownPlugin(f"There is no plugin {name!r}", hint="`cellwright plugins` lists them")
        change(_storage(), name, ids)
    except CellwrightError as error:
        fail(error, ExitCode.RUN_FAILED)
    with acting("command line"):
        AuditLog(_storage()).note("plugins", plugin=name, enabled="yes" if enabled else "no")
    said = "enabled" if enabled else "disabled"
    show_data({"plugin": name, "enabled": enabled, "covers": list(ids)}, f"{name}  {said}", as_json=as_json)
    note("A daemon that is running does so from its next start on: `cellwright daemon stop`")


def _plugins() -> tuple[Plugin, ...]:
    from cellwright.plugins.registry import let_in  # as above
    from cellwright.settings import load_settings  # and without pydantic

    try:
        with ProgressLine("examining plugins"):
            return let_in(_storage(), trusted=load_settings().trusted_plugins).plugins
    except CellwrightError as error:
        fail(error)


def _described(plugin: Plugin, *, measure: bool) -> dict[str, Any]:
    from cellwright.plugins.registry import measured  # as above

    entry = plugin.entry
    ours_ms = measured(plugin) if measure and entry.is_ours else None
    return {
        "plugin": entry.id,
        "kind": entry.kind,
        "name": entry.name,
        "distribution": entry.distribution,
        "version": entry.version,
        "import_ms": ours_ms if entry.is_ours else plugin.finding.import_ms or None,
        "tokens": plugin.finding.tokens,
        "trusted": plugin.trusted,
        "refused": plugin.refused or None,
    }


def _storage() -> Path:
    return Path(daemon_paths().storage)
