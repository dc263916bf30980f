"""A run: one question being answered, within a budget, every step of it traced.

Its actions (think, act, branch, and what follows from these three) use the engine, the tools and the models. In which
order is for a pattern to say; what comes before and after a run is in ``data_agent``.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import anyio
from pydantic import BaseModel
from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse, ToolCallPart, ToolReturnPart

from cellwright.agent._compaction import Summary, compacted, is_due
from cellwright.agent._context import SYSTEM_PROMPT, Closing, files_of, harmless, notebook_of, state_block
from cellwright.agent._notebook_names import Correction, Notebook, by_id, check_call, check_names, corrected
from cellwright.agent._repair import Repaired, repair, stop_report
from cellwright.agent._resources import RunResources
from cellwright.agent.branches import (
    MAIN,
    Branch,
    calls_of,
    objected,
    sound,
    sound_reply,
    user_prompt,
    with_parts,
    with_reply,
)
from cellwright.agent.budgets import Spending
from cellwright.agent.conversations import Conversation
from cellwright.agent.evidence.charts import chart_issues, pictures
from cellwright.agent.evidence.numbers import Evidence, rests_on_output
from cellwright.agent.evidence.outputs import gather
from cellwright.agent.models.chain import Chain
from cellwright.agent.models.requests import (
    ANSWER_TOOL,
    ModelReply,
    RequestParams,
    ShapeMissed,
    Unanswered,
    read_shape,
    text_of,
)
from cellwright.agent.models.table import ModelRow
from cellwright.agent.models.text_actions import problem
from cellwright.agent.questions import Question
from cellwright.agent.toolbox import ToolReply
from cellwright.agent.trace.steps import Trace
from cellwright.engine import Execution, Session
from cellwright.engine.approvals import Matter
from cellwright.errors import BudgetSpent, CellwrightError, ModelFailed, SessionTaken
from cellwright.plans.model import plan_of
from cellwright.text_budget import cut_tail

if TYPE_CHECKING:
    from cellwright.agent.trace.steps import Step

__all__ = ["Run"]
T = TypeVar("T", bound=BaseModel)

_SHAPE_TRIES = 3

_PLAN_WAIT_S = 280


@dataclass(frozen=True, slots=True)
class Seen:
    """The charts of a branch: as they are drawn, and what rules find wrong with them."""

    pictures: tuple[bytes, ...] = ()
    issues: tuple[str, ...] = ()


class Run:
    """One question on its way to an answer: the actions that patterns are written in, and what these need."""

    def __init__(
        self,
        question: Question,
        *,
        resources: RunResources,
        chain: Chain,
        trace: Trace,
        spending: Spending,
        conversation: Conversation,
    ) -> None:
        self.question = question
        self.engine = resources.engine
        self.chain = chain
        self.trace = trace
        self.spending = spending
        self.began = time.time()
        self.models: dict[str, None] = {}
        """Those that answered, in order."""
        self.resources = resources
        self.timer = anyio.CancelScope()
        """Ends the run when its seconds are spent."""
        self._paying = anyio.Lock()
        self._conversation = conversation

    # Think, act, branch ------------------------------------------------------------------------------------------

    async def think(
        self, role: str, shape: type[T], branch: Branch, prompt: str, *, pictures: Sequence[bytes] = ()
    ) -> T:
        """One typed answer. Nothing of it stays in the branch's history."""
        shown = pictures if self.chain.row.pictures else ()
        asked = user_prompt(f"{prompt}\n\n{await self.state(branch)}", shown)
        messages = with_parts(branch.history, [asked], SYSTEM_PROMPT)
        want = RequestParams(role, branch.label, shape=shape)
        missed = ""
        for _ in range(_SHAPE_TRIES):
            said = await self.request(branch, messages, want)
            try:
                return read_shape(said.response, shape)
            except ShapeMissed as error:
                missed = str(error)
            messages = with_parts(
                with_reply(messages, said.response), objected(said.response, missed), SYSTEM_PROMPT
            )
        raise ModelFailed(
            f"{self.chain.row.full_name} did not answer as {shape.__name__} in {_SHAPE_TRIES} tries: {missed}",
            hint="Try another model",
        )

    async def advice(
        self, role: str, shape: type[T], branch: Branch, prompt: str, *, pictures: Sequence[bytes] = ()
    ) -> T | None:
        """One typed answer that the work can do without: None where no model gave it, which the trace notes."""
        try:
            return await self.think(role, shape, branch, prompt, pictures=pictures)
        except ModelFailed as error:
            async with self.trace.step("correct", role=role, branch=branch.label) as step:
                step.session_id, step.failed = branch.session_id, True
                step.note = f"The work goes on without the {role}'s advice: {error}"
            return None

    async def act(self, branch: Branch, goal: str) -> Branch:
        """Work on a goal with tools until there is an answer, or three cells in a row failed."""
        return await act(self, branch, goal)

    async def branch(self, branch: Branch, count: int) -> list[Branch]:
        """Branches from the state of now: kernels, files, notebook and history of their own."""
        session = await self.resources.session_of(branch)
        session.refuse_if_taken()
        async with self.trace.step("branch", role="engine", branch=branch.label) as step:
            step.session_id = session.id
            await self.resources.room(count)
            grown = await self.engine.branch(session.id, count=count)
            branches = []
            for number, one in enumerate(grown, 1):
                label = f"{branch.label}.{number}"
                branches.append(await self.resources.branch(label, one.session, history=branch.history))
            step.note = ", ".join(
                f"{one.label}: {one.session_id} by {how.by}" for one, how in zip(branches, grown, strict=True)
            )
        return branches

    # What follows from these -------------------------------------------------------------------------------------

    async def act_apart(self, branch: Branch, goals: Sequence[str]) -> list[Branch]:
        """A branch for each goal, acted on side by side."""
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
        """Let a branch's state and answer become the original's; the others stay readable. Returns the original.

        ``answer`` is given instead of the winner's own, unless there is an objection to it. It may rest on what
        ``also`` put out.
        """
        if branch.session is not None:
            branch.session.refuse_if_taken()
        borne_out = [found for one in (winner, *also) for found in await self.evidence(one)]
        await self.engine.approve_adoption(winner.session_id or "", keep_others=True)
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
            given = await with_right_names(self, branch, ModelAnswer(answer))
            if await objection(self, branch, given) is None:
                branch.answer = given.message
        return branch

    async def look(self, branch: Branch) -> Seen:
        """The charts that were drawn in this run."""
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
        """Make the engine's plan and run it until it is done, stops, or waits for code. How it stands then.

        None where the notebook has a plan already: it can have one.
        """
        session = await self.resources.session_of(branch)
        if plan_of(session.document.metadata) is not None:
            return None
        await self._plan_call(branch, "plan_create", problem=problem, todos=list(todos))
        return await self._plan_call(branch, "plan_run", wait_s=_PLAN_WAIT_S, response_format="json")

    async def give_code(self, branch: Branch, code: str) -> dict[str, Any]:
        """Give the plan's current step this code, and go on."""
        return await self._plan_call(
            branch, "plan_fix", code=code, wait_s=_PLAN_WAIT_S, response_format="json"
        )

    def stop(self, branch: Branch, report: str) -> Branch:
        """End without an answer, for this reason."""
        branch.ok, branch.report = False, report
        return branch

    # What these need ---------------------------------------------------------------------------------------------

    async def request(
        self, branch: Branch, messages: Sequence[ModelMessage], want: RequestParams
    ) -> ModelReply:
        """One request to the model that is spoken to now.

        Raises:
            BudgetSpent: nothing is left.
            ModelFailed: no model answered.
        """
        await self._pay(branch)
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

    async def _pay(self, branch: Branch) -> None:
        """Take a request from the budget; where nothing is left, ask whether to go past it by as much again.

        Raises:
            BudgetSpent: nothing is left, and it is not gone past.
        """
        async with self._paying:
            try:
                self.spending.begin()
            except BudgetSpent as spent:
                await self._go_past(branch, spent)
                self.spending.begin()

    async def _go_past(self, branch: Branch, spent: BudgetSpent) -> None:
        approvals = self.engine.approvals
        if approvals.rule("budget") == "refuse":
            raise spent
        record = branch.session.record if branch.session is not None else None
        what = f"go past the budget by as much again ({spent.message})"
        matter = (
            Matter.of("budget", what, record) if record is not None else Matter("budget", what, once=True)
        )
        asked, ends = self.spending.clock(), self.timer.deadline
        self.timer.deadline = math.inf
        try:
            decision = await approvals.decide(matter)
        finally:
            waited_s = self.spending.clock() - asked
            self.timer.deadline = ends + waited_s
        if not decision.allowed:
            raise spent
        self.spending.extend(self.question.budget, waited_s=waited_s)
        self.timer.deadline += self.question.budget.seconds or 0.0

    async def state(self, branch: Branch) -> str:
        """How the branch's notebook stands, for the tail of a message."""
        lost = self._conversation.history.notebook if branch.session is None else None
        return await state_block(self.resources.knowledge, branch.session, lost=lost)

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
                want = RequestParams("summary", branch.label, shape=Summary)
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
            made = branch.session.id in self.resources.made
            await self._conversation.worked_with(notebook_of(branch.session), made=made)

    def notebook(self, branch: Branch) -> Notebook | None:
        return notebook_of(branch.session) if branch.session is not None else None

    def notebooks(self) -> list[Notebook]:
        return [notebook_of(session) for session in self.engine.sessions()]

    async def _plan_call(self, branch: Branch, tool: str, **arguments: Any) -> dict[str, Any]:
        session = await self.resources.session_of(branch)
        async with self.trace.step("call", role="plan", branch=branch.label, tool=tool) as step:
            before = session.runs.count
            step.arguments, step.session_id = arguments, session.id
            reply = await branch.notebook_tools.data(tool, arguments)
            while reply.get("phase") == "running":
                reply = await branch.notebook_tools.data(
                    "plan_run", {"run_id": reply["run_id"], "wait_s": _PLAN_WAIT_S, "response_format": "json"}
                )
            await self.resources.note_runs(branch, step, before)
            step.result = str(reply.get("report") or reply.get("summary") or reply.get("phase"))
        return reply


