"""Signs and words that are missing or another language's: colons, commas, operators, keywords.

Repairs of text that does not compile (see ``syntax``); brackets and quotes are in ``punctuation``.
"""

from __future__ import annotations

import ast
import keyword
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from cellwright.plans.fixers._cells import syntax_error
from cellwright.plans.fixers._regions import CLOSERS, Bracket, brackets, code_only, line_starts, regions
from cellwright.plans.fixers._similarity import distance

__all__ = [
    "Line",
    "Repair",
    "Repaired",
    "close_brackets",
    "close_quote",
    "error_line",
    "fit_bracket",
    "foreign_signs",
    "keyword_slip",
    "lines_of",
    "missing_colon",
    "missing_comma",
    "single_equals",
]

_HEADER = re.compile(
    r"[ \t]*(?:async[ \t]+)?(?:if|elif|else|for|while|def|class|try|except|finally|with|match|case)\b"
)

_ELSE_IF = re.compile(r"(?P<indent>^[ \t]*)(?:else[ \t]+if|elseif|elsif|elseIf|elsIf)\b")

_COMMENT = re.compile(r"(?P<indent>^[ \t]*)//")

_STEP = re.compile(
    r"^(?P<indent>[ \t]*)(?P<target>[A-Za-z_][\w.]*(?:\[[^\]]*\])?)(?P<sign>\+\+|--)[ \t]*;?[ \t]*$"
)

_NOT = re.compile(r"(?<![=!<>\w])!(?!=)[ \t]*(?=[A-Za-z_(])")

_NEGATED = re.compile(r"[\w.]+(?:\([^()]*\))?[ \t]*(?:$|\)|:|,|&&|\|\||and\b|or\b)")

_CONDITION = re.compile(r"[ \t]*(?P<word>if|elif|while|assert)\b")

_ASSIGN = re.compile(r"(?<![=!<>:+\-*/%&|^@])=(?!=)")

_WORDS = [word for word in keyword.kwlist if len(word) > 2 and word[0].islower()]  # `in`, `is`: too short

_MAX_COMMA_LINES = 50


