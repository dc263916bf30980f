"""The pages of conversations, what they load as they are looked at, and the streams that keep them true."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import anyio
from markupsafe import Markup
from starlette.responses import Response

from cellwright.delegation import AgentRequest, Delegate, DelegatedRun
from cellwright.engine import Engine, Missed, Session
from cellwright.errors import (
    AgentError,
    NoAgent,
    UnknownConversation,
    UnknownExecution,
    UnknownRun,
    UnknownSession,
)
from cellwright.settings.roots import fenced
from cellwright.tools.data_directory import DataDirectory
from cellwright.web._chat_setup import ROUTES as SETUP_ROUTES
from cellwright.web._chat_turns import (
    entries_in,
    entry_of,
    live_run,
    number_of,
    session_of_run,
    step_views,
    turn_of,
)
from cellwright.web._live import Change, LiveResponse, Parts
from cellwright.web._notebook import cell_view
from cellwright.web._templates import render
from cellwright.web.panels.history import shown_outputs
from cellwright.web.requests import PageRequest, action, page


async def _conversations(request: PageRequest) -> Response:
    delegate, missing, rows = request.site.delegate, None, []
    seq = await delegate.runs_changed(0)
    try:
        rows = await conversation_rows(delegate)
    except NoAgent as error:
        missing = error
    about = request.http.query_params.get("session")
    session = request.engine.session(about) if about else None
    return request.html(
        "chats.html",
        title="Chat",
        rows=rows,
        missing=missing,
        seq=seq,
        conversation=None,
        patterns=PATTERNS,
        form={},
        session=session,
        root=request.engine.settings.root,
    )


async def _conversation(request: PageRequest) -> Response:
    delegate = request.site.delegate
    conversation = await delegate.conversation(request.http.path_params["conversation_id"])
    return request.html(
        "chat.html",
        title=conversation["title"],
        conversation=conversation,
        turns=[turn_of(run, delegate) for run in conversation["runs"]],
        seq=number_of(conversation, live_run(conversation, delegate)),
        patterns=PATTERNS,
        form={},
        session=None,
        root=request.engine.settings.root,
    )


async def _models(request: PageRequest) -> Response:
    """Which models can be asked; where there is none, what to do."""
    try:
        return request.fragment("chat_models.html", models=await request.site.delegate.models(), problem=None)
    except AgentError as error:
        return request.fragment("chat_models.html", models=[], problem=error)


async def _results(request: PageRequest) -> Response:
    trace = await request.site.delegate.trace(request.http.path_params["run_id"])
    return request.fragment(
        "chat_results.html", run_id=trace["run_id"], results=results_of(request.engine, trace)
    )


async def _steps(request: PageRequest) -> Response:
    trace = await request.site.delegate.trace(request.http.path_params["run_id"])
    steps = step_views([entry_of(step) for step in trace["steps"]], goes_on=False)
    return request.fragment("chat_steps.html", run_id=trace["run_id"], steps=steps)


async def _cost(request: PageRequest) -> Response:
    """What a conversation has cost so far."""
    delegate = request.site.delegate
    conversation = await delegate.conversation(request.http.path_params["conversation_id"])
    totals = []
    for run in conversation["runs"]:
        with suppress(UnknownRun):
            totals.append((await delegate.trace(run["run_id"]))["summary"]["total"])
    cost = {
        name: sum(one[name] for one in totals) for name in ("money", "tokens_in", "tokens_out", "requests")
    }
    return request.fragment("chat_cost.html", cost=cost)


async def _live_list(request: PageRequest) -> Response:
    return LiveResponse(request.http, ConversationList(request.site.delegate))


async def _live(request: PageRequest) -> Response:
    talk = talk_about(request.site.delegate, request.http.path_params["conversation_id"], request.engine)
    return LiveResponse(request.http, talk, also=[talk.growing()])


_PAGES = [
    page("/chat", _conversations),
    page("/chat/live", _live_list),
    page("/chat/models", _models),
    page("/chat/{conversation_id}", _conversation),
    page("/chat/{conversation_id}/cost", _cost),
    page("/chat/{conversation_id}/live", _live),
    page("/chat/{conversation_id}/runs/{run_id}", _results),
    page("/chat/{conversation_id}/runs/{run_id}/steps", _steps),
]

# What the pages of conversations show, as far as it changes: a conversation with its run at work, and the
# list of all.

HEAD = "chat-head"

TURNS = "chat-turns"
"""Which turns there are. Parts come in the order of their names: this one before those of the turns themselves."""

CONVERSATIONS = "conversations"

_LONG_S = 3_600.0

_AGENT = "mcp:cellwright agent"
"""What the audit log calls the data agent."""

_GROWS = frozenset({"notebook.cell.executing", "notebook.cell.output", "notebook.cell.completed"})

_talks: WeakValueDictionary[tuple[int, str], Talk] = WeakValueDictionary()


def cells_part(run_id: str) -> str:
    return f"growing-{run_id}"


def turn_part(run_id: str) -> str:
    return f"turn-{run_id}"


def talk_about(delegate: Delegate, conversation_id: str, engine: Engine) -> Talk:
    """What shows this conversation, shared by all pages that are open on it."""
    key = id(delegate), conversation_id
    found = _talks.get(key)
    if found is None:
        found = _talks[key] = Talk(delegate, conversation_id, engine)
    return found


class Talk:
    """One conversation's page."""

    def __init__(self, delegate: Delegate, conversation_id: str, engine: Engine) -> None:
        self._delegate = delegate
        self._engine = engine
        self._id = conversation_id
        self._parts = Parts(self._make)
        self._reading = anyio.Lock()
        self._read: tuple[int, Mapping[str, Any] | None] = (0, None)
        """The conversation, None where it is gone, as it was when this was heard."""

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        heard = 0
        while True:
            heard = await self._delegate.runs_changed(heard)
            conversation = await self._as_of(heard)
            if conversation is None:
                yield Change((since or 0) + 1, frozenset({HEAD}))
                return
            run = live_run(conversation, self._delegate)
            number = number_of(conversation, run)
            if number != since:
                since = number
                turns = (turn_part(one["run_id"]) for one in conversation["runs"])
                yield Change(number, frozenset({HEAD, TURNS, *turns}))
            while run is not None and not run.done:
                number = number_of(conversation, run)
                if number != since:
                    since = number
                    yield Change(number, frozenset({turn_part(run.id)}))
                await run.changed(entries_in(number), _LONG_S)

    async def growing(self) -> AsyncIterator[Change]:
        """That the cells of the run at work put out more."""
        with self._engine.subscribe() as events:
            async for event in events:
                run = live_run(self._read[1], self._delegate) if self._read[1] is not None else None
                if run is None or isinstance(event, Missed) or event.kind not in _GROWS:
                    continue
                if event.session_id == session_of_run(run):
                    yield Change(0, frozenset({cells_part(run.id)}))

    async def render(self, part: str, upto: int) -> str | None:
        if part.startswith(cells_part("")):  # it grows without the run telling anything
            return self._cells(part.removeprefix(cells_part("")))
        return await self._parts.get(part, upto)

    def _cells(self, run_id: str) -> str | None:
        """The cells that the run at work has run, as they stand now."""
        conversation = self._read[1]
        run = live_run(conversation, self._delegate) if conversation is not None else None
        if conversation is None or run is None or run.id != run_id:
            return None
        began = conversation["runs"][-1]["began"]
        session = _found(self._engine, session_of_run(run))
        cells = list(growing_cells(session, began)) if session is not None else []
        return render("chat_cells.html", run_id=run_id, session=session, exhibits=cells)

    async def _as_of(self, heard: int) -> Mapping[str, Any] | None:
        """The conversation, read once for all pages after something was heard."""
        async with self._reading:
            if self._read[0] != heard:
                try:
                    self._read = heard, await self._delegate.conversation(self._id)
                except UnknownConversation:
                    self._read = heard, None
            return self._read[1]

    async def _make(self, part: str) -> str | None:
        _, conversation = self._read
        if conversation is None:
            return render("chat_gone.html") if part == HEAD else None
        if part == HEAD:
            return render("chat_head.html", conversation=conversation)
        if part == TURNS:
            return render("chat_order.html", conversation=conversation)
        for run in conversation["runs"]:
            if turn_part(run["run_id"]) == part:
                turn = turn_of(run, self._delegate)
                return render("chat_turn.html", conversation=conversation, turn=turn)
        return None


