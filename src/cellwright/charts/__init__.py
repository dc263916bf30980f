"""Data to pictures: the visualization manifest, Vega-Lite specs and the process that draws them.

Knows no notebooks and no kernels: what it is given is text, tables and names. From a manifest to its pictures::

    manifest = read_manifest(content)
    async with Renderer() as renderer:
        for output in manifest.outputs:
            picture = await renderer.chart(output, data_of(output.data_file))
"""

from __future__ import annotations

from cellwright.charts._manifest import FILENAME, MAX_MANIFEST_BYTES, Manifest, read_manifest
from cellwright.charts._renderer import Picture, Renderer, RendererLimits
from cellwright.charts._specs import Spec, chart_spec
from cellwright.charts.encodings import ChartType, Config, Output, Problem
from cellwright.charts.themes import ThemeName

__all__ = [
    "FILENAME",
    "MAX_MANIFEST_BYTES",
    "ChartType",
    "Config",
    "Manifest",
    "Output",
    "Picture",
    "Problem",
    "Renderer",
    "RendererLimits",
    "Spec",
    "ThemeName",
    "chart_spec",
    "read_manifest",
]
