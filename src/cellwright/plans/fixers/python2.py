"""Statements of Python 2 in the words of Python 3. Repairs of text that does not compile (see ``syntax``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from cellwright.plans.fixers.regions import code_only
from cellwright.plans.fixers.repairs import Repaired, error_line, lines_of

__all__ = ["call_statements", "except_as", "old_literals", "raise_call"]

_STATEMENT = re.compile(r"(?:^|[;:])[ \t]*(?P<word>print|exec)\b", re.MULTILINE)
_NO_STATEMENT = re.compile(r"[ \t]*[(.=\[,]")
_EXCEPT = re.compile(
    r"^(?P<head>[ \t]*except\b[ \t]*)(?P<types>\([^()]*\)|[\w.]+)[ \t]*,[ \t]*(?P<name>\w+)[ \t]*:"
)
_RAISE = re.compile(r"(?P<head>\braise[ \t]+)(?P<type>[A-Za-z_][\w.]*)[ \t]*,[ \t]*")
_LONG = re.compile(r"(?<![\w.])(?P<digits>\d+)[lL]\b")
_OCTAL = re.compile(r"(?<![\w.])0+(?P<digits>[0-7]+)\b")


def call_statements(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """``print x, y`` and ``exec code``: calls. All of them, since some compile, and then do something else."""
    line = lines_of(text)[error_line(text, error)]
    code = code_only(text)
    # In the code alone a text is blank, and what follows it would seem to follow the word.
    statements = [
        found for found in _STATEMENT.finditer(code) if not _NO_STATEMENT.match(text, found.end("word"))
    ]
    if not any(line.start <= found.start("word") < line.end for found in statements):
        return
    words, mended = set[str](), text
    for found in reversed(statements):
        end = _statement_end(code, text, found.end("word"))
        argument = text[found.end("word") : end].strip()
        called = _printed(argument) if found["word"] == "print" else _executed(argument)
        if called is not None:
            mended = mended[: found.start("word")] + called + mended[end:]
            words.add(f"`{found['word']}` is a function: it is called")
    # In Python 2, `/` of whole numbers is what `//` is now.
    divides = re.search(r"(?<!/)/(?!/)", code) is not None
    yield Repaired(mended, "; ".join(sorted(words)), certain=not divides)


def _statement_end(code: str, text: str, start: int) -> int:
    """Where a simple statement ends: at a line's end, a semicolon or a comment outside of brackets."""
    depth = 0
    place = start
    while place < len(code):
        letter = code[place]
        depth += (letter in "([{") - (letter in ")]}")
        if depth <= 0 and (letter in ";\r\n" or (letter == " " and text[place] == "#")):
            break
        place += 1
    return start + len(text[start:place].rstrip())


def _printed(argument: str) -> str | None:
    more = ""
    if argument.startswith(">>"):
        target, comma, argument = argument[2:].partition(",")
        more = f", file={target.strip()}"
        argument = argument.strip()
        if not comma:
            return f"print(file={target.strip()})"
    if argument.endswith(","):
        argument, more = argument[:-1].rstrip(), f', end=" "{more}'
    return f"print({argument}{more})" if argument else f"print({more.lstrip(', ')})"


def _executed(argument: str) -> str | None:
    code, word, where = argument.partition(" in ")
    return f"exec({code.strip()}, {where.strip()})" if word else f"exec({argument})" if argument else None


def except_as(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """``except Error, name:``."""
    line = lines_of(text)[error_line(text, error)]
    found = _EXCEPT.match(text[line.start : line.end])
    if found is not None:
        rest = text[line.start + found.end() :]
        head = f"{found['head']}{found['types']} as {found['name']}:"
        # Two types without brackets look the same, and bind nothing.
        certain = found["name"][:1].islower() or found["name"].startswith("_")
        yield Repaired(text[: line.start] + head + rest, "what is caught is named by `as`", certain)


def raise_call(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """``raise Error, "message"``."""
    line = lines_of(text)[error_line(text, error)]
    found = _RAISE.search(text[line.start : line.code_end])
    if found is None:
        return
    message = text[line.start + found.end() : line.code_end]
    try:
        value = ast.parse(message, mode="eval").body
    except (SyntaxError, ValueError):
        return
    if not isinstance(value, ast.Tuple):
        start = line.start + found.start()
        raised = f"{found['head']}{found['type']}({message})"
        yield Repaired(
            text[:start] + raised + text[line.code_end :], "an error is raised as a call", certain=True
        )


def old_literals(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """``<>``, ``10L`` and ``0755``."""
    line = lines_of(text)[error_line(text, error)]
    code = code_only(text)[line.start : line.end]
    here = text[line.start : line.end]
    if "<>" in code:
        mended = "".join(
            "!=" if code[i : i + 2] == "<>" else "" if code[i - 1 : i + 1] == "<>" else letter
            for i, letter in enumerate(here)
        )
        yield Repaired(text[: line.start] + mended + text[line.end :], "unequal is `!=`", certain=True)
    long = _LONG.search(code)
    if long is not None:
        start, end = line.start + long.start(), line.start + long.end()
        yield Repaired(text[:start] + long["digits"] + text[end:], "integers need no `L`", certain=True)
    octal = _OCTAL.search(code)
    if octal is not None:
        start, end = line.start + octal.start(), line.start + octal.end()
        yield Repaired(
            text[:start] + f"0o{octal['digits']}" + text[end:], "octal numbers begin with `0o`", certain=False
        )