# The tool loop: ask the model, run what it calls one at a time, tell it what came of it, until there is an
# answer.

_ROLE = "act"

_MAX_CORRECTIONS = 2

_MAX_CALLS = 50


async def act(run: Run, branch: Branch, goal: str) -> Branch:
    """Work on a goal until there is an answer, or the branch is stopped."""
    branch.begin()
    opening = user_prompt(f"{goal}\n\n{await run.state(branch)}")
    branch.history = with_parts(branch.history, [opening], SYSTEM_PROMPT)
    while branch.report is None:
        reply = await _ask(run, branch)
        calls = [call for call in calls_of(reply) if call.tool_name != ANSWER_TOOL]
        if calls:
            if await _call_all(run, branch, calls):
                return branch
            continue
        misread = _misread(run, branch, reply)
        wrong = await _refused(run, branch, answer_in(reply, run.chain.row), misread)
        if wrong is None or branch.report is not None:
            return branch
        branch.history = with_parts(branch.history, objected(reply, wrong), SYSTEM_PROMPT)
    return branch


async def _refused(run: Run, branch: Branch, answer: ModelAnswer, misread: str | None = None) -> str | None:
    """Take the answer, however it is given; or what is wrong with it. Who was told so often enough is let through."""
    answer = await with_right_names(run, branch, answer)
    wrong = misread or await objection(run, branch, answer)
    told_enough = branch.corrections == _MAX_CORRECTIONS
    if wrong is None or (told_enough and misread is None and answer.message.strip()):
        branch.answer, branch.ok = answer.message, True
        return None
    if told_enough:
        run.stop(branch, f"{run.chain.row.full_name} gave no answer that can be read: {wrong}")
        return wrong
    branch.corrections += 1
    async with run.trace.step("correct", role=_ROLE, branch=branch.label) as step:
        step.session_id, step.note = branch.session_id, wrong
    return wrong


