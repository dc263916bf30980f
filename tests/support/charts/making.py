"""Manifests and tables for the tests of charts, made in a line."""

from __future__ import annotations

import json
from typing import Any

from cellwright.charts import Config, Manifest, Output, Spec, chart_spec, read_manifest
from cellwright.charts.data_files import read_table
from cellwright.charts.encodings import ChartType

SALES = b"month,revenue,cost\nJan,10,7\nFeb,12,8\nMar,15,9\n"


def manifest(*outputs: object, **more: object) -> Manifest:
    return read_manifest(json.dumps({"version": "1.0", "outputs": outputs, **more}).encode())


def entry(**fields: object) -> dict[str, object]:
    return {"id": "a", "type": "bar_chart", "dataFile": "sales.csv", **fields}


def output(type_: ChartType = "bar_chart", name: str = "sales.csv", **config: Any) -> Output:
    return Output("a", type_, name, None, Config(**config), "outputs[0]")


def spec(content: bytes, type_: ChartType = "bar_chart", *, name: str = "sales.csv", **config: Any) -> Spec:
    return chart_spec(output(type_, name, **config), read_table(content, name))


def drawn_values(made: Spec) -> list[dict[str, Any]]:
    assert made.vega_lite is not None
    values: list[dict[str, Any]] = made.vega_lite["data"]["values"]
    return values
