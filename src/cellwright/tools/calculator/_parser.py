"""The grammar: tokens to a tree. Knows no function, unit or value by name; the guide shows the grammar whole.

From loosest to tightest: ``to``; comparisons; ``+ -``; ``* / // % of per``; a sign; juxtaposition (``5 km``);
``^``; ``! %``.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Literal, TypeAlias

from cellwright.errors import CalculationTooLarge, ExpressionInvalid
from cellwright.tools.calculator._values import MAX_CHARACTERS, MAX_DEPTH, MAX_DIGITS

__all__ = [
    "Apply",
    "Assign",
    "Call",
    "Chain",
    "Compare",
    "Convert",
    "Each",
    "Items",
    "Moment",
    "Name",
    "Node",
    "Number",
    "Percent",
    "Power",
    "Span",
    "parse",
]

_CONVERSIONS = frozenset({"to", "in", "as"})

_WORDS = _CONVERSIONS | {"of", "per", "mod", "for"}

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})

_PRODUCTS = {"*": "*", "/": "/", "//": "//", "of": "*", "per": "/", "mod": "mod"}

_CODE = frozenset(
    {
        "lambda",
        "import",
        "def",
        "class",
        "while",
        "if",
        "else",
        "exec",
        "eval",
        "open",
        "and",
        "or",
        "not",
        "is",
    }
)

_MAX_EXPONENT_CHARACTERS = 6


def parse(text: str) -> tuple[Node, ...]:
    """The statements of an expression, of which the last one's value is the answer.

    Raises:
        ExpressionInvalid: it is none.
        CalculationTooLarge: it is too long, or nested too deep.
    """
    return _Parser(text).program()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._place = 0
        self._depth = 0

    # Statements ------------------------------------------------------------------------------------------------------

    def program(self) -> tuple[Node, ...]:
        statements: list[Node] = []
        while not self._at_end():
            if not self._take(";"):
                statements.append(self._statement())
                if not self._at_end() and self._next.text != ";":
                    raise self._unexpected()
        if not statements:
            raise ExpressionInvalid("There is nothing to calculate", hint="Write something like `2 + 2`")
        return tuple(statements)

    def _statement(self) -> Node:
        if self._next.text == "let" and self._after.kind == "name":
            self._place += 1
        if self._next.kind == "name" and self._after.text == "=":
            name = self._advance().text
            self._place += 1
            return Assign(name, self._expression())
        return self._expression()

    def _expression(self) -> Node:
        with self._deeper():
            node = self._comparison()
            conversions = 0
            while self._next.kind == "name" and self._next.text in _CONVERSIONS:
                self._place += 1
                start = self._next.at
                target = self._product()
                node = Convert(node, target, self._text[start : self._tokens[self._place - 1].end])
                conversions += 1
                self._bound(conversions)
            return node

    def _comparison(self) -> Node:
        left = self._sum()
        if self._next.text in _COMPARISONS:
            return Compare(self._advance().text, left, self._sum())
        return left

    # Operators -------------------------------------------------------------------------------------------------------

    def _sum(self) -> Node:
        return self._chain(self._product, lambda token: token.text if token.text in ("+", "-") else None)

    def _product(self) -> Node:
        return self._chain(self._signed, self._product_sign)

    def _product_sign(self, token: Token) -> str | None:
        # A percent sign that was not a postfix one is the remainder.
        return "mod" if token.text == "%" else _PRODUCTS.get(token.text)

    def _chain(self, operand: Callable[[], Node], sign: Callable[[Token], str | None]) -> Node:
        first = operand()
        rest: list[tuple[str, Node]] = []
        while (operator := sign(self._next)) is not None:
            self._place += 1
            rest.append((operator, operand()))
        return Chain(first, tuple(rest)) if rest else first

    def _signed(self) -> Node:
        if self._next.text in ("-", "+"):
            with self._deeper():
                sign = self._advance().text
                operand = self._signed()
                return Apply("-", operand) if sign == "-" else operand
        return self._juxtaposed()

    def _juxtaposed(self) -> Node:
        """``5 km``, ``2 pi r``, ``3(4 + 5)``; and ``5 ft 3 in``, which is their sum."""
        terms = [self._term()]
        while isinstance(terms[-1], Chain) and self._next.kind == "number":
            terms.append(self._term())
        return terms[0] if len(terms) == 1 else Chain(terms[0], tuple(("+", term) for term in terms[1:]))

    def _term(self) -> Node:
        first = self._power()
        rest: list[tuple[str, Node]] = []
        while self._begins_factor():
            rest.append(("·", self._power()))
        return Chain(first, tuple(rest)) if rest else first

    def _begins_factor(self) -> bool:
        token = self._next
        if token.text == "(":
            return True
        if token.kind != "name":
            return False
        if token.text == "in":
            return self._inches()
        return token.text not in _WORDS

    def _inches(self) -> bool:
        """Whether this ``in`` is a unit: right behind a number, with nothing to convert to behind it."""
        before, behind = self._tokens[self._place - 1], self._after
        return before.kind == "number" and (behind.kind != "name" or behind.text in _WORDS)

    def _power(self) -> Node:
        base = self._postfix()
        if self._next.text in ("²", "³"):
            return Power(base, Number(Fraction(2 if self._advance().text == "²" else 3)))
        if not self._take("^"):
            return base
        with self._deeper():
            return Power(base, self._exponent())

    def _exponent(self) -> Node:
        if self._next.text in ("-", "+"):
            with self._deeper():
                sign = self._advance().text
                operand = self._exponent()
                return Apply("-", operand) if sign == "-" else operand
        return self._power()

    def _postfix(self) -> Node:
        node = self._primary()
        marks = 0
        while self._next.text in ("!", "%"):
            if self._next.text == "%" and self._is_remainder():
                break
            if self._next.text == "!" and self._tokens[self._place - 1].text == "!":
                raise self._wrong("A factorial of a factorial is written (n!)!")
            node = Apply("!", node) if self._advance().text == "!" else Percent(node)
            marks += 1
            self._bound(marks)
        return node

    def _is_remainder(self) -> bool:
        behind = self._after
        if behind.kind == "name":
            return behind.text not in _WORDS
        return behind.kind in ("number", "date") or behind.text in ("(", "√")

    # Operands --------------------------------------------------------------------------------------------------------

    def _primary(self) -> Node:
        token = self._advance()
        if token.kind == "number":
            return self._span(Number(_number(token.text)))
        if token.kind == "date":
            return Moment(_moment(token.text))
        return self._named(token) if token.kind == "name" else self._enclosed(token)

    def _enclosed(self, token: Token) -> Node:
        if token.text == "(":
            node = self._expression()
            self._expect(")")
            return self._span(node)
        if token.text == "[":
            return self._list()
        if token.text == "|":
            node = self._expression()
            self._expect("|")
            return Apply("|", node)
        if token.text == "√":
            with self._deeper():
                return Apply("√", self._power())
        self._place -= 1
        raise self._unexpected()

    def _span(self, first: Node) -> Node:
        return Span(first, self._signed()) if self._take("..") else first

    def _named(self, token: Token) -> Node:
        if token.text in _CODE:
            raise self._wrong(f"{token.text!r} is code, and expressions are not code")
        if token.text in _WORDS and token.text != "in":
            self._place -= 1
            raise self._unexpected()
        # A call has its bracket close by: `5 m (2 + 3)` is a product.
        if self._next.text == "(" and self._next.at == token.end:
            self._place += 1
            return Call(token.text, self._arguments(")"))
        return self._span(Name(token.text))

    def _list(self) -> Node:
        items = self._arguments("]")
        return items[0] if len(items) == 1 and isinstance(items[0], Each | Span) else Items(items)

    def _arguments(self, closing: str) -> tuple[Node, ...]:
        found: list[Node] = []
        while not self._take(closing):
            if found:
                self._expect(",")
            found.append(self._argument())
        return tuple(found)

    def _argument(self) -> Node:
        body = self._expression()
        if self._next.text != "for":
            return body
        self._place += 1
        name = self._advance()
        if name.kind != "name" or self._advance().text != "in":
            raise self._wrong("After `for` comes a name and `in`, as in `sum(k^2 for k in 1..10)`")
        return Each(body, name.text, self._expression())

    # Tokens ----------------------------------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    @property
    def _after(self) -> Token:
        return self._tokens[min(self._place + 1, len(self._tokens) - 1)]

    def _at_end(self) -> bool:
        return self._next.kind == "end"

    def _advance(self) -> Token:
        token = self._next
        if token.kind == "end":
            raise self._wrong("The expression ends too soon")
        self._place += 1
        return token

    def _take(self, text: str) -> bool:
        if self._next.kind != "sign" or self._next.text != text:
            return False
        self._place += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._wrong(f"{self._here()} where {text!r} is missing")

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        self._bound(self._depth)
        yield
        self._depth -= 1

    def _bound(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise CalculationTooLarge(
                f"The expression is nested more than {MAX_DEPTH} deep",
                hint="Name its parts and separate them with semicolons, as in `a = 2^10; a + 1`",
            )

    def _here(self) -> str:
        token = self._next
        return (
            "The expression ends"
            if token.kind == "end"
            else f"There is {token.text!r} at character {token.at + 1}"
        )

    def _unexpected(self) -> ExpressionInvalid:
        token = self._next
        if token.text == ",":
            return ExpressionInvalid(
                f"{self._here()}, outside of a list",
                hint="Write 1000000 or 1_000_000 for a million, 3.5 for three and a half, and [1, 2] for a list",
            )
        if token.text == "[":
            return self._wrong(f"{self._here()}: items of lists are not picked out")
        if token.text == "=":
            return self._wrong(f"{self._here()}: only a name can be given a value, and `==` compares")
        if token.text in _COMPARISONS:
            return self._wrong(f"{self._here()}: comparisons are made one at a time")
        return self._wrong(f"{self._here()}, where nothing of its kind can be")

    def _wrong(self, message: str) -> ExpressionInvalid:
        return ExpressionInvalid(message, hint="The calculator's guide has the grammar")


def _number(text: str) -> Fraction:
    digits = text.replace("_", "").lower()
    if digits[:2] in ("0x", "0b", "0o"):
        if len(digits) == len("0x"):
            raise ExpressionInvalid(f"{text!r} has no digits", hint="Write something like 0xff")
        _bound_digits(len(digits), text)
        return Fraction(int(digits, 0))
    mantissa, _, exponent = digits.partition("e")
    _bound_digits(len(mantissa), text)
    # An exponent is written out, so that it is bounded as digits are.
    if len(exponent) > _MAX_EXPONENT_CHARACTERS or abs(int(exponent or 0)) > MAX_DIGITS:
        raise CalculationTooLarge(
            f"{_short(text)} is beyond 10^±{MAX_DIGITS:,}", hint="Calculate with its logarithm"
        )
    whole, _, part = mantissa.partition(".")
    value = _whole(whole or "0") + Fraction(_whole(part or "0"), 10 ** len(part))
    return value * Fraction(10) ** int(exponent or 0)


def _whole(digits: str) -> int:
    # In pieces: Python refuses to read more than 4,300 digits at once.
    value = 0
    for start in range(0, len(digits), 4_000):
        piece = digits[start : start + 4_000]
        value = value * 10 ** len(piece) + int(piece)
    return value


def _bound_digits(count: int, text: str) -> None:
    if count > MAX_DIGITS:
        raise CalculationTooLarge(
            f"{_short(text)} has {count:,} digits; at most {MAX_DIGITS:,} are read", hint="Write fewer digits"
        )


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:12]}…{text[-4:]}"  # what fits into a sentence


def _moment(text: str) -> date:
    try:
        if len(text) == len("2024-03-01"):
            return date.fromisoformat(text)
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ExpressionInvalid(f"{text} is no date: {error}", hint="Write dates as 2024-03-01") from error


# An expression as tokens. What is not listed here cannot be said: there are no strings, no attributes, no
# code.

Kind: TypeAlias = Literal["number", "date", "name", "sign", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    kind: Kind
    text: str
    at: int
    """Where it begins, counted from nought."""
    end: int


_DATE = r"\d{4}-\d{2}-\d{2}(?!\d)(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})?)?"

_NUMBER = (
    r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+"
    # The dots of a span are not a decimal point, and `2e` is twice e.
    r"|(?:\d[\d_]*(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
)

_NAME = r"°[CFcf]\b|[A-Za-zµμΩÅπτφ][A-Za-z0-9_µμΩÅ]*|°"

_SIGN = r"\*\*|->|→|\.\.|==|!=|<=|>=|//|[-+*/%^!|()\[\],;=<>√²³×÷·−≤≥≠\n]"

_TOKEN = re.compile(
    rf"(?P<space>[ \t\r]+)|(?P<date>{_DATE})|(?P<number>{_NUMBER})|(?P<name>{_NAME})|(?P<sign>{_SIGN})",
    re.ASCII,
)

_SPELLINGS = {
    "**": "^",
    "×": "*",
    "·": "*",
    "÷": "/",
    "−": "-",
    "→": "to",
    "->": "to",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "\n": ";",
    "π": "pi",
    "τ": "tau",
    "φ": "phi",
    "°": "degree",
    "°C": "degC",
    "°c": "degC",
    "°F": "degF",
    "°f": "degF",
}

_REASONS = {
    '"': "there is no text in expressions",
    "'": "there is no text in expressions",
    "`": "there is no text in expressions",
    ".": "a point stands between digits only: values have no attributes",
    "{": "there are no sets or templates in expressions",
    "}": "there are no sets or templates in expressions",
    "_": "names begin with a letter",
    "@": "matrices are multiplied with matmul(a, b)",
    "&": "numbers are not combined bit by bit",
    "~": "numbers are not combined bit by bit",
    ":": "there are no slices, blocks or functions to define",
    "\\": "there are no escapes in expressions",
    "#": "there are no comments in expressions",
    "$": "there are no exchange rates here, so currencies are left out: write plain numbers",
    "€": "there are no exchange rates here, so currencies are left out: write plain numbers",
    "£": "there are no exchange rates here, so currencies are left out: write plain numbers",
    "¥": "there are no exchange rates here, so currencies are left out: write plain numbers",
}


def tokens(text: str) -> list[Token]:
    """The expression's tokens, the last of kind ``end``.

    Raises:
        CalculationTooLarge: it is too long.
        ExpressionInvalid: it has a character that no expression has.
    """
    if len(text) > MAX_CHARACTERS:
        raise CalculationTooLarge(
            f"The expression has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read",
            hint="Calculate with a smaller one, or run it as code",
        )
    found: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise _unknown(text, at)
        at = match.end()
        if match.lastgroup != "space":
            found.append(_token(match))
    return [*found, Token("end", "", len(text), len(text))]


def _token(match: re.Match[str]) -> Token:
    text = _SPELLINGS.get(match.group(), match.group())
    kind: Kind = "sign"
    if match.lastgroup == "number":
        kind = "number"
    elif match.lastgroup == "date":
        kind = "date"
    elif match.lastgroup == "name" or text == "to":
        kind = "name"
    return Token(kind, text, match.start(), match.end())


def _unknown(text: str, at: int) -> ExpressionInvalid:
    character = text[at]
    name = unicodedata.name(character, f"U+{ord(character):04X}")
    shown = repr(character) if character.isascii() else f"{character!r} ({name})"
    if character == ":" and text[:at][-1:].isdigit() and text[at + 1 : at + 2].isdigit():
        return ExpressionInvalid(
            f"Character {at + 1} of the expression is ':': there are no times of the day on a clock",
            hint="Write a duration, as in `12 h 30 min + 45 min`, or seconds",
        )
    reason = _REASONS.get(character, "expressions are written with plain digits, letters and signs")
    return ExpressionInvalid(
        f"Character {at + 1} of the expression is {shown}: {reason}",
        hint="Write something like `3 ft + 20 cm to m`, `sqrt(2)/2` or `mean([1, 2, 4])`",
    )


# The tree that an expression is parsed to. Sums and products are flat, so that a long one is not a deep one.


@dataclass(frozen=True, slots=True)
class Number:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Moment:
    """A date, or a date with a time."""

    value: date


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A sign, ``!``, ``|…|`` or ``√`` on one operand."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Percent:
    operand: Node


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one rank, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Power:
    base: Node
    exponent: Node


@dataclass(frozen=True, slots=True)
class Compare:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Items:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """``first..last``: whole numbers, both ends included."""

    first: Node
    last: Node


@dataclass(frozen=True, slots=True)
class Each:
    """``body for name in source``."""

    body: Node
    name: str
    source: Node


@dataclass(frozen=True, slots=True)
class Convert:
    """``value to target``; ``text`` is the target as it was written, which may be a time zone's name."""

    value: Node
    target: Node
    text: str


@dataclass(frozen=True, slots=True)
class Assign:
    name: str
    value: Node


Node: TypeAlias = (
    Number
    | Moment
    | Name
    | Apply
    | Percent
    | Chain
    | Power
    | Compare
    | Call
    | Items
    | Span
    | Each
    | Convert
    | Assign
)
