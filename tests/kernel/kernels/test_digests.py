"""What a kernel says of its outputs for agents: beside what people see, and only where it is better."""

from __future__ import annotations

from typing import Any

import pytest

from tests.matrix import first_of

pytestmark = pytest.mark.anyio

SALES = """
import numpy as np, pandas as pd
rng = np.random.default_rng(7)
sales = pd.DataFrame({
    "day": pd.date_range("2024-01-01", periods=1_000, freq="D"),
    "shop": rng.choice(["A", "B", "C"], 1_000),
    "units": np.arange(1_000) % 37,
    "revenue": np.where(np.arange(1_000) % 10 == 3, np.nan, 12.5),
})
"""


async def digest(kernel: Any, run_cell: Any, code: str, kind: str = "execute_result") -> str | None:
    ran = await run_cell(kernel, code)
    assert ran.reply["status"] == "ok", ran.outputs
    (content,) = ran.of(kind)
    told: str | None = content["metadata"].get("cellwright", {}).get("digest")
    return told


async def test_a_frame_is_told_by_shape_columns_and_three_rows(kernel: Any, run_cell: Any) -> None:
    told = await digest(kernel, run_cell, f"{SALES}\nsales")
    assert told is not None
    assert told.splitlines()[0] == "pandas.DataFrame, 1,000 rows \u00d7 4 columns"
    assert "day: datetime64[us], 2024-01-01 … 2026-09-26" in told
    assert "units: int64, 0 … 36" in told
    assert "revenue: float64, 100 missing, only 12.5" in told
    assert told.count("\n") <= 8


async def test_people_see_what_any_kernel_would_show(kernel: Any, run_cell: Any) -> None:
    await run_cell(kernel, SALES)
    (content,) = (await run_cell(kernel, "sales")).of("execute_result")
    assert set(content["data"]) == {"text/plain", "text/html"}
    assert set(content["metadata"]) == {"cellwright"}
    shown = (await run_cell(kernel, "display(sales, metadata={'mine': 1})")).of("display_data")
    assert set(shown[0]["metadata"]) == {"cellwright", "mine"}


@pytest.mark.parametrize(
    "code", first_of(["3", "'text'", "[1, 2, 3]", "{'a': 1}", "sales.head(3)", "np.arange(5)", "object"], 2)
)
async def test_what_is_short_and_whole_needs_no_digest(kernel: Any, run_cell: Any, code: str) -> None:
    assert await digest(kernel, run_cell, f"{SALES}\n{code}") is None


@pytest.mark.parametrize(
    ("code", "expected"),
    first_of(
        [
            (
                "np.arange(12_000.0).reshape(120, 100)",
                "numpy.ndarray (120, 100) float64, min 0, mean 5999.5, max 11999",
            ),
            ("sales['units']", "pandas.Series, 1,000 rows \u00d7 1 column\nunits: int64, 0 … 36"),
            (
                "[{'id': n, 'tags': ['x'] * n, 'at': {'x': n}} for n in range(500)]",
                "list of 500 dict\nid: int, 0",
            ),
            ("list(range(900))", "list of 900 int\nfirst: 0, 1, 2, 3, …"),
            ("{str(n): n for n in range(500)}", "dict of 500 keys\n0: int, 0"),
        ],
        3,
    ),
)
async def test_large_values_are_told_by_their_shape(
    kernel: Any, run_cell: Any, code: str, expected: str
) -> None:
    told = await digest(kernel, run_cell, f"{SALES}\n{code}")
    assert told is not None
    assert told.startswith(expected)
    assert len(told) <= 1_200


async def test_a_figure_is_told_beside_its_picture(kernel: Any, run_cell: Any) -> None:
    code = """
import matplotlib.pyplot as plt
fig, (left, right) = plt.subplots(1, 2)
left.plot([1, 2, 3], label="units"); left.set_title("Sales"); left.set_xlabel("month"); left.set_yscale("log")
right.bar(["a", "b"], [1, 2]); right.scatter([1, 2, 3], [1, 2, 3])
plt.show()
"""
    assert await digest(kernel, run_cell, code, "display_data") == (
        "figure 2 axes\naxes 'Sales'; x: 'month'; y: log; line 'units' of 3 points\naxes bars of 2; points of 3"
    )


