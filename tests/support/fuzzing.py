"""What others might say to us: valid words from ``fuzzing_seeds``, changed at random; and how many of them are tried.

A fuzzer is a test with the mark ``each_effort`` that calls ``try_all``. ``make test`` tries a few hundred inputs of
each, some fifteen seconds for all fuzzers together; ``make test-matrix`` tries ``THOROUGH`` times the examples, some ten minutes.
``CELLWRIGHT_FUZZ_FACTOR`` multiplies both.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

__all__ = ["ODD", "each_effort", "mutated_bytes", "mutated_json", "mutated_values", "seeds", "try_all"]

SEEDS = Path(__file__).parent / "fuzzing_seeds"
QUICK, THOROUGH = 0.5, 20
FACTOR = float(os.environ.get("CELLWRIGHT_FUZZ_FACTOR") or 1)

each_effort = pytest.mark.parametrize(
    "effort",
    [
        pytest.param(QUICK, id="quick"),
        pytest.param(THOROUGH, id="thorough", marks=[pytest.mark.matrix, pytest.mark.timeout(600)]),
    ],
)


def try_all(
    check: Callable[..., None], *inputs: st.SearchStrategy[Any], examples: int, effort: float
) -> None:
    """Call a check with inputs that are drawn anew in each run; the smallest that fails is told."""
    count = max(int(examples * effort * FACTOR), 1)
    quietly = hypothesis.settings(
        max_examples=count,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
    )
    quietly(hypothesis.given(*inputs)(check))()


def seeds(name: str) -> Any:
    """What is in a file of valid words: a list for JSON, a text for anything else."""
    text = (SEEDS / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else text


# Values ----------------------------------------------------------------------------------------------------------

_DEEP = (50, 150)
# Deeper than Python itself can write: it stands for that in a value, and is put in when the value is written.
_DEEPEST = {"DEEP LISTS": ("[", "]", 20_000), "DEEP OBJECTS": ('{"a":', "}", 20_000)}


def _nested(depth: int, *, of_lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if of_lists else {"a": value}
    return value


ODD: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [
            None,
            True,
            False,
            0,
            -1,
            2**31,
            2**63,
            -(2**63) - 1,
            2**64,
            10**400,
            0.5,
            -0.0,
            1e308,
            float("nan"),
            float("inf"),
            float("-inf"),
            "",
            "\0",
            "\ud800",
            "a\nb",
            "../../etc/passwd",
            "x" * 5_000,
            "é" * 500,
            "<script>",
            [],
            {},
            [None],
            [[], {}],
            {"": None},
        ]
    ),
    st.builds(_nested, st.sampled_from(_DEEP), of_lists=st.booleans()),
    st.sampled_from(list(_DEEPEST)),
    st.integers(),
    st.text(max_size=20),
    st.lists(st.integers(-5, 5) | st.text(max_size=3), max_size=4),
)
"""What stands where something else is expected."""


@st.composite
def mutated_values(draw: st.DrawFn, valid: Sequence[Any], *, most: int = 3) -> Any:
    """One of these JSON values with some of its parts replaced, left out, doubled or renamed."""
    held = [copy.deepcopy(draw(st.sampled_from(valid)))]
    for _ in range(draw(st.integers(0, most))):
        place, key = draw(st.sampled_from(_places(held)))
        _change(draw, place, key)
        if not held:  # it was left out as a whole
            held = [_drawn_odd(draw)]
    return held[0]


def _drawn_odd(draw: st.DrawFn) -> Any:
    """A value of its own, which may be changed again."""
    return copy.deepcopy(draw(ODD))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every part of a value, as what holds it and by which key; bounded, as a part may be deep."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(found) < 200:  # enough to choose from
        holder = waiting.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        found += [(holder, key) for key in keys]
        waiting += [holder[key] for key in keys if isinstance(holder[key], dict | list)]
    return found


def _change(draw: st.DrawFn, place: Any, key: Any) -> None:
    match draw(st.sampled_from(["replace", "replace", "replace", "drop", "double", "rename", "wrap"])):
        case "replace":
            place[key] = _drawn_odd(draw)
        case "drop":
            del place[key]
        case "wrap":
            place[key] = [place[key]]
        case "double" if isinstance(place, list):
            place.append(copy.deepcopy(place[key]))
        case "rename" if isinstance(place, dict):
            place[draw(st.text(max_size=8))] = place.pop(key)
        case _:
            place[key] = _drawn_odd(draw)


def _dumped(value: Any, *, as_ascii: bool) -> bytes:
    text = json.dumps(value, ensure_ascii=as_ascii)
    for stands_for, (opening, closing, depth) in _DEEPEST.items():
        text = text.replace(f'"{stands_for}"', f"{opening * depth}1{closing * depth}")
    return text.encode("utf-8", "surrogatepass")


def mutated_json(valid: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """One of these values as JSON, changed as a value, as bytes, or both."""
    whole = st.builds(_dumped, mutated_values(valid), as_ascii=st.booleans())
    return st.one_of(whole, whole, mutated_bytes(whole))


# Bytes -----------------------------------------------------------------------------------------------------------

_BITS = [
    b"\0",
    b"\xff",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r\n",
    b'"',
    b"\\u0000",
    b"\\ud800",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 5_000,
    b"[" * 2_000,
    b'{"a":' * 2_000,
    b"]" * 20,
    b"\x7f\xff\xff\xff",
]


@st.composite
def mutated_bytes(
    draw: st.DrawFn, valid: Sequence[bytes] | st.SearchStrategy[bytes], *, most: int = 3
) -> bytes:
    """Some of these bytes cut off, turned, repeated, left out, or with something put between them."""
    data = draw(valid if isinstance(valid, st.SearchStrategy) else st.sampled_from(valid))
    for _ in range(draw(st.integers(1, most))):
        at = draw(st.integers(0, len(data)))
        upto = min(at + draw(st.integers(0, 40)), len(data))
        match draw(st.sampled_from(["cut", "flip", "put", "bits", "drop", "repeat"])):
            case "cut":
                data = data[:at]
            case "flip" if at < len(data):
                data = data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]
            case "put":
                data = data[:at] + draw(st.binary(max_size=8)) + data[at:]
            case "bits":
                data = data[:at] + draw(st.sampled_from(_BITS)) + data[at:]
            case "drop":
                data = data[:at] + data[upto:]
            case _:
                data = data[:upto] + data[at:upto] * draw(st.integers(1, 5)) + data[upto:]
    return data