async def _ask(run: Run, branch: Branch) -> ModelResponse:
    await run.make_room(branch)
    row = run.chain.row
    shape = Closing if row.context == "json" else None
    want = RequestParams(_ROLE, branch.label, tools=branch.tools.definitions, shape=shape)
    said = await run.request(branch, branch.history, want)
    branch.history = with_reply(branch.history, said.response)
    await run.keep(branch)
    return said.response


async def _call_all(run: Run, branch: Branch, calls: list[ToolCallPart]) -> bool:
    """Run a turn's calls, one at a time. Whether one of them was the answer."""
    returns: list[ModelRequestPart] = []
    pictures: list[bytes] = []
    for place, call in enumerate(calls):
        over = _over(branch, place)
        reply = await call_tool(run, branch, call) if over is None else ToolReply(over, failed=True)
        if reply.answer is not None:
            wrong = await _refused(run, branch, ModelAnswer(reply.answer))
            reply = reply if wrong is None else _not_given(reply, wrong)
        outcome: Literal["failed", "success"] = "failed" if reply.failed else "success"
        returns.append(
            # What a tool returns is data: it must not pass for what the engine tells.
            ToolReturnPart(
                call.tool_name, sound(harmless(reply.text)), tool_call_id=call.tool_call_id, outcome=outcome
            )
        )
        pictures += reply.pictures
    if pictures and run.chain.row.pictures:
        returns.append(user_prompt("The pictures of these results:", pictures))
    branch.history = with_parts(branch.history, returns, SYSTEM_PROMPT)
    return branch.ok


