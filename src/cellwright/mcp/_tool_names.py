"""Sentences of the engine and of our own tools in the words of the tools that a client has. Pure.

A client without a command line reads calls where a person reads commands; a client of a dialect reads that dialect's
tools, and nothing of a tool that it lacks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ToolNames", "in_calls"]

_INSTEAD = {
    "list": "host_list",
    "start": "host_start",
    "stop": "host_stop",
    "wait": "host_list(wait_s=60)",
}

_VERB = re.compile(rf"`cellwright host ({'|'.join(_INSTEAD)})(?: --name ([\w-]+))?(?: NAME)?`")

_CLAUSES = re.compile(r"((?<=[.!?])\s+|;\s+|\n)")

_ASIDE = re.compile(r"(?<=\S)\s*(?<!\w)\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)")

# As `cellwright_kernel` says it in errors of Python, SQL and TypeScript.
_ADVICE = re.compile(
    r"(?:\. It is approved: |, or |\. )package_install\(\[[^\]\n]*\]\)"
    r"(?: installs (?:it, if it is approved|it|approved packages, which can be imported at once))?"
)

_NAME = re.compile(r"`?\b([a-z]+(?:_[a-z]+)+)\b(?:\([^()\n]*\))?`?")


def in_calls(text: str) -> str:
    """The text with tools where it names commands for hosts."""
    return _VERB.sub(lambda verb: _INSTEAD[verb[1]] + (f"(host='slurm:{verb[2]}')" if verb[2] else ""), text)


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The tools that a client has, and what it has in place of others of ours."""

    ours: frozenset[str] = frozenset()
    """All tools of the whole server. Those whose name is a plain word are told apart from words by nobody."""
    there: frozenset[str] = frozenset()
    instead: Mapping[str, str] = field(default_factory=dict)
    """The dialect's tool for one of ours."""

    def name(self, tool: str) -> str | None:
        """The client's name for one of our tools; None where it has nothing like it."""
        return tool if tool in self.there else self.instead.get(tool)

    def say(self, text: str) -> str:
        """The text with the client's tools; asides and clauses about tools that it lacks are left out."""
        text = in_calls(text)
        if not any(self._is_missing(found[1]) for found in _NAME.finditer(text)):
            return text
        text = _NAME.sub(self._translated, text)
        text = _ASIDE.sub(lambda aside: "" if self._lacks(aside[0]) else aside[0], text)
        head, *rest = _CLAUSES.split(text)
        kept = [] if self._lacks(head) else [head]
        for gap, clause in zip(rest[::2], rest[1::2], strict=True):
            if not self._lacks(clause):
                kept += [gap, clause] if kept else [clause]
        return "".join(kept)

    def say_error(self, text: str) -> str:
        """An error's text without the kernel's advice to call a tool for packages that the client lacks.

        A kernel does not know who reads it. All else in an error is code's own, and stays as it is.
        """
        if not self._is_missing("package_install") or "package_install(" not in text:
            return text
        return _ADVICE.sub("", text)

    def _is_missing(self, name: str) -> bool:
        return name in self.ours and "_" in name and name not in self.there

    def _lacks(self, text: str) -> bool:
        return any(self._is_missing(found[1]) for found in _NAME.finditer(text))

    def _translated(self, found: re.Match[str]) -> str:
        if not self._is_missing(found[1]):
            return found[0]
        return self.instead.get(found[1], found[0])
