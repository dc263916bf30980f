"""A value's digest for agents: which kinds of values have one, and who writes it.

Frames are ``tabledigests``' business, figures ``figuredigests``'; arrays, nested records and models are told here. Ours
run none of the user's code (see ``digests``). Those of plugins are asked within a time limit, and dropped at the first
failure. Nothing here raises.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from types import GetSetDescriptorType, ModuleType
from typing import Any

from cellwright_kernel.digests import cut, describe, is_a, is_genuine, is_of, library, type_name
from cellwright_kernel.figuredigests import figure_digest
from cellwright_kernel.frames import frame_of
from cellwright_kernel.tabledigests import frame_digest, value_text
from cellwright_kernel.tables import kind_of_type, label, type_label

__all__ = [
    "Digests",
    "array_digest",
    "model_digest",
    "nested_digest",
    "relation_digest",
    "value_frame_digest",
]
MAX_CHARACTERS = 1_200

MAX_DEPTH = 4

MAX_KEYS = 20

MAX_ITEMS_SEEN = 200

FIRST_VALUES = 4

LOOKED_THROUGH = 1_000_000

TWO_VALUES = 2

_AND_MORE = ", \u2026"

_TIMES = " \u00d7 "

PLUGIN_S = 2.0
"""How long a plugin's digest may take over one value."""

IMPORT_S = 5.0

REPEAT_S = 1.0

MAX_REASON = 200

_mro_of: Any = type.__dict__["__mro__"].__get__


@dataclass(frozen=True, slots=True)
class _Row:
    """The digest of one type."""

    tell: Callable[[Any], str | None]
    is_exact: bool = False
    """Whether it is of the very type alone, and of no use where the value's short text says all."""