def _not_given(reply: ToolReply, wrong: str) -> ToolReply:
    text = f"{reply.text}\nThe user was not told this. {wrong}"
    return ToolReply(text, reply.pictures, failed=True)


def _over(branch: Branch, place: int) -> str | None:
    """Why a call of this turn is not made, where those before it have decided that."""
    if branch.ok or branch.report is not None:
        return "Not called: the work was over before its turn came."
    return (
        f"Not called: no more than {_MAX_CALLS} are made in a turn. Look at their results first."
        if place >= _MAX_CALLS
        else None
    )


def _misread(run: Run, branch: Branch, reply: ModelResponse) -> str | None:
    """What is wrong with an action that a model without tools tried to write."""
    if run.chain.row.tools != "none":
        return None
    return problem(reply, RequestParams(_ROLE, branch.label, tools=branch.tools.definitions))


def answer_in(reply: ModelResponse, row: ModelRow) -> ModelAnswer:
    """The answer that ends the calls: structured where the model was asked for that, else its words."""
    if row.context == "json" or calls_of(reply):
        try:
            closing = read_shape(reply, Closing)
        except ShapeMissed:
            pass  # its words are an answer too
        else:
            return ModelAnswer(closing.message, closing.context.current_notebook)
    return ModelAnswer(text_of(reply))


# One call of a tool on a branch: traced, its failed cell fixed by rule where that is certain, its failures
# counted.

MAX_FAILURES = 3
"""Cells in a row that may fail, and equal calls that may be refused."""

_MAX_CALL, _MAX_REFUSAL = 300, 600
"""Characters of a refused call, and of its refusal, in a report."""

_MAKES = frozenset({"notebook_create"})

_USUAL = {"mode": ("overlay", "private"), "host": ("local",)}

_MENDS_ITSELF = frozenset({"plan_create", "plan_run", "plan_fix", "execution_wait"})
"""Whose cells are a plan's, or were seen to when they began."""

_READS = frozenset({"notebook_read", "plan_status", "execution_wait"})


@dataclass(frozen=True, slots=True)
class Before:
    """What there was before a call."""

    session: Session | None
    runs: int = 0
    cells: frozenset[str] = frozenset()

    @classmethod
    def of(cls, branch: Branch) -> Before:
        session = branch.session
        if session is None:
            return cls(None)
        return cls(session, session.runs.count, frozenset(cell.id for cell in session.cells))