async def test_a_model_is_told_with_what_it_was_given_and_has_learnt(kernel: Any, run_cell: Any) -> None:
    code = """
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
model = make_pipeline(StandardScaler(), Ridge(alpha=0.5))
model
"""
    assert await digest(kernel, run_cell, code) == (
        "sklearn Pipeline of 2 steps\nsklearn StandardScaler: not fitted\nsklearn Ridge: not fitted; alpha=0.5"
    )
    fitted = await digest(kernel, run_cell, "model.fit([[1, 2], [3, 4]], [1, 2]); model[-1]")
    assert fitted == "sklearn Ridge: fitted; 2 features; alpha=0.5"


async def test_a_network_is_told_by_its_parameters_without_asking_it(kernel: Any, run_cell: Any) -> None:
    # torch is too large to install for one test: a module that is built as its are.
    code = """
import sys, types
torch, nn, parameter = (types.ModuleType(name) for name in ("torch", "torch.nn", "torch.nn.parameter"))
class Parameter:
    requires_grad = True
    def __init__(self, size): self.size = size
    def numel(self): return self.size
class Module:
    def __init__(self): self.__dict__.update(_parameters={}, _modules={})
nn.Module, parameter.Parameter = Module, Parameter
sys.modules.update({"torch": torch, "torch.nn": nn, "torch.nn.parameter": parameter})
class Net(Module):
    def parameters(self): raise RuntimeError("foreign code ran")
net, layer = Net(), Module()
layer._parameters["weight"] = Parameter(1_200)
net._parameters["bias"] = Parameter(34)
net._modules["layer"] = layer
net
"""
    assert await digest(kernel, run_cell, code) == "torch Net: 1,234 parameters in 1 modules"


HOSTILE = f"""
{SALES}
def explode(*args, **kwargs): raise RuntimeError("foreign code ran")
class Hostile:
    def __repr__(self): return "hostile"
    __len__ = __eq__ = __hash__ = __iter__ = __float__ = __getattr__ = __bool__ = __lt__ = explode
class Frame(pd.DataFrame): pass
class Loud(dict):
    items = keys = __iter__ = explode
    def __repr__(self): return "loud" * 500
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    first_of(
        [
            ("pd.DataFrame({'o': pd.Series([Hostile()] * 500, dtype=object)})", "o: object, <Hostile>"),
            ("[Hostile()] * 500", "list of 500 Hostile"),
            ("[{'a': Hostile(), 'b': 'x' * 900}]", "a: Hostile"),
            ("Loud()", None),
            ("Frame({'x': range(500)})", None),
        ],
        3,
    ),
)
async def test_no_code_of_the_user_runs(kernel: Any, run_cell: Any, code: str, expected: str | None) -> None:
    told = await digest(kernel, run_cell, f"{HOSTILE}\n{code}")
    assert told is None if expected is None else expected in (told or "")


async def test_a_display_too_large_to_send_keeps_its_digest(kernel: Any, run_cell: Any) -> None:
    told = await digest(
        kernel,
        run_cell,
        "pd = __import__('pandas'); pd.set_option('display.max_rows', None)\npd.DataFrame({'s': ['x' * 400] * 5_000})",
    )
    assert told is not None
    assert told.startswith("pandas.DataFrame, 5,000 rows")


async def test_a_digest_looks_at_part_of_a_large_frame_and_says_so(kernel: Any, run_cell: Any) -> None:
    told = await digest(
        kernel,
        run_cell,
        "import pandas as pd\npd.DataFrame({'n': range(300_000), 's': ['a', 'b'] * 150_000})",
    )
    assert told is not None
    assert "n: int64, 0 … 299999" in told
    assert "s: str, ~2 distinct: a, b" in told
    assert told.splitlines()[0].endswith("rows)")
