"""A session's data as pictures: manifests that its code left in the working directory, and values that are asked for.

What a manifest may say and how a chart is drawn stands in the package ``cellwright.charts``.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias

import anyio
import msgspec

from cellwright.charts import FILENAME, MAX_MANIFEST_BYTES, Output, Picture, Renderer, read_manifest
from cellwright.charts.auto import choose
from cellwright.charts.encodings import shape_of
from cellwright.engine._context import SessionContext
from cellwright.engine._document import SessionDocument
from cellwright.engine._executions import Execution
from cellwright.engine.kernel import SessionKernel, runtime_of
from cellwright.engine.records import Batch
from cellwright.engine.workspace import ManifestStamp, SessionWorkspace
from cellwright.errors import CellwrightError, ChartRefused, NoSuchData, SandboxError
from cellwright.sandbox.files import Workdir
from cellwright.sandbox.workspace import Workspace
from cellwright_kernel.tables import Table

__all__ = [
    "DATA_REQUEST",
    "MAX_DATA_BYTES",
    "MOST_ROWS",
    "VEGA_LITE",
    "Form",
    "Held",
    "SessionCharts",
    "Visual",
    "charts_left",
    "checked_entry",
    "entry_for",
    "exact_figures",
    "held_in",
    "output_for",
    "read_left",
]
_log = logging.getLogger(__name__)

VEGA_LITE = "application/vnd.vegalite.v5+json"

MAX_DATA_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class ChartOutput:
    """One output message of the Jupyter protocol."""

    kind: str
    content: dict[str, Any]


async def charts_left(place: Workspace, renderer: Renderer) -> list[ChartOutput]:
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


async def _drawn(place: Workspace, output: Output, renderer: Renderer) -> Picture:
    read = partial(read_left, place, output.data_file, MAX_DATA_BYTES)
    return await renderer.chart(output, await anyio.to_thread.run_sync(read))


def read_left(place: Workspace, path: str, max_bytes: int) -> bytes:
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
    params = dict(options or {})
    kind = params.pop("type", "auto") if form in ("chart", "auto") else form
    return checked_entry(entry_for(kind, params) | {"id": "visual", "dataFile": _NAME}, source="")


def entry_for(kind: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says of an output, from options by its own names or shorter ones; yet without id and file."""
    params = dict(options)
    about: dict[str, Any] = {"type": kind}
    if (title := params.pop("title", None)) is not None:
        about["title"] = title
    config = {_CONFIG.get(name, name): value for name, value in params.items()}
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
    if len(table.rows) >= table.total_rows or output.type not in ("auto", *_ADDING_UP):
        return None
    choice = choose(shape_of(table), output.config, output.type)
    encodings = choice.encodings
    name = encodings.label if choice.type == "pie_chart" else encodings.x
    values = (encodings.value,) if choice.type == "pie_chart" else encodings.y
    if choice.type not in _ADDING_UP or name is None or len(values) > 1:
        return None
    group_by = [name, encodings.group] if encodings.group is not None else [name]
    value = values[0] if values else None
    return {"group_by": group_by, "value": value, "how": "sum" if value is not None else "count"}


_ADDING_UP = ("bar_chart", "pie_chart")
"""The types whose values are sums or counts of rows."""

_TELLS = ("python", "deno")
"""The kernels of our own, which can be asked for a value."""


