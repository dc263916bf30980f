"""An agent by script, behind the same door as the real one, over the real engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Self

import anyio
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart

from cellwright import Engine, Session
from cellwright.agent.models.requests import Delta
from cellwright.agent.questions import Question
from cellwright.agent.trace.steps import CellRun, Trace, Watcher
from cellwright.delegation import Outcome, Usage
from cellwright.mcp.outputs import cell_output_uri

CHART = """
import base64
from IPython.display import Image, display
display(Image(data=base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPj/HwADAgH/p0r9bwAAAABJRU5ErkJggg=="
)))
print(6 * 7)
"""


@dataclass(frozen=True)
class Proof:
    """A notebook that has run, which every answer rests on."""

    session: Session
    cell_id: str
    execution_id: str

    @classmethod
    async def made(cls, engine: Engine) -> Self:
        session = await engine.create("the question")
        cell = await session.add_cell(CHART)
        execution = await (await session.run(cell.id)).wait()
        assert execution.ok
        return cls(session, cell.id, execution.id)


class ScriptedAgent:
    """Answers every question with one request and one cell; waits where it is told to."""

    def __init__(self, proof: Proof) -> None:
        self._proof = proof
        self.asked: list[Question] = []
        self.hold: anyio.Event | None = None
        self.begun = anyio.Event()
        self.stopped = anyio.Event()
        self.before: Callable[[Question], Awaitable[None]] | None = None

    async def ask(self, question: Question, watchers: Sequence[Watcher] = ()) -> Outcome:
        self.asked.append(question)
        if self.before is not None:
            await self.before(question)
        trace = Trace(question.run_id or "a-none", watchers)
        async with trace.step("request", role="act") as step:
            step.model = "scripted:one"
            trace.heard(step, Delta("thinking", "I think "))
            trace.heard(step, Delta("thinking", "of numbers"))
            step.reply = ModelResponse([ThinkingPart("I think of numbers"), TextPart("I run a cell.")])
            step.usage = Usage(1_200, 34, 1_000, 0.0125)
            self.begun.set()
            try:
                if self.hold is not None:
                    await self.hold.wait()
            except anyio.get_cancelled_exc_class():
                self.stopped.set()
                raise
        session, cell_id = self._proof.session, self._proof.cell_id
        async with trace.step("call", role="act") as step:
            step.tool, step.arguments = "cell_add_and_run", {"content": CHART}
            step.result = "42"
            step.runs = [CellRun(self._proof.execution_id, cell_id, CHART, "ok", stdout="42\n")]
        place = next(place for place, each in enumerate(session.cell(cell_id).outputs) if "data" in each)
        return Outcome(
            "It is 42, not 43.",
            ok=True,
            run_id=trace.run_id,
            conversation_id=question.conversation_id or "c-2345678",
            pattern="react",
            why="one cell does",
            session_id=session.id,
            notebook=session.path,
            charts=(cell_output_uri(session.id, cell_id, place),),
            files=("out.csv",),
            untraced=("43",),
            verified=True,
            models=("scripted:one",),
            usage=Usage(1_200, 34, 1_000, 0.0125),
            steps=1,
            seconds=1.5,
        )
