"""A run read back from its log as one JSON value, and its totals. Only reads; the log is written by ``store``.

The value is described in ``docs/reference/trace.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cellwright.agent.trace.store import VERSION, decoded, files_of, restored
from cellwright.errors import AgentError

__all__ = ["FORMAT", "read_run", "summary"]

FORMAT = "cellwright-trace"
_USAGE = ("tokens_in", "tokens_out", "cached", "money")
_SECONDS = ("model", "kernel", "engine")
_UNKNOWN: dict[str, Any] = {
    "session_id": None, "model": None, "reply": None, "tool": None, "arguments": None, "result": None,
    "pictures": 0, "runs": [], "took": 0.0, "note": None, "error": None,
}  # fmt: skip


def read_run(path: Path) -> dict[str, Any]:
    """A run as a whole: prompts put together again, steps in order, also those that never ended.

    A line that was cut when the run was killed is left out, and ``torn`` says so.

    Raises:
        AgentError: there is none, a newer version wrote it, or it is something else.
    """
    reading = _Reading(partial(_kept, files_of(path)))
    try:
        log = path.read_bytes()
    except OSError as error:
        raise AgentError(f"The trace {path} cannot be read: {error.strerror}") from error
    for line in filter(None, log.split(b"\n")):
        reading.take(line)
    if reading.run is None:
        raise AgentError(f"{path} is not the trace of a run", hint="Name a file that an agent's run wrote")
    return _whole(reading, reading.run)


@dataclass(slots=True)
class _Reading:
    kept: Callable[[str], str]
    run: dict[str, Any] | None = None
    messages: dict[str, tuple[str | None, dict[str, Any]]] = field(default_factory=dict)
    began: dict[int, dict[str, Any]] = field(default_factory=dict)
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)
    end: float | None = None
    torn: bool = False

    def take(self, line: bytes) -> None:
        raw = decoded(line)
        if raw is None:
            self.torn = True
            return
        value = restored(raw, self.kept)
        match value.get("line"):
            case "run":
                self.run = _checked(value)
            case "message":
                self.messages[value["id"]] = (value["after"], value["message"])
            case "began":
                self.began[value["step"]["number"]] = value["step"]
            case "ended":
                self.ended[value["step"]["number"]] = value["step"]
            case "note":
                self.notes[value["what"]] = value["facts"]
            case "end":
                self.end = value["ended"]

    def prompt(self, last: str | None) -> list[dict[str, Any]]:
        found = []
        while last is not None and last in self.messages:
            last, message = self.messages[last]
            found.append(message)
        return found[::-1]


def _checked(run: dict[str, Any]) -> dict[str, Any]:
    if run["version"] > VERSION:
        raise AgentError(
            f"The trace of run {run['run_id']} is of version {run['version']}, and this one reads {VERSION}",
            hint="Read it with the Cellwright that wrote it, or a newer one",
        )
    return run


def _kept(directory: Path, name: str) -> str:
    try:
        return (directory / Path(name).name).read_bytes().decode("utf-8", "surrogatepass")
    except FileNotFoundError:
        return f"(its file {name} is missing)"


def _whole(reading: _Reading, run: dict[str, Any]) -> dict[str, Any]:
    steps = [
        _step(reading, reading.began.get(number, {}), reading.ended.get(number))
        for number in sorted({*reading.began, *reading.ended})
    ]
    patterns = [step["pattern"] for step in steps if step["pattern"]]
    return {
        "format": FORMAT,
        "version": run["version"],
        "run_id": run["run_id"],
        "began": run["began"],
        "ended": reading.end,
        "torn": reading.torn,
        "pattern": patterns[-1] if patterns else None,
        "environment": reading.notes.get("environment"),
        "outcome": reading.notes.get("outcome"),
        "branches": _tree(steps),
        "steps": steps,
    }


def _step(reading: _Reading, began: dict[str, Any], ended: dict[str, Any] | None) -> dict[str, Any]:
    if ended is None:
        nothing = {"usage": dict.fromkeys(_USAGE, 0), "seconds": dict.fromkeys(_SECONDS, 0.0), "prompt": []}
        return {**began, **_UNKNOWN, **nothing, "state": "open"}
    return {**ended, "prompt": reading.prompt(ended["prompt"])}


# Branches --------------------------------------------------------------------------------------------------------


def _tree(steps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Branches with what grew from them, by their labels: ``main.1`` grew from ``main``."""
    nodes: dict[str, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for step in steps:
        node = _node(step["branch"], nodes, roots)
        node["steps"].append(step["number"])
        node["session_id"] = step["session_id"] or node["session_id"]
    return roots


def _node(label: str, nodes: dict[str, dict[str, Any]], roots: list[dict[str, Any]]) -> dict[str, Any]:
    if label not in nodes:
        nodes[label] = {"branch": label, "session_id": None, "steps": [], "children": []}
        above, dot, _ = label.rpartition(".")
        siblings = _node(above, nodes, roots)["children"] if dot and above else roots
        siblings.append(nodes[label])
    return nodes[label]


# Totals ----------------------------------------------------------------------------------------------------------


def summary(run: dict[str, Any]) -> dict[str, Any]:
    """What a run took: as a whole, and for each role, branch and model."""
    steps = run["steps"]
    last = max((step["began"] + step["took"] for step in steps), default=run["began"])
    return {
        "run_id": run["run_id"],
        "pattern": run["pattern"],
        "complete": run["ended"] is not None,
        "seconds": max(0.0, (run["ended"] or last) - run["began"]),
        "total": _total(steps),
        "roles": _grouped(steps, "role"),
        "branches": _grouped(steps, "branch"),
        "models": _grouped(steps, "model"),
    }


def _grouped(steps: Iterable[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for step in steps:
        if step[key]:
            groups.setdefault(step[key], []).append(step)
    return {name: _total(group) for name, group in groups.items()}


def _total(steps: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {name: sum(step["usage"][name] for step in steps) for name in _USAGE}
    seconds = {f"{name}_s": sum(step["seconds"][name] for step in steps) for name in _SECONDS}
    return {
        "steps": len(steps),
        "requests": sum(step["kind"] == "request" for step in steps),
        "calls": sum(step["kind"] == "call" for step in steps),
        "cell_runs": sum(len(step["runs"]) for step in steps),
        "failed": sum(step["state"] == "failed" for step in steps),
        **usage,
        **seconds,
    }
