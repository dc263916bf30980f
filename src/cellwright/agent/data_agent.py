"""The agent itself: takes a question, has it answered by a pattern, and says what came of it.

Puts a run together and takes it apart: models, conversation, trace and budget before, the outcome after (see
``data_agent``). What happens in between is ``runner``'s and the pattern's.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from cellwright.agent._context import SYSTEM_PROMPT, notebook_of, session_of, status_lines
from cellwright.agent._resources import PROGRAM, RunResources, open_resources
from cellwright.agent.branches import MAIN, Branch, answered, sound
from cellwright.agent.budgets import Budget, Spending, parse_budget
from cellwright.agent.conversations import Conversation, Conversations
from cellwright.agent.evidence.numbers import trace_numbers
from cellwright.agent.models.chain import Chain
from cellwright.agent.models.connect import connect_models
from cellwright.agent.models.providers import key_variables
from cellwright.agent.models.requests import Speaker
from cellwright.agent.patterns import JIT, PATTERNS, Chosen, choose
from cellwright.agent.questions import Question
from cellwright.agent.runner import Run
from cellwright.agent.trace.environment import environment_of
from cellwright.agent.trace.redaction import Redactor
from cellwright.agent.trace.spans import StepSpans
from cellwright.agent.trace.steps import StepEvents, StepKind, Trace, Watcher
from cellwright.agent.trace.store import TraceLog
from cellwright.audit import acting
from cellwright.connections.known import Connection
from cellwright.delegation import Outcome
from cellwright.engine import Engine, Session
from cellwright.engine.records import new_agent_run_id
from cellwright.errors import AgentError, BudgetSpent, CellwrightError
from cellwright.mcp.outputs import cell_output_uri
from cellwright.mcp.server import McpServer
from cellwright.mcp.tools.notebooks import AGENTS_MODE

__all__ = ["TRACES", "DataAgent", "ask"]

TRACES = "runs"
"""Where a conversation's traces lie, beside it."""

# Longer than a slow disk stands still: what is not kept by then is lost.
_KEEPING_S = 60.0

_CLIENTS_OWN = frozenset({"client", "sampling", "sampling:client"})

Connect: TypeAlias = Callable[[Question], Awaitable[Chain]]


