"""A grid over a live frame: a kernel tells its columns, a few of its many rows, figures, and all of it as a file."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.waiting import LIMIT_S

pytestmark = pytest.mark.anyio

MILLION = """
import numpy as np, pandas as pd
many = pd.DataFrame({"n": np.arange(1_000_000), "half": np.arange(1_000_000) / 2, "word": [f"w{n % 7}" for n in range(1_000_000)]})
many.loc[5, "half"] = np.nan
many
"""


async def ask(kernel: Any, run: int, want: str, **content: Any) -> dict[str, Any]:
    asked = {"run": run, "want": want, **content}
    reply: dict[str, Any] = await kernel.client.request("cellwright_grid_request", asked, timeout_s=LIMIT_S)
    return reply


async def test_of_a_million_rows_a_page_is_told_sorted_and_filtered(kernel: Any, run_cell: Any) -> None:
    shown = await run_cell(kernel, MILLION)
    run = shown.reply["execution_count"]
    head = await ask(kernel, run, "open")
    assert (head["status"], head["total"], head["name"]) == ("ok", 1_000_000, "many")
    assert [(one["name"], one["kind"]) for one in head["columns"]] == [
        ("n", "number"),
        ("half", "number"),
        ("word", "text"),
    ]
    page = await ask(kernel, run, "rows", start=999_998, count=100)
    assert page["rows"] == [[999_998, 499_999.0, "w6"], [999_999, 499_999.5, "w0"]]
    down = await ask(kernel, run, "rows", start=0, count=1, sort=["half", True])
    assert down["rows"] == [[999_999, 499_999.5, "w0"]]
    # What is missing comes last, in either order.
    for order in (True, False):
        last = await ask(kernel, run, "rows", start=999_999, count=1, sort=["half", order])
        assert last["rows"] == [[5, None, "w5"]]
    some = await ask(
        kernel, run, "rows", start=0, count=2, sort=["n", True], filters=[["word", "W3"], ["n", "<=100"]]
    )
    assert (some["found"], some["rows"]) == (14, [[94, 47.0, "w3"], [87, 43.5, "w3"]])
    figures = await ask(kernel, run, "column", name="half")
    assert (figures["missing"], figures["least"], figures["most"]) == (1, 0.0, 499_999.5)
    assert (len(figures["bars"]), sum(figures["bars"])) == (16, 999_999)
    words = await ask(kernel, run, "column", name="word")
    assert (words["distinct"], words["common"][0]) == (7, ["w0", 142_858])
    # Of what was only displayed the kernel keeps what is small.
    shown = await run_cell(kernel, "display(many.copy(), many.head(100).copy())")
    large, small = (content["metadata"]["cellwright"]["digest"] for _, content in shown.outputs)
    run = shown.reply["execution_count"]
    kept = await ask(kernel, run, "open", digest=small)
    assert (kept["status"], kept.get("total")) == ("ok", 100), kept
    gone = await ask(kernel, run, "open", digest=large)
    assert (gone["ename"], "give it a name" in gone["evalue"]) == ("LookupError", True)


async def test_polars_and_sql_results_and_indexes_are_grids_too(kernel: Any, run_cell: Any) -> None:
    cells = {
        "polars": "import polars as pl\npl.DataFrame({'a': [3, 1, None], 'b': ['x', 'y', 'z']})",
        "sql": "from cellwright_kernel.sql import run\nrun('SELECT * FROM (VALUES (3, \\'x\\'), (1, \\'y\\'), (NULL, \\'z\\')) AS t(a, b)')",
        "pandas": "import pandas as pd\npd.DataFrame({'b': ['x', 'y', 'z']}, index=pd.Index([3, 1, None], name='a'))",
    }
    for cell in cells.values():
        shown = await run_cell(kernel, cell)
        run = shown.reply["execution_count"]
        found = await ask(kernel, run, "rows", start=0, count=10, sort=["a", False])
        assert found["rows"] == [[1, "y"], [3, "x"], [None, "z"]], cell
        text = await ask(kernel, run, "csv", start=0)
        assert text["text"].split() == ["a,b", "3,x", "1,y", ",z"] or text["text"].split() == [
            "a,b",
            "3.0,x",
            "1.0,y",
            ",z",
        ]
        parquet = await ask(kernel, run, "parquet", start=0)
        assert base64.b64decode(parquet["text"]).startswith(b"PAR1"), parquet


async def test_a_frame_that_is_gone_or_changed_is_said(kernel: Any, run_cell: Any) -> None:
    shown = await run_cell(kernel, "import pandas as pd\nf = pd.DataFrame({'a': range(100)})\nf")
    run = shown.reply["execution_count"]
    before = await ask(kernel, run, "open")
    await run_cell(kernel, "f['b'] = 1")
    after = await ask(kernel, run, "open")
    assert after["runs"] == before["runs"] + 1
    assert not set(after["digests"]) & set(before["digests"])
    for asked, why in (
        ({"want": "open", "run": 99}, "no longer in the kernel"),
        ({"want": "rows", "run": run, "start": 0, "count": 1, "filters": [["a", ">x"]]}, "no number"),
        ({"want": "column", "run": run, "name": "c"}, "no column"),
        ({"want": "nonsense", "run": run}, "cannot be asked"),
    ):
        reply = await kernel.client.request("cellwright_grid_request", asked, timeout_s=LIMIT_S)
        assert (reply["status"], why in reply["evalue"]) == ("error", True)