class ConversationList:
    """The list of conversations, as one part."""

    def __init__(self, delegate: Delegate) -> None:
        self._delegate = delegate

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        heard = since or 0
        while True:
            heard = await self._delegate.runs_changed(heard)
            yield Change(heard, frozenset({CONVERSATIONS}))

    async def render(self, part: str, upto: int) -> str | None:
        del upto  # made anew each time: it is asked for when a run begins or ends
        if part != CONVERSATIONS:
            return None
        return render("chat_list.html", rows=await conversation_rows(self._delegate))


# What came of a run that is over, from its trace: steps, outputs of its cells, files, cost. Asks, changes
# nothing.


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A cell whose outputs are more than lines of text."""

    cell_id: str
    place: int
    outputs: Markup


@dataclass(frozen=True, slots=True)
class Results:
    """What the page shows below an answer."""

    outcome: Mapping[str, Any] | None
    """None where the run did not come to its end."""
    session: Session | None
    exhibits: Sequence[Exhibit]
    seconds: float
    total: Mapping[str, Any]
    complete: bool
    """Whether the run came to an end of any kind, or its daemon died with it."""


def results_of(engine: Engine, trace: Mapping[str, Any]) -> Results:
    """What came of a run."""
    session = _session(engine, trace)
    return Results(
        outcome=trace["outcome"],
        session=session,
        exhibits=list(_exhibits(engine, session, trace)) if session is not None else [],
        seconds=trace["summary"]["seconds"],
        total=trace["summary"]["total"],
        complete=trace["summary"]["complete"],
    )


def growing_cells(session: Session, since: float) -> Iterator[Exhibit]:
    """What the data agent ran in a session since then, as it stands now."""
    for cell in session.cells:
        ran = session.authors_of(cell.id).ran
        if ran is not None and ran.at >= since and ran.by == _AGENT:
            view = cell_view(session, cell.id)
            if view is not None:
                yield Exhibit(cell.id, view.place, view.outputs)


def _session(engine: Engine, trace: Mapping[str, Any]) -> Session | None:
    """The notebook that it worked with: the outcome's, else the last on the main branch."""
    named = (trace["outcome"] or {}).get("session_id")
    worked_with = [
        step["session_id"] for step in trace["steps"] if step["branch"] == "main" and step["session_id"]
    ]
    session_id = named or next(reversed(worked_with), None)
    return _found(engine, session_id)


