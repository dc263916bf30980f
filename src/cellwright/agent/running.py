"""A run: one question being answered. Does what the verbs promise, within a budget, and traces all of it.

Knows the engine, the face and the models; how a task is gone about is a pattern's business, what comes before and after
is ``asking``'s.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage

from cellwright.agent import acting
from cellwright.agent.branches import MAIN, Branch
from cellwright.agent.budgets import Spending
from cellwright.agent.compaction import Summary, compacted, is_due
from cellwright.agent.context import notebook_of, state_block
from cellwright.agent.conversations import Conversation
from cellwright.agent.evidence.charts import chart_issues, pictures
from cellwright.agent.evidence.gathering import gather
from cellwright.agent.evidence.numbers import Evidence
from cellwright.agent.messages import objected, sound_reply, told, with_parts, with_reply
from cellwright.agent.models.chain import Chain
from cellwright.agent.models.shapes import ShapeMissed, read_shape
from cellwright.agent.models.wants import Said, Unanswered, Want
from cellwright.agent.naming import Notebook
from cellwright.agent.objections import Given, objection, righted
from cellwright.agent.prompts import INSTRUCTIONS
from cellwright.agent.questions import Question
from cellwright.agent.trace.steps import Trace
from cellwright.agent.verbs import Seen
from cellwright.agent.workshop import Workshop
from cellwright.errors import CellwrightError, ModelFailed, SessionTaken
from cellwright.plans.model import plan_of

__all__ = ["Run"]

T = TypeVar("T", bound=BaseModel)

_SHAPE_TRIES = 3
_PLAN_WAIT_MS = 280_000


class Run:
    """One question on its way to an answer. The verbs that patterns use (see ``verbs``), and what these need."""

    def __init__(
        self,
        question: Question,
        *,
        workshop: Workshop,
        chain: Chain,
        trace: Trace,
        spending: Spending,
        conversation: Conversation,
    ) -> None:
        self.question = question
        self.engine = workshop.engine
        self.chain = chain
        self.trace = trace
        self.spending = spending
        self.began = time.time()
        self.models: dict[str, None] = {}
        """Those that answered, in order."""
        self.workshop = workshop
        self._conversation = conversation

    # Think, act, branch ------------------------------------------------------------------------------------------

    async def think(
        self, role: str, shape: type[T], branch: Branch, prompt: str, *, pictures: Sequence[bytes] = ()
    ) -> T:
        shown = pictures if self.chain.row.pictures else ()
        asked = told(f"{prompt}\n\n{await self.state(branch)}", shown)
        messages = with_parts(branch.history, [asked], INSTRUCTIONS)
        want = Want(role, branch.label, shape=shape)
        missed = ""
        for _ in range(_SHAPE_TRIES):
            said = await self.request(branch, messages, want)
            try:
                return read_shape(said.response, shape)
            except ShapeMissed as error:
                missed = str(error)
            messages = with_parts(
                with_reply(messages, said.response), objected(said.response, missed), INSTRUCTIONS
            )
        raise ModelFailed(
            f"{self.chain.row.full_name} did not answer as {shape.__name__} in {_SHAPE_TRIES} tries: {missed}",
            hint="Try another model with --model",
        )

    async def act(self, branch: Branch, goal: str) -> Branch:
        return await acting.act(self, branch, goal)

    async def branch(self, branch: Branch, count: int) -> list[Branch]:
        session = await self.workshop.session_of(branch)
        session.refuse_if_taken()
        async with self.trace.step("branch", role="engine", branch=branch.label) as step:
            step.session_id = session.id
            await self.workshop.room(count)
            grown = await self.engine.branch(session.id, count=count)
            branches = []
            for number, one in enumerate(grown, 1):
                label = f"{branch.label}.{number}"
                branches.append(await self.workshop.branch(label, one.session, history=branch.history))
            step.note = ", ".join(
                f"{one.label}: {one.session_id} by {how.by}" for one, how in zip(branches, grown, strict=True)
            )
        return branches

    # What follows from these -------------------------------------------------------------------------------------

    async def act_apart(self, branch: Branch, goals: Sequence[str]) -> list[Branch]:
        branches = await self.branch(branch, len(goals))

        async def act(one: Branch, goal: str) -> None:
            try:
                await self.act(one, goal)
            except SessionTaken:  # a person's now: what is done with branches afterwards is not done to it
                raise
            except CellwrightError as error:  # one way that fails is no reason to give the others up
                self.stop(one, str(error))

        async with anyio.create_task_group() as tasks:
            for one, goal in zip(branches, goals, strict=True):
                tasks.start_soon(act, one, goal)
        return branches

    async def adopt(
        self,
        branch: Branch,
        winner: Branch,
        *,
        why: str = "",
        also: Sequence[Branch] = (),
        answer: str | None = None,
    ) -> Branch:
        if branch.session is not None:
            branch.session.refuse_if_taken()
        borne_out = [found for one in (winner, *also) for found in await self.evidence(one)]
        async with self.trace.step("adopt", role="engine", branch=winner.label) as step:
            step.note = why
            adopted = await self.engine.adopt(winner.session_id or "", keep_others=True)
            branch.session, step.session_id = adopted.session, adopted.session.id
        branch.history = list(winner.history)
        branch.answer, branch.ok, branch.report = winner.answer, winner.ok, winner.report
        branch.failures = winner.failures
        branch.runs += winner.runs
        branch.borne_out += borne_out
        if answer is not None:
            given = await righted(self, branch, Given(answer))
            if await objection(self, branch, given) is None:
                branch.answer = given.message
        return branch

    async def look(self, branch: Branch) -> Seen:
        if branch.session is None:
            return Seen()
        shown = {cell.id for cell in branch.session.cells}
        newest = {one.cell_id: one.execution_id for one in branch.runs if one.cell_id in shown}
        issues = [one for one in chart_issues(self.engine, newest.values()) if not one.hint]
        drawn = await pictures(self.engine, newest.values())
        return Seen(tuple(drawn), tuple(f"cell {one.cell_id}: {one.what}. {one.fix}" for one in issues))

    async def plan(
        self, branch: Branch, problem: str, todos: Sequence[dict[str, Any]]
    ) -> dict[str, Any] | None:
        session = await self.workshop.session_of(branch)
        if plan_of(session.document.metadata) is not None:
            return None
        await self._plan_call(branch, "plan_create", problem=problem, todos=list(todos))
        return await self._plan_call(branch, "plan_run", wait=_PLAN_WAIT_MS, response_format="json")

    async def give_code(self, branch: Branch, code: str) -> dict[str, Any]:
        return await self._plan_call(
            branch, "plan_fix", code=code, wait=_PLAN_WAIT_MS, response_format="json"
        )

    def stop(self, branch: Branch, report: str) -> Branch:
        branch.ok, branch.report = False, report
        return branch

    # What these need ---------------------------------------------------------------------------------------------

    async def request(self, branch: Branch, messages: Sequence[ModelMessage], want: Want) -> Said:
        """One request to the model that is spoken to now.

        Raises:
            BudgetSpent: nothing is left.
            ModelFailed: no model answered.
        """
        self.spending.begin()
        async with self.trace.step("request", role=want.role, branch=branch.label) as step:
            step.prompt, step.session_id, step.model = (
                tuple(messages),
                branch.session_id,
                self.chain.row.full_name,
            )
            heard = partial(self.trace.heard, step)
            try:
                said = await self.chain.ask(
                    messages, want, heard=heard, deadline_s=self.spending.seconds_left
                )
            except Unanswered as error:  # of no use, and to be paid for all the same
                step.usage = error.usage
                self.spending.add(error.usage)
                raise
            said = replace(said, response=sound_reply(said.response))
            step.reply, step.usage, step.model = said.response, said.usage, said.row.full_name
            step.seconds.model, step.note = said.seconds, "; ".join(said.troubles) or None
        self.spending.add(said.usage)
        self.models[said.row.full_name] = None
        return said

    async def state(self, branch: Branch) -> str:
        """How the branch's notebook stands, for the tail of a message."""
        lost = self._conversation.history.notebook if branch.session is None else None
        return await state_block(self.workshop.knowledge, branch.session, lost=lost)

    async def evidence(self, branch: Branch) -> list[Evidence]:
        """What an answer on this branch may rest on."""
        found = await gather(
            self.engine,
            branch.session,
            question=self.question.text,
            replies=branch.replies,
            since=self.began,
        )
        return [*found, *branch.borne_out]

    async def make_room(self, branch: Branch) -> None:
        """Begin a new history where this one is about to be more than the model can hold. The old one stays."""
        if not is_due(branch.history, self.chain.row):
            return
        await self.keep(branch)
        async with self.trace.step("compact", role="summary", branch=branch.label) as step:
            step.session_id = branch.session_id

            async def summarised(messages: Sequence[ModelMessage]) -> Summary:
                want = Want("summary", branch.label, shape=Summary)
                said = await self.request(branch, messages, want)
                return read_shape(said.response, Summary)

            begun = await compacted(
                branch.history, row=self.chain.row, state=await self.state(branch), think=summarised
            )
            branch.history = list(begun.messages)
            step.note = begun.trouble or f"{begun.replaced} messages are told by a summary"
        await self.keep(branch, why="it was full")

    async def keep(self, branch: Branch, *, why: str = "") -> None:
        """Write down what was said on the main branch; ``why`` it is another than before, where it is."""
        if branch.label != MAIN:
            return
        await self._conversation.keep(branch.history, why=why)
        if self.models:
            await self._conversation.answered_by(next(reversed(self.models)))
        if branch.session is not None:
            made = branch.session.id in self.workshop.made
            await self._conversation.worked_with(notebook_of(branch.session), made=made)

    def notebook(self, branch: Branch) -> Notebook | None:
        return notebook_of(branch.session) if branch.session is not None else None

    def notebooks(self) -> list[Notebook]:
        return [notebook_of(session) for session in self.engine.sessions()]

    async def _plan_call(self, branch: Branch, tool: str, **arguments: Any) -> dict[str, Any]:
        session = await self.workshop.session_of(branch)
        async with self.trace.step("call", role="plan", branch=branch.label, tool=tool) as step:
            before = session.runs.count
            step.arguments, step.session_id = arguments, session.id
            reply = await branch.face.data(tool, arguments)
            while reply.get("phase") == "running":
                reply = await branch.face.data(
                    "plan_run", {"run_id": reply["run_id"], "wait": _PLAN_WAIT_MS, "response_format": "json"}
                )
            await self.workshop.note_runs(branch, step, before)
            step.result = str(reply.get("report") or reply.get("summary") or reply.get("phase"))
        return reply
