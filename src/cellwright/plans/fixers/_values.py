"""Values that cannot be, where the message says why: texts that are no numbers, dates in another format, conditions on
whole columns, too many values to unpack.

Each has several ways out, and which one was meant shows only in what comes of it: none is certain.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator

from cellwright.plans.failures import Failure, Proposal
from cellwright.plans.fixers._cells import Case, Edit, called, calls_in, case_of, literal_like

__all__ = ["fix_date_format", "fix_number", "fix_truth", "fix_unpacking"]

_NO_NUMBER = re.compile(
    r"(?:invalid literal for int\(\) with base 10|could not convert string to float): (?P<text>['\"].*['\"])",
    re.DOTALL,
)

_NOT_FINITE = re.compile(r"Cannot convert non-finite values|cannot convert float NaN to integer")

_NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")

_GROUPED = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")

_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")

_FRACTION = re.compile(r"[-+]?\d*\.\d+")

_HEXADECIMAL = re.compile(r"[\da-fA-F]+")

_NO_DATE = re.compile(
    r"time data (?P<q>['\"])(?P<text>.+?)(?P=q) (?:does not|doesn't) match format (?P<r>['\"])(?P<format>.+?)(?P=r)"
)

_AMBIGUOUS = re.compile(r"The truth value of an? .+ is ambiguous")

_UNPACKED = re.compile(r"too many values to unpack \(expected (?P<number>\d+)")

_FORMATS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y%m%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d.%m.%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%Y-%m",
    "%H:%M:%S",
    "%H:%M",
)

_TIMES = ("", " %H:%M:%S", " %H:%M", "T%H:%M:%S", " %H:%M:%S.%f", "T%H:%M:%SZ", " %I:%M %p")

_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)

_PAIR = 2


def fix_number(failure: Failure) -> Proposal | None:
    """A text that ``int``, ``float`` or ``astype`` cannot read as a number."""
    case = case_of(failure, "ValueError", "IntCastingNaNError")
    statement = case.statement if case else None
    if case is None or statement is None:
        return None
    calls = [call for call in calls_in(statement) if called(call) in ("int", "float", "astype")]
    if _NOT_FINITE.search(case.error.message):
        reason = "Missing values cannot be whole numbers: drop them, fill them, or use the type `Int64`."
        return case.choice("value", reason, *(_whole(case, calls[0]) if len(calls) == 1 else ()))
    found = _NO_NUMBER.search(case.error.message)
    if found is None:
        return None
    text = str(ast.literal_eval(found["text"]))
    what = "" if text.strip() else ": it is empty, so decide what stands for it"
    kind = "int" if "int()" in case.error.message else "float"
    reason = f"`{kind}` cannot read {text[:80]!r} as a number{what}."
    return case.choice("value", reason, *(_numbers(case, calls[0], text) if len(calls) == 1 else ()))


def _whole(case: Case, call: ast.Call) -> Iterator[list[Edit]]:
    if called(call) == "astype" and isinstance(call.func, ast.Attribute) and len(call.args) == 1:
        held = case.cell.segment(call.func.value)
        kind = case.cell.segment(call.args[0])
        yield [case.cell.replace(call.args[0], '"Int64"')]
        yield [case.cell.replace(call.func.value, f"{held}.dropna()")]
        yield [case.cell.replace(call, f"{held}.fillna(0).astype({kind})")]


def _numbers(case: Case, call: ast.Call, text: str) -> Iterator[list[Edit]]:
    """Ways to read it, by what the text looks like."""
    if called(call) == "astype":
        yield from _columns(case, call, text)
    elif len(call.args) == 1 and not call.keywords:
        for value, code in _read(text, called(call)):
            yield _reading(case, call, value, code, text)


def _read(text: str, kind: str) -> Iterator[tuple[str | None, str]]:
    """The text as it should have been, if it is another one, and code around ``{}`` that reads any such text."""
    said = text.strip()
    if _GROUPED.fullmatch(said):
        yield said.replace(",", ""), kind + '({}.replace(",", ""))'
    if kind == "float" and _DECIMAL_COMMA.fullmatch(said):
        yield said.replace(",", "."), kind + '({}.replace(",", "."))'
    if kind == "int" and _FRACTION.fullmatch(said):
        yield None, "int(float({}))"
        yield None, "float({})"
    inside = _NUMBER.findall(said)
    if len(inside) == 1 and inside[0] != said and not _FRACTION.fullmatch(said):
        number = inside[0].replace(",", "")
        whole = "." not in number or kind == "float"
        yield (number if whole else None), kind + r'(re.sub(r"[^\d.+-]", "", {}))'
        if "%" in said:
            yield None, r'float(re.sub(r"[^\d.+-]", "", {})) / 100'
    if kind == "int" and _HEXADECIMAL.fullmatch(said):
        yield None, "int({}, 16)"


def _reading(case: Case, call: ast.Call, value: str | None, code: str, text: str) -> list[Edit]:
    argument = call.args[0]
    literal = literal_like(case.cell.segment(argument), text, value) if value is not None else None
    if literal is not None:
        return [case.cell.replace(argument, literal)]
    given = case.cell.segment(argument)
    edits = [case.cell.replace(call, code.format(given if isinstance(argument, _PLAIN) else f"({given})"))]
    if "re.sub" in code and "re" not in case.diagnosis.names:
        edits.append(case.cell.import_edit("import re"))
    return edits


def _columns(case: Case, call: ast.Call, text: str) -> Iterator[list[Edit]]:
    """A column that is not all numbers."""
    if not isinstance(call.func, ast.Attribute):
        return
    column = case.cell.segment(call.func.value)
    if _GROUPED.fullmatch(text.strip()):
        yield [case.cell.replace(call.func.value, f'{column}.str.replace(",", "")')]
    elif _DECIMAL_COMMA.fullmatch(text.strip()):
        yield [case.cell.replace(call.func.value, f'{column}.str.replace(",", ".")')]
    if "pd" in case.diagnosis.names:
        yield [case.cell.replace(call, f'pd.to_numeric({column}, errors="coerce")')]


def fix_date_format(failure: Failure) -> Proposal | None:
    """A date that is written otherwise than the format says."""
    case = case_of(failure, "ValueError")
    found = _NO_DATE.search(case.error.message) if case else None
    if case is None or found is None:
        return None
    fitting = [each for each in _all_formats() if each != found["format"] and _fits(found["text"], each)]
    literals = case.cell.strings(found["format"])
    shown = " or ".join(f"`{each}`" for each in fitting[:4])
    reason = f"{found['text']!r} is not written as `{found['format']}`" + (
        f", but as {shown}." if shown else "."
    )
    if len(literals) != 1:
        return Proposal("value", reason)
    segment = case.cell.segment(literals[0])
    written = [literal_like(segment, found["format"], each) for each in fitting[:4]]
    return case.choice("value", reason, *([case.cell.replace(literals[0], one)] for one in written if one))


def _all_formats() -> Iterator[str]:
    for date in _FORMATS:
        for clock in _TIMES if "%d" in date else ("",):
            yield date + clock


def _fits(text: str, format_: str) -> bool:
    try:
        time.strptime(text.strip(), format_)
    except ValueError:
        return False
    return True


def fix_truth(failure: Failure) -> Proposal | None:
    """``and``, ``or``, ``not`` and ``if`` on a whole column or array."""
    case = case_of(failure, "ValueError")
    statement = case.statement if case else None
    if case is None or statement is None or not _AMBIGUOUS.search(case.error.message):
        return None
    reason = "A column or array has no truth value of its own: use `&`, `|` and `~` for each element, or `any`, `all`."
    joined = [node for node in _own(statement) if isinstance(node, ast.BoolOp)]
    if joined:
        outer = [node for node in joined if not any(above in joined for above in case.cell.ancestors(node))]
        return case.choice(
            "value", reason, [case.cell.replace(node, _elementwise(case, node)) for node in outer]
        )
    denied = [n for n in _own(statement) if isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not)]
    if denied:
        return case.choice("value", reason, [case.cell.replace(n, _elementwise(case, n)) for n in denied])
    if isinstance(statement, ast.If | ast.While | ast.Assert):
        test = case.cell.segment(statement.test)
        return case.choice(
            "value",
            reason,
            *([case.cell.replace(statement.test, f"({test}).{each}()")] for each in ("any", "all")),
        )
    return Proposal("value", reason)


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of the statements in it."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _elementwise(case: Case, node: ast.expr) -> str:
    match node:
        case ast.BoolOp(op=sign, values=values):
            mark = " & " if isinstance(sign, ast.And) else " | "
            return mark.join(f"({_elementwise(case, each)})" for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return f"~({_elementwise(case, inner)})"
    return case.cell.segment(node)


def fix_unpacking(failure: Failure) -> Proposal | None:
    """More values than there are names for them."""
    case = case_of(failure, "ValueError")
    found = _UNPACKED.search(case.error.message) if case else None
    statement = case.statement if case else None
    if case is None or found is None:
        return None
    reason = f"There are more values than the {found['number']} names that they are given to."
    match statement:
        case ast.For(target=ast.Tuple() as names, iter=source) if len(names.elts) == int(found["number"]):
            given = case.cell.segment(source)
            pairs = len(names.elts) == _PAIR and isinstance(source, _PLAIN)
            ways = [f"{given}.items()", f"enumerate({given})"] if pairs else []
            rest = [_rest(case, names)]
            return case.choice("value", reason, *([case.cell.replace(source, way)] for way in ways), rest)
        case ast.Assign(targets=[ast.Tuple() as names]) if len(names.elts) == int(found["number"]):
            return case.choice("value", reason, [_rest(case, names)])
    return Proposal("value", reason)


def _rest(case: Case, names: ast.Tuple) -> Edit:
    """A name for what is left over."""
    end = case.cell.place(names.elts[-1])[1]
    return Edit(end, end, ", *_")
