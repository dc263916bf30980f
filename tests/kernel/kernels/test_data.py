"""What a kernel's variables and results hold, asked for as data."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright_kernel.tables import Table
from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio

HELD = """
import numpy as np, pandas as pd
sales = pd.DataFrame({"shop": ["A", "B", "A"], "units": [1, 2, 4]})
class Run: pass
run = Run(); run.results = {"sales": [sales, 3], "net": {"nodes": ["a"], "edges": [("a", "b")]}}
class Lazy:
    @property
    def frame(self): raise RuntimeError("foreign code ran")
    def __getitem__(self, key): raise RuntimeError("foreign code ran")
    def __repr__(self): return "lazy"
lazy = Lazy()
"""


async def ask(kernel: Any, **content: Any) -> dict[str, Any]:
    reply: dict[str, Any] = await kernel.client.request("cellwright_data_request", content, timeout_s=LIMIT_S)
    return reply


async def answer(kernel: Any, run_cell: Any, **content: Any) -> dict[str, Any]:
    assert (await run_cell(kernel, HELD)).reply["status"] == "ok"
    reply = await ask(kernel, **content)
    assert reply["status"] == "ok", reply
    return reply


async def test_a_frame_is_given_by_name(kernel: Any, run_cell: Any) -> None:
    reply = await answer(kernel, run_cell, name="sales")
    assert (reply["kind"], reply["type"]) == ("table", "pandas.DataFrame")
    assert reply["digest"].startswith("pandas.DataFrame")
    table = Table.from_wire(reply["table"])
    assert table.rows == (("A", 1), ("B", 2), ("A", 4))


@pytest.mark.parametrize(
    ("path", "columns"),
    [
        ("run.results['sales'][0]", ("shop", "units")),
        ("run.results['sales'][-2].units", ("units",)),
        ("sales['units']", ("units",)),
    ],
)
async def test_a_path_is_followed(kernel: Any, run_cell: Any, path: str, columns: tuple[str, ...]) -> None:
    reply = await answer(kernel, run_cell, name=path)
    assert Table.from_wire(reply["table"]).names == columns


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("sale", "there is no variable 'sale'; did you mean 'sales'?"),
        ("run.other", "there is no attribute 'other'"),
        ("run.results['none']", "there is no key 'none'"),
        ("lazy.frame", "without a call"),
        ("lazy['x']", "without a call"),
        ("sales.head()", "only names, attributes and literal keys"),
        ("sales[run]", "no literal key"),
        ("1 +", "is no name"),
        ("__import__('os').getcwd()", "only names, attributes and literal keys"),
    ],
)
async def test_what_cannot_be_followed_is_refused_and_nothing_runs(
    kernel: Any, run_cell: Any, path: str, message: str
) -> None:
    await run_cell(kernel, HELD)
    reply = await ask(kernel, name=path)
    assert reply["status"] == "error"
    assert message in reply["evalue"]
    assert "foreign" not in reply["evalue"]


async def test_the_result_of_a_cell_is_given_by_its_number(kernel: Any, run_cell: Any) -> None:
    ran = await run_cell(kernel, "[{'a': 1}, {'a': 2}]")
    reply = await ask(kernel, execution_count=ran.reply["execution_count"])
    assert Table.from_wire(reply["table"]).rows == ((1,), (2,))
    reply = await ask(kernel, execution_count=99)
    assert "cell [99] left no result" in reply["evalue"]


async def test_graphs_are_nodes_and_links(kernel: Any, run_cell: Any) -> None:
    reply = await answer(kernel, run_cell, name="run.results['net']")
    assert reply["kind"] == "graph"
    assert reply["graph"] == {
        "nodes": [{"id": "a"}, {"id": "b"}],
        "links": [{"source": "a", "target": "b"}],
        "notices": [],
    }
    await run_cell(kernel, "links = [{'from': 'x', 'to': 'y', 'weight': 2}]")
    links = await ask(kernel, name="links", want="graph")
    assert links["graph"]["links"] == [{"source": "x", "target": "y", "weight": 2}]
    refused = await ask(kernel, name="sales", want="graph")
    assert "is no graph" in refused["evalue"]


async def test_a_network_of_networkx_is_a_graph(kernel: Any, run_cell: Any) -> None:
    # networkx is not among what the tests install: a module that answers as it does.
    code = """
import sys, types
class Graph:
    def __init__(self, held): self.held = held
    def adjacency(self): return iter(self.held.items())
    def is_directed(self): return False
sys.modules["networkx"] = types.ModuleType("networkx"); sys.modules["networkx"].Graph = Graph
one, two = (1, 2), "two"
network = Graph({one: {two: {}, one: {}}, two: {one: {}}})
"""
    await run_cell(kernel, code)
    reply = await ask(kernel, name="network")
    assert reply["graph"]["nodes"] == [{"id": "1.2"}, {"id": "two"}]
    assert reply["graph"]["links"] == [
        {"source": "1.2", "target": "two"},
        {"source": "1.2", "target": "1.2"},
    ]


async def test_a_million_rows_are_sampled_and_counted_exactly(kernel: Any, run_cell: Any) -> None:
    await run_cell(
        kernel, "import pandas as pd\nbig = pd.DataFrame({'n': range(1_000_000), 'k': ['a', 'b'] * 500_000})"
    )
    reply = await ask(
        kernel, name="big", max_rows=1_000, aggregates={"group_by": "k", "value": "n", "how": "mean"}
    )
    table = Table.from_wire(reply["table"])
    assert table.total_rows == 1_000_000
    assert 500 < len(table.rows) <= 1_000
    assert Table.from_wire(reply["aggregates"]).rows == (("a", 499_999.0), ("b", 500_000.0))
    reply = await ask(kernel, name="big", max_rows=0, aggregates={"value": "n", "bins": 4})
    assert [row[2] for row in Table.from_wire(reply["aggregates"]).rows] == [250_000] * 4


async def test_other_values_are_given_as_they_are_or_told(kernel: Any, run_cell: Any) -> None:
    reply = await answer(kernel, run_cell, name="run.results['sales'][1]")
    assert (reply["kind"], reply["value"], reply["type"]) == ("value", 3, "int")
    reply = await ask(kernel, name="lazy")
    assert (reply["kind"], reply["digest"], reply["type"]) == ("value", "<Lazy>", "Lazy")
    await run_cell(kernel, "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); plt.close()")
    assert (await ask(kernel, name="fig"))["kind"] == "figure"
