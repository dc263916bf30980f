"""Random cells, checkpoints, rollbacks, atomic cells and branches in real sessions equal a model of plain data."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

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

from cellwright import Engine, Session
from cellwright.errors import UnknownCheckpoint
from tests.kernel.engine.conftest import end_host, open_at
from tests.matrix import one_of_each
from tests.support.engine.checkpoint_model import DEEDS, MODULES, PRELUDE, Deed, State, probe_code
from tests.waiting import scaled

MODES = ["overlay", "direct", "private"]
MOST_LINES = 3
PROBE_EVERY = 5
MOST_KEPT = 8
MARK = "half-way"

Ending = Literal["well", "failing", "undone", "well and atomic"]
DATA = st.data()


@dataclass(eq=False, repr=False)
class Line:
    """A session, the state it must have, and the states that it must be able to go back to."""

    session: Session
    state: State
    kept: dict[str, State] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Checkpoints that were found to have made way."""
    unsure: int = 0
    """Cells since the two were last compared."""

    def __repr__(self) -> str:
        return self.session.id


class SessionsAgainstModel(RuleBasedStateMachine):
    def __init__(self, portal: BlockingPortal, engine: Engine, root: Path, mode: Any) -> None:
        super().__init__()
        self.portal, self.engine, self.root, self.mode = portal, engine, root, mode
        self.lines: list[Line] = []

    @initialize()
    def open(self) -> None:
        folder = self.root / f"work-{len(list(self.root.iterdir()))}"
        folder.mkdir()
        (folder / "pyproject.toml").touch()
        session = self.portal.call(lambda: self.engine.create("model", directory=folder, mode=self.mode))
        cell = self.portal.call(session.add_cell, "")
        self.cell_id = cell.id
        line = Line(session, State())
        self.lines.append(line)
        self._run(line, PRELUDE)
        told = self._run(line, f"print([name for name in {MODULES!r} if name not in sys.modules])")
        line.state.modules_known = tuple(ast.literal_eval(told))
        assert line.state.modules_known

    def teardown(self) -> None:
        for line in reversed(self.lines):
            self.portal.call(self.engine.delete, line.session.id)

    # What is done --------------------------------------------------------------------------------------------------

    @rule(data=DATA, deeds=st.lists(DEEDS["values"], min_size=1, max_size=3))
    def values(self, data: st.DataObject, deeds: list[Deed]) -> None:
        self._do(self._any_line(data), deeds)

    @rule(data=DATA, deeds=st.lists(DEEDS["numbers"], min_size=1, max_size=3))
    def numbers(self, data: st.DataObject, deeds: list[Deed]) -> None:
        self._do(self._any_line(data), deeds)

    @rule(data=DATA, deeds=st.lists(DEEDS["code"], min_size=1, max_size=2))
    def code(self, data: st.DataObject, deeds: list[Deed]) -> None:
        self._do(self._any_line(data), deeds)

    @rule(data=DATA, deeds=st.lists(DEEDS["files"], min_size=1, max_size=3))
    def files(self, data: st.DataObject, deeds: list[Deed]) -> None:
        self._do(self._any_line(data), deeds)

    @rule(
        data=DATA,
        deeds=st.lists(st.one_of(*DEEDS.values()), min_size=1, max_size=4),
        after=st.one_of(*DEEDS.values()),
        ending=st.sampled_from(["failing", "undone", "well and atomic"]),
    )
    def anything(self, data: st.DataObject, deeds: list[Deed], after: Deed, ending: Ending) -> None:
        """What fails half-way is done as far as it got, or not at all."""
        line = self._any_line(data)
        before = line.state.copy()
        code = [deed(line.state) for deed in deeds]
        if ending in ("failing", "undone"):
            # What would come after it is not done: the model forgets that it was asked for its code.
            code += [f"raise ValueError({MARK!r})", after(line.state.copy())]
        on_error: Literal["keep", "rollback"] = "keep" if ending == "failing" else "rollback"
        self.portal.call(line.session.edit_cell, self.cell_id, "\n".join(code))
        execution = self.portal.call(lambda: line.session.run(self.cell_id, on_error=on_error))
        assert (execution.state, MARK in execution.text) == (
            ("error", True) if ending in ("failing", "undone") else ("ok", False)
        ), execution.text
        assert execution.record.rolled_back == (ending == "undone"), execution.record.note
        if ending == "undone":
            line.state = before.copy()
        self._note_kept(line, before)
        line.unsure += PROBE_EVERY

    # Going back and forth ------------------------------------------------------------------------------------------

    @rule(data=DATA, named=st.booleans())
    def checkpoint(self, data: st.DataObject, named: bool) -> None:
        line = self._any_line(data)
        record = self.portal.call(line.session.checkpoint, "named" if named else None)
        line.kept[record.id] = line.state.copy()
        self._note_kept(line, line.state)

    @precondition(lambda self: any(line.kept for line in self._lines))
    @rule(data=DATA, which=st.integers(0, 7))
    def roll_back(self, data: st.DataObject, which: int) -> None:
        line = data.draw(st.sampled_from([line for line in self._lines if line.kept]))
        # Not drawn from what is kept: when checkpoints make way is a matter of memory, and of time.
        wanted = list(line.kept)[which % len(line.kept)]
        generation = line.session.generation
        try:
            done = self.portal.call(line.session.roll_back, wanted)
        except UnknownCheckpoint:
            self._note_gone(line, wanted)
            return
        assert (done.by, done.generation, line.session.generation) == ("checkpoint", *[generation + 1] * 2)
        line.state = line.kept[wanted].copy()
        line.unsure += PROBE_EVERY

    @precondition(lambda self: len(self.lines) < MOST_LINES)
    @rule(data=DATA, which=st.none() | st.integers(0, 7))
    def branch(self, data: st.DataObject, which: int | None) -> None:
        line = self._any_line(data)
        wanted = list(line.kept)[which % len(line.kept)] if line.kept and which is not None else None
        try:
            grown = self.portal.call(lambda: self.engine.branch(line.session.id, checkpoint=wanted))
        except UnknownCheckpoint:
            assert wanted is not None, "it was taken for this"
            self._note_gone(line, wanted)
            return
        assert [branch.by for branch in grown] == ["checkpoint"], grown
        state = (line.kept[wanted] if wanted is not None else line.state).copy()
        fresh = Line(grown[0].session, state, unsure=PROBE_EVERY)
        self.lines.append(fresh)
        self._note_kept(line, line.state)
        self._note_kept(fresh, state)

    @precondition(lambda self: len(self.lines) > 1)
    @rule()
    def drop_a_branch(self) -> None:
        gone = self.lines.pop()
        self.portal.call(self.engine.delete, gone.session.id)

    # What must hold ------------------------------------------------------------------------------------------------

    @invariant()
    def sessions_are_the_models(self) -> None:
        for line in self.lines:
            if line.unsure >= PROBE_EVERY:
                self._compare(line)

    def _compare(self, line: Line) -> None:
        told = ast.literal_eval(self._run(line, probe_code(line.state)))
        expected = line.state.probe()
        wrong = {key: (told[key], expected[key]) for key in expected if told[key] != expected[key]}
        assert not wrong, f"{line} has what the model does not: {wrong}"
        line.unsure = 0

    def _do(self, line: Line, deeds: list[Deed]) -> None:
        self._run(line, "\n".join(deed(line.state) for deed in deeds))

    def _run(self, line: Line, code: str) -> str:
        async def run() -> Any:
            return await (await line.session.execute_code(code)).wait()

        execution = self.portal.call(run)
        assert execution.ok, f"{code}\n{execution.text}"
        line.unsure += 1
        return str(execution.text)

    @property
    def _lines(self) -> list[Line]:
        """Those that may do something now.

        In a person's own folder the original rests while it has branches: they see the folder through, as anybody does.
        """
        return self.lines[1:] if self.mode == "direct" and len(self.lines) > 1 else self.lines

    def _any_line(self, data: st.DataObject) -> Line:
        return data.draw(st.sampled_from(self._lines))

    def _note_gone(self, line: Line, wanted: str) -> None:
        """Too many make way a moment after they have become too many."""
        assert len(line.kept) > MOST_KEPT, "one of those that must be kept is not"
        line.gone.add(wanted)
        del line.kept[wanted]

    def _note_kept(self, line: Line, state: State) -> None:
        """Checkpoints that are new are of this state; those that made way are not asked for again."""
        ids = [record.id for record in line.session.checkpoints if record.id not in line.gone]
        line.kept = {one: line.kept[one] if one in line.kept else state.copy() for one in ids}


@pytest.mark.timeout(scaled(300))
@pytest.mark.parametrize("mode", one_of_each(MODES, lambda _: "mode", str))
@pytest.mark.parametrize(
    ("examples", "steps"), [(1, 25), pytest.param(7, 100, marks=pytest.mark.matrix)], ids=["few", "many"]
)
def test_sessions_go_back_and_forth_as_a_model_does(
    mode: Any, examples: int, steps: int, tmp_path: Path
) -> None:
    with start_blocking_portal() as portal:
        opening = open_at(tmp_path, max_sessions=20, save_quiet_s=60)
        with portal.wrap_async_context_manager(opening) as engine:
            root = tmp_path / "work"
            root.mkdir()
            machine = partial(SessionsAgainstModel, portal, engine, root, mode)
            run_state_machine_as_test(
                machine, settings=settings(RUNS, max_examples=examples, stateful_step_count=steps)
            )
    end_host(tmp_path / "state")


RUNS = settings(deadline=None, suppress_health_check=list(HealthCheck))