async def call_tool(run: Run, branch: Branch, call: ToolCallPart) -> ToolReply:
    """Run one call."""
    async with run.trace.step("call", role="act", branch=branch.label, tool=call.tool_name) as step:
        before = Before.of(branch)
        try:
            step.arguments = call.args_as_dict(raise_if_invalid=True)
        except ValueError as error:
            reply = ToolReply(f"The arguments of {call.tool_name} are no JSON object: {error}", failed=True)
        else:
            reply = await _called(run, branch, call.tool_name, step.arguments)
            _give_way(branch, reply)
        if branch.session is not before.session:
            before = Before(branch.session)
        reply = await _settled(run, branch, call.tool_name, reply, before)
        await _note(run, branch, step, reply, before)
        if reply.failed and not step.runs and branch.report is None:
            _count_refusal(branch, call, reply)
    return reply


def _count_refusal(branch: Branch, call: ToolCallPart, reply: ToolReply) -> None:
    """Stop the branch where the model has made this very call, and been refused, three times."""
    made = f"{call.tool_name}({call.args_as_json_str()})"
    branch.refusals[made] += 1
    if branch.refusals[made] >= MAX_FAILURES:
        branch.report = (
            f"The model repeated a call {MAX_FAILURES} times that was refused each time the same way, so the run "
            f"was stopped.\nCall: {cut_tail(made, _MAX_CALL)}\nRefused: {cut_tail(reply.text, _MAX_REFUSAL)}"
        )


def _give_way(branch: Branch, reply: ToolReply) -> None:
    """End the run where a call failed in a session that a person has: each further one would be refused as well.

    Raises:
        SessionTaken: a person has taken it over.
    """
    if reply.failed and branch.session is not None:
        branch.session.refuse_if_taken()


async def _called(run: Run, branch: Branch, name: str, arguments: dict[str, Any]) -> ToolReply:
    current = run.notebook(branch)
    wrong = check_call(
        arguments,
        current=current,
        known=run.notebooks(),
        reads=name in _READS,
        asked=run.question.text,
    )
    if wrong is not None:
        return ToolReply(wrong.message, failed=True)
    if (unasked := _unasked(name, arguments, run.question.text)) is not None:
        return ToolReply(unasked, failed=True)
    arguments = by_id(arguments, current)
    # A cell that fails leaves no trace, unless the model says otherwise.
    careful = (
        {"on_error": "rollback", **arguments} if name in {"cell_add_and_run", "cell_execute"} else arguments
    )
    return await branch.tools.call(name, careful)


def _unasked(name: str, arguments: dict[str, Any], question: str) -> str | None:
    """Where code may write and run is for the person to say: data that a model read may have talked it into it."""
    if name not in _MAKES:
        return None
    for key, usual in _USUAL.items():
        value = str(arguments.get(key) or "").lower()
        if value and value not in usual and not _asks_for(question, key, value.partition(":")[0]):
            return f"{name}: {key}={value!r} is only for a user who asks for it. Leave it out."
    return None


def _asks_for(question: str, key: str, word: str) -> bool:
    """Whether a question says this of a mode or a host, as in "direct mode", "mode=direct" or "on slurm:big".

    The word alone may be about anything: directions, directories, a Jupyter notebook.
    """
    said = re.escape(word)
    place = r"|\bon\s+(?:the\s+|our\s+|my\s+)?" + said + r"\b" if key == "host" else ""
    return re.search(rf"\b{said}\s+{key}\b|\b{key}\W+{said}\b{place}", question, re.IGNORECASE) is not None