def _found(engine: Engine, session_id: str | None) -> Session | None:
    if session_id is None:
        return None
    try:
        return engine.session(session_id)
    except UnknownSession:
        return None


def _exhibits(engine: Engine, session: Session, trace: Mapping[str, Any]) -> Iterator[Exhibit]:
    """What its cells put out then, which a later question may have replaced."""
    ran = {run["cell_id"]: run["execution_id"] for step in trace["steps"] for run in step["runs"]}
    for place, cell in enumerate(session.cells, 1):
        outputs = _outputs_of(engine, ran[cell.id]) if cell.id in ran else None
        if outputs is None or not _is_shown(outputs):
            continue
        view = cell_view(session, cell.id) if list(cell.outputs) == outputs else None
        html = Markup(render("outputs_shown.html", outputs=shown_outputs(outputs)))  # noqa: S704  # a template escapes
        yield Exhibit(cell.id, place, view.outputs if view is not None else html)


def _outputs_of(engine: Engine, execution_id: str) -> list[dict[str, Any]] | None:
    try:
        return engine.execution(execution_id).outputs
    except UnknownExecution:  # the journal let it go
        return None


def _is_shown(outputs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there is a table, a chart or the like: what was printed stands with the step that printed it."""
    return any(set(output.get("data") or ()) - {"text/plain"} for output in outputs)


# Conversations as lines of a list.


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """What the list says of a conversation."""

    id: str
    title: str
    updated: float
    turns: int
    model: str
    notebook: str
    running: bool
    trouble: str | None
    """Why it cannot be gone on with."""


async def conversation_rows(delegate: Delegate) -> list[ConversationRow]:
    """Every conversation, the one that was asked last first.

    Raises:
        NoAgent: the agent's libraries are not installed.
    """
    briefs = await delegate.conversations()
    busy = {await delegate.conversation_of(run.id) for run in delegate.live()}
    return [_row(brief, running=brief["id"] in busy) for brief in briefs]


def _row(brief: dict[str, Any], *, running: bool) -> ConversationRow:
    return ConversationRow(
        id=brief["id"],
        title=brief["title"] or brief["id"],
        updated=brief["updated"],
        turns=brief["runs"],
        model=brief["model"] or "",
        notebook=(brief["notebook"] or {}).get("name", ""),
        running=running,
        trouble=brief["trouble"],
    )


# A form that was sent as a request to the data agent: each thing checked, as forms are written by anybody.

PATTERNS = {
    "": "chosen by the task",
    "react": "react: one or a few cells",
    "plan": "plan: many steps in order",
    "reflect": "reflect: with a critic",
    "tree": "tree: the most promising ways",
    "refine": "refine: version after version",
    "ensemble": "ensemble: several ways, judged",
}
"""How a task may be gone about, as the form offers it."""

_MAX_QUESTION = 200_000

_MOST_FILES = 100


async def agent_request(
    form: Mapping[str, str],
    models: Sequence[str],
    *,
    root: Path,
    roots: Sequence[Path],
    conversation_id: str | None,
    brought: Path | None = None,
) -> AgentRequest:
    """The request that a form makes; its data files lie in one of ``roots``, and are named from ``root``.

    Those that people bring on the page lie in ``brought``.

    Raises:
        AgentError: there is no question, or something is named that cannot be had.
        OutsideRoots: a file is not in the directories that may be used.
    """
    question = form.get("question", "").strip()
    if not question or len(question) > _MAX_QUESTION:
        raise AgentError(
            "There is no question" if not question else "The question is too long",
            hint="Write what you want to know; large texts belong into a file",
        )
    return AgentRequest(
        question,
        data=tuple([await _data_file(name, root, roots, brought) for name in _names(form.get("data", ""))]),
        pattern=_pattern(form.get("pattern", "")),
        models=_chosen_models(form.get("model", ""), models),
        budget=form.get("budget", "").strip() or None,
        session_id=form.get("session") or None,
        conversation_id=conversation_id,
        directory=root,
    )


def _pattern(named: str) -> str | None:
    if named not in PATTERNS:
        raise AgentError(
            f"There is no pattern {named!r}", hint=f"Choose from: {', '.join(filter(None, PATTERNS))}"
        )
    return named or None


def _chosen_models(named: str, offered: Sequence[str]) -> tuple[str, ...]:
    """Only what is offered: where a model is, and so where keys and data go, the settings say and no form."""
    if named and named not in offered:
        raise AgentError(
            f"The model {named} cannot be chosen here", hint="Load the page again, and choose from its list"
        )
    return (named,) if named else ()


def _names(given: str) -> list[str]:
    names = [name.strip() for line in given.splitlines() for name in line.split(",")]
    found = list(dict.fromkeys(filter(None, names)))
    if len(found) > _MOST_FILES:
        raise AgentError(f"These are {len(found)} files, and {_MOST_FILES} are the most")
    return found


async def _data_file(name: str, root: Path, roots: Sequence[Path], brought: Path | None) -> Path:
    if brought is not None and Path(name).name == name and await anyio.Path(brought / name).is_file():
        return brought / name
    path = await anyio.to_thread.run_sync(lambda: fenced(name, roots or (root,), base=root))
    if not await anyio.Path(path).is_file():
        raise AgentError(f"There is no file {name}", hint=f"Paths begin at {root}")
    return path


# What a person may do in a conversation: ask, ask again, stop, delete. The stream shows what comes of it.

_BEGINNING_S = 60.0
"""A provider's library takes seconds to import; its models are asked after that."""


async def _begin(request: PageRequest) -> Response:
    run = await _begun(request, await request.form(), None)
    conversation_id = run.conversation_id or await request.site.delegate.conversation_of(run.id)
    return request.done(go=f"/chat/{conversation_id}" if conversation_id is not None else "/chat")


async def _go_on(request: PageRequest) -> Response:
    delegate, form = request.site.delegate, await request.form()
    conversation = await delegate.conversation(request.http.path_params["conversation_id"])
    if again := form.get("again"):
        asked = {run["run_id"]: run["question"] for run in conversation["runs"]}
        if again not in asked:
            raise UnknownRun(f"There is no run {again!r} in this conversation")
        await _begun(request, {**form, "question": asked[again]}, conversation["id"])
        return request.done()
    await _begun(request, form, conversation["id"])
    # The form as it was, but for what was asked.
    fresh = render(
        "chat_ask.html",
        conversation=conversation,
        patterns=PATTERNS,
        form={**form, "question": "", "data": ""},
        session=None,
        root=request.engine.settings.root,
    )
    return request.done(parts={"chat-ask": fresh})


async def _begun(request: PageRequest, form: Mapping[str, str], conversation_id: str | None) -> DelegatedRun:
    """A run that has got as far as its first step.

    Raises:
        CellwrightError: it did not get that far.
    """
    delegate: Delegate = request.site.delegate
    models = await delegate.models() if form.get("model") else []
    settings = request.engine.settings
    question = await agent_request(
        form,
        models,
        root=settings.root,
        roots=settings.roots,
        conversation_id=conversation_id,
        brought=DataDirectory.of(request.engine).root,
    )
    run = await delegate.begin(question)
    await run.changed(0, _BEGINNING_S)
    if run.failure is not None and not run.entries(0):
        raise run.failure
    return run


async def _edit(request: PageRequest) -> Response:
    """Ask one of the questions anew, in other words: in a conversation and on a branch that know nothing after it."""
    delegate, form = request.site.delegate, await request.form()
    conversation_id, run_id = (request.http.path_params[name] for name in ("conversation_id", "run_id"))
    model = (await delegate.conversation(conversation_id))["model"]
    offered = await delegate.models()
    before, session_id = await delegate.fork(conversation_id, run_id)
    asked = {**form, "session": session_id or "", "model": model if model in offered else ""}
    run = await _begun(request, asked, before)
    told = run.conversation_id or before or await delegate.conversation_of(run.id)
    return request.done("Asked anew; what was said before stays as it is", go=f"/chat/{told}")


async def _stop(request: PageRequest) -> Response:
    run = request.site.delegate.run(request.http.path_params["run_id"])
    await run.cancel()
    return request.done("Stopped" if run.result is None else "It had just ended")


async def _forget(request: PageRequest) -> Response:
    conversation_id = request.http.path_params["conversation_id"]
    await request.site.delegate.forget(conversation_id)
    return request.done("The conversation is deleted; its notebooks stay", go="/chat")


_ACTIONS = [
    action("/chat", _begin),
    action("/chat/{conversation_id}", _go_on),
    action("/chat/{conversation_id}/runs/{run_id}/stop", _stop),
    action("/chat/{conversation_id}/runs/{run_id}/edit", _edit),
    action("/chat/{conversation_id}/delete", _forget, needs="own"),
]


# Questions in words and how they are answered: conversations, their turns as they happen, and what came of
# them.

ROUTES = [*SETUP_ROUTES, *_PAGES, *_ACTIONS]
