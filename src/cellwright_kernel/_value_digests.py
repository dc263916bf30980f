"""A value's digest for agents: which kinds of values have one, and who writes it.

Frames are ``tabledigests``' business, figures ``figuredigests``', models ``value_digests``'; arrays and nested records
are told here. Runs none of the user's code (see ``digests``), and never raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import islice
from types import GetSetDescriptorType
from typing import Any

from cellwright_kernel.digests import cut, describe, is_a, is_genuine, is_of, library, type_name
from cellwright_kernel.figuredigests import figure_digest
from cellwright_kernel.frames import frame_of, is_relation
from cellwright_kernel.tabledigests import frame_digest, value_text
from cellwright_kernel.tables import kind_of_type, label, type_label

__all__ = ["digest_of", "hidden_digest"]
MAX_CHARACTERS = 1_200

MAX_DEPTH = 4

MAX_KEYS = 20

MAX_ITEMS_SEEN = 200

FIRST_VALUES = 4

LOOKED_THROUGH = 1_000_000

TWO_VALUES = 2

_AND_MORE = ", \u2026"

_TIMES = " \u00d7 "


def digest_of(value: Any) -> str | None:
    """What to tell an agent of a value that has a digest of its own; ``None`` for any other."""
    return _digest_or_none(_digest, value)


def hidden_digest(value: Any) -> str | None:
    """As above, but only of what shows less of itself than there is: figures and models."""
    return _digest_or_none(_hidden, value)


def _digest_or_none(tell: Callable[[Any], str | None], value: Any) -> str | None:
    try:
        told = tell(value)
    except Exception:  # noqa: BLE001  # boundary: whatever a library does with its own, the value is still shown
        return None
    return None if told is None else cut(told, MAX_CHARACTERS)


def _digest(value: Any) -> str | None:
    kind = type(value)
    if kind in (list, tuple, dict):
        return nested_digest(value)
    if is_of(kind, "numpy", "ndarray") and value.dtype.names is None:
        return array_digest(value)
    if is_relation(value):
        return _relation_digest(value)
    frame = frame_of(value)
    if frame is not None:
        return frame_digest(frame)
    return _hidden(value)


def _hidden(value: Any) -> str | None:
    return figure_digest(value) or model_digest(value)


def _relation_digest(relation: Any) -> str:
    """Only what is known without running the query, which may take long and has just been run to be shown."""
    lines = [f"{label(name)}: {kind}" for name, kind in zip(relation.columns, relation.types, strict=True)]
    more = [f"\u2026 {len(lines) - MAX_KEYS} more columns"] if len(lines) > MAX_KEYS else []
    return "\n".join([f"duckdb relation of {len(lines)} columns, not counted", *lines[:MAX_KEYS], *more])


# Arrays --------------------------------------------------------------------------------------------------------------


def array_digest(array: Any) -> str:
    """Shape, type, what the numbers are like, and the first of them."""
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

_mro_of: Any = type.__dict__["__mro__"].__get__

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
