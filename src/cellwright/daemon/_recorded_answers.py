"""What the MCP server answers to its first questions, from a record: ``greetings.json``, written by ``greeting_recorder``.

``initialize``, ``server/discover`` and the lists of tools, prompts and resource templates depend on the release, the
dialect, the toolset and two settings alone. Standard library only: answering must not wait for the SDK's import.
"""

from __future__ import annotations

import json
import os
import sys

import cellwright

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

__all__ = ["DISCOVER", "FILE", "LISTS", "OTHER", "VERSION_KEY", "RecordedAnswer", "RecordedAnswers"]

FILE = os.path.join(os.path.dirname(__file__), "greetings.json")

DISCOVER = "server/discover"

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"

_MODERN_KEYS = (
    VERSION_KEY,
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
)

_APPS = "io.modelcontextprotocol/ui"
"""The extension of clients that show apps: they are told more of the tools than is recorded."""

OTHER = "other"
"""Stands for every protocol version that the server does not know."""

LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/templates/list": "resourceTemplates"}
"""The lists that are recorded, each with the name of its result's only member."""

_CHANGED = {
    "tools/list": "notifications/tools/list_changed",
    "prompts/list": "notifications/prompts/list_changed",
    "resources/templates/list": "notifications/resources/list_changed",
}


class RecordedAnswer:
    """One reply from the record, kept until the server has given its own."""

    def __init__(
        self,
        method: str,
        ident: str | int,
        result: dict[str, Any],
        *,
        modern: bool = False,
        greets: bool = False,
    ) -> None:
        self.method = method
        self.ident = ident
        self.result = result
        self.greets = greets
        """Whether the lists that the client asks for next may be answered from the record, too."""
        self._modern = modern

    @property
    def line(self) -> bytes:
        """The reply as it goes over the wire."""
        return json.dumps({"jsonrpc": "2.0", "id": self.ident, "result": self.result}).encode() + b"\n"

    def correction(self, reply: bytes) -> bytes | None:
        """Return the notification that makes the client ask again, where the server's own reply is another.

        A client of the newest protocol was told by ``ttlMs`` that its list may be old at once.
        """
        if self.method not in _CHANGED or self._modern or json.loads(reply).get("result") == self.result:
            return None
        return json.dumps({"jsonrpc": "2.0", "method": _CHANGED[self.method]}).encode() + b"\n"


