"""A session's data as pictures: manifests that its code left, and what somebody asks to see of its state."""

from __future__ import annotations

import logging
from functools import partial

from cellwright.engine.books import Services
from cellwright.engine.charting import Stamp, charts_left, manifest_stamp
from cellwright.engine.executions import Execution
from cellwright.engine.keeping import Keeper
from cellwright.engine.kernelled import Kernelled
from cellwright.engine.records import Batch, SessionRecord
from cellwright.errors import CellwrightError

__all__ = ["Charted"]

_log = logging.getLogger(__name__)


class Charted(Kernelled):
    """A notebook whose data can be looked at."""

    def __init__(self, record: SessionRecord, keeper: Keeper, services: Services) -> None:
        super().__init__(record, keeper, services)
        self._charted: Stamp | None = None
        """The manifest that was drawn last."""
        self.runs.settle = self._chart_then_settle

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
