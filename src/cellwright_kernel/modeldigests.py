"""What a model is: its class, what it was told to do otherwise than usual, and whether it has learnt already."""

from __future__ import annotations

import inspect
from itertools import islice
from types import GetSetDescriptorType
from typing import Any

from cellwright_kernel.digests import cut, is_a, type_name
from cellwright_kernel.genuine import is_genuine, is_of, library
from cellwright_kernel.tabledigests import value_text

__all__ = ["model_digest"]

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
