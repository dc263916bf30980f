"""Text that does not compile, fixed by rule: one mistake after the other, until it does.

What it becomes is proposed only if it compiles, and is certain only if every step on the way was. Which steps there are
stands in ``syntax``, ``python2``, ``punctuation``, ``punctuation`` and ``syntax``.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import MAX_TEXT, error_of, syntax_error
from cellwright.plans.fixers._punctuation import (
    Line,
    Repair,
    Repaired,
    close_brackets,
    close_quote,
    error_line,
    fit_bracket,
    foreign_signs,
    keyword_slip,
    lines_of,
    missing_colon,
    missing_comma,
    single_equals,
)
from cellwright.plans.fixers._regions import brackets, code_only, line_starts, regions_from

__all__ = ["fix_syntax"]
# Indentation that does not fit. Repairs of text that does not compile (see ``syntax``).


_UNIT = "    "

_ENDS_BLOCK = re.compile(r"[ \t]*(?:return|raise|break|continue|pass)\b")

_GOES_ON = re.compile(r"[ \t]*(?:else|elif|except|finally)\b")

_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)


def indent_block(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """The block after a colon, where it is clear which lines it has."""
    if "expected an indented block" not in (error.msg or ""):
        return
    lines = lines_of(text)
    at = error_line(text, error)
    header = next((index for index in range(at - 1, -1, -1) if not lines[index].is_blank), None)
    if header is None:
        return
    statements = _statements(text, lines, at, lines[header].indent)
    if not statements:
        return
    heads = [text[lines[first].start : lines[first].end] for first, _ in statements]
    goes_on = next((number for number, head in enumerate(heads) if _GOES_ON.match(head)), None)
    ends = _ENDS_BLOCK.match(heads[0]) is not None
    body = statements[:goes_on] if goes_on else statements[:1]
    first, last = body[0][0], body[-1][1]
    repaired = _shifted(text, lines, first, last, lines[first].indent, lines[header].indent + _UNIT)
    sure = bool(goes_on) or ends or len(statements) == 1
    yield Repaired(repaired, f"the block after line {header + 1} was not indented", certain=sure)


def _statements(text: str, lines: Sequence[Line], start: int, indent: str) -> list[tuple[int, int]]:
    """The statements that follow on the level of what leads them, each from its first line to its last."""
    found: list[tuple[int, int]] = []
    index = start
    while index < len(lines):
        line = lines[index]
        if line.is_blank:
            index += 1
            continue
        if len(line.indent) < len(indent):
            break
        last = index
        while last + 1 < len(lines) and (
            brackets(text[line.start : lines[last].end])[0]
            or lines[last + 1].inside
            or (not lines[last + 1].is_blank and len(lines[last + 1].indent) > len(line.indent))
        ):
            last += 1
        found.append((index, last))
        index = last + 1
    return found


def _shifted(text: str, lines: Sequence[Line], first: int, last: int, old: str, new: str) -> str:
    """Lines with another indentation; what is inside of a string stays."""
    parts = [text[: lines[first].start]]
    for index in range(first, last + 1):
        end = lines[index + 1].start if index + 1 < len(lines) else len(text)
        here = text[lines[index].start : end]
        moved = not lines[index].inside and here.strip() and here.startswith(old)
        parts.append(new + here[len(old) :] if moved else here)
    rest = lines[last + 1].start if last + 1 < len(lines) else len(text)
    return "".join(parts) + text[rest:]


def level_lines(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """Lines that are indented with nothing to lead them: on the level of the line before."""
    lines = lines_of(text)
    at = error_line(text, error)
    if "unexpected indent" in (error.msg or ""):
        before = next((line for line in reversed(lines[:at]) if not line.is_blank and not line.inside), None)
        level = before.indent if before is not None else ""
        last = at
        while last + 1 < len(lines) and (
            lines[last + 1].is_blank
            or lines[last + 1].inside
            or len(lines[last + 1].indent) >= len(lines[at].indent)
        ):
            last += 1
        repaired = _shifted(text, lines, at, last, lines[at].indent, level)
        # It may go on with a block above, which a line before it left too early.
        sure = all(line.indent != lines[at].indent for line in lines[:at] if not line.is_blank)
        yield Repaired(repaired, f"line {at + 1} was indented with nothing to lead it", certain=sure)
    elif "unindent does not match" in (error.msg or ""):
        levels = {line.indent for line in lines[:at] if not line.is_blank}
        width = len(lines[at].indent)
        for level in sorted(levels, key=lambda each: abs(len(each) - width)):
            repaired = _shifted(text, lines, at, at, lines[at].indent, level)
            yield Repaired(repaired, f"line {at + 1} is on no level of the lines before", certain=False)


def untangle_tabs(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """Spaces for tabs, where however wide a tab is leads to the same program."""
    if not isinstance(error, TabError) and "\t" not in text:
        return
    inside = {line.start for line in lines_of(text) if line.inside}
    starts = set(line_starts(text)) - inside
    widths = {}
    for width in (4, 8):
        repaired = _INDENT.sub(
            lambda found: found.group().expandtabs(width) if found.start() in starts else found.group(),  # noqa: B023
            text,
        )
        if repaired != text and syntax_error(repaired) is None:
            widths[width] = repaired
    programs = {ast.dump(ast.parse(repaired)) for repaired in widths.values() if _parses(repaired)}
    for repaired in widths.values():
        yield Repaired(repaired, "tabs and spaces were mixed", certain=len(programs) == 1)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


# Marks that came along with code from elsewhere: Markdown fences, prompts, typographers' quotes and spaces.

_FENCE = re.compile(r"[ \t]*(?:```+|~~~+)[ \t]*[\w+-]*[ \t]*")

_PROMPT = re.compile(r"(?P<prompt>[ \t]*(?:>>>|In \[\d*\]:)(?: |$)|[ \t]*(?:\.\.\.:?|\.{3,}:)(?: |$))")

_FIRST_PROMPT = re.compile(r"[ \t]*(?:>>>|In \[\d*\]:)")

_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"

_NOTHING = "\ufeff\u200b\u200c\u200d\u2060\u00ad"

_SIGNS = {
    "\u2212": "-",
    "\u2013": "-",
    "\u2014": "-",
    "\u00d7": "*",
    "\u00f7": "/",
    "\u2264": "<=",
    "\u2265": ">=",
    "\u2260": "!=",
    "\u3001": ",",
    "\u3002": ".",
    "\u3010": "[",
    "\u3011": "]",
}

_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in map(ord, "!#%&()*+,-./:;<=>?@[]^_{|}~0123456789")}

_PLAIN = {**dict.fromkeys(_SPACES, " "), **dict.fromkeys(_NOTHING, ""), **_SIGNS, **_FULL_WIDTH}

_QUOTES = {'"': "\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02", "'": "\u2018\u2019\u201a\u201b\uff07"}

_MAX_QUOTES = 400

_PLAIN_QUOTE = {fancy: plain for plain, fancies in _QUOTES.items() for fancy in fancies}


def drop_fence(text: str, error: SyntaxError) -> Iterator[Repaired]:  # one signature for all repairs
    """Take the lines of a Markdown fence off both ends, or off the one that has it."""
    lines = text.splitlines(keepends=True)
    marked = [index for index, line in enumerate(lines) if _FENCE.fullmatch(line.rstrip("\r\n"))]
    filled = [index for index, line in enumerate(lines) if line.strip()]
    ends = {index for index in marked if index in (filled[:1] + filled[-1:])}
    if ends:
        kept = "".join(line for index, line in enumerate(lines) if index not in ends)
        yield Repaired(kept, "a Markdown fence stood around the code", certain=True)
    if len(marked) == 2:  # one that opens, one that closes
        inner = "".join(lines[marked[0] + 1 : marked[1]])
        yield Repaired(inner, "text and a Markdown fence stood around the code", certain=False)


def drop_prompts(text: str, error: SyntaxError) -> Iterator[Repaired]:  # one signature for all repairs
    """Take prompts off; and where every statement has one, the lines without are what was printed."""
    lines = text.splitlines(keepends=True)
    if not any(_FIRST_PROMPT.match(line) for line in lines):
        return
    stripped = [_PROMPT.sub("", line, count=1) if _PROMPT.match(line) else line for line in lines]
    first = next(line for line in lines if line.strip())
    if _FIRST_PROMPT.match(first):
        prompted = [bare for line, bare in zip(lines, stripped, strict=True) if _PROMPT.match(line)]
        yield Repaired("".join(prompted), "prompts and outputs stood beside the code", certain=True)
    yield Repaired("".join(stripped), "prompts stood before the code", certain=True)


def plain_characters(text: str, error: SyntaxError) -> Iterator[Repaired]:  # one signature for all repairs
    """Quotes, spaces and signs that look like Python's, by Python's own."""
    plain = _plain(text)
    if plain is not None and plain != text:
        yield Repaired(plain, "some quotes, spaces or signs were not Python's own", certain=True)


def _plain(text: str) -> str | None:
    """The text with plain signs in its code; None where a quotation does not end on its line."""
    letters = Counter(text)
    if not any(letter in _PLAIN or letter in _PLAIN_QUOTE for letter in letters):
        return None
    if sum(letters[quote] for quote in _PLAIN_QUOTE) > _MAX_QUOTES:
        return None
    parts: list[str] = []
    at = 0
    while at < len(text):
        region = next(each for each in regions_from(text, at) if each.end > each.start)
        end = region.end
        if region.kind != "code":
            parts.append(text[at:end])
            at = end
            continue
        quote = next((place for place in range(at, end) if text[place] in _PLAIN_QUOTE), end)
        parts.append("".join(_PLAIN.get(letter, letter) for letter in text[at:quote]))
        at = quote
        if quote < end:
            closed = _quotation(text, quote)
            if closed is None:
                return None
            parts.append(closed[0])
            at = closed[1]
    return "".join(parts)


def _quotation(text: str, start: int) -> tuple[str, int] | None:
    """A string in typographers' quotes, as one in plain ones."""
    plain = _PLAIN_QUOTE[text[start]]
    closing = re.compile(f"[{_QUOTES[plain]}{plain}]")
    line_end = re.compile(r"[\r\n]|\Z").search(text, start)
    end = closing.search(text, start + 1, line_end.start() if line_end else len(text))
    if end is None or plain in text[start + 1 : end.start()]:
        return None
    return f"{plain}{text[start + 1 : end.start()]}{plain}", end.end()


