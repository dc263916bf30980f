"""Acceptance checks: how they are written, the code that makes a kernel check one, and whether an output shows it.

Pure. Nothing is run here (see ``runner``).
"""

from __future__ import annotations

import ast
import html
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, cast

from cellwright.errors import PlanError
from cellwright.notebook.languages import canonical_language
from cellwright.notebook.outputs import TERMINAL_CODES
from cellwright.plans.model import Check, CheckKind

__all__ = ["check_source", "check_text", "output_appears", "parse_check", "told"]

_HINT = (
    "A check is an expression that must be true, 'output: TEXT', 'output: image/png', 'file: PATH', "
    "or 'runs without error'"
)
_nothing = re.compile(r"(?:runs? without (?:an )?errors?)?\.?", re.IGNORECASE)
_prefix = re.compile(r"(output|file|expression)\s*:\s*(.*)", re.IGNORECASE | re.DOTALL)
_ticked = re.compile(r"(`{1,3})([^`]+)\1")
_mime = re.compile(r"(?:application|audio|chemical|font|image|model|text|video)/[\w.+*-]+")
_elsewhere = re.compile(r"[/\\~]|[A-Za-z]:")
_hidden = re.compile(r"<(?:style|script)\b|<!--", re.IGNORECASE)
_shown_again = re.compile(r"</(?:style|script)\s*>|-->", re.IGNORECASE)
_tag = re.compile(r"</?[A-Za-z][^<>]*>")


def parse_check(text: str, language: str = "python") -> Check | None:
    """Read what somebody wrote as an acceptance check; None where it asks for no more than that the code runs.

    Raises:
        PlanError: it is no expression of the language, or names a file outside the working directory.
    """
    text = text.strip()
    if _nothing.fullmatch(text):
        return None
    match = _prefix.fullmatch(text)
    kind = cast("CheckKind", match[1].lower()) if match else "expression"
    value = match[2].strip() if match else text
    if kind != "output" and (ticked := _ticked.fullmatch(value)):
        value = ticked[2].strip()
    if not value:
        raise PlanError(f"The check {text!r} says nothing after its colon", hint=_HINT)
    if kind == "file":
        value = _path(value)
    elif kind == "expression" and language == "python":
        value = _python_expression(value)
    return Check(kind, value)


def check_text(check: Check) -> str:
    """The check as ``parse_check`` reads it."""
    plain = check.kind == "expression" and not (
        _prefix.fullmatch(check.value) or _nothing.fullmatch(check.value)
    )
    return check.value if plain else f"{check.kind}: {check.value}"


def check_source(check: Check, language: str = "python") -> str:
    """Code that raises where an expression is not true, or a file is not there, as the session itself sees it.

    Raises:
        PlanError: it is a check of outputs, or the language is none that this is known for.
    """
    if check.kind == "output":
        raise PlanError(f"That {told(check)} is not checked by code")
    language = canonical_language(language)
    condition, message = _condition(check, language), f"Not true: {check.value}"
    if check.kind == "file":
        message = f"There is no file {check.value}"
    match language:
        case "python":
            return f"assert {condition}, {message!r}"
        case "r":
            return f"stopifnot({json.dumps(message, ensure_ascii=False)} = {condition})"
        case _:
            return f"if (!{condition}) throw new Error({json.dumps(message)});"


def _condition(check: Check, language: str) -> str:
    # An end of line keeps a comment in the expression from taking the bracket with it.
    edge = "\n" if re.search(r"[#\n]|//", check.value) else ""
    expression = f"({edge}{check.value}{edge})"
    is_file = check.kind == "file"
    match language:
        case "python":
            return f"__import__('os').path.exists({check.value!r})" if is_file else expression
        case "r":
            return f"file.exists({json.dumps(check.value, ensure_ascii=False)})" if is_file else expression
        case "javascript" | "typescript":
            return f"Deno.statSync({json.dumps(check.value)})" if is_file else expression
    raise PlanError(
        f"That {told(check)} cannot be checked in {language}",
        hint="Expressions and files are checked in Python, R, JavaScript and TypeScript; check an output instead",
    )


