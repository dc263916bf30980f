"""The two usage examples of the Srcbook specification, as they are written there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.mcp.conftest import ask, connected, running

from cellwright import Engine
from cellwright.mcp.face import Face
from mcp import Client

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

LOADING = """
    const salesData = [
      { month: 'Oct', revenue: 125000, units: 543 },
      { month: 'Nov', revenue: 148000, units: 621 },
      { month: 'Dec', revenue: 172000, units: 701 }
    ];
    console.log('Data loaded:', salesData.length, 'months');
  """
ANALYSIS = """
    const totalRevenue = salesData.reduce((sum, m) => sum + m.revenue, 0);
    const avgRevenue = totalRevenue / salesData.length;
    console.log('Q4 Summary:');
    console.log('- Total Revenue: $' + totalRevenue.toLocaleString());
    console.log('- Average Monthly: $' + avgRevenue.toLocaleString());
  """
BUBBLE = """
    // Bubble sort implementation
    function bubbleSort(arr: number[]): number[] {
      const n = arr.length;
      for (let i = 0; i < n - 1; i++) {
        for (let j = 0; j < n - i - 1; j++) {
          if (arr[j] > arr[j + 1]) {
            [arr[j], arr[j + 1]] = [arr[j + 1], arr[j]];
          }
        }
      }
      return arr;
    }
  """
QUICK = """
    // Quick sort implementation
    function quickSort(arr: number[]): number[] {
      if (arr.length <= 1) return arr;
      const pivot = arr[0];
      const left = arr.slice(1).filter(x => x < pivot);
      const right = arr.slice(1).filter(x => x >= pivot);
      return [...quickSort(left), pivot, ...quickSort(right)];
    }
  """
TIMING = """
    const testData = Array.from({length: 1000}, () => Math.random() * 1000);

    console.time('Bubble Sort');
    bubbleSort([...testData]);
    console.timeEnd('Bubble Sort');

    console.time('Quick Sort');
    quickSort([...testData]);
    console.timeEnd('Quick Sort');
  """


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    if tool == "cell_execute":
        arguments["response_format"] = "json"
    return await ask(client, tool, **arguments)


async def test_a_data_analysis_over_three_cells(engine: Engine) -> None:
    async with running(Face(engine, dialect="srcbook")) as face, connected(face) as client:
        created = await call(
            client,
            "notebook_create",
            name="Sales Analysis Q4 2024",
            description="Quarterly sales data analysis",
        )
        session_id = created["session_id"]
        loading = await call(client, "cell_add", session_id=session_id, content=LOADING)
        loaded = await call(client, "cell_execute", session_id=session_id, cell_id=loading["cell_id"])
        await call(client, "cell_add", session_id=session_id, content=ANALYSIS)
        results = await call(client, "cell_execute", session_id=session_id, cell_id="all")

    assert loaded["stdout"] == "Data loaded: 3 months\n"
    assert results["status"] == "ok"
    assert "- Total Revenue: $445,000\n- Average Monthly: $148,333.333\n" in results["stdout"]


async def test_a_comparison_of_two_sorts(engine: Engine) -> None:
    async with running(Face(engine, dialect="srcbook")) as face, connected(face) as client:
        created = await call(client, "notebook_create", name="Algorithm Comparison", language="typescript")
        session_id = created["session_id"]
        for content in (BUBBLE, QUICK, TIMING):
            await call(client, "cell_add", session_id=session_id, content=content)
        compared = await call(client, "cell_execute", session_id=session_id, cell_id="all")

    assert compared["status"] == "ok"
    assert "Bubble Sort: " in compared["stdout"]
    assert "Quick Sort: " in compared["stdout"]
    assert "ms" in compared["stdout"]