# Statements of Python 2 in the words of Python 3. Repairs of text that does not compile (see ``syntax``).

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
    words, repaired = set[str](), text
    for found in reversed(statements):
        end = _statement_end(code, text, found.end("word"))
        argument = text[found.end("word") : end].strip()
        called = _printed(argument) if found["word"] == "print" else _executed(argument)
        if called is not None:
            repaired = repaired[: found.start("word")] + called + repaired[end:]
            words.add(f"`{found['word']}` is a function: it is called")
    # In Python 2, `/` of whole numbers is what `//` is now.
    divides = re.search(r"(?<!/)/(?!/)", code) is not None
    yield Repaired(repaired, "; ".join(sorted(words)), certain=not divides)


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
        repaired = "".join(
            "!=" if code[i : i + 2] == "<>" else "" if code[i - 1 : i + 1] == "<>" else letter
            for i, letter in enumerate(here)
        )
        yield Repaired(text[: line.start] + repaired + text[line.end :], "unequal is `!=`", certain=True)
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


_ERRORS = frozenset(["SyntaxError", "IndentationError", "TabError", "_IncompleteInputError"])

_MAX_STEPS = 30

REPAIRS: tuple[Repair, ...] = (
    drop_fence,
    drop_prompts,
    plain_characters,
    call_statements,
    except_as,
    raise_call,
    old_literals,
    foreign_signs,
    missing_colon,
    single_equals,
    untangle_tabs,
    level_lines,
    indent_block,
    close_quote,
    fit_bracket,
    close_brackets,
    missing_comma,
    keyword_slip,
)


