"""What a manifest in a working directory says, as outputs of the cell that wrote it. Reads files; changes no session.

What a manifest may say and how a chart is drawn stands in ``charts``; when anybody looks, in ``charted``.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias

import anyio
import msgspec

from cellwright.charts import FILENAME, MAX_MANIFEST_BYTES, Output, Picture, Renderer, read_manifest
from cellwright.charts.auto import choose
from cellwright.charts.encodings import shape_of
from cellwright.errors import CellwrightError, ChartRefused, NoSuchData, SandboxError
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.workspace import Place
from cellwright_kernel.tables import Table

__all__ = [
    "DATA_REQUEST",
    "MAX_DATA_BYTES",
    "MOST_ROWS",
    "VEGA_LITE",
    "Form",
    "Held",
    "Stamp",
    "Visual",
    "charts_left",
    "checked_entry",
    "entry_for",
    "exact_figures",
    "held_in",
    "manifest_stamp",
    "output_for",
    "read_left",
]
VEGA_LITE = "application/vnd.vegalite.v5+json"

MAX_DATA_BYTES = 128 << 20

# File systems tell time by a clock that may be some ticks behind.
_TICKS_S = 0.02


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what one manifest is told from another."""

    inode: int
    changed_ns: int
    size: int

    def is_of_run(self, started_at: float) -> bool:
        """Whether it came or changed since a run began."""
        return self.changed_ns / 1e9 >= started_at - _TICKS_S


@dataclass(frozen=True, slots=True)
class ChartOutput:
    """One output message of the Jupyter protocol."""

    kind: str
    content: dict[str, Any]


def manifest_stamp(place: Place) -> Stamp | None:
    """The manifest in a working directory, if there is one. Quick: one look at one name."""
    try:
        # Only whether it may be worth reading: what is read is opened without following any link.
        status = os.stat(f"{place.written_cwd}/{FILENAME}", follow_symlinks=False)  # quick
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return Stamp(status.st_ino, status.st_ctime_ns, status.st_size)