def output_appears(check: Check, outputs: Iterable[Mapping[str, Any]]) -> bool:
    """Whether outputs, as a notebook has them, show the text or the MIME type of an ``output`` check.

    Runs of white space count as one space. What an error put out does not count.
    """
    outputs = list(outputs)
    if _mime.fullmatch(check.value) and any(
        fnmatchcase(mime, check.value) for output in outputs for mime in output.get("data") or {}
    ):
        return True
    wanted = _even(check.value)
    return any(wanted in _even(text) for text in _texts(outputs))


def told(check: Check) -> str:
    """What the check demands, in words that fit into a sentence of Markdown."""
    match check.kind:
        case "expression":
            ticks = "`" * (1 + max(map(len, re.findall("`+", check.value)), default=0))
            pad = " " if len(ticks) > 1 else ""
            return f"{ticks}{pad}{_even(check.value)}{pad}{ticks} is true"
        case "file":
            return f"the file `{check.value}` exists"
        case "output":
            shown = f"`{check.value}`" if _mime.fullmatch(check.value) else f"“{_even(check.value)}”"
            return f"the output shows {shown}"


def _path(text: str) -> str:
    path = PurePosixPath(text)
    if _elsewhere.match(text) or ".." in path.parts or not path.parts or "\0" in text:
        raise PlanError(
            f"The check 'file: {text}' leads out of the working directory",
            hint="Name a file beneath the working directory, e.g. 'file: out/result.csv'",
        )
    return str(path)


def _python_expression(text: str) -> str:
    """The expression itself, also where it stands behind ``assert``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text = _asserted(text)
            body = ast.parse(text, mode="eval").body
            # What parses may still be nothing that can stand here: a ``yield``.
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            compile(f"assert (\n{text}\n)", "<check>", "exec", flags=flags, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise PlanError(
                f"The check {text!r} is no Python expression: {_reason(error)}", hint=_HINT
            ) from error
    if isinstance(body, ast.Tuple) or (isinstance(body, ast.Constant) and isinstance(body.value, str)):
        raise PlanError(
            f"The check {text!r} is always true: it is a {'tuple' if isinstance(body, ast.Tuple) else 'text'}",
            hint="Join conditions with 'and', or make each a check of its own. " + _HINT,
        )
    return text


def _asserted(text: str) -> str:
    if not re.match(r"assert\b", text):
        return text
    match ast.parse(text).body:
        case [ast.Assert(test=test)]:
            inner = ast.get_source_segment(text, test) or text
            return f"({inner})" if "\n" in inner else inner
    return text


def _reason(error: BaseException) -> str:
    if not isinstance(error, SyntaxError):
        return str(error) or "it is too deep"
    rest = (error.text or "").rstrip()[max((error.offset or 1) - 1, 0) :]
    return f"{error.msg} at column {error.offset}, at {rest!r}" if rest else error.msg


def _texts(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    streams: dict[str, str] = {}
    texts: list[str] = []
    for output in outputs:
        if output.get("output_type") == "stream":
            name = str(output.get("name"))
            streams[name] = streams.get(name, "") + _joined(output.get("text"))
        for mime, content in (output.get("data") or {}).items():
            if mime == "text/html":
                seen = _shown(_joined(content))
                texts += [html.unescape(_tag.sub("", seen)), html.unescape(_tag.sub(" ", seen))]
            elif mime.startswith("text/"):
                texts.append(_joined(content))
    return [*streams.values(), *texts]


def _shown(markup: str) -> str:
    """Markup without what no reader sees; step by step, since one pattern for it takes long on what is unclosed."""
    pieces: list[str] = []
    place = 0
    while hidden := _hidden.search(markup, place):
        pieces.append(markup[place : hidden.start()])
        end = _shown_again.search(markup, hidden.end())
        place = end.end() if end else len(markup)
    return "".join([*pieces, markup[place:]])


def _joined(content: Any) -> str:
    return content if isinstance(content, str) else "".join(content or ())


def _even(text: str) -> str:
    return " ".join(TERMINAL_CODES.sub("", text).split())
