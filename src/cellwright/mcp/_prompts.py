"""Prompts that a person picks: they tell an agent, in terms of the tools, how to go about it."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.mcpserver.prompts import Prompt

from cellwright.errors import CellwrightError
from cellwright.mcp._looks import icon_of
from cellwright.mcp.calls import Shared, find_session
from cellwright.mcp.context import context_of
from cellwright.plans.reports import plan_in

__all__ = ["prompt_problem", "prompts", "reason_of"]

_NEW = """\
Solve this in a new notebook: {problem}

1. plan_create with the problem and TODOs that are small, in order, and testable: each with its code, with accept (an \
expression, 'output: …' or 'file: …' that proves it) and with the numbers that it depends_on. Leave out code that you \
can only write once you have seen earlier results. validation is what decides at the end. Keep the session_id.
2. plan_run. It runs each TODO's cell, checks it, and fixes and retries what fails in a known way; read the fixes that \
it reports.
3. Where it waits for code, plan_fix with code for that TODO.
4. Where it stops, read the report, and plan_fix with other code; plan_skip only what nothing later needs, with the \
reason. After three rounds without progress, say what you learned and stop.
5. At the end {proof}, and tell the result."""

_NEW_BY_HAND = """\
Solve this in a new notebook: {problem}

1. notebook_create, once; every cell goes into that notebook.
2. List the steps for yourself: small, in order, each with something that proves it.
3. cell_add_and_run for each step, one cell at a time, with what it prints to prove it.
4. Where a cell fails, fix that cell with cell_update and run it again; after three attempts that fail, say what you \
learned and stop.
5. At the end tell the result."""

_VERIFY = "plan_verify, which runs everything from the top in a clean kernel"
_RESTART = "kernel_restart, then cell_execute with cell_id='all', to prove that it works from the top"


@dataclass(frozen=True, slots=True)
class _OfASession:
    """A prompt about a notebook that is there: what to do where it has a plan, and where it has none."""

    description: str
    planned: str
    plain: str


_OF_A_SESSION = {
    "continue_notebook": _OfASession(
        "Go on with a notebook where it stopped",
        (
            "Go on with this notebook's plan; make no other notebook. plan_status shows the TODOs and the next call. plan_run "
            "goes on after the last TODO that is done, and brings lost variables back first. Where it waits for code or "
            "stops, plan_fix with code, or plan_skip what nothing later needs."
        ),
        (
            "Go on with this notebook. Add to it; do not create another. Where its state is suspended, its variables are "
            "gone: run the cells again first. notebook_read shows its outline."
        ),
    ),
    "fix_and_retry": _OfASession(
        "Fix the cell that failed last and run it again",
        (
            "Fix the TODO that the plan stopped at. plan_status has its report and what was tried; notebook_read with its "
            "cell_id shows code and traceback, kernel_inspect what is defined. Then plan_fix with the cell's whole new "
            "code, which is run from the state before it, and stop after three rounds that fail, saying what you learned."
        ),
        (
            "Fix what failed last. notebook_read with the cell_id of last_error shows the cell and its traceback; "
            "kernel_inspect shows what is defined. Change the cell with cell_update, run it with cell_execute and "
            "on_error='rollback', so that an attempt that fails leaves no trace, and stop after three attempts that fail, "
            "saying what you learned."
        ),
    ),
    "skip_cell": _OfASession(
        "Leave the cell that failed last and go on after it",
        (
            "Leave the TODO that the plan stands at: plan_skip with the reason, which goes on after it. Heed the warnings "
            "about later TODOs that depend on it."
        ),
        (
            "Leave the cell of last_error as it is, add a Markdown cell after it that says why it was skipped, and go on "
            "with the cells after it that do not need what it would have defined."
        ),
    ),
    "show_status": _OfASession(
        "Say how a notebook stands",
        (
            "Say in a few sentences how this notebook stands: plan_status has its TODOs. Tell what is done, what was fixed "
            "or skipped, what failed and why, and what comes next. Run nothing."
        ),
        (
            "Say in a few sentences how this notebook stands: what is done, what is not run, what failed, and what comes "
            "next. Run nothing."
        ),
    ),
}


def prompts(shared: Shared) -> list[Prompt]:
    """The prompts of an MCP server."""

    async def new_notebook(problem: str) -> str:
        if shared.names.name("plan_create") is None:
            return shared.names.say(_NEW_BY_HAND).format(problem=problem)
        proof = _VERIFY if shared.names.name("plan_verify") else shared.names.say(_RESTART)
        return _NEW.format(problem=problem, proof=proof)

    new = _prompt(new_notebook, "new_notebook", "Solve a problem in a new notebook, step by step")
    return [new, *(_of_a_session(shared, name, about) for name, about in _OF_A_SESSION.items())]


def prompt_problem(name: str, given: Mapping[str, Any], known: Mapping[str, Prompt]) -> str | None:
    """What is wrong with a request for a prompt, and what would be right; None where nothing is."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0)
        return f"There is no prompt {name!r}. Did you mean {near[0]}? The prompts are: {', '.join(known)}"
    arguments = known[name].arguments or []
    if missing := [one.name for one in arguments if one.required and not given.get(one.name)]:
        return f"The prompt {name} needs the argument {missing[0]!r}"
    names = [one.name for one in arguments]
    if unknown := [one for one in given if one not in names]:
        return f"The prompt {name} has no argument {unknown[0]!r}; it takes: {', '.join(names)}"
    return None


def reason_of(error: BaseException) -> str | None:
    """The sentence for people in what a prompt failed of, however deep; None where there is none."""
    while not isinstance(error, CellwrightError):
        if error.__cause__ is None:
            return None
        error = error.__cause__
    return str(error)


def _of_a_session(shared: Shared, name: str, about: _OfASession) -> Prompt:
    async def render(session: str = "") -> str:
        """The text, and the session's context, so that the agent need not ask for it."""
        found = find_session(shared.engine.sessions(), session or None, own=(), reads=True).session
        context = await context_of(shared.knowledge, found)
        lines = [
            f"{key}: {', '.join(held) if isinstance(held, list) else held}"
            for key, held in context.items()
            if held
        ]
        has_plan = plan_in(found.document.metadata) is not None and shared.names.name("plan_run") is not None
        text = about.planned if has_plan else about.plain
        return "\n".join([shared.names.say(text), "", *lines])

    return _prompt(render, name, about.description)


def _prompt(render: Callable[..., Awaitable[str]], name: str, description: str) -> Prompt:
    title = name.replace("_", " ").capitalize()
    return Prompt.from_function(
        render, name=name, title=title, description=description, icons=[icon_of(name)]
    )