class SessionCharts:
    """The data of one session as pictures: manifests that its code left, and values that somebody asks to see."""

    def __init__(
        self,
        session: SessionContext,
        document: SessionDocument,
        workspace: SessionWorkspace,
        kernel: SessionKernel,
    ) -> None:
        self._session = session
        self._document = document
        self._workspace = workspace
        self._kernel = kernel
        self._services = session.services
        self._charted: ManifestStamp | None = None
        """The manifest that was drawn last."""

    async def visualize(
        self,
        cell_id: str | None = None,
        *,
        variable: str | None = None,
        form: Form = "auto",
        options: Mapping[str, Any] | None = None,
    ) -> Visual:
        """A cell's result, or a variable, as a chart, a table or a graph.

        Raises:
            NoSuchData: no kernel has such a value.
            ChartRefused: it cannot be shown as asked; the message names what is wrong.
            DrawingFailed: it took too long, or too much memory.
            KernelBusy: a cell is running.
        """
        output = output_for(form, options)
        if self._session.state != "active" and variable is None:
            raise NoSuchData(
                "its kernel is not running, and the results of its cells went with it: run the cell again"
            )
        want = {"chart": "table", "auto": "auto"}.get(form, form)
        params = {**self._data_request(cell_id, variable), "want": want, "max_rows": MOST_ROWS}
        held, language = await self._found(params, self._holders(cell_id))
        if held.table is not None and (aggregates := exact_figures(output, held.table)) is not None:
            figures = await self._held(
                {**params, "want": "table", "max_rows": 0, "aggregates": aggregates}, language
            )
            held = replace(held, figures=figures.figures)
        if held.graph is not None:
            output = replace(output, type="graph", data_file="graph.json")
        data = held.data
        if data is None:
            raise ChartRefused(
                f"{held.type} cannot be drawn ({held.digest}): "
                "show a frame, a series, an array, records, a dictionary or a graph"
            )
        return Visual(await self._services.renderer.chart(output, data), held)

    async def draw(
        self, table: Table, *, form: Form = "auto", options: Mapping[str, Any] | None = None
    ) -> Picture:
        """A table that comes from elsewhere, shown in the same ways."""
        return await self._services.renderer.chart(output_for(form, options), table)

    async def _found(self, content: dict[str, Any], languages: Sequence[str]) -> tuple[Held, str]:
        """The value, and the language in which it is held: the first that has it."""
        missed: NoSuchData | None = None
        for language in languages:
            try:
                return await self._held(content, language), language
            except NoSuchData as error:
                missed = missed or error
        raise missed or NoSuchData(
            f"nobody can be asked: a kernel of {self._session.language} keeps no values to draw from"
        )

    async def _held(self, content: dict[str, Any], language: str) -> Held:
        if runtime_of(language) not in _TELLS:
            raise NoSuchData(f"a kernel of {language} tells no values: make a table the result of a cell")
        return held_in(await self._kernel.ask(DATA_REQUEST, content, side=self._kernel.secondary(language)))

    def _data_request(self, cell_id: str | None, variable: str | None) -> dict[str, Any]:
        """What to ask a kernel for."""
        if variable is not None or cell_id is None:
            return {"name": variable or ""}
        cell = self._document.current.cell(cell_id)
        if not cell.runs:
            raise NoSuchData(f"cell {cell_id} is {cell.kind}, which has no result: name a code cell")
        if cell.execution_count is None:
            raise NoSuchData(f"cell {cell_id} has not run: run it first")
        return {"execution_count": cell.execution_count}

    def _holders(self, cell_id: str | None) -> list[str]:
        """The languages that may hold what is asked for, one for each kernel: the cell's, or every one that ran."""
        if cell_id is not None:
            return [self._document.current.language_of(self._document.current.cell(cell_id))]
        ran = [
            self._document.current.language_of(cell)
            for cell in self._document.current.cells
            if cell.execution_count is not None
        ]
        by_runtime = {runtime_of(language): language for language in (*reversed(ran), self._session.language)}
        others = [language for runtime, language in by_runtime.items() if runtime in _TELLS]
        return sorted(others, key=lambda language: runtime_of(language) != runtime_of(self._session.language))

    def draw_left(self, execution: Execution, stamp: ManifestStamp) -> None:
        """Draw the charts that an execution left, and settle it then: whoever waits for it sees them, too."""
        if stamp == self._charted:
            execution.settle()
            return
        self._charted = stamp
        self._services.in_background(partial(self._chart, execution))

    async def _chart(self, execution: Execution) -> None:
        try:
            batch = Batch()
            for output in await charts_left(self._workspace.place, self._services.renderer):
                self._session.runs.add_output(
                    batch, self._session.record, execution, output.kind, output.content
                )
            await self._services.recorder.commit(batch)
        except (CellwrightError, OSError) as error:
            _log.warning("manifest_not_drawn session=%s %s", self._session.id, error)
        finally:
            execution.settle()
