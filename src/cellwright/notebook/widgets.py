"""Widgets as notebooks have them: outputs that show one, the states that a file keeps, and what of them can be read. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

__all__ = [
    "STATE_MIME",
    "VIEW_MIME",
    "State",
    "reached",
    "saved_state",
    "states_saved",
    "view_of",
    "with_widgets_as_text",
]

VIEW_MIME = "application/vnd.jupyter.widget-view+json"
STATE_MIME = "application/vnd.jupyter.widget-state+json"

State: TypeAlias = dict[str, Any]
"""Of one widget; bytes in it are text, under a name of their own."""

_REFERENCE = re.compile(r"IPY_MODEL_([\w-]{1,100})")
_LINKS = frozenset({"LinkModel", "DirectionalLinkModel"})
_BUFFER = "cellwright_buffer"
_TAG = re.compile(r"<[^>]*>")
_MOST_VALUE = 500


def view_of(output: Mapping[str, Any]) -> str | None:
    """The model of the widget that an output shows."""
    data = output.get("data")
    view = data.get(VIEW_MIME) if isinstance(data, Mapping) else None
    model = view.get("model_id") if isinstance(view, Mapping) else None
    return model if isinstance(model, str) else None


def reached(states: Mapping[str, State], views: Iterable[str]) -> frozenset[str]:
    """The widgets that are needed to show some: those that they refer to, and the links between all of them."""
    found: set[str] = set()
    links = {
        model: set(_references(state))
        for model, state in states.items()
        if state.get("_model_name") in _LINKS
    }
    waiting = list(views)
    while waiting:
        model = waiting.pop()
        if model in found or model not in states:
            continue
        found.add(model)
        waiting += _references(states[model])
        waiting += [link for link, ends in links.items() if ends & found and link not in found]
    return frozenset(found)


def _references(state: Mapping[str, Any]) -> Iterator[str]:
    for found in _REFERENCE.finditer(json.dumps(state, default=str)):
        yield found[1]
    for output in state.get("outputs") or () if isinstance(state.get("outputs"), list) else ():
        if isinstance(output, Mapping) and (view := view_of(output)) is not None:
            yield view


def saved_state(states: Mapping[str, State]) -> dict[str, Any]:
    """States as notebooks keep them, which other programs read, too."""
    return {
        "version_major": 2,
        "version_minor": 0,
        "state": {model: _saved(states[model]) for model in sorted(states)},
    }


def _saved(state: State) -> dict[str, Any]:
    buffers: list[dict[str, Any]] = []
    about = {name: state.get(f"_{name}") for name in ("model_name", "model_module", "model_module_version")}
    bare = _without_buffers(state, [], buffers.append)
    return {**about, "state": bare, **({"buffers": buffers} if buffers else {})}


def _without_buffers(value: Any, path: list[Any], take: Callable[[dict[str, Any]], None]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_BUFFER}:
            take({"encoding": "base64", "path": path, "data": value[_BUFFER]})
            return None
        parts = {name: _without_buffers(part, [*path, name], take) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not None or value[name] is None}
    if isinstance(value, list):
        return [_without_buffers(part, [*path, number], take) for number, part in enumerate(value)]
    return value


def states_saved(metadata: Mapping[str, Any]) -> dict[str, State]:
    """The states that a notebook keeps, whichever program wrote them, in their live form."""
    section = metadata.get("widgets")
    held = section.get(STATE_MIME) if isinstance(section, Mapping) else None
    models = held.get("state") if isinstance(held, Mapping) else None
    if not isinstance(models, Mapping):
        return {}
    return {model: _as_live(saved) for model, saved in models.items() if isinstance(saved, Mapping)}


def _as_live(saved: Mapping[str, Any]) -> State:
    kept = saved.get("state")
    state: State = json.loads(json.dumps(kept)) if isinstance(kept, Mapping) else {}
    for name in ("model_name", "model_module", "model_module_version"):
        state[f"_{name}"] = saved.get(name)
    for buffer in saved.get("buffers") or ():
        with suppress(TypeError, KeyError, IndexError, AttributeError):
            place: Any = state
            *way, last = buffer["path"]
            for step in way:
                place = place[step]
            place[last] = {_BUFFER: buffer["data"]}
    return state


# A widget as text, for readers without a kernel: its values, and the outputs that it has taken.


def with_widgets_as_text(outputs: Iterable[Any], metadata: Mapping[str, Any]) -> list[Any]:
    """Outputs with what a widget last showed in its place, as far as the notebook kept it."""
    outputs = list(outputs)
    if not any(isinstance(one, Mapping) and view_of(one) for one in outputs):
        return outputs
    states = states_saved(metadata)
    found: list[Any] = []
    for output in outputs:
        view = view_of(output) if isinstance(output, Mapping) else None
        shown = _joined(_read(states, view, set())) if view is not None else []
        found += shown or [output]
    return found


def _read(states: Mapping[str, State], view: str, seen: set[str]) -> Iterator[str | Mapping[str, Any]]:
    """Lines and outputs, as they stand below each other."""
    state = states.get(view)
    if state is None or view in seen:
        return
    seen.add(view)
    outputs = state.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, Mapping):
            within = view_of(output)
            yield from (output,) if within is None else _read(states, within, seen)
    if line := _line(state):
        yield line
    children = state.get("children")
    for child in children if isinstance(children, list | tuple) else ():
        if isinstance(child, str) and (named := _REFERENCE.fullmatch(child)):
            yield from _read(states, named[1], seen)


def _line(state: State) -> str:
    """A widget's description and value; a bar says how far it is, and a choice what is chosen."""
    name, value = state.get("description"), state.get("value")
    labels, index = state.get("_options_labels"), state.get("index")
    if isinstance(labels, list) and index is not None:
        chosen = index if isinstance(index, list) else [index]
        value = ", ".join(str(labels[one]) for one in chosen if isinstance(one, int) and one < len(labels))
    elif "Progress" in str(state.get("_model_name")):
        value = f"{value} of {state.get('max')}"
    elif isinstance(value, Mapping):
        value = None  # bytes
    if value is None:
        return ""
    text = _TAG.sub("", str(value)).strip()[:_MOST_VALUE]
    described = _TAG.sub("", str(name or "")).strip()
    return f"{described}: {text}".rstrip() if described else text


def _joined(parts: Iterable[str | Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found: list[Any] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(found[-1], str):
            found[-1] += f"\n{part}"
        else:
            found.append(part)
    return [
        {"output_type": "display_data", "data": {"text/plain": one}, "metadata": {}}
        if isinstance(one, str)
        else one
        for one in found
    ]
