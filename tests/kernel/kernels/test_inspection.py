"""Looking at a namespace runs none of its code, and stays small whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from tests.waiting import LIMIT_S, fail_after

pytestmark = pytest.mark.anyio


def named(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in found}


async def test_a_snapshot_tells_what_was_defined(kernel: Any, run_cell: Any) -> None:
    code = """
import math, numpy as np, pandas as pd
count, ratio, label, nothing = 3, 0.5, "abc" * 100, None
numbers, lookup, big = [1, 2, 3, 4, 5, 6], {"a": 1, "b": [2]}, 1 << 10_000
array = np.arange(12.0).reshape(3, 4)
frame = pd.DataFrame({"x": [1, 2], "y": ["a", "b"]})
def area(width, /, height=2, *rest, unit, scale=1, **more):
    "The area.\\n\\nAnd more."
class Shape: pass
_private = 1
"""
    assert (await run_cell(kernel, code)).reply["status"] == "ok"
    found = await kernel.inspect(timeout_s=LIMIT_S)
    variables = named(found["variables"])
    assert variables["count"] == {"name": "count", "type": "int", "digest": "3"}
    assert variables["label"]["length"] == 300
    assert len(variables["label"]["digest"]) <= 120
    assert variables["numbers"]["digest"] == "[1, 2, 3, 4, …]"
    assert variables["lookup"]["digest"] == "{'a': 1, 'b': <list>}"
    assert variables["big"]["digest"] == "an integer of 10,001 bits"
    assert variables["array"]["shape"] == [3, 4]
    assert variables["array"]["digest"] == "float64 [0.0, 1.0, 2.0, 3.0, …]"
    assert variables["frame"]["shape"] == [2, 2]
    assert variables["frame"]["digest"].startswith("x: int64, y: ")
    assert "_private" not in variables
    assert "In" not in variables
    (function,) = found["functions"]
    assert function["signature"] == "(width, /, height=…, *rest, unit, scale=…, **more)"
    assert function["doc"] == "The area."
    assert named(found["classes"])["Shape"]["class"] == "Shape"
    assert named(found["modules"])["pd"]["module"] == "pandas"
    assert found["python"].count(".") == 2
    assert found["cwd"]
    assert "packages" not in found
    assert found["omitted"] == 0


async def test_packages_are_listed_when_asked_for(kernel: Any) -> None:
    found = await kernel.inspect(packages=True, timeout_s=LIMIT_S)
    assert any(package.startswith("ipykernel==") for package in found["packages"])


HOSTILE = """
import time, types
def explode(*args, **kwargs): raise RuntimeError("foreign code ran")
def block(*args, **kwargs):
    while True: time.sleep(1000)
class Raises:
    __repr__ = __len__ = __str__ = __bool__ = __iter__ = __getattr__ = __getattribute__ = explode
    __class__ = property(explode)
    shape = dtype = property(explode)
class Blocks:
    __repr__ = __len__ = __eq__ = __hash__ = __bool__ = __iter__ = __getattribute__ = block
    __class__ = property(block)
    shape = property(block)
class Meta(type):
    __name__ = __module__ = property(block)
    __repr__ = __instancecheck__ = __subclasscheck__ = block
class Sly(metaclass=Meta): pass
class FakeArray:
    shape = property(block)
FakeArray.__module__, FakeArray.__qualname__ = "numpy", "ndarray"
class BadList(list):
    __len__ = __iter__ = __repr__ = block
class Lazy(types.ModuleType):
    __getattribute__ = block
raises, blocks, sly, fake, bad = Raises(), Blocks(), Sly(), FakeArray(), BadList([1])
lazy = Lazy("lazy")
nested = [Raises(), Blocks()]
keyed = {1: Blocks(), "a": Raises()}
def with_default(x=Blocks()): pass
import numpy as np, pandas as pd
class Late: pass
objects = np.array([Late()], dtype=object)
Late.__repr__ = Late.__str__ = block
frame = pd.DataFrame({"x": pd.Series([1, 2])}); frame.columns = pd.Index([("a", "b")], tupleize_cols=False)
globals()[17] = "not a name"
"""


async def test_hostile_objects_are_named_and_left_alone(kernel: Any, run_cell: Any) -> None:
    assert (await run_cell(kernel, HOSTILE)).reply["status"] == "ok"
    found = await kernel.inspect(timeout_s=LIMIT_S)
    variables = named(found["variables"])
    assert variables["raises"] == {"name": "raises", "type": "Raises"}
    assert variables["blocks"] == {"name": "blocks", "type": "Blocks"}
    assert variables["fake"] == {"name": "fake", "type": "numpy.ndarray"}
    assert variables["nested"]["digest"] == "[<Raises>, <Blocks>]"
    assert variables["keyed"]["digest"] == "{1: <Blocks>, 'a': <Raises>}"
    assert variables["objects"]["digest"] == "object"
    assert variables["bad"]["type"] == "BadList"
    assert named(found["modules"])["lazy"]["module"] == "lazy"
    assert named(found["functions"])["with_default"]["signature"] == "(x=…)"
    assert (await run_cell(kernel, "'alive'")).result == "'alive'"


async def test_a_million_variables_give_a_small_answer(kernel: Any, run_cell: Any) -> None:
    await run_cell(kernel, "globals().update({f'v{i}': 'x' * 1000 for i in range(1_000_000)}); newest = 1")
    found = await kernel.inspect(timeout_s=LIMIT_S)
    assert found["variables"][0]["name"] == "newest"
    assert len(found["variables"]) <= 200
    assert len(json.dumps(found)) < 100_000
    assert found["omitted"] > 900_000


async def test_inspection_leaves_no_trace(kernel: Any, run_cell: Any) -> None:
    await run_cell(kernel, "41 + 1")
    await kernel.inspect(timeout_s=LIMIT_S)
    ran = await run_cell(kernel, "_, [name for name in globals() if not name.startswith('_')]")
    assert ran.result == "(42, ['In', 'Out', 'get_ipython', 'exit', 'quit'])"
    assert ran.reply["execution_count"] == 2


async def test_a_busy_kernel_is_a_timeout_and_answers_later(kernel: Any) -> None:
    begun = anyio.Event()
    kernel.client.on_message = lambda message: begun.set() if message.kind == "stream" else None
    kernel.client.execute("import time; print('begun', flush=True); time.sleep(1000)", message_id="m")
    with fail_after():
        await begun.wait()
    with pytest.raises(TimeoutError):
        await kernel.inspect(timeout_s=0.05)
    await kernel.interrupt()
    assert named((await kernel.inspect(timeout_s=LIMIT_S))["modules"])["time"]
