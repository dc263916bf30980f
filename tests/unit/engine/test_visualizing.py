"""What a kernel answers when it is asked for data: its own code may have written the answer."""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.engine.charts import held_in
from cellwright.errors import NoSuchData
from cellwright_kernel.tables import Column, Table

TABLE = Table((Column("a", "number"), Column("b", "text")), ((1.5, "x"), (10**30, None)), 2, ("told",))


def test_a_table_comes_as_it_was_sent() -> None:
    assert held_in({"status": "ok", "type": "frame", "table": TABLE.to_wire()}).table == TABLE


@pytest.mark.parametrize(
    "held",
    [
        5,
        "x",
        [],
        {},
        {"columns": 5, "rows": 7},
        TABLE.to_wire() | {"columns": [1]},
        TABLE.to_wire() | {"columns": [{"name": 5, "kind": "number"}]},
        TABLE.to_wire() | {"columns": [{"name": "a", "kind": "none that there is"}]},
        TABLE.to_wire() | {"rows": [None]},
        TABLE.to_wire() | {"rows": [[{}, 1]]},
        TABLE.to_wire() | {"rows": [[1, 2, 3]]},
        TABLE.to_wire() | {"total_rows": "x"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["table", "aggregates"])
def test_what_is_no_table_is_said_to_be_none(name: str, held: Any) -> None:
    with pytest.raises(NoSuchData, match="the kernel's answer is no table"):
        held_in({"status": "ok", name: held})


def test_what_is_no_graph_is_said_to_be_none() -> None:
    with pytest.raises(NoSuchData, match="no graph"):
        held_in({"status": "ok", "graph": [1]})