class Digests:
    """The digests of one kernel: ours and those of plugins, by the dotted name of the type that each is about."""

    def __init__(self, *, plugin_s: float = PLUGIN_S) -> None:
        self._rows = _own_rows()
        self._plugin_s = plugin_s
        self._functions: dict[str, Any] = {}
        self._failures: list[dict[str, Any]] = []

    def register(self, places: Mapping[str, str]) -> None:
        """Take digests of plugins, each found as ``module:function``; a type with an empty place has none any more."""
        for name, place in places.items():
            self._rows.pop(name, None)
            if place:
                self._rows[name] = _Row(partial(self._told_by_plugin, name, place))

    def of(self, value: Any) -> str | None:
        """What to tell an agent of a value that has a digest of its own; ``None`` for any other."""
        return self._told(value, hidden=False)

    def hidden(self, value: Any) -> str | None:
        """As above, but only of what shows less of itself than there is: figures, models, and types of plugins."""
        return self._told(value, hidden=True)

    def take_failures(self) -> list[dict[str, Any]]:
        """The plugins' digests that were dropped since the last call, and why."""
        taken, self._failures = self._failures, []
        return taken

    def _told(self, value: Any, *, hidden: bool) -> str | None:
        kind = type(value)
        try:
            for ancestor in _mro_of(kind):
                for name, row in list(self._rows.items()):
                    if row.is_exact and (hidden or ancestor is not kind):
                        continue
                    if _is_called(ancestor, name) and (told := row.tell(value)):
                        return cut(told, MAX_CHARACTERS)
        except Exception:  # noqa: BLE001  # boundary: whatever a library does with its own, the value is still shown
            return None
        return None

    def _told_by_plugin(self, name: str, place: str, value: Any) -> str | None:
        # Only there can what takes too long be ended.
        if threading.current_thread() is not threading.main_thread():
            return None
        try:
            if (function := self._function(name, place)) is None:
                return None
            with _at_most(self._plugin_s):
                told = function(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # boundary: a plugin's failure is no cell's
            self._drop(name, self._described(error), hangs=isinstance(error, _TooLongError))
            return None
        if told is not None and type(told) is not str:
            self._drop(name, f"returned {type_name(type(told))}, and not text")
            return None
        # Half a character cannot be sent.
        return told and told[:MAX_CHARACTERS].encode(errors="replace").decode()

    def _function(self, name: str, place: str) -> Any:
        """The plugin's function; ``None`` where this interpreter has no such module, which is no failure."""
        if name not in self._functions:
            module, _, attribute = place.partition(":")
            try:
                with _at_most(IMPORT_S):
                    found: Any = importlib.import_module(module)
            except ModuleNotFoundError:
                del self._rows[name]
                return None
            self._functions[name] = reduce(getattr, attribute.split("."), found)
        return self._functions[name]

    def _described(self, error: BaseException) -> str:
        if isinstance(error, _TooLongError):
            return f"did not end within {self._plugin_s:g} s"
        told = f"raised {type_name(type(error))}"
        try:
            with _at_most(self._plugin_s):
                return f"{told}: {error}"
        except BaseException:  # noqa: BLE001  # boundary: an error's text is the plugin's as well
            return told

    def _drop(self, name: str, reason: str, *, hangs: bool = False) -> None:
        self._rows.pop(name, None)
        self._failures.append({"name": name, "reason": cut(reason, MAX_REASON), "hangs": hangs})


def _own_rows() -> dict[str, _Row]:
    """Ours, which are entry points too."""
    exact: dict[str, Callable[[Any], str | None]] = {
        "builtins.dict": nested_digest,
        "builtins.list": nested_digest,
        "builtins.tuple": nested_digest,
        "numpy.ndarray": array_digest,
        "duckdb.DuckDBPyRelation": relation_digest,
        "pandas.DataFrame": value_frame_digest,
        "pandas.Series": value_frame_digest,
        "polars.DataFrame": value_frame_digest,
        "polars.Series": value_frame_digest,
        "pyarrow.Table": value_frame_digest,
        "pyarrow.RecordBatch": value_frame_digest,
    }
    others: dict[str, Callable[[Any], str | None]] = {
        "matplotlib.figure.Figure": figure_digest,
        "sklearn.base.BaseEstimator": model_digest,
        "torch.nn.Module": model_digest,
    }
    rows = {name: _Row(tell, is_exact=True) for name, tell in exact.items()}
    return {**rows, **{name: _Row(tell) for name, tell in others.items()}}


def _is_called(kind: type, name: str) -> bool:
    """Whether a type is what a loaded module calls by this dotted name; runs no code of either."""
    module, _, attribute = name.rpartition(".")
    held = sys.modules.get(module)
    return held is not None and is_a(held, ModuleType) and is_of(kind, module, attribute)


class _TooLongError(BaseException):
    """A plugin's digest took too long. No ``Exception``, which the plugin may well catch."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End what is done here, in the main thread, where it takes longer; a timer of the user's goes on afterwards."""

    def end(_signal: int, _frame: Any) -> None:
        raise _TooLongError

    handler = signal.signal(signal.SIGALRM, end)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def value_frame_digest(value: Any) -> str | None:
    """What has columns and rows."""
    frame = frame_of(value)
    return frame_digest(frame) if frame is not None else None


def relation_digest(relation: Any) -> str:
    """Only what is known without running the query, which may take long and has just been run to be shown."""
    lines = [f"{label(name)}: {kind}" for name, kind in zip(relation.columns, relation.types, strict=True)]
    more = [f"\u2026 {len(lines) - MAX_KEYS} more columns"] if len(lines) > MAX_KEYS else []
    return "\n".join([f"duckdb relation of {len(lines)} columns, not counted", *lines[:MAX_KEYS], *more])


# Arrays --------------------------------------------------------------------------------------------------------------


def array_digest(array: Any) -> str | None:
    """Shape, type, what the numbers are like, and the first of them; of records, their columns."""
    if array.dtype.names is not None:
        return value_frame_digest(array)
    facts = [f"numpy.ndarray {array.shape} {array.dtype}"]
    if array.size and array.dtype.kind in "iuf":
        facts.append(_statistics(array))
    elif array.size and array.dtype.kind == "b":
        facts.append(f"{_counted(array):,} true")
    if array.size and array.dtype.kind in "biufcmMUS":
        first = [value_text(number) for number in islice(array.flat, FIRST_VALUES)]
        facts.append(f"first {', '.join(first)}")
    return ", ".join(facts)


def _counted(array: Any) -> int:
    numpy: Any = library("numpy")
    return int(numpy.count_nonzero(array))


def _statistics(array: Any) -> str:
    numpy: Any = library("numpy")
    part, sign = _part(array)
    if part.dtype.kind == "f":
        # In double precision, and without the warnings that an overflow would print into the cell.
        finite = part[numpy.isfinite(part)].astype("f8")
        odd = part.size - finite.size
        if not finite.size:
            return f"{sign}nothing finite"
    else:
        finite, odd = part, 0
    told = f"{sign}min {value_text(finite.min())}, mean {finite.mean():.6g}, max {value_text(finite.max())}"
    return f"{told}, {sign}{odd:,} not finite" if odd else told


def _part(array: Any) -> tuple[Any, str]:
    """All of an array, or as much of it, spread evenly, as is quick to look through."""
    if array.size <= LOOKED_THROUGH:
        return array, ""
    step = -(-array.shape[0] // max(1, LOOKED_THROUGH * array.shape[0] // array.size // 4))
    part = array[::step]
    while part.size > LOOKED_THROUGH:
        part = part[0]
    return part, "~"


# Nested records ------------------------------------------------------------------------------------------------------


def nested_digest(value: Any) -> str:
    """The shape of a nesting: keys, types and lengths, with an example for each leaf."""
    lines = [_headline(value)]
    _write_value(value, "", 1, lines)
    return "\n".join(_bounded(lines))


def _bounded(lines: list[str]) -> list[str]:
    room = MAX_CHARACTERS
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < FIRST_VALUES * 10:
            return [*lines[:number], "\u2026"]
    return lines


def _headline(value: Any) -> str:
    kind = type(value)
    if kind is dict:
        return f"dict of {len(value):,} keys" if value else "empty dict"
    return f"{kind.__name__} of {len(value):,} {_items(value)}" if value else f"empty {kind.__name__}"


def _items(values: Any) -> str:
    kinds = list(dict.fromkeys(type_label(type(item)) for item in islice(values, MAX_ITEMS_SEEN)))
    return "/".join(kinds[:3]) + ("/\u2026" if len(kinds) > 3 else "")


def _write_value(value: Any, indent: str, depth: int, lines: list[str]) -> None:
    if depth > MAX_DEPTH:
        return
    kind = type(value)
    if kind is dict:
        _write_keys(value, indent, depth, lines)
    elif kind in (list, tuple) and value:
        first = value[0]
        if type(first) is dict:
            _write_records(value, indent, depth, lines)
        elif type(first) in (list, tuple):
            lines.append(f"{indent}[0]: {_headline(first)}")
            _write_value(first, f"{indent}  ", depth + 1, lines)
        else:
            shown = ", ".join(value_text(item) for item in islice(value, FIRST_VALUES))
            lines.append(f"{indent}first: {shown}{_AND_MORE * (len(value) > FIRST_VALUES)}")


def _write_records(records: Any, indent: str, depth: int, lines: list[str]) -> None:
    """Dictionaries of a list as one: in how many of them each key is, and an example of it."""
    seen = [record for record in islice(records, MAX_ITEMS_SEEN) if type(record) is dict]
    merged: dict[Any, Any] = {}
    counts: dict[Any, int] = {}
    for record in seen:
        for key, held in islice(record.items(), MAX_KEYS * 2):
            if type(key) in (str, int):
                counts[key] = counts.get(key, 0) + 1
                if merged.get(key) is None:
                    merged[key] = held
    partial = {key for key, count in counts.items() if count < len(seen)}
    _write_keys(merged, indent, depth, lines, partial=partial)


def _write_keys(
    mapping: dict[Any, Any], indent: str, depth: int, lines: list[str], *, partial: set[Any] | None = None
) -> None:
    for key, held in islice(mapping.items(), MAX_KEYS):
        mark = "?" if partial and type(key) in (str, int) and key in partial else ""
        lines.append(f"{indent}{label(key)}{mark}: {_leaf(held)}")
        if type(held) in (dict, list, tuple) and held and not _is_plain_list(held):
            _write_value(held, f"{indent}  ", depth + 1, lines)
    if len(mapping) > MAX_KEYS:
        lines.append(f"{indent}\u2026 {len(mapping) - MAX_KEYS:,} more keys")


def _is_plain_list(value: Any) -> bool:
    return type(value) in (list, tuple) and all(
        kind_of_type(type(item)) != "other" for item in islice(value, MAX_ITEMS_SEEN)
    )


def _leaf(value: Any) -> str:
    kind = type(value)
    if kind in (dict, list, tuple):
        if value and _is_plain_list(value):
            shown = ", ".join(value_text(item) for item in islice(value, TWO_VALUES))
            return f"{_headline(value)}, {shown}{_AND_MORE * (len(value) > TWO_VALUES)}"
        return _headline(value)
    about = describe(value)
    if kind_of_type(kind) != "other":
        return f"{type_label(kind)}, {value_text(value)}"
    shape = _TIMES.join(f"{length:,}" for length in about.get("shape") or ())
    return f"{type_label(kind)} {shape}".rstrip()


# What a model is: its class, what it was told to do otherwise than usual, and whether it has learnt already.

MAX_PARAMETERS = 12

MAX_MODULES = 10_000

_dict_of_type: Any = type.__dict__["__dict__"].__get__

_PLAIN = frozenset({int, float, bool, str, type(None)})


def model_digest(model: Any) -> str | None:
    """An estimator of scikit-learn or a module of torch; ``None`` for anything else."""
    kind = type(model)
    if is_genuine(kind, "sklearn") and is_a(model, _base("sklearn.base", "BaseEstimator")):
        return _estimator(model)
    torch = library("torch")
    if torch is not None and is_a(model, _base("torch.nn", "Module")):
        return _module(model)
    return None


def _base(module: str, name: str) -> type:
    found = getattr(library(module), name, None)
    return found if isinstance(found, type) else _Nothing


class _Nothing:
    """What no model descends from."""


def _estimator(model: Any) -> str:
    kind = type(model)
    held = vars(model)
    learnt = any(name.endswith("_") and not name.startswith("_") for name in held)
    facts = ["fitted" if learnt else "not fitted"]
    if type(features := held.get("n_features_in_")) is int:
        facts.append(f"{features:,} features")
    if changed := _changed(kind, held):
        facts.append(", ".join(changed))
    head = f"sklearn {kind.__name__}: {'; '.join(facts)}"
    steps = held.get("steps")
    if type(steps) is not list:
        return head
    inner = [step[1] for step in steps if type(step) is tuple and len(step) > 1]
    return "\n".join(
        [
            f"sklearn {kind.__name__} of {len(inner)} steps",
            *(model_digest(step) or type_name(type(step)) for step in inner),
        ]
    )


def _changed(kind: type, held: dict[str, Any]) -> list[str]:
    """Parameters that differ from the default."""
    told = []
    for name, parameter in inspect.signature(kind).parameters.items():
        if name not in held or name == "steps":
            continue
        value, default = held[name], parameter.default
        if type(value) in _PLAIN and type(value) is type(default) and value == default:
            continue
        told.append(f"{name}={_parameter(value)}")
    return [*told[:MAX_PARAMETERS], *(["\u2026"] if len(told) > MAX_PARAMETERS else [])]


def _parameter(value: Any) -> str:
    if type(value) is str:
        return repr(cut(value, 40))
    return (
        value_text(value)
        if type(value) in _PLAIN - {type(None)}
        else str(value)
        if value is None
        else f"<{type_name(type(value))}>"
    )


def _module(model: Any) -> str:
    """A network, walked through its own dictionaries: asking it would run the user's class."""
    numbers = frozen = modules = 0
    pending = [model]
    seen: set[int] = set()
    while pending and modules < MAX_MODULES:
        module = pending.pop()
        modules += 1
        held = _dictionary(module)
        for parameter in _values(held.get("_parameters")):
            if id(parameter) not in seen and is_of(type(parameter), "torch.nn.parameter", "Parameter"):
                seen.add(id(parameter))
                numbers += parameter.numel()
                frozen += 0 if parameter.requires_grad else parameter.numel()
        pending += [each for each in _values(held.get("_modules")) if each is not None]
    told = f"torch {type_name(type(model))}: {numbers:,} parameters in {modules - 1:,} modules"
    return f"{told}, {frozen:,} frozen" if frozen else told


def _dictionary(instance: Any) -> dict[str, Any]:
    """An object's own dictionary, past whatever its class may have put before it."""
    for kind in _mro_of(type(instance)):
        slot = _dict_of_type(kind).get("__dict__")
        if type(slot) is GetSetDescriptorType:
            held: dict[str, Any] = slot.__get__(instance)
            return held
    return {}


def _values(held: Any) -> list[Any]:
    return list(islice(held.values(), MAX_MODULES)) if is_a(held, dict) else []