async def charts_left(place: Place, renderer: Renderer) -> list[ChartOutput]:
    """Every chart of the manifest, and after them what is wrong with those that cannot be drawn."""
    try:
        content = await anyio.to_thread.run_sync(read_left, place, FILENAME, MAX_MANIFEST_BYTES + 1)
    except SandboxError as error:
        return _complaints([f"{FILENAME}: {error.message}"])
    manifest = read_manifest(content)
    found: list[ChartOutput] = []
    complaints = [str(problem) for problem in manifest.problems]
    for output in manifest.outputs:
        try:
            picture = await _drawn(place, output, renderer)
        except ChartRefused as error:
            complaints += error.problems
        except SandboxError as error:
            complaints.append(f"{output.path}.dataFile: {error.message}")
        except CellwrightError as error:
            complaints.append(f"{output.path}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        else:
            found.append(_shown(output, picture))
    return [*found, *_complaints(complaints)]


async def _drawn(place: Place, output: Output, renderer: Renderer) -> Picture:
    read = partial(read_left, place, output.data_file, MAX_DATA_BYTES)
    return await renderer.chart(output, await anyio.to_thread.run_sync(read))


def read_left(place: Place, path: str, max_bytes: int) -> bytes:
    """A file of the working directory: as the session wrote it, else as the project has it."""
    # From the uppermost directory on: code may have put a link where one above the working directory was.
    below = str(PurePath(place.cwd).relative_to(place.top))
    top = place.top if place.mode == "direct" else place.written
    try:
        with Workdir.open(Path(top), below=below) as written:
            return written.read(path, max_bytes)
    except SandboxError:
        if place.mode != "overlay":
            raise
    with Workdir.open(Path(place.top), below=below) as project:
        return project.read(path, max_bytes)


def _shown(output: Output, picture: Picture) -> ChartOutput:
    about = {"chart": output.id, "digest": picture.digest}
    content = {"data": picture_bundle(picture), "metadata": {"cellwright": about}, "transient": {}}
    return ChartOutput("display_data", content)


def picture_bundle(picture: Picture) -> dict[str, Any]:
    """A picture in every form it has: for those who draw it themselves, for those who see, for those who read."""
    data: dict[str, Any] = {"text/plain": picture.digest}
    if picture.spec is not None:
        data[VEGA_LITE] = picture.spec
    if picture.png is not None:
        data["image/png"] = base64.b64encode(picture.png).decode()
    if picture.html is not None:
        data["text/html"] = picture.html
    return data


def _complaints(lines: Sequence[str]) -> list[ChartOutput]:
    if not lines:
        return []
    text = "".join(f"{line}\n" for line in lines)
    return [ChartOutput("stream", {"name": "stderr", "text": f"{FILENAME}:\n{text}"})]


# What somebody asks to see of a kernel's data, and what the kernel answers. Pure; draws nothing (see
# ``charts``).

DATA_REQUEST = "cellwright_data_request"

MOST_ROWS = 20_000

"""What a kernel sends of a table; beyond that it chooses rows evenly."""

Form: TypeAlias = Literal["chart", "table", "graph", "auto"]

_NAME = "data.json"

_CONFIG = {
    "x": "xColumn",
    "y": "yColumn",
    "group": "groupBy",
    "group_by": "groupBy",
    "label": "labelColumn",
    "value": "valueColumn",
    "x_label": "xLabel",
    "y_label": "yLabel",
    "max_rows": "maxRows",
}


@dataclass(frozen=True, slots=True)
class Held:
    """A value of a kernel's, as far as it can be shown."""

    type: str
    digest: str
    table: Table | None = None
    graph: dict[str, Any] | None = None
    figures: Table | None = None
    """Exact sums or counts over all rows, where those were asked for."""

    @property
    def data(self) -> Table | bytes | None:
        """What a chart is drawn from."""
        return json.dumps(self.graph).encode() if self.graph is not None else self.figures or self.table


@dataclass(frozen=True, slots=True)
class Visual:
    """A picture or table, and what it was made from."""

    picture: Picture
    held: Held


def output_for(form: Form, options: Mapping[str, Any] | None) -> Output:
    """What is to be drawn, checked as a manifest's output is.

    ``options`` has ``type``, ``title`` and the columns, by the manifest's names or shorter ones.

    Raises:
        ChartRefused: an option is none, or says what cannot be.
    """
    asked = dict(options or {})
    kind = asked.pop("type", "auto") if form in ("chart", "auto") else form
    return checked_entry(entry_for(kind, asked) | {"id": "visual", "dataFile": _NAME}, source="")


def entry_for(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of an output, from options by its own names or shorter ones; yet without id and file."""
    asked = dict(options)
    about: dict[str, Any] = {"type": kind}
    if (title := asked.pop("title", None)) is not None:
        about["title"] = title
    config = {_CONFIG.get(name, name): value for name, value in asked.items()}
    nested = config.pop("config", None)
    if config := config | (dict(nested) if isinstance(nested, Mapping) else {}):
        about["config"] = config
    return about


def checked_entry(entry: Mapping[str, Any], *, source: str) -> Output:
    """One output of a manifest that is to be drawn by itself; ``source`` is what messages call its data.

    Raises:
        ChartRefused: a field is none, or says what cannot be.
    """
    manifest = read_manifest(json.dumps({"version": "1.0", "outputs": [dict(entry)]}).encode())
    if manifest.problems:
        raise ChartRefused(*(str(problem).removeprefix("outputs[0].") for problem in manifest.problems))
    found = manifest.outputs[0]
    return Output(found.id, found.type, source, found.title, found.config, notices=found.notices)


def held_in(reply: Mapping[str, Any]) -> Held:
    """Read the kernel's answer.

    Raises:
        NoSuchData: the kernel has no such value.
    """
    if reply.get("status") != "ok":
        raise NoSuchData(str(reply.get("evalue") or reply.get("ename")))
    graph = reply.get("graph")
    if graph is not None and not isinstance(graph, dict):
        raise NoSuchData("the kernel's answer is no graph")
    return Held(
        str(reply.get("type", "")),
        str(reply.get("digest", "")),
        _table(reply.get("table")),
        graph,
        _table(reply.get("aggregates")),
    )


def _table(held: Any) -> Table | None:
    """A table as a kernel sent it, in whose name code may speak."""
    if held is None:
        return None
    try:
        table = msgspec.convert(held, Table)
    except msgspec.ValidationError as error:
        raise NoSuchData(f"the kernel's answer is no table: {error}") from None
    if any(len(row) != len(table.columns) for row in table.rows):
        raise NoSuchData("the kernel's answer is no table: its rows are not as wide as its head")
    return table


def exact_figures(output: Output, table: Table) -> dict[str, Any] | None:
    """What to ask the kernel for, where a chart of chosen rows would add up to less than all; None where it need not."""
    if len(table.rows) >= table.total_rows:
        return None
    choice = choose(shape_of(table), output.config, output.type)
    encodings = choice.encodings
    name = encodings.label if choice.type == "pie_chart" else encodings.x
    values = (encodings.value,) if choice.type == "pie_chart" else encodings.y
    if choice.type not in ("bar_chart", "pie_chart") or name is None or len(values) > 1:
        return None
    group_by = [name, encodings.group] if encodings.group is not None else [name]
    value = values[0] if values else None
    return {"group_by": group_by, "value": value, "how": "sum" if value is not None else "count"}
