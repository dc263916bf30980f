"""Finds the first action in what a model wrote: a block of code, an object that names a tool, or a call as in Python.

Tolerant of what small models write around and inside it, but nothing is guessed: what was meant as an action and cannot
be read is said to be so. Pure; the dialect itself is in ``text_actions``.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_ai.tools import ToolDefinition

__all__ = ["RUN_TOOL", "Call", "Misread", "code_tool", "first_action"]
RUN_TOOL = "cell_add_and_run"

_PYTHON = {"python", "py", "python3", "ipython", "tool_code"}

_LANGUAGES = {
    "sql": "sql",
    "duckdb": "sql",
    "typescript": "typescript",
    "ts": "typescript",
    "javascript": "javascript",
}

_NAMES = ("tool", "tool_name", "name", "function", "action")

_ARGUMENTS = ("arguments", "args", "parameters", "params", "input", "action_input")

_MOST_READ = 200_000

_MOST_TRIED = 100

_LONGEST_CALL = 20_000

_MOST_PARSED = 400_000
"""Characters in all: a reply that begins a thousand calls and ends none must not hold everybody up."""

_fence = re.compile(r"(`{3,})[ \t]*([\w+#.-]*)[ \t]*(?:\r?\n)?")


@dataclass(frozen=True, slots=True)
class Call:
    """An action, and what was said before it."""

    tool: str
    arguments: dict[str, Any]
    before: str = ""


@dataclass(frozen=True, slots=True)
class Misread:
    """Something that was meant as an action."""

    why: str


@dataclass(frozen=True, slots=True)
class CodeTool:
    """The tool that a block of code means."""

    name: str
    languages: bool


Found: TypeAlias = Call | Misread | None


def code_tool(tools: Sequence[ToolDefinition]) -> CodeTool | None:
    """The notebook's tool that runs code; where it is missing, the first that needs code and nothing else."""
    for tool in sorted(tools, key=lambda tool: tool.name != RUN_TOOL):
        schema = tool.parameters_json_schema
        if schema.get("required", []) == ["code"]:
            return CodeTool(tool.name, "language" in schema.get("properties", {}))
    return None


def first_action(text: str, tools: Sequence[ToolDefinition]) -> Found:
    """The first action in a text; where there is none, the first thing that looks as if it should be one."""
    text = text[:_MOST_READ]
    known = {tool.name: tool for tool in tools}
    misread: Misread | None = None
    for found, at in _candidates(text, known):
        if isinstance(found, Call):
            return Call(found.tool, found.arguments, text[:at].strip())
        misread = misread or found
    return misread


def _candidates(text: str, known: Mapping[str, ToolDefinition]) -> Iterator[tuple[Call | Misread, int]]:
    """What the places where an action may begin hold, in order."""
    names = "|".join(re.escape(name) for name in known)
    # A call only at the beginning of a line: an answer may tell of one.
    begins = re.compile(
        rf"`{{3,}}|\{{|^[ \t]*(?:action:[ \t]*)?(?P<call>(?:{names})\s*\()", re.MULTILINE | re.IGNORECASE
    )
    at = 0
    left = _MOST_PARSED
    for _ in range(_MOST_TRIED):
        begun = begins.search(text, at)
        if begun is None:
            return
        if begun[0].startswith("`"):
            found, at = _in_fence(text, begun.start(), known)
        elif begun[0] == "{":
            found, at = _bare_object(text, begun.start(), known)
        else:
            found, at, left = _bare_call(text, begun, known, left)
        if found is not None:
            yield found, begun.start()


# Blocks ---------------------------------------------------------------------------------------------------------------


def _in_fence(text: str, at: int, known: Mapping[str, ToolDefinition]) -> tuple[Found, int]:
    opened = _fence.match(text, at)
    if opened is None:
        return None, at + 1
    label = opened[2].lower()
    body, end = _body(text, opened)
    start = opened.end()
    if label in known and not body.lstrip().startswith("{"):
        return _as_code(body, label, known), end
    if label not in _PYTHON and label not in _LANGUAGES and body.lstrip().startswith("{"):
        place = start + len(body) - len(body.lstrip())
        found, after = _object(text, place, known, meant=label == "action", tool=label)
        return found, max(end if found is None else after, at + 1)
    return _as_code(body, label, known), end


def _body(text: str, opened: re.Match[str]) -> tuple[str, int]:
    """What a fence holds, and the place after it. One that is not closed goes on to the end."""
    start, ticks = opened.end(), opened[1]
    if not opened[0].endswith("\n"):
        line_end = text.find("\n", start)
        inline = text.find(ticks, start, line_end if line_end >= 0 else len(text))
        if inline >= 0:
            return text[start:inline], inline + len(ticks)
    closing = re.compile(rf"^[ \t]*`{{{len(ticks)},}}[ \t]*\r?$", re.MULTILINE).search(text, start)
    if closing is not None:
        body = text[start : closing.start()]
        return body.removesuffix("\n"), closing.end()
    inline = text.find(ticks, start)
    return (text[start:], len(text)) if inline < 0 else (text[start:inline], inline + len(ticks))