class RecordedAnswers:
    """Answers of a daemon whose settings are those of ``directory``; none where the record is of another release."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._record: dict[str, Any] = {}
        self._limits: dict[str, float] | None = None
        try:
            with open(FILE, encoding="utf-8") as file:
                record = json.load(file)
        except (OSError, ValueError):
            return
        if record["package"] == cellwright.__version__ and _is_installed(record["sdk"]):
            self._record = record

    def answer(self, line: bytes, handshake: dict[str, Any], *, greeted: bool) -> RecordedAnswer | None:
        """The reply to a message, if it is one that has a known reply; ``greeted``: ``initialize`` was answered."""
        try:
            message = json.loads(line)
            method, ident, params = message["method"], message["id"], message.get("params") or {}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if not isinstance(method, str) or not isinstance(ident, str | int) or not isinstance(params, dict):
            return None
        dialect, sets = handshake.get("dialect") or "", self._sets(handshake.get("toolset"))
        if not sets or not isinstance(dialect, str) or dialect not in self._record["instructions"]:
            return None
        if method in ("initialize", DISCOVER):
            result = self._greeting(method, params, dialect, sets)
            greets = method == "initialize" and not _shows_apps(params.get("capabilities"))
            return RecordedAnswer(method, ident, result, greets=greets) if result is not None else None
        if method in LISTS and "cursor" not in params:
            modern = _modern_version(params)
            if modern is not None or greeted:
                result = self._list(method, dialect, sets, modern)
                return (
                    RecordedAnswer(method, ident, result, modern=modern is not None)
                    if result is not None
                    else None
                )
        return None

    def _sets(self, toolset: object) -> list[str]:
        """The sets of tools that a client chose, in the server's order; none where one of them is unknown."""
        if not self._record or not isinstance(toolset, str | None):
            return []
        order: list[str] = self._record["sets"]
        names = [name.strip() for name in (toolset or "all").split(",")]
        if any(name not in (*order, "core", "all") for name in names):
            return []
        chosen = [name for name in order if "all" in names or name in names]
        return ["core", *chosen] if "core" in names and "all" not in names else chosen

    def _greeting(
        self, method: str, params: dict[str, Any], dialect: str, sets: list[str]
    ) -> dict[str, Any] | None:
        try:
            version = params["_meta"][VERSION_KEY] if method == DISCOVER else params["protocolVersion"]
            well_formed = method == DISCOVER or (
                isinstance(params["clientInfo"]["name"], str) and isinstance(params["capabilities"], dict)
            )
        except (KeyError, TypeError):
            return None
        known = self._record[method]
        if not well_formed or not isinstance(version, str):
            return None
        result = known.get(version, known.get(OTHER))
        if result is None:
            return None
        said = self._record["instructions"][dialect]
        # A dialect says the same whatever the set is, and says it once.
        told = dict.fromkeys(said[name] for name in sets if said[name])
        return {**result, "instructions": " ".join(told)}

    def _list(self, method: str, dialect: str, sets: list[str], modern: str | None) -> dict[str, Any] | None:
        envelope = self._record["envelopes"].get(modern) if modern is not None else {}
        if envelope is None:
            return None
        if method != "tools/list":
            return {LISTS[method]: self._record[method][dialect], **envelope}
        try:
            limits = self._time_limits()
        except Exception:  # noqa: BLE001  # boundary: what is wrong with the settings, the daemon itself says
            return None
        chosen = self._record["tools"][dialect]
        found: dict[str, Any] = {}
        for one in sets:
            for key in chosen["sets"][one]:
                # The core publishes its tools otherwise; a tool is told once, as the first set has it.
                found.setdefault(key.removeprefix("core:"), chosen["definitions"][key])
        return {"tools": [_limited(definition, limits) for definition in found.values()], **envelope}

    def _time_limits(self) -> dict[str, float]:
        """The settings that the tools' published defaults come from, where they are not as recorded.

        Raises:
            ValueError: a value is no number.
            SettingsUnreadable: a settings file is not TOML or JSON.
        """
        if self._limits is None:
            from cellwright.settings.paths import written_settings  # not before initialize is answered

            said = written_settings(self._directory if self._directory != "/" else os.path.expanduser("~"))
            self._limits = {name: float(said[name]) for name in self._record["limits"] if name in said}
        return self._limits


def _limited(definition: dict[str, Any], limits: dict[str, float]) -> dict[str, Any]:
    """A tool with the defaults that these limits give its arguments."""
    defaults = {
        name: factor * limits[setting]
        for name, (setting, factor) in definition["limits"].items()
        if setting in limits
    }
    tool: dict[str, Any] = definition["tool"]
    if not defaults:
        return tool
    schema = tool["inputSchema"]
    properties = {
        name: {**about, "default": _whole(defaults[name])} if name in defaults else about
        for name, about in schema["properties"].items()
    }
    return {**tool, "inputSchema": {**schema, "properties": properties}}


def _whole(value: float) -> float:
    return int(value) if value.is_integer() else value


def _shows_apps(capabilities: object) -> bool:
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and _APPS in extensions


def _modern_version(params: dict[str, Any]) -> str | None:
    """The protocol's version that a request names by itself, as those without a handshake do; None of those with apps."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or any(key not in meta for key in _MODERN_KEYS):
        return None
    if _shows_apps(meta["io.modelcontextprotocol/clientCapabilities"]):
        return None
    version = meta[VERSION_KEY]
    return version if isinstance(version, str) else None


def _is_installed(sdk: str) -> bool:
    """Whether the SDK is of that release: looked up by name, as importing it is what takes so long."""
    return any(os.path.isdir(os.path.join(place, f"mcp-{sdk}.dist-info")) for place in sys.path)
