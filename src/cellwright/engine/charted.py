"""A session's data as pictures: manifests that its code left, and what somebody asks to see of its state."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from cellwright.charts import Picture
from cellwright.engine.books import Services
from cellwright.engine.charts import (
    DATA_REQUEST,
    MOST_ROWS,
    Form,
    Held,
    Stamp,
    Visual,
    charts_left,
    exact_figures,
    held_in,
    manifest_stamp,
    output_for,
)
from cellwright.engine.document import Keeper
from cellwright.engine.environment import runtime_of
from cellwright.engine.executions import Execution
from cellwright.engine.kernelled import Kernelled
from cellwright.engine.records import Batch, SessionRecord
from cellwright.errors import CellwrightError, ChartRefused, NoSuchData
from cellwright.notebook.languages import cell_language
from cellwright_kernel.tables import Table

__all__ = ["Charted"]

_log = logging.getLogger(__name__)
_TELLS = ("python", "deno")
"""The kernels of our own, which can be asked for a value."""


class Charted(Kernelled):
    """A notebook whose data can be looked at."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self._charted: Stamp | None = None
        """The manifest that was drawn last."""
        self.runs.settle = self._chart_then_settle

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
        if self.state != "active" and variable is None:
            raise NoSuchData(
                "its kernel is not running, and the results of its cells went with it: run the cell again"
            )
        want = {"chart": "table", "auto": "auto"}.get(form, form)
        asked = {**self._asked(cell_id, variable), "want": want, "max_rows": MOST_ROWS}
        held, language = await self._found(asked, self._holders(cell_id))
        if held.table is not None and (wanted := exact_figures(output, held.table)) is not None:
            figures = await self._held(
                {**asked, "want": "table", "max_rows": 0, "aggregates": wanted}, language
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
            f"nobody can be asked: a kernel of {self.language} keeps no values to draw from"
        )

    async def _held(self, content: dict[str, Any], language: str) -> Held:
        if runtime_of(language) not in _TELLS:
            raise NoSuchData(f"a kernel of {language} tells no values: make a table the result of a cell")
        return held_in(await self._ask(DATA_REQUEST, content, side=self._side(language)))

    def _asked(self, cell_id: str | None, variable: str | None) -> dict[str, Any]:
        """What to ask a kernel for."""
        if variable is not None or cell_id is None:
            return {"name": variable or ""}
        cell = self.cell(cell_id)
        if not cell.runs:
            raise NoSuchData(f"cell {cell_id} is {cell.kind}, which has no result: name a code cell")
        if cell.execution_count is None:
            raise NoSuchData(f"cell {cell_id} has not run: run it first")
        return {"execution_count": cell.execution_count}

    def _holders(self, cell_id: str | None) -> list[str]:
        """The languages that may hold what is asked for, one for each kernel: the cell's, or every one that ran."""
        if cell_id is not None:
            return [cell_language(self.document, self.cell(cell_id))]
        ran = [cell_language(self.document, cell) for cell in self.cells if cell.execution_count is not None]
        by_runtime = {runtime_of(language): language for language in (*reversed(ran), self.language)}
        others = [language for runtime, language in by_runtime.items() if runtime in _TELLS]
        return sorted(others, key=lambda language: runtime_of(language) != runtime_of(self.language))

    def _chart_then_settle(self, execution: Execution) -> None:
        """Let whoever waits for an execution see the charts that it left, too."""
        started_at, stamp = execution.record.started_at, manifest_stamp(self.place)
        if started_at is None or stamp is None or stamp == self._charted or not stamp.is_of_run(started_at):
            execution.settle()
            return
        self._charted = stamp
        self._services.in_background(partial(self._chart, execution))

    async def _chart(self, execution: Execution) -> None:
        try:
            batch = Batch()
            for output in await charts_left(self.place, self._services.renderer):
                self.runs.add_output(batch, self.record, execution, output.kind, output.content)
            await self._services.recorder.commit(batch)
        except (CellwrightError, OSError) as error:
            _log.warning("manifest_not_drawn session=%s %s", self.id, error)
        finally:
            execution.settle()
