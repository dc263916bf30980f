"""Signs and words that are missing or another language's: colons, commas, operators, keywords.

Repairs of text that does not compile (see ``syntax``); brackets and quotes are in ``brackets``.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator

from cellwright.plans.fixers.cells import syntax_error
from cellwright.plans.fixers.nearness import distance
from cellwright.plans.fixers.regions import brackets, code_only
from cellwright.plans.fixers.repairs import Line, Repaired, error_line, lines_of

__all__ = ["foreign_signs", "keyword_slip", "missing_colon", "missing_comma", "single_equals"]

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
_WORDS = [word for word in keyword.kwlist if len(word) > 2 and word[0].islower()]  # noqa: PLR2004  # `in`, `is`: too short
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
            mended = text[: line.code_end] + ":" + text[line.code_end :]
            yield Repaired(mended, f"a colon was missing at the end of line {index + 1}", certain=True)


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
            mended = found["indent"] + sign + here[found.end() :]
            yield _on(text, line, mended, f"it is `{sign}` in Python", certain=sure)
    step = _STEP.match(here)
    if step is not None:
        yield _on(text, line, f"{step['indent']}{step['target']} {step['sign'][0]}= 1", "Python has no `++`")
    mended, certain = _operators(here, code)
    if "[" in code and re.search(r"&&|\|\|", code[code.index("[") :]):
        certain = False  # of masks of a frame, it is `&` and `|`
    if mended != here:
        yield _on(text, line, mended, "some operators were another language's", certain=certain)


def _on(text: str, line: Line, mended: str, reason: str, *, certain: bool = True) -> Repaired:
    return Repaired(text[: line.start] + mended + text[line.end :], reason, certain)


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
    mended = text[:place] + "==" + text[place + 1 :]
    right = text[place + 1 : line.code_end].strip().removesuffix(":").strip()
    yield Repaired(mended, "a comparison is `==`", certain=condition["word"] != "while" and _is_plain(right))


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
        mended = text[: line.code_end] + "," + text[line.code_end :]
        if syntax_error(mended) is None:
            sure = _is_list(text, open_ones[-1].place)
            yield Repaired(mended, f"a comma was missing at the end of line {index + 1}", certain=sure)


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
        mended = text[:start] + word + text[end:]
        sure = len(fitting or near) == 1
        yield Repaired(mended, f"`{first['word']}` is `{word}` misspelt", certain=sure)
