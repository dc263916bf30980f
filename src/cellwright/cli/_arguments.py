"""A command's arguments as its function's signature declares them: read, converted, and described for help.

Says nothing to a person and runs nothing (see ``_commands``). No library reads them: importing one and building its
converters would take more processor time than most commands themselves (ADR 75).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

__all__ = ["Argument", "BadArgument", "Exit", "Option", "Parameter", "parameters_of", "read_arguments"]

_REQUIRED: Any = object()
_TYPES: dict[Any, str] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}


class BadArgument(Exception):
    """What was typed cannot be meant; ``argument`` is what help calls the one that is wrong."""

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(f"{argument}: {message}" if argument else message)


class Exit(Exception):
    """Ends a command with this exit code; what is to be said has been said."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class Argument:
    """Declares an argument that is known by its place, in ``Annotated``."""

    __slots__ = ("help", "metavar", "show_default")

    def __init__(self, *, metavar: str | None = None, help: str = "", show_default: bool = True) -> None:
        self.metavar = metavar
        self.help = help
        self.show_default = show_default


class Option:
    """Declares an option, in ``Annotated``; without names it is called as its parameter. ``--on/--off`` sets a flag."""

    __slots__ = ("help", "max", "metavar", "min", "names", "show_default")

    def __init__(
        self,
        *names: str,
        metavar: str | None = None,
        help: str = "",
        min: float | None = None,
        max: float | None = None,
        show_default: bool = True,
    ) -> None:
        self.names = names
        self.metavar = metavar
        self.help = help
        self.min = min
        self.max = max
        self.show_default = show_default


class Parameter(NamedTuple):
    """A function's parameter with what it was declared with."""

    name: str
    kind: Any
    """The type of one value, without its None and its list."""
    is_list: bool
    default: Any
    declared: Argument | Option

    @property
    def is_required(self) -> bool:
        """Whether there is no default for it."""
        return self.default is _REQUIRED

    @property
    def flags(self) -> list[str]:
        """An option's names, the shortest first; of a flag those that set it, and after a slash those that clear it."""
        assert isinstance(self.declared, Option)
        own = f"--{self.name.replace('_', '-')}"
        if self.kind is bool:
            return list(self.declared.names) or [f"{own}/--no-{own[2:]}"]
        return sorted(self.declared.names or [own], key=len)

    @property
    def shown(self) -> str:
        """How help and errors call it."""
        if isinstance(self.declared, Option):
            return self.flags[-1].partition("/")[0]
        return (self.declared.metavar or self.name.upper()).strip("[]")

    @property
    def type_name(self) -> str:
        """What stands for a value in help."""
        return self.declared.metavar or "|".join(self.choices) or _TYPES[self.kind]

    @property
    def choices(self) -> list[str]:
        """The values that it may have, where they are a few words."""
        is_choice = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        return [str(member.value) for member in self.kind] if is_choice else []


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return what a command's function declares, in its order."""
    hints = get_type_hints(function, include_extras=True)
    code: Any = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given: tuple[Any, ...] = function.__defaults__ or ()
    by_place = zip(reversed(names[: code.co_argcount]), reversed(given), strict=False)
    by_name: dict[str, Any] = function.__kwdefaults__ or {}
    defaults = {**dict(by_place), **by_name}
    return [_parameter(name, hints[name], defaults.get(name, _REQUIRED)) for name in names]


def _parameter(name: str, annotation: Any, default: Any) -> Parameter:
    assert get_origin(annotation) is Annotated, f"{name} is not declared as an argument or an option"
    kind, declared = get_args(annotation)
    # `X | None` has two arguments, and `list[X]` is one more step down.
    kind = (
        next((one for one in get_args(kind) if one is not NoneType), kind)
        if NoneType in get_args(kind)
        else kind
    )
    is_list = get_origin(kind) is list
    return Parameter(name, get_args(kind)[0] if is_list else kind, is_list, default, declared)