def _as_code(body: str, label: str, known: Mapping[str, ToolDefinition]) -> Found:
    coded = code_tool(list(known.values()))
    called = _python_call(body, known) if label in _PYTHON or not label else None
    if called is not None:
        return called
    if coded is None or not body.strip():
        return Misread("the block of code is empty") if coded is not None and label in _PYTHON else None
    if label in _PYTHON or label == coded.name or (not label and _does_something(body)):
        return Call(coded.name, {"code": body})
    if label in _LANGUAGES and coded.languages:
        return Call(coded.name, {"code": body, "language": _LANGUAGES[label]})
    return None


def _does_something(code: str) -> bool:
    """Whether a block that does not say what it is can only be Python: a quoted output parses, too, as a rule."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    acts = (ast.Call, ast.Assign, ast.Import, ast.ImportFrom)
    return any(isinstance(node, acts) for node in ast.walk(tree))


# Objects --------------------------------------------------------------------------------------------------------------


def _bare_object(text: str, at: int, known: Mapping[str, ToolDefinition]) -> tuple[Found, int]:
    found, end = _object(text, at, known, meant=False)
    return found, end if found is not None else at + 1


def _object(
    text: str, at: int, known: Mapping[str, ToolDefinition], *, meant: bool, tool: str = ""
) -> tuple[Found, int]:
    """The action that an object is; ``meant`` says that it can be nothing else."""
    try:
        value, end = value_at(text, at)
    except Unreadable as error:
        meant = meant or re.match(r"\{\s*[\"']?tool[\"']?\s*:", text[at:]) is not None
        return (Misread(str(error)) if meant else None), at + 1
    if not isinstance(value, dict):
        return None, end
    if tool in known and not any(name in value for name in _NAMES):
        return Call(tool, _inner(value, known[tool])), end
    return _action_of(value, known, meant=meant or "tool" in value), end


def _action_of(value: Mapping[str, Any], known: Mapping[str, ToolDefinition], *, meant: bool) -> Found:
    key = next((name for name in _NAMES if name in value), None)
    if key is None:
        return Misread("it names no tool") if meant else None
    if isinstance(value[key], dict):  # {"function": {"name": …, "arguments": …}}
        return _action_of(value[key], known, meant=meant)
    name = _known_name(str(value[key]), known)
    if name is None:
        there = ", ".join(known)
        return Misread(f"there is no tool {str(value[key])!r}, only: {there}") if meant else None
    rest = {other: item for other, item in value.items() if other != key}
    return Call(name, _inner(rest, known[name]))


def _inner(rest: dict[str, Any], tool: ToolDefinition) -> dict[str, Any]:
    """The arguments, under whatever name they stand, or spread out beside the tool's."""
    properties = tool.parameters_json_schema.get("properties", {})
    key = next((name for name in _ARGUMENTS if name in rest and name not in properties), None)
    if key is None:
        key = next((name for name in _ARGUMENTS if isinstance(rest.get(name), dict)), None)
    if key is None:
        return rest
    given = rest[key]
    if isinstance(given, dict):
        return given
    needed = tool.parameters_json_schema.get("required", [])
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            value, _ = value_at(given.lstrip(), 0)
        except Unreadable:
            value = None
        if isinstance(value, dict):
            return value
    return {needed[0]: given} if len(needed) == 1 and given is not None else {}


def _known_name(name: str, known: Mapping[str, ToolDefinition]) -> str | None:
    if name in known:
        return name
    plain = {re.sub(r"[^a-z0-9]", "", one.lower()): one for one in known}
    last = re.split(r"[.:/]", name)[-1]
    return plain.get(re.sub(r"[^a-z0-9]", "", last.lower()))


# Calls as in Python ---------------------------------------------------------------------------------------------------


def _bare_call(
    text: str, begun: re.Match[str], known: Mapping[str, ToolDefinition], left: int
) -> tuple[Found, int, int]:
    """A call in the middle of a text; its end is where it first parses. ``left`` is how much may still be parsed."""
    at = begun.end()
    start = begun.start("call")
    for _ in range(_MOST_TRIED):
        at = text.find(")", at, start + _LONGEST_CALL) + 1
        left -= max(at - start, 0)
        if not at or left < 0:
            break
        called = _python_call(text[start:at], known)
        if called is not None:
            return called, at, left
    return None, begun.end(), left


