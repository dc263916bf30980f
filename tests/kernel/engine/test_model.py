"""Random edits, executions, changes by others and restarts, held against a small model of what must be true."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from cellwright import Engine, Session, Settings, open_engine
from cellwright.engine._executions import text_of
from cellwright.notebook import SourceChanged
from tests.kernel.engine.conftest import end_host
from tests.waiting import UNHURRIED

# Each source says what it does to the one variable of the model.
SOURCES = st.sampled_from(
    ["x = 1", "x = 7", "x += 1", "x", "print(x)", "print('a'); print('b')", "1 / 0", "x = 5; x", "del x", ""]
)


@dataclass
class Kernel:
    """What the namespace must be."""

    x: int | None = None
    generation: int = 1

    def run(self, source: str) -> tuple[str, str]:
        """The state and the text that a cell of this source must have now."""
        match source:
            case "x = 1" | "x = 7":
                self.x = int(source[-1])
            case "x = 5; x":
                self.x = 5
                return "ok", "5\n"
            case "print('a'); print('b')":
                return "ok", "a\nb\n"
            case "1 / 0":
                return "error", "ZeroDivisionError: division by zero"
            case "":
                pass
            case _ if self.x is None:
                return "error", "NameError: name 'x' is not defined"
            case "x += 1":
                self.x += 1  # type: ignore[operator]  # the case above
            case "x" | "print(x)":
                return "ok", f"{self.x}\n"
            case "del x":
                self.x = None
        return "ok", ""


@dataclass
class Model:
    """The cells in order, what each last showed, and what the file last had."""

    order: list[str] = field(default_factory=list)
    source: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    saved: dict[str, str] = field(default_factory=dict)
    kernel: Kernel = field(default_factory=Kernel)
    runs: int = 0


class EngineAgainstModel(RuleBasedStateMachine):
    """Every machine is a session of its own in one storage directory, whose host goes on from one to the next."""

    def __init__(self, portal: BlockingPortal, root: Path) -> None:
        super().__init__()
        self.portal, self.root = portal, root

    @initialize(sources=st.lists(SOURCES, min_size=4, max_size=8))
    def open(self, sources: list[str]) -> None:
        self.model = Model()
        self._open_engine()
        self.session = self.portal.call(self.engine.create, "model")
        self.model.order.append("problem")
        self.model.source["problem"] = self.session.cell("problem").source
        for source in sources:
            cell = self.portal.call(self.session.add_cell, source)
            self.model.order.append(cell.id)
            self.model.source[cell.id] = source
        self._save()

    def _open_engine(self) -> None:
        values = {"root": self.root, "storage": self.root / "state", "standby_kernels": 0}
        # Nothing is saved behind the test's back: the model must know what others find in the file.
        options = Settings.model_validate({**UNHURRIED, **values, "save_quiet_s": 60})
        self.context = self.portal.wrap_async_context_manager(open_engine(options))
        self.engine: Engine = self.context.__enter__()

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.portal.call(self.engine.delete, self.session.id)
        if hasattr(self, "context"):
            self.context.__exit__(None, None, None)

    def _code_cells(self) -> list[str]:
        return [cell_id for cell_id in self.model.order if cell_id != "problem"]

    def _save(self) -> None:
        self.portal.call(self.session.save)
        self.model.saved = dict(self.model.source)

    # Ours --------------------------------------------------------------------------------------------------------

    @rule(source=SOURCES, data=st.data())
    def add(self, source: str, data: st.DataObject) -> None:
        position = data.draw(st.integers(0, len(self.model.order)))
        cell = self.portal.call(lambda: self.session.add_cell(source, position=position))
        self.model.order.insert(position, cell.id)
        self.model.source[cell.id] = source

    @precondition(lambda self: self._code_cells())
    @rule(source=SOURCES, data=st.data())
    def edit(self, source: str, data: st.DataObject) -> None:
        cell_id = data.draw(st.sampled_from(self._code_cells()))
        before = self.session.cell(cell_id).version
        cell = self.portal.call(lambda: self.session.edit_cell(cell_id, source, expected_version=before))
        assert cell.version == before + (source != self.model.source[cell_id])
        self.model.source[cell_id] = source

    @precondition(lambda self: self._code_cells())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        cell_id = data.draw(st.sampled_from(self._code_cells()))
        self.portal.call(self.session.delete_cell, cell_id)
        self.model.order.remove(cell_id)
        self.model.shown.pop(cell_id, None)
        del self.model.source[cell_id]

    @precondition(lambda self: self._code_cells())
    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        cell_id = data.draw(st.sampled_from(self._code_cells()))
        position = data.draw(st.integers(0, len(self.model.order) - 1))
        self.portal.call(self.session.move_cell, cell_id, position)
        self.model.order.remove(cell_id)
        self.model.order.insert(position, cell_id)

    @precondition(lambda self: self._code_cells())
    @rule(data=st.data())
    def run(self, data: st.DataObject) -> None:
        """A few at a time: what one leaves behind is there for the next, and a rule's turn comes seldom."""
        for cell_id in data.draw(st.lists(st.sampled_from(self._code_cells()), min_size=1, max_size=6)):
            execution = self.portal.call(self.session.run, cell_id)
            state, text = self.model.kernel.run(self.model.source[cell_id])
            assert (execution.state, execution.text) == (state, text)
            assert execution.generation == self.model.kernel.generation
            self.model.shown[cell_id] = text
            self.model.runs += 1

    @rule()
    def save(self) -> None:
        self._save()

    # Others ------------------------------------------------------------------------------------------------------

    def _rewrite_file(self, change: Any) -> None:
        notebook = nbformat.read(self.session.path, as_version=4)
        change(notebook)
        nbformat.write(notebook, self.session.path)

    @precondition(lambda self: self._code_cells())
    @rule(source=SOURCES, data=st.data())
    def somebody_edits_the_file(self, source: str, data: st.DataObject) -> None:
        self._save()
        cell_id = data.draw(st.sampled_from(self._code_cells()))

        def change(notebook: nbformat.NotebookNode) -> None:
            notebook.cells[self.model.order.index(cell_id)].source = source

        self._rewrite_file(change)
        self.portal.call(self.session.refresh)
        self.model.source[cell_id] = self.model.saved[cell_id] = source

    @rule(source=SOURCES)
    def somebody_appends_to_the_file_while_we_have_unsaved_work(self, source: str) -> None:
        added = nbformat.v4.new_code_cell(source)
        self._rewrite_file(lambda notebook: notebook.cells.append(added))
        self.portal.call(self.session.refresh)
        order = [cell.id for cell in self.session.cells]
        assert [cell_id for cell_id in order if cell_id != added.id] == self.model.order, (
            "ours keep their order"
        )
        self.model.order = order
        self.model.source[added.id] = self.model.saved[added.id] = source

    @precondition(lambda self: any(cell_id in self.model.saved for cell_id in self._code_cells()))
    @rule(data=st.data())
    def both_edit_one_cell(self, data: st.DataObject) -> None:
        known = [cell_id for cell_id in self._code_cells() if cell_id in self.model.saved]
        cell_id = data.draw(st.sampled_from(known))
        self._save()
        place = self.model.order.index(cell_id)

        def change(notebook: nbformat.NotebookNode) -> None:
            notebook.cells[place].source = "theirs = True"

        self._rewrite_file(change)
        self.portal.call(self.session.apply, [SourceChanged(cell_id, "x = 7; ours = True")])
        self.portal.call(self.session.refresh)
        cells = list(self.session.cells)
        assert cells[place].source == "x = 7; ours = True"
        assert cells[place + 1].source == "theirs = True", "theirs stands right behind"
        self.portal.call(self.session.delete_cell, cells[place + 1].id)
        self.portal.call(self.session.edit_cell, cell_id, "x = 7")
        self.model.source[cell_id] = "x = 7"
        self._save()

    # Restarts ----------------------------------------------------------------------------------------------------

    @rule(saving=st.booleans())
    def restart_the_engine(self, saving: bool) -> None:
        if saving:
            self.model.saved = dict(self.model.source)  # closing saves
        else:
            self.session.cells  # noqa: B018  # takes in what runs have shown, as a save would
            self.session.context.file.dirty = False  # as if it were killed: only the journal has the rest
        self.context.__exit__(None, None, None)
        self._open_engine()
        self.session: Session = self.engine.session(self.session.id)

    @rule()
    def restart_the_kernel(self) -> None:
        self.portal.call(self.session.restart)
        self.model.kernel = Kernel(generation=self.model.kernel.generation + 1)

    @rule()
    def lose_the_kernel(self) -> None:
        execution = self.portal.call(self.session.execute_code, "import os; os._exit(3)")
        self.portal.call(execution.wait)
        assert execution.state == "died"
        self.portal.call(self.session.resume)
        self.model.kernel = Kernel(generation=self.model.kernel.generation + 1)
        self.model.runs += 1

    # What must hold ----------------------------------------------------------------------------------------------

    @invariant()
    def the_document_is_the_models(self) -> None:
        cells = self.session.cells
        assert [(cell.id, cell.source) for cell in cells] == [
            (cell_id, self.model.source[cell_id]) for cell_id in self.model.order
        ]
        for cell in cells:
            if cell.id in self.model.shown:
                assert text_of(cell.outputs) == self.model.shown[cell.id]

    @invariant()
    def the_history_has_every_run(self) -> None:
        history = self.portal.call(self.engine.history, self.session.id)
        assert len(history) == self.model.runs
        assert all(execution.done for execution in history)

    @invariant()
    def the_file_is_always_a_valid_notebook(self) -> None:
        nbformat.validate(json.loads(self.session.path.read_text()))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("examples", [2, pytest.param(12, marks=pytest.mark.matrix)])
def test_an_engine_does_as_its_model(examples: int, tmp_path: Path) -> None:
    with start_blocking_portal() as portal:
        machine = partial(EngineAgainstModel, portal, tmp_path)
        run_state_machine_as_test(machine, settings=settings(RUNS, max_examples=examples))
    end_host(tmp_path / "state")


RUNS = settings(
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