def fix_syntax(failure: Failure) -> Proposal | None:
    """Fix what is mechanical in a text that Python cannot read."""
    error = error_of(failure)
    if failure.state != "error" or failure.language != "python" or error is None or error.type not in _ERRORS:
        return None
    text, reasons, certain = failure.source, list[str](), True
    if len(text) > MAX_TEXT:
        return None
    for _ in range(_MAX_STEPS):
        wrong = syntax_error(text)
        if wrong is None:
            break
        step = _step(text, wrong)
        if step is None:
            return None
        text, certain = step.text, certain and step.certain
        if step.reason not in reasons:
            reasons.append(step.reason)
    if syntax_error(text) is not None or text == failure.source or not text.strip():
        return None
    told = "; ".join(reasons)
    return Proposal("syntax", told[:1].upper() + told[1:] + ".", text, certain=certain)


def _step(text: str, wrong: SyntaxError) -> Repaired | None:
    """The first repair that makes it compile, a certain one before others; else one after which Python gets further."""
    tried = [repaired for repair in REPAIRS for repaired in repair(text, wrong) if repaired.text != text]
    whole = [repaired for repaired in tried if syntax_error(repaired.text) is None]
    if whole:
        return next((repaired for repaired in whole if repaired.certain), whole[0])
    return next(
        (repaired for repaired in tried if repaired.certain and _further(text, wrong, repaired.text)), None
    )


def _further(text: str, wrong: SyntaxError, repaired: str) -> bool:
    still = syntax_error(repaired)
    if still is None:
        return True
    # What was taken off at the top moves every line up.
    moved = text.count("\n") - repaired.count("\n")
    return ((still.lineno or 0) + moved, still.offset or 0) > (wrong.lineno or 0, wrong.offset or 0)
