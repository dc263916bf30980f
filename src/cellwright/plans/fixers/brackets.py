"""Brackets and quotes that are missing, too many, or do not fit each other.

Repairs of text that does not compile (see ``syntax``). Where what is missing could stand in two places, and that makes a
difference, it is not certain.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator

from cellwright.plans.fixers.cells import syntax_error
from cellwright.plans.fixers.regions import CLOSERS, Bracket, brackets, code_only, regions
from cellwright.plans.fixers.repairs import Repaired, lines_of

__all__ = ["close_brackets", "close_quote", "fit_bracket"]

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


def close_brackets(text: str, error: SyntaxError) -> Iterator[Repaired]:  # noqa: ARG001  # one signature for all repairs
    """What is left open, closed at the end of a line."""
    open_ones, wrong = brackets(text)
    if not open_ones or wrong is not None or len(text) > _MAX_TEXT or len(open_ones) > _MAX_OPEN:
        return
    first = open_ones[0].place
    found: list[tuple[str, int]] = []
    for line in [line for line in lines_of(text) if line.end > first and not line.is_blank][:_MAX_TRIES]:
        still_open = brackets(text[: line.code_end])[0]
        closing = "".join(CLOSERS[bracket.text] for bracket in reversed(still_open))
        mended = text[: line.code_end] + closing + text[line.code_end :]
        if closing and syntax_error(mended) is None:
            found.append((mended, line.code_end))
    for mended, end in found:
        sure = len(found) == 1 and all(_ends_there(text, bracket, end) for bracket in open_ones)
        yield Repaired(mended, f"`{open_ones[0].text}` was not closed", certain=sure)
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


def fit_bracket(text: str, error: SyntaxError) -> Iterator[Repaired]:  # noqa: ARG001  # one signature for all repairs
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


def close_quote(text: str, error: SyntaxError) -> Iterator[Repaired]:  # noqa: ARG001  # one signature for all repairs
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
        mended = text[:place] + quote + text[place + 1 :]
        yield Repaired(mended, "a string began and ended with different quotes", certain=ends)
        if ends:
            return
    places = range(broken.end, max(broken.start, broken.end - _MAX_TRIES), -1)
    found = [
        mended for place in places if syntax_error(mended := text[:place] + quote + text[place:]) is None
    ]
    for mended in found:
        yield Repaired(mended, "a string was not closed", certain=len(found) == 1)
