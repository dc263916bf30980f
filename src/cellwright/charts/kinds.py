"""Chart types, each a plugin of the kind ``chart_types``: which column plays which part in it, and what draws it.

Ours are in ``_own_kinds``. The daemon knows what they are called; they are asked for a chart in the process that draws,
which is told where each is to be found.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from cellwright.charts._aggregation import Drawing, Readings
from cellwright.charts.encodings import Config, Encodings, Shape
from cellwright.charts.themes import ThemeName
from cellwright.errors import CellwrightError, ChartError
from cellwright.plugins.registry import registry

if TYPE_CHECKING:
    from cellwright.plugins.registry import Registry

__all__ = [
    "ChartKind",
    "ChartKindFailed",
    "ChartKinds",
    "Config",
    "Drawing",
    "Encodings",
    "Readings",
    "Shape",
    "chart_types",
    "registered_kinds",
    "type_called",
]

_GROUP = "chart_types"
_OURS = "cellwright."
_P = ParamSpec("_P")
_T = TypeVar("_T")

Build: TypeAlias = Callable[[Encodings, Readings, ThemeName], Drawing]
Encode: TypeAlias = Callable[[Shape, Config], Encodings]


@dataclass(frozen=True, slots=True)
class ChartKind:
    """One type of charts. It is called as its entry point is: in small letters, with underscores."""

    build: Build
    """Makes the drawing of columns that play these parts."""
    encode: Encode
    """Which column plays which part: what the config says, and what follows where it is silent."""
    spellings: tuple[str, ...] = ()
    """What the type is also called."""


class ChartKindFailed(ChartError):
    """A plugin's chart type raised, or gave what is no drawing."""

    code = "chart_kind_failed"


class ChartKinds(Mapping[str, ChartKind]):
    """Chart types by name, each imported when it is asked for."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """``places`` says where each is found, as ``module:attribute``."""
        self.places = dict(places)

    def __getitem__(self, name: str) -> ChartKind:
        place = self.places[name]
        kind: ChartKind = _imported(place)
        return kind if place.startswith(_OURS) else _guarded(name, kind)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def is_ours(self, name: str) -> bool:
        return self.places.get(name, _OURS).startswith(_OURS)


@cache
def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    made: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        made = getattr(made, part)
    return made


def _guarded(name: str, kind: ChartKind) -> ChartKind:
    return replace(
        kind, build=_checked(name, kind.build, Drawing), encode=_checked(name, kind.encode, Encodings)
    )


def _checked(name: str, function: Callable[_P, _T], gives: type) -> Callable[_P, _T]:
    """The same function, whose failures say whose they are. How long it may take is the renderer's to say."""

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            made = function(*args, **options)
        except CellwrightError:
            raise  # said on purpose, to the caller
        except Exception as error:  # boundary: told as the plugin's
            raise ChartKindFailed(f"raised {type(error).__name__}: {error}"[:300]) from error
        if not isinstance(made, gives):
            raise ChartKindFailed(f"returned {type(made).__name__}, and not {gives.__name__}")
        return made

    return call


def registered_kinds() -> ChartKinds:
    """Those of this process; imports none."""
    there = registry()
    found = ((name, there.find(_GROUP, name)) for name in there.names(_GROUP))
    return ChartKinds({name: plugin.entry.value for name, plugin in found if plugin is not None})


def chart_types() -> tuple[str, ...]:
    """What may be asked for."""
    return ("table", *registry().names(_GROUP), "auto")


def type_called(word: str) -> str | None:
    """The type that a word means, in any case, with spaces or dashes; None where it means none."""
    return spelled_types().get(_plain(word))


def spelled_types() -> Mapping[str, str]:
    """Every word that means a type."""
    there = chart_types()  # one that failed too often is no more
    return {word: name for word, name in _spelled(registry()).items() if name in there}


@lru_cache(maxsize=1)
def _spelled(there: Registry) -> Mapping[str, str]:
    known = {"auto": "auto", "chart": "auto", "table": "table", "table_chart": "table"}
    kinds = there.every(_GROUP)
    for plugin, _ in kinds:
        known.setdefault(_plain(plugin.entry.name), plugin.entry.name)
    for plugin, kind in kinds:
        for word in kind.spellings:
            known.setdefault(_plain(str(word)), plugin.entry.name)
    return known


def _plain(word: str) -> str:
    return word.strip().lower().replace(" ", "_").replace("-", "_")
