"""What a template can be given: names, types and defaults, read from the cell tagged ``parameters``, and put back there.

papermill's convention: an assignment is a parameter, an annotation its type, a comment behind it its description.
Without an annotation the default tells the type. Pure; runs no code.
"""

from __future__ import annotations

import ast
import io
import json
import math
import re
import tokenize
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cellwright.errors import TemplateError

__all__ = ["TAG", "Parameter", "ParameterType", "read_parameters", "with_values"]

TAG = "parameters"
"""The tag of the cell that holds the defaults."""

ParameterType: TypeAlias = Literal["str", "int", "float", "bool", "list", "dict", "any"]

_EXAMPLES: dict[ParameterType, tuple[str, str]] = {
    "str": ("a text", "text"),
    "int": ("a whole number", "100"),
    "float": ("a number", "0.5"),
    "bool": ("true or false", "true"),
    "list": ("a list", '["a", "b"]'),
    "dict": ("an object", '{"a": 1}'),
    "any": ("a value", "1"),
}

_SAME_TYPE: dict[str, ParameterType] = {
    "string": "str",
    "number": "float",
    "boolean": "bool",
    "tuple": "list",
    "Sequence": "list",
    "List": "list",
    "Dict": "dict",
    "Mapping": "dict",
    "Record": "dict",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value that a template can be given."""

    name: str
    type: ParameterType
    default: Any
    """What it is where nothing is given; of a default that is no literal, its source."""
    description: str = ""
    choices: tuple[Any, ...] = ()
    """The values that it may have, where its annotation lists them."""
    optional: bool = False
    """Whether it may be None."""

    def value_of(self, given: Any) -> Any:
        """Check a value, which a form and the command line give as text.

        Raises:
            TemplateError: it is of another type, or none of the choices.
        """
        value = _read(given) if isinstance(given, str) and self.type != "str" else given
        if value is None and self.optional:
            return None
        fits = value in self.choices if self.choices else _FITS[self.type](value)
        if not fits:
            raise self._refusal(given)
        return value

    def _refusal(self, given: Any) -> TemplateError:
        words, example = _EXAMPLES[self.type]
        if self.choices:
            words, example = "one of its choices", str(self.choices[0])
            return TemplateError(
                f"Parameter {self.name!r} cannot be {given!r}",
                hint=f"Give one of: {', '.join(map(str, self.choices))}",
            )
        if self.default not in (None, "") and self.type != "any":
            example = (
                str(self.default) if self.type == "str" else json.dumps(self.default, ensure_ascii=False)
            )
        return TemplateError(
            f"Parameter {self.name!r} is {words} ({self.type}), and {given!r} is none",
            hint=f"Give it as {self.name}={example}, or leave it out",
        )

    def data(self) -> dict[str, Any]:
        """Return the parameter as listings and clients have it."""
        about: dict[str, Any] = {"name": self.name, "type": self.type, "default": self.default}
        told = {"description": self.description, "choices": list(self.choices), "optional": self.optional}
        return about | {name: value for name, value in told.items() if value}


def read_parameters(source: str, language: str) -> tuple[Parameter, ...]:
    """Read the parameters that a cell assigns; those of other languages than Python and TypeScript are not known.

    Raises:
        TemplateError: the cell cannot be parsed.
    """
    return tuple(found.parameter for found in _found(source, language))


def with_values(source: str, language: str, values: Mapping[str, Any]) -> str:
    """The same cell with these values in the place of the defaults."""
    write: Callable[[Any], str] = repr if language == "python" else json.dumps
    for found in reversed(list(_found(source, language))):
        if found.parameter.name in values:
            source = source[: found.start] + write(values[found.parameter.name]) + source[found.end :]
    return source


@dataclass(frozen=True, slots=True)
class _Found:
    """A parameter, and from where to where its default stands in the source."""

    parameter: Parameter
    start: int
    end: int


def _found(source: str, language: str) -> Iterator[_Found]:
    match language:
        case "python":
            yield from _in_python(source)
        case "typescript" | "javascript":
            yield from _in_typescript(source)


def _read(text: str) -> Any:
    """The value that a text writes as JSON or as a Python literal, else the text."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_FITS: Mapping[ParameterType, Callable[[Any], bool]] = types.MappingProxyType(
    {
        "str": lambda value: isinstance(value, str),
        "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
        "float": _is_number,
        "bool": lambda value: isinstance(value, bool),
        "list": lambda value: isinstance(value, list | tuple),
        "dict": lambda value: isinstance(value, dict),
        "any": lambda _: True,
    }
)


def _type_of(value: Any) -> ParameterType:
    """The type that a default tells; of None, any."""
    kinds: tuple[ParameterType, ...] = ("bool", "int", "float", "str", "list", "dict")
    return next((kind for kind in kinds if _FITS[kind](value)), "any")