async def _settled(run: Run, branch: Branch, tool: str, reply: ToolReply, before: Before) -> ToolReply:
    """The reply once a failed cell was fixed, or taken out again."""
    session = branch.session
    if session is None or tool in _MENDS_ITSELF or session.runs.count == before.runs:
        return reply
    # Others may run cells in the same notebook: theirs are not fixed, and not taken out.
    own = [one for one in await run.engine.history(session.id, after=before.runs) if one.id in branch.begun]
    if not own:
        return reply
    newest = own[-1]
    if not newest.done or newest.ok or newest.cell_id is None:
        branch.failures = 0 if newest.ok else branch.failures
        return reply
    repaired = await repair(run.engine, session, newest, tries=MAX_FAILURES, begun=branch.begun)
    if repaired.fixes:
        async with run.trace.step("repair", role="fixer", branch=branch.label) as step:
            step.session_id, step.note, step.failed = session.id, repaired.text, not repaired.ok
    if repaired.ok:
        branch.failures = 0
        return await _repaired_reply(branch, tool, reply, repaired)
    branch.failures += 1
    if branch.failures >= MAX_FAILURES or not repaired.may_go_on:
        # Each try after the first was a model's fix. Told before the cell is taken out: it has a number yet.
        fixes = len(repaired.fixes) + branch.failures - 1
        branch.report = stop_report(session, repaired, task=run.question.text, fixes=fixes).text
    taken_out = await _taken_out(session, before, repaired.execution)
    return ToolReply("\n".join(filter(None, [reply.text, repaired.text, taken_out])), failed=True)


async def _repaired_reply(branch: Branch, tool: str, reply: ToolReply, repaired: Repaired) -> ToolReply:
    again = await branch.notebook_tools.call("execution_wait", {"execution_id": repaired.execution.id})
    text = f"{repaired.text}\n{again.text}"
    if tool == "notebook_fill":
        text = f"{reply.text}\n{text}\nThe cells after it were not added yet."
    return ToolReply(text, again.pictures)


async def _taken_out(session: Session, before: Before, execution: Execution) -> str:
    cell_id = execution.cell_id
    if cell_id is None or cell_id in before.cells or cell_id not in session.document:
        return ""
    try:
        await session.delete_cell(cell_id)
    except CellwrightError:
        return ""  # somebody was quicker
    return f"Cell {cell_id} was taken out again. Add it anew, changed."


async def _note(run: Run, branch: Branch, step: Step, reply: ToolReply, before: Before) -> None:
    step.session_id = branch.session_id
    step.result, step.pictures, step.failed = reply.text, len(reply.pictures), reply.failed
    await run.resources.note_runs(branch, step, before.runs, own=step.tool not in _MENDS_ITSELF)
    if not step.runs and not reply.failed:
        branch.replies.append((step.tool or "", reply.text))


# What may be wrong with an answer before it is given: it names what is not there, or rests on nothing that
# ran.


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer as a model gives it, and the notebook that it takes for the current one, where it says so."""

    message: str
    notebook: str | None = None


async def objection(run: Run, branch: Branch, answer: ModelAnswer) -> str | None:
    """What is told back to the model; None where the answer may be given."""
    if not answer.message.strip():
        return "The reply is empty. Give the answer in words, or call a tool."
    correction = await _misnamed(run, branch, answer.message)
    if correction is None and answer.notebook is not None:
        correction = await _misnamed(run, branch, f"{answer.notebook.removesuffix('.ipynb')}.ipynb")
    if correction is not None:
        return correction.message
    unproven = rests_on_output(answer.message, await run.evidence(branch))
    return unproven.text if unproven is not None else None


async def with_right_names(run: Run, branch: Branch, answer: ModelAnswer) -> ModelAnswer:
    """The answer with the notebook's right name, where only its time was lost or wrong."""
    correction = await _misnamed(run, branch, answer.message)
    text = corrected(answer.message, correction) if correction is not None else None
    return replace(answer, message=text) if text is not None else answer


async def _misnamed(run: Run, branch: Branch, text: str) -> Correction | None:
    session = branch.session
    files = await anyio.to_thread.run_sync(files_of, session) if session is not None else ()
    return check_names(
        text,
        current=run.notebook(branch),
        known=run.notebooks(),
        files=[file.path for file in files],
        asked=run.question.text,
    )