class DataAgent:
    """Answers questions over one engine, any number at a time."""

    def __init__(
        self,
        mcp_server: McpServer,
        *,
        connect: Connect | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``connect`` gives the models of a question; by default those that it names, or that there are keys for.

        ``clock`` tells how much of a budget's seconds has passed.
        """
        self._mcp_server = mcp_server
        self._engine = mcp_server.engine
        self._connect = connect or self._configured
        self._clock = clock
        self.conversations = Conversations(self._engine.settings.storage / "conversations")
        self._in_use: list[RunResources] = []

    async def ask(self, question: Question, watchers: Sequence[Watcher] = ()) -> Outcome:
        """Answer a question. One that stops half-way has an outcome too, which says why.

        Raises:
            NoModel: there is no model to ask.
            UnknownConversation, UnknownSession: what it names is not there.
            AgentError: it cannot be begun as asked.
        """
        _refuse_unknown_pattern(question.pattern)
        question = replace(question, text=sound(question.text))
        async with AsyncExitStack() as stack:
            chain = await stack.enter_async_context(await self._connect(question))
            redactor = Redactor(chain.secrets)
            conversation_id = question.conversation_id
            if conversation_id is None:
                conversation_id = (await self.conversations.create(redactor.text(question.text))).id
            work = self.conversations.work_on(conversation_id, clean=redactor.text)
            conversation = await stack.enter_async_context(work)
            run_id = question.run_id or new_agent_run_id()
            log = TraceLog(conversation.directory / TRACES / f"{run_id}.jsonl", redactor)
            await stack.enter_async_context(log)
            spans = stack.enter_context(StepSpans(run_id, redactor, conversation_id=conversation_id))
            trace = Trace(run_id, [log, StepEvents(self._engine, run_id, redactor), spans, *watchers])
            resources = await stack.enter_async_context(self._resources(question, chain, conversation))
            await conversation.begin_run(run_id, question.text)
            run = Run(
                question,
                resources=resources,
                chain=chain,
                trace=trace,
                spending=Spending(question.budget, clock=self._clock),
                conversation=conversation,
            )
            outcome = await self._answered(run, conversation)
            session = session_of(self._engine, conversation.history.notebook)
            await log.note("environment", await environment_of(session, [chain.row]))
            await log.note("outcome", outcome.facts())
        return outcome

    @asynccontextmanager
    async def _resources(
        self, question: Question, chain: Chain, conversation: Conversation
    ) -> AsyncIterator[RunResources]:
        """The resources of a run, which other runs see in use."""

        async def note_made(session: Session) -> None:
            await conversation.worked_with(notebook_of(session), made=True)

        opened = open_resources(self._mcp_server, question, lambda: chain.row, self._make_room, note_made)
        async with opened as resources:
            self._in_use.append(resources)
            try:
                yield resources
            finally:
                self._in_use.remove(resources)

    async def _make_room(self, count: int) -> None:
        if len(self._engine.sessions("active")) + count > self._engine.settings.max_sessions:
            made = {one for brief in await self.conversations.list() for one in brief.made}
            busy = {one for resources in self._in_use for one in resources.sessions}
            await make_room(self._engine, count, made=made, busy=busy)

    async def _configured(self, question: Question) -> Chain:
        speakers: dict[str, Speaker] = {}
        if question.client is not None and _CLIENTS_OWN.intersection(question.models):
            from cellwright.agent.models import sampling  # few ask for it

            speakers["sampling"] = sampling.speaker(question.client)
        settings = self._engine.settings
        return await connect_models(question.models, question.environment, settings, speakers=speakers)

    async def _answered(self, run: Run, conversation: Conversation) -> Outcome:
        history = answered(conversation.history.messages(), SYSTEM_PROMPT)
        session, reopened = await self._session(run.question, conversation)
        branch = await run.resources.branch(MAIN, session, history=history)
        try:
            chosen = await self._work(run, branch, reopened=reopened)
            # Somebody may have deleted it meanwhile: then there is nothing to look at any more.
            branch.session = session_of(self._engine, run.notebook(branch))
            outcome = await closed(run, branch, chosen, conversation.id)
        finally:
            # Also of a run that is stopped: the next question goes on from there.
            with anyio.move_on_after(_KEEPING_S, shield=True):
                await run.keep(branch)
        said = outcome.answer or outcome.report or ""
        await conversation.end_run(run.trace.run_id, said, ok=outcome.ok)
        return outcome

    async def _session(self, question: Question, conversation: Conversation) -> tuple[Session | None, bool]:
        """The notebook to work in, and whether a session was made for it here, from its file alone.

        It is the one that the question names, else the conversation's.
        """
        if question.session_id is not None:
            return self._engine.session(question.session_id), False
        notebook = conversation.history.notebook
        session = session_of(self._engine, notebook)
        if session is not None or notebook is None or not notebook.path:
            return session, False
        if not await anyio.Path(notebook.path).is_file():
            return None, False
        await self._make_room(1)
        there = {one.id for one in self._engine.sessions()}
        with acting(f"mcp:{PROGRAM}"):  # whoever asked the question did not open it
            session = await self._engine.open(notebook.path, mode=AGENTS_MODE)
        return session, session.id not in there

    async def _work(self, run: Run, branch: Branch, *, reopened: bool) -> Chosen:
        """Let the pattern work. What stops it is in the branch's report."""
        question = run.question
        chosen = Chosen("react", "nothing was chosen yet")
        try:
            with anyio.fail_after(run.spending.seconds_left) as run.timer:
                async with run.trace.step("question", role="user") as step:
                    step.note, step.session_id = question.text, branch.session_id
                if branch.session is not None:
                    await run.resources.bring_data(branch.session)
                    await _bring_back(run, branch.session, reopened=reopened)
                chosen = await self._chosen(run, branch)
                await PATTERNS[chosen.pattern](run, branch, question.text)
        except* TimeoutError:
            limit = question.budget.seconds or 0.0
            run.stop(branch, str(BudgetSpent("seconds", taken=run.spending.seconds, limit=limit)))
        except* CellwrightError as group:  # also of branches that were tried side by side
            run.stop(branch, str(_first(group)))
        return chosen

    async def _chosen(self, run: Run, branch: Branch) -> Chosen:
        question = run.question
        async with run.trace.step("choose", role="choose", branch=branch.label) as step:
            if question.pattern is None or question.pattern == JIT:
                chosen = await choose(run, branch, question.text, question.data)
            else:
                chosen = Chosen(question.pattern, "it was asked for", by="user")
            run.trace.pattern = chosen.pattern
            step.pattern, step.note = chosen.pattern, f"{chosen.pattern}: {chosen.why}"
        return chosen


async def _bring_back(run: Run, session: Session, *, reopened: bool) -> None:
    """Run the notebook's cells again where no kernel holds what they made: the next cells build on it.

    Those of a session that somebody else opened and did not run stay as they are.
    """
    unrun = reopened and not session.record.generation and any(cell.runs for cell in session.cells)
    if session.held_by is not None or session.runs.live or not (session.has_lost_state or unrun):
        return
    async with run.trace.step("repair", role="engine", branch=MAIN) as step:
        step.session_id = session.id
        if unrun:
            ran = await session.execute_all()
            for execution in ran:
                await execution.wait()
            step.note = f"The notebook was opened again from its file: {len(ran)} cells ran"
        else:
            step.note = f"The kernel was lost: {len((await session.replay()).redone)} cells ran again"


def _refuse_unknown_pattern(pattern: str | None) -> None:
    if pattern is not None and pattern not in (*PATTERNS, JIT):
        raise AgentError(
            f"There is no pattern {pattern!r}", hint=f"Choose from: {', '.join((JIT, *PATTERNS))}"
        )


def _first(group: BaseExceptionGroup[CellwrightError]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# The end of a run: numbers traced to outputs, the notebook run from the top, and all of it put into an
# outcome.

_VERIFY_WAIT_S = 280.0

_VERIFY_LEAST_S = 5.0

_PICTURE = "image/png"


async def closed(run: Run, branch: Branch, chosen: Chosen, conversation_id: str) -> Outcome:
    """What came of a run."""
    session = branch.session
    traced = trace_numbers(branch.answer, await run.evidence(branch))
    verified = await _verified(run, branch) if branch.ok and run.question.verify else None
    kind: StepKind = "answer" if branch.ok else "stop"
    async with run.trace.step(kind, role="agent", branch=branch.label) as step:
        step.session_id = branch.session_id
        step.result, step.failed = (traced.marked, False) if branch.ok else (branch.report, True)
    spending = run.spending
    status = ""
    if branch.ok and session is not None and run.chain.row.shows_status:
        status = f"\n\n{await status_lines(run.resources.knowledge, session)}"
    return Outcome(
        answer=traced.marked + status if branch.ok else "",
        ok=branch.ok,
        run_id=run.trace.run_id,
        conversation_id=conversation_id,
        pattern=chosen.pattern,
        why=chosen.why,
        session_id=branch.session_id,
        notebook=Path(session.path) if session is not None else None,
        charts=_charts(session, branch) if session is not None else (),
        files=_files(session, branch) if session is not None else (),
        untraced=traced.untraced,
        verified=verified,
        report=branch.report,
        models=tuple(run.models),
        usage=spending.usage,
        steps=spending.steps,
        seconds=spending.seconds,
    )


async def _verified(run: Run, branch: Branch) -> bool | None:
    """Whether the notebook puts out the same in a clean kernel; None where it has no code, or that was not found out."""
    session = branch.session
    if session is None or session.held_by is not None or not any(cell.runs for cell in session.cells):
        return None
    async with run.trace.step("verify", role="engine", branch=branch.label) as step:
        step.session_id = session.id
        wait_s = _wait_s(run.spending.seconds_left)
        try:
            reply = await branch.notebook_tools.data(
                "plan_verify", {"wait_s": wait_s, "response_format": "json"}
            )
        except CellwrightError as error:  # the answer is there, and stays
            verified, step.note = None, f"Not verified: {error}"
        else:
            verified, step.note = _verdict(reply)
        step.failed = verified is not True
    return verified


def _wait_s(seconds_left: float | None) -> float:
    """As long as the budget lasts; a notebook that is quick is verified whatever is left."""
    left = _VERIFY_WAIT_S if seconds_left is None else seconds_left
    return max(_VERIFY_LEAST_S, min(left, _VERIFY_WAIT_S))


def _verdict(reply: dict[str, Any]) -> tuple[bool | None, str]:
    if reply["status"] == "running":
        return None, f"Not verified yet: {reply['done']} of {reply['total']} cells ran again, and it goes on"
    return bool(reply["verified"]), str(reply.get("reason") or _differences(reply))


def _differences(reply: dict[str, Any]) -> str:
    different = [one["cell_id"] for one in reply["cells"] if not one["same"]]
    return f"{reply['done']} of {reply['total']} cells ran again" + (
        f"; different: {', '.join(different)}" if different else ", all the same"
    )


def _charts(session: Session, branch: Branch) -> tuple[str, ...]:
    """The addresses of the pictures that this run's cells show now."""
    ran = dict.fromkeys(one.cell_id for one in branch.runs)
    return tuple(
        cell_output_uri(session.id, cell.id, place)
        for cell in session.cells
        if cell.id in ran
        for place, output in enumerate(cell.outputs)
        if _PICTURE in output.get("data", {})
    )


def _files(session: Session, branch: Branch) -> tuple[str, ...]:
    """What this run's cells left in the working directory."""
    left: dict[str, None] = {}
    for execution_id in branch.executions:
        execution = session.runs.find(execution_id)
        left |= {file.path: None for file in execution.files} if execution is not None else {}
    return tuple(left)


# Room for one more notebook among the sessions that may be active: those that earlier questions left make
# it.

_REASON = "Another question needed a kernel, and this one was idle the longest (max_sessions)"


async def make_room(engine: Engine, count: int, *, made: Collection[str], busy: Collection[str]) -> None:
    """Suspend as many as ``count`` more need, the longest idle first: of those that were ``made`` here, or branched
    from these, and that no run is ``busy`` with."""
    missing = len(engine.sessions("active")) + count - engine.settings.max_sessions
    for session in _spare(engine.sessions("active"), made, busy)[: max(0, missing)]:
        await session.suspend(reason=_REASON)


def _spare(active: Collection[Session], made: Collection[str], busy: Collection[str]) -> list[Session]:
    found = [
        one
        for one in active
        if (one.id in made or one.record.branch_of in made) and one.id not in busy and one.is_idle
    ]
    return sorted(found, key=lambda one: one.last_active)


# Asking from a program: one call over an engine that it has open.


async def ask(  # noqa: PLR0913  # what a question has, by name
    engine: Engine,
    question: str,
    *,
    data: Sequence[str | Path] = (),
    pattern: str | None = None,
    model: str | Sequence[str] = (),
    budget: Budget | str | None = None,
    conversation: str | None = None,
    session: str | None = None,
    servers: Sequence[Connection] = (),
    environment: Mapping[str, str] | None = None,
    verify: bool = True,
    watchers: Sequence[Watcher] = (),
) -> Outcome:
    """Ask the data agent, and wait for what comes of it.

    ``environment`` has the keys of models, by default this process's own. ``model`` may name several: the first is
    asked, the others step in. ``servers`` are MCP servers, such as ``connections.known.lent`` gives.

    Raises:
        NoModel: there is no model to ask.
        AgentError: it cannot be begun as asked.
    """
    variables = os.environ if environment is None else environment
    wanted = Question(
        question,
        data=tuple(Path(path) for path in data),
        pattern=pattern,
        models=(model,) if isinstance(model, str) else tuple(model),
        budget=parse_budget(budget) if isinstance(budget, str) else budget or Budget(),
        conversation_id=conversation,
        session_id=session,
        directory=Path.cwd(),
        environment={name: variables[name] for name in key_variables() if name in variables},
        servers=tuple(servers),
        verify=verify,
    )
    found: Outcome | CellwrightError
    async with anyio.create_task_group() as tasks:
        mcp_server = McpServer(engine)
        await tasks.start(lambda task_status: mcp_server.run(task_status=task_status))
        try:
            found = await DataAgent(mcp_server).ask(wanted, watchers)
        except CellwrightError as error:
            found = error  # raised in here it would become a group
        tasks.cancel_scope.cancel()
    if isinstance(found, CellwrightError):
        raise found
    return found