def _python_call(source: str, known: Mapping[str, ToolDefinition]) -> Call | None:
    """A tool called with literals, and nothing else."""
    try:
        tree = ast.parse(source.strip(), mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in known:
            called = _called(tree, tree.func.id, known)
            return called if called is not None and is_json(called.arguments) else None
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        pass
    return None


def _called(tree: ast.Call, name: str, known: Mapping[str, ToolDefinition]) -> Call | None:
    schema = known[name].parameters_json_schema
    given = [ast.literal_eval(argument) for argument in tree.args]
    if len(given) == 1 and isinstance(given[0], dict) and not tree.keywords:
        return Call(name, given[0])
    arguments = dict(zip([*schema.get("required", []), *schema.get("properties", {})], given, strict=False))
    for keyword in tree.keywords:
        if keyword.arg is None:
            return None
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return Call(name, arguments)


# JSON as small models write it, read without guessing: the value at a place in a text, and where it ends.

_space = re.compile(r"(?:\s+|//[^\n]*|#[^\n]*)*")

_word = re.compile(r"[A-Za-z_][\w-]*")

_number = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""}

_CODES = {"u": 4, "x": 2}

_MOST_DEEP = 50

_strict = json.JSONDecoder(strict=False)


class Unreadable(ValueError):
    """It is no value; the message says what was found where one should go on."""


def value_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at ``start``, and the place after it.

    Raises:
        Unreadable: there is none.
    """
    try:
        value, end = _strict.raw_decode(text, start)
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        return reader.value(0), reader.at
    if not is_json(value):
        raise Unreadable("it is nested too deeply")
    return value, end


def is_json(value: Any, depth: int = 0) -> bool:
    """Whether a value can be written as JSON, and is not nested more deeply than everybody can read."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        named = all(isinstance(key, str) for key in value) if isinstance(value, dict) else True
        return depth <= _MOST_DEEP and named and all(is_json(one, depth + 1) for one in inner)
    return value is None or isinstance(value, str | int | float)


@dataclass(slots=True)
class _Reader:
    text: str
    at: int

    def value(self, depth: int) -> Any:
        self._skip()
        begun = self._next()
        if depth > _MOST_DEEP:
            raise Unreadable("it is nested too deeply")
        if begun == "{":
            return self._object(depth)
        if begun == "[":
            return self._array(depth)
        if begun and begun in "\"'":
            return self._string()
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        while not self._closed("}"):
            key = self._key()
            self._skip()
            if self._next() not in (":", "="):
                raise Unreadable(f"after {key!r} comes {self._next()!r} instead of a colon")
            self.at += 1
            found[key] = self.value(depth + 1)
            self._comma("}")
        return found

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        while not self._closed("]"):
            found.append(self.value(depth + 1))
            self._comma("]")
        return found

    def _closed(self, bracket: str) -> bool:
        self._skip()
        if self._next() == bracket:
            self.at += 1
            return True
        # What is cut off after a whole value lacks only brackets. A fence is where the writer thought it was whole.
        return self.at >= len(self.text) or self.text.startswith("```", self.at)

    def _comma(self, bracket: str) -> None:
        self._skip()
        if self._next() == ",":
            self.at += 1
        elif self._next() not in (bracket, "") and not self.text.startswith("```", self.at):
            raise Unreadable(f"{self._next()!r} stands where a comma or {bracket!r} should be")

    def _key(self) -> str:
        if self._next() in ('"', "'"):
            return self._string()
        word = _word.match(self.text, self.at)
        if word is None:
            raise Unreadable(f"{self._next()!r} stands where a name should be")
        self.at = word.end()
        return word[0]

    def _string(self) -> str:
        mark = self._next()
        if self.text.startswith(mark * 3, self.at):
            mark *= 3
        self.at += len(mark)
        pieces: list[str] = []
        while not self.text.startswith(mark, self.at):
            if self.at >= len(self.text):
                raise Unreadable("a text is not closed")
            pieces.append(self._character())
        self.at += len(mark)
        return "".join(pieces)

    def _character(self) -> str:
        character = self.text[self.at]
        self.at += 1
        if character != "\\" or self.at >= len(self.text):
            return character
        escaped = self.text[self.at]
        self.at += 1
        if escaped in _CODES:
            digits = self.text[self.at : self.at + _CODES[escaped]]
            try:
                code = chr(int(digits, 16))
            except ValueError:
                return f"\\{escaped}"
            self.at += len(digits)
            return code
        if escaped in "\"'\\/":
            return escaped
        # As in Python: a backslash that means nothing is one (of a regular expression, as a rule).
        return _ESCAPES.get(escaped, f"\\{escaped}")

    def _scalar(self) -> Any:
        word = _word.match(self.text, self.at)
        if word is not None and word[0].lower() in _CONSTANTS:
            self.at = word.end()
            return _CONSTANTS[word[0].lower()]
        number = _number.match(self.text, self.at)
        if number is None:
            raise Unreadable(f"{self._next() or 'the end'!r} stands where a value should be")
        self.at = number.end()
        try:
            return int(number[0]) if number[0].lstrip("+-").isdigit() else float(number[0])
        except ValueError:  # of thousands of digits
            raise Unreadable("a number is too long") from None

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self) -> None:
        found = _space.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