def missing_colon(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """The colon at the end of what leads a block."""
    lines = lines_of(text)
    at = error_line(text, error)
    before = next((index for index in range(at - 1, -1, -1) if not lines[index].is_blank), None)
    for index in (at, before):
        if index is None:
            continue
        line = lines[index]
        code = text[line.start : line.code_end]
        follows = next((later for later in lines[index + 1 :] if not later.is_blank), None)
        leads = _HEADER.match(code) or (not code.lstrip().startswith(("#", "@")) and code.endswith(")"))
        if not leads or code.endswith((":", ",", "\\", ";", "{")) or follows is None:
            continue
        if len(follows.indent) > len(line.indent):
            repaired = text[: line.code_end] + ":" + text[line.code_end :]
            yield Repaired(repaired, f"a colon was missing at the end of line {index + 1}", certain=True)


def foreign_signs(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """``else if``, ``&&``, ``||``, ``!x``, ``===``, ``x++``, ``//``: as Python writes them."""
    line = lines_of(text)[error_line(text, error)]
    code = code_only(text)[line.start : line.end]
    here = text[line.start : line.end]
    for pattern, sign in ((_ELSE_IF, "elif"), (_COMMENT, "#")):
        found = pattern.search(code)
        if found is not None:
            # `// 7` may go on with the line before.
            sure = sign != "#" or not _is_expression(here[found.end() :])
            repaired = found["indent"] + sign + here[found.end() :]
            yield _on(text, line, repaired, f"it is `{sign}` in Python", certain=sure)
    step = _STEP.match(here)
    if step is not None:
        yield _on(text, line, f"{step['indent']}{step['target']} {step['sign'][0]}= 1", "Python has no `++`")
    repaired, certain = _operators(here, code)
    if "[" in code and re.search(r"&&|\|\|", code[code.index("[") :]):
        certain = False  # of masks of a frame, it is `&` and `|`
    if repaired != here:
        yield _on(text, line, repaired, "some operators were another language's", certain=certain)


def _on(text: str, line: Line, repaired: str, reason: str, *, certain: bool = True) -> Repaired:
    return Repaired(text[: line.start] + repaired + text[line.end :], reason, certain)


def _operators(here: str, code: str) -> tuple[str, bool]:
    parts: list[str] = []
    certain, at = True, 0
    for found in re.finditer(r"&&|\|\||===|!==|(?<![=!<>\w])!(?!=)", code):
        sign, end = found.group(), found.end()
        before, after = here[: found.start()], here[found.end() :]
        if sign in ("&&", "||"):
            word = "and" if sign == "&&" else "or"
            new = f"{'' if before[-1:].isspace() else ' '}{word}{'' if after[:1].isspace() else ' '}"
        elif sign == "!":
            spaces = len(after) - len(after.lstrip())
            new, end = "not ", found.end() + spaces
            # `!a == b` negates only `a` where it comes from.
            certain = certain and _NEGATED.match(code[end:].rstrip()) is not None
        else:
            new = sign[:2]
        parts += [here[at : found.start()], new]
        at = end
    return "".join(parts) + here[at:], certain


def single_equals(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """``if x = 3:``: a comparison."""
    line = lines_of(text)[error_line(text, error)]
    code = code_only(text)[line.start : line.end]
    condition = _CONDITION.match(code)
    signs = list(_ASSIGN.finditer(code))
    if condition is None or len(signs) != 1 or brackets(text[line.start : line.start + signs[0].start()])[0]:
        return
    place = line.start + signs[0].start()
    repaired = text[:place] + "==" + text[place + 1 :]
    right = text[place + 1 : line.code_end].strip().removesuffix(":").strip()
    yield Repaired(
        repaired, "a comparison is `==`", certain=condition["word"] != "while" and _is_plain(right)
    )


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _is_plain(text: str) -> bool:
    """Whether it is a value that something is compared with, and nothing that would be kept."""
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return isinstance(node, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp)


def missing_comma(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """A comma at the end of a line within brackets."""
    if (
        "comma" not in (error.msg or "")
        and "never closed" not in (error.msg or "")
        and "invalid syntax" not in (error.msg or "")
    ):
        return
    lines = lines_of(text)
    at = error_line(text, error)
    last = min(max(at, (error.end_lineno or at + 1) - 1), at + _MAX_COMMA_LINES)
    for index in range(max(at - 1, 0), min(last, len(lines) - 2) + 1):
        line = lines[index]
        here = text[line.start : line.code_end].rstrip()
        open_ones = brackets(text[: line.code_end])[0]
        if (
            line.is_blank
            or not open_ones
            or here.endswith((",", "(", "[", "{", ":", "=", "\\", "+", "-", "*", "/", "."))
        ):
            continue
        repaired = text[: line.code_end] + "," + text[line.code_end :]
        if syntax_error(repaired) is None:
            sure = _is_list(text, open_ones[-1].place)
            yield Repaired(repaired, f"a comma was missing at the end of line {index + 1}", certain=sure)


def _is_list(text: str, place: int) -> bool:
    """Whether a bracket holds several things; brackets that only group may as well lack an operator."""
    word = re.search(r"(\w+|[)\]])\s*\Z", text[:place])
    return text[place] != "(" or (word is not None and not keyword.iskeyword(word[1]))


def keyword_slip(text: str, error: SyntaxError) -> Iterator[Repaired]:
    """A statement's first word that is one slip away from one keyword."""
    line = lines_of(text)[error_line(text, error)]
    first = re.match(r"[ \t]*(?P<word>[A-Za-z]{3,})\b", code_only(text)[line.start : line.end])
    if first is None or keyword.iskeyword(first["word"]):
        return
    start, end = line.start + first.start("word"), line.start + first.end("word")
    near = [word for word in _WORDS if distance(first["word"], word) == 1]
    fitting = [word for word in near if syntax_error(text[:start] + word + text[end:]) is None]
    for word in fitting or near:
        repaired = text[:start] + word + text[end:]
        sure = len(fitting or near) == 1
        yield Repaired(repaired, f"`{first['word']}` is `{word}` misspelt", certain=sure)


# Brackets and quotes that are missing, too many, or do not fit each other.

_MAX_TEXT = 20_000

_MAX_TRIES = 40

_MAX_OPEN = 20

_CLOSING_ONLY = re.compile(r"[)\]}:,\s]*")

_WHOLE = (
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.Set,
)
"""What cannot be cut in two by a bracket without becoming something that nobody writes."""


def close_brackets(text: str, error: SyntaxError) -> Iterator[Repaired]:  # one signature for all repairs
    """What is left open, closed at the end of a line."""
    open_ones, wrong = brackets(text)
    if not open_ones or wrong is not None or len(text) > _MAX_TEXT or len(open_ones) > _MAX_OPEN:
        return
    first = open_ones[0].place
    found: list[tuple[str, int]] = []
    for line in [line for line in lines_of(text) if line.end > first and not line.is_blank][:_MAX_TRIES]:
        still_open = brackets(text[: line.code_end])[0]
        closing = "".join(CLOSERS[bracket.text] for bracket in reversed(still_open))
        repaired = text[: line.code_end] + closing + text[line.code_end :]
        if closing and syntax_error(repaired) is None:
            found.append((repaired, line.code_end))
    for repaired, end in found:
        sure = len(found) == 1 and all(_ends_there(text, bracket, end) for bracket in open_ones)
        yield Repaired(repaired, f"`{open_ones[0].text}` was not closed", certain=sure)
    if not found:
        yield from _closed_on_its_line(text, first)


def _closed_on_its_line(text: str, first: int) -> Iterator[Repaired]:
    """The same, where more is wrong further down."""
    line = next(line for line in lines_of(text) if line.end > first)
    still_open = brackets(text[: line.code_end])[0]
    closing = "".join(CLOSERS[bracket.text] for bracket in reversed(still_open))
    code = text[line.start : line.code_end]
    colon = len(code) - len(code.removesuffix(":").rstrip()) if code.endswith(":") else 0
    end = line.code_end - colon
    sure = all(_ends_there(text, bracket, end) for bracket in still_open)
    for place, certain in ((end, sure), (line.code_end, sure and not colon)):
        yield Repaired(text[:place] + closing + text[place:], "a bracket was not closed", certain)


def _ends_there(text: str, bracket: Bracket, end: int) -> bool:
    """Whether what the bracket holds can end nowhere else on its last line."""
    held = text[bracket.place + 1 : end]
    if text[: bracket.place].endswith("print"):
        return True
    if any(_could_be_shorter(held, inner) for inner in _calls_within(held, bracket)):
        return False
    if "\n" in held:
        return True
    open_within = brackets(held)[0]
    if open_within:
        held = held[: open_within[0].place] + "None"
    last = _last_part(held)
    try:
        # In brackets of its own: what makes a list of others is no expression without.
        node = ast.parse(f"({last})", mode="eval").body if last else None
    except (SyntaxError, ValueError):
        return False
    if isinstance(node, ast.GeneratorExp):
        return isinstance(node.generators[-1].iter, _WHOLE) and not node.generators[-1].ifs
    groups = re.search(r"(?:[\w)\]]\s*)\Z", text[: bracket.place]) is None or _after_word(text, bracket)
    return node is None or isinstance(node, _WHOLE) or (groups and bracket.text == "(" and _is_one_step(node))


def _calls_within(held: str, bracket: Bracket) -> Iterator[str]:
    """What calls hold that are closed by the same kind of bracket: theirs may be the one that is missing."""
    open_ones: list[int] = []
    for mark in re.finditer(r"[()\[\]{}]", code_only(held)):
        if mark.group() in CLOSERS:
            open_ones.append(mark.start())
        elif open_ones:
            start = open_ones.pop()
            called = re.search(r"[\w)\]]\s*\Z", held[:start])
            if held[start] == bracket.text and called:
                yield held[start + 1 : mark.start()]


def _could_be_shorter(held: str, inner: str) -> bool:
    """Whether a call's brackets could end before their last part, and leave that to what is around it."""
    code = code_only(inner)
    return len(inner) < len(held) and (
        "," in code or not isinstance(_expression(inner), (*_WHOLE, type(None)))
    )


def _expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(f"({text})", mode="eval").body if text.strip() else None
    except (SyntaxError, ValueError):
        return None


def _after_word(text: str, bracket: Bracket) -> bool:
    """Whether a word of the language stands before it, so that it groups and calls nothing."""
    word = re.search(r"(\w+)\s*\Z", text[: bracket.place])
    return word is not None and keyword.iskeyword(word[1])


def _is_one_step(node: ast.expr) -> bool:
    """Whether it is one operation: then it is the same wherever a bracket around it ends."""
    match node:
        case ast.Compare(left=left, comparators=others):
            return all(isinstance(each, _WHOLE) for each in (left, *others))
        case ast.BinOp(left=left, right=right):
            return isinstance(left, _WHOLE) and isinstance(right, _WHOLE)
        case ast.BoolOp(values=values):
            return all(isinstance(each, _WHOLE) for each in values)
    return False


def _last_part(held: str) -> str:
    """After the last comma outside of brackets; without a keyword or a key before it."""
    places = [match.start() for match in re.finditer(",", held) if not brackets(held[: match.start()])[0]]
    last = held[places[-1] + 1 :] if places else held
    return re.sub(r"^\s*\w+\s*=(?!=)|^\s*(?:\w+|'[^']*'|\"[^\"]*\")\s*:", "", last).strip()


def fit_bracket(text: str, error: SyntaxError) -> Iterator[Repaired]:  # one signature for all repairs
    """A closing bracket that fits none: one too many, of the wrong kind, or another missing before it."""
    open_ones, wrong = brackets(text)
    if wrong is None:
        return
    if not open_ones:
        without = text[: wrong.place] + text[wrong.place + 1 :]
        yield Repaired(without, f"`{wrong.text}` was one too many", certain=_was_whole(text, wrong))
        return
    closer = CLOSERS[open_ones[-1].text]
    inserted = text[: wrong.place] + closer + text[wrong.place :]
    replaced = text[: wrong.place] + closer + text[wrong.place + 1 :]
    if syntax_error(inserted) is None:
        sure = syntax_error(replaced) is not None and _ends_there(text, open_ones[-1], wrong.place)
        yield Repaired(inserted, f"`{open_ones[-1].text}` was not closed", certain=sure)
    # A list, a tuple and a set begin with nothing before them: then the other end may be the wrong one.
    opened = re.search(r"[\w)\]]\Z", text[: open_ones[-1].place]) is not None
    yield Repaired(replaced, f"`{open_ones[-1].text}` was closed by `{wrong.text}`", certain=opened)


def _was_whole(text: str, wrong: Bracket) -> bool:
    """Whether the line was complete before the bracket, and can have had no other beginning."""
    line = next(line for line in lines_of(text) if line.start <= wrong.place < line.end)
    if text[wrong.place + 1 : line.code_end].strip():
        return False
    try:
        body = ast.parse(text[line.start : wrong.place].strip()).body
    except (SyntaxError, ValueError):
        return False
    value = getattr(body[-1], "value", None) if body else None
    return isinstance(value, _WHOLE)


def close_quote(text: str, error: SyntaxError) -> Iterator[Repaired]:  # one signature for all repairs
    """The quote that ends a string on its line."""
    broken = next((region for region in regions(text) if region.kind == "string" and not region.closed), None)
    if broken is None or text.startswith(('"""', "'''"), broken.start) or len(text) > _MAX_TEXT:
        return
    quote = text[broken.start]
    other = "'" if quote == '"' else '"'
    held = text[broken.start + 1 : broken.end]
    if held.count(other) == 1:
        place = broken.start + 1 + held.index(other)
        ends = _CLOSING_ONLY.fullmatch(text[place + 1 : broken.end]) is not None
        repaired = text[:place] + quote + text[place + 1 :]
        yield Repaired(repaired, "a string began and ended with different quotes", certain=ends)
        if ends:
            return
    places = range(broken.end, max(broken.start, broken.end - _MAX_TRIES), -1)
    found = [
        repaired for place in places if syntax_error(repaired := text[:place] + quote + text[place:]) is None
    ]
    for repaired in found:
        yield Repaired(repaired, "a string was not closed", certain=len(found) == 1)


# One repaired text, and what the repairs of text that does not compile have in common: lines and where their
# code ends.


@dataclass(frozen=True, slots=True)
class Repaired:
    """A text that may be what was meant. Whether it compiles is for others to see."""

    text: str
    reason: str
    certain: bool


Repair: TypeAlias = Callable[[str, SyntaxError], Iterator[Repaired]]
"""Tries to fix one mistake of a text, near to where Python gave up."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text, by places in it."""

    start: int
    code_end: int
    """Where its code ends: before a comment and white space."""
    end: int
    indent: str
    inside: bool
    """Whether it begins within a string."""

    @property
    def is_blank(self) -> bool:
        return self.code_end <= self.start + len(self.indent)


@lru_cache(maxsize=8)
def lines_of(text: str) -> tuple[Line, ...]:
    starts = line_starts(text)
    comments = [region.start for region in regions(text) if region.kind == "comment"]
    strings = [region for region in regions(text) if region.kind == "string"]
    begins = [region.start for region in strings]
    lines = []
    for start, after in zip(starts, (*starts[1:], len(text) + 1), strict=True):
        end = start + len(text[start : min(after, len(text))].rstrip("\r\n"))
        comment = min([*comments[(place := bisect_left(comments, start)) : place + 1], end])
        code_end = start + len(text[start:comment].rstrip())
        body = text[start:end]
        indent = body[: len(body) - len(body.lstrip(" \t"))]
        before = bisect_left(begins, start) - 1
        inside = before >= 0 and start < strings[before].end
        lines.append(Line(start, max(code_end, start), end, indent, inside))
    return tuple(lines)


def error_line(text: str, error: SyntaxError) -> int:
    """The index of the line that Python gave up on."""
    return min(max((error.lineno or 1) - 1, 0), len(line_starts(text)) - 1)