def _named_type(name: str) -> ParameterType:
    known = _SAME_TYPE.get(name, name)
    return next((kind for kind in _FITS if kind == known), "any")


# Python -------------------------------------------------------------------------------------------------------------


def _in_python(source: str) -> Iterator[_Found]:
    try:
        tree = ast.parse(source)
        comments = dict(_comments(source))
    except (SyntaxError, ValueError, RecursionError, tokenize.TokenError) as error:
        raise TemplateError(
            f"The cell tagged {TAG!r} cannot be parsed: {error}", hint="Keep assignments in it, and no magics"
        ) from None
    starts = _line_starts(source)
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                annotation: ast.expr | None = None
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                annotation = statement.annotation
            case _:
                continue
        start, end = _place(starts, value)
        comment = comments.get(statement.end_lineno or 0, "")
        yield _Found(_python_parameter(name, annotation, value, comment), start, end)


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ").strip()


def _line_starts(source: str) -> list[bytes]:
    return [line.encode() for line in source.splitlines(keepends=True)]


def _place(lines: list[bytes], node: ast.expr) -> tuple[int, int]:
    """Where a node stands, in characters; the parser counts bytes of a line."""

    def offset(line: int, column: int) -> int:
        before = b"".join(lines[: line - 1]) + lines[line - 1][:column]
        return len(before.decode())

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset)


_type_comment = re.compile(r"type:\s*(?P<type>[\w\[\], |]+?)(?:\s{2,}|\s*#\s*|$)(?P<rest>.*)")


def _python_parameter(name: str, annotation: ast.expr | None, value: ast.expr, comment: str) -> Parameter:
    if annotation is None and (told := _type_comment.match(comment)):
        comment = told["rest"]
        annotation = ast.parse(told["type"].strip(), mode="eval").body if told["type"].strip() else None
    try:
        default, is_literal = ast.literal_eval(value), True
    except (ValueError, TypeError, MemoryError, RecursionError):
        default, is_literal = ast.unparse(value), False
    if annotation is None:
        return Parameter(name, _type_of(default) if is_literal else "any", default, comment)
    kind, choices, optional = _annotated(annotation)
    return Parameter(
        name, kind if is_literal else "any", default, comment, choices, optional or default is None
    )


def _annotated(annotation: ast.AST) -> tuple[ParameterType, tuple[Any, ...], bool]:
    """The type that an annotation names, its choices, and whether None is one."""
    match annotation:
        case ast.Constant(value=str(text)) if text.isidentifier():
            return _named_type(text), (), False
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            return *_annotated(inner)[:2], True
        case ast.Subscript(value=generic, slice=inner):
            return _subscripted(ast.unparse(generic).rpartition(".")[2], inner)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _named_type(name), (), False
        case _:
            return "any", (), False


def _subscripted(name: str, inner: ast.AST) -> tuple[ParameterType, tuple[Any, ...], bool]:
    if name == "Optional":
        return *_annotated(inner)[:2], True
    if name == "Literal":
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        choices = tuple(part.value for part in parts if isinstance(part, ast.Constant))
        return (_type_of(choices[0]) if choices else "any"), choices, False
    return _named_type(name), (), False


# TypeScript ---------------------------------------------------------------------------------------------------------

_declared = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?:const|let|var)[ \t]+(?P<name>[A-Za-z_$][\w$]*)[ \t]*(?::(?P<type>[^=\n]+))?=[ \t]*",
    re.MULTILINE,
)
_rest = re.compile(r"[ \t]*;?[ \t]*(?://[ \t]*(?P<comment>[^\n]*))?(?:\n|$)")
_decode = json.JSONDecoder().raw_decode


def _in_typescript(source: str) -> Iterator[_Found]:
    """What is written as JSON; another default is no parameter."""
    for declared in _declared.finditer(source):
        try:
            default, end = _decode(source, declared.end())
        except ValueError:
            continue
        rest = _rest.match(source, end)
        if rest is None:
            continue
        kind, choices = _typescript_type((declared["type"] or "").strip(), default)
        comment = (rest["comment"] or "").strip()
        yield _Found(Parameter(declared["name"], kind, default, comment, choices), declared.end(), end)


def _typescript_type(named: str, default: Any) -> tuple[ParameterType, tuple[Any, ...]]:
    if not named:
        return _type_of(default), ()
    if '"' in named:
        choices = tuple(_read(part.strip()) for part in named.split("|"))
        return "str", tuple(choice for choice in choices if isinstance(choice, str))
    if named.endswith("[]") or named.startswith("Array<"):
        return "list", ()
    kind = _named_type(named.partition("<")[0])
    # A whole number stays one, though the language has one type for both.
    return ("int" if kind == "float" and isinstance(default, int) else kind), ()