def read_arguments(
    parameters: Sequence[Parameter], words: Sequence[str], *, of_numbers: bool = False
) -> dict[str, Any]:
    """Return the value of each parameter, by its name; with ``of_numbers`` an unknown option is an argument.

    Raises:
        BadArgument: a word has no place, a value is of another type, or an argument is missing.
    """
    options = {
        flag: (parameter, is_set)
        for parameter in parameters
        if isinstance(parameter.declared, Option)
        for flag, is_set in _each_flag(parameter)
    }
    found: dict[str, Any] = {}
    placed: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            placed += rest
        elif len(word) == 1 or not word.startswith("-"):
            placed.append(word)
        else:
            _take_option(options, word, rest, found, placed, of_numbers=of_numbers)
    _place(parameters, placed, found)
    for parameter in parameters:
        if parameter.name not in found:
            if parameter.is_required:
                raise BadArgument("is missing", argument=parameter.shown)
            found[parameter.name] = parameter.default
    return found


def _each_flag(parameter: Parameter) -> Iterator[tuple[str, bool]]:
    for names in parameter.flags:
        for number, flag in enumerate(names.split("/")):
            yield flag, not number


def _take_option(
    options: dict[str, tuple[Parameter, bool]],
    word: str,
    rest: Iterator[str],
    found: dict[str, Any],
    placed: list[str],
    *,
    of_numbers: bool,
) -> None:
    """Read ``--name value``, ``--name=value``, ``-nvalue`` or a flag; what is unknown is refused, or ``placed``.

    What can be no option's name, as ``-- a comment`` of SQL or ``- an item``, is an argument, too.
    """
    if word.startswith("--"):
        flag, equals, value = word.partition("=")
    else:
        flag, equals, value = word[:2], word[2:], word[2:]
    if flag not in options:
        if not of_numbers and not _is_text(word, flag):
            raise _unknown(flag, options)
        placed.append(word)
        return
    parameter, is_set = options[flag]
    if parameter.kind is bool:
        if equals:
            raise BadArgument("takes no value", argument=flag)
        found[parameter.name] = is_set
        return
    if not equals:
        value = next(rest, _REQUIRED)
        if value is _REQUIRED:
            raise BadArgument("a value is missing behind it", argument=flag)
    _add(parameter, value, found)


def _is_text(word: str, flag: str) -> bool:
    return any(letter.isspace() for letter in (flag if word.startswith("--") else word))


def _unknown(flag: str, options: dict[str, Any]) -> BadArgument:
    from difflib import get_close_matches  # for mistakes alone

    near = get_close_matches(flag, options, n=1)
    meant = f"; did you mean `{near[0]}`?" if near else ""
    return BadArgument(f"There is no option `{flag}`{meant}")


def _place(parameters: Sequence[Parameter], placed: list[str], found: dict[str, Any]) -> None:
    """Give the arguments their values in order; a list, which stands last, takes all that are left."""
    waiting = list(placed)
    for parameter in parameters:
        if isinstance(parameter.declared, Option) or not waiting:
            continue
        count = len(waiting) if parameter.is_list else 1
        for word in waiting[:count]:
            _add(parameter, word, found)
        del waiting[:count]
    if waiting:
        raise BadArgument(f"There is no place for {' '.join(map(repr, waiting))}")


def _add(parameter: Parameter, word: str, found: dict[str, Any]) -> None:
    value = _converted(parameter, word)
    if parameter.is_list:
        found.setdefault(parameter.name, []).append(value)
    else:
        found[parameter.name] = value


def _converted(parameter: Parameter, word: str) -> Any:
    if parameter.choices and word not in parameter.choices:
        raise BadArgument(f"{word!r} is not one of {', '.join(parameter.choices)}", argument=parameter.shown)
    try:
        value = parameter.kind(word)
    except ValueError:
        what = "a whole number" if parameter.kind is int else "a number"
        raise BadArgument(f"{word!r} is not {what}", argument=parameter.shown) from None
    if isinstance(parameter.declared, Option) and isinstance(value, int | float):
        least, most = parameter.declared.min, parameter.declared.max
        # What is no number at all is in no range.
        if not (least is None or value >= least) or not (most is None or value <= most):
            bounds = [
                f"{side} {bound:g}"
                for side, bound in (("at least", least), ("at most", most))
                if bound is not None
            ]
            raise BadArgument(f"{word} is not {' and '.join(bounds)}", argument=parameter.shown)
    return value
