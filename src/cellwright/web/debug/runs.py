"""Runs of the data agent: a list of them, one as a whole, and each of its steps."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import Response

from cellwright.errors import CellwrightError, UnknownRun
from cellwright.web.debug.waterfall import WIDTH, Span, waterfall
from cellwright.web.diffs import DiffLine, diff_lines
from cellwright.web.downloads import attachment
from cellwright.web.live import Change, LiveResponse
from cellwright.web.requests import PageRequest, page
from cellwright.web.templates import render

if TYPE_CHECKING:
    from cellwright.delegation import Delegate, DelegatedRun

__all__ = ["ROUTES", "Choice", "attempts_in", "chosen", "messages_of", "span_of"]
_PART = "run"

_WAIT_S = 15.0

_MOST_CONVERSATIONS = 200


async def _runs(request: PageRequest) -> Response:
    delegate = request.site.delegate
    found: list[dict[str, Any]] = []
    live = {run.id for run in delegate.live()}
    for brief in (await delegate.conversations())[:_MOST_CONVERSATIONS]:
        if brief.get("trouble"):
            continue
        try:
            conversation = await delegate.conversation(brief["id"])
        except CellwrightError:  # it was deleted meanwhile, or cannot be read: the others are there
            continue
        found += [
            {**run, "conversation_id": brief["id"], "going_on": run["run_id"] in live}
            for run in conversation["runs"]
        ]
    found.sort(key=lambda run: run["began"], reverse=True)
    return request.html("runs.html", title="Runs", runs=found)


async def _run(request: PageRequest) -> Response:
    run_id = request.http.path_params["run_id"]
    trace = await request.site.delegate.trace(run_id)
    choice = _choice(request)
    values = _values(trace, choice)
    return request.html(
        "run.html", title=f"Run {run_id}", query=_query(choice), going_on=_going_on(request), **values
    )


def _values(trace: dict[str, Any], choice: Choice) -> dict[str, Any]:
    steps = trace["steps"]
    now = time.time()
    wanted = chosen(steps, choice)
    return {
        "trace": trace,
        "choice": choice,
        "steps": wanted,
        "bars": waterfall(span_of(step, now) for step in wanted),
        "width": WIDTH,
        "cells": attempts_in(wanted),
        "kinds": sorted({step["kind"] for step in steps}),
        "roles": sorted({step["role"] for step in steps if step.get("role")}),
        "branches": sorted({step["branch"] for step in steps if step.get("branch")}),
        "sessions": sorted({step["session_id"] for step in steps if step.get("session_id")}),
    }


def _choice(request: PageRequest) -> Choice:
    asked = request.http.query_params
    texts = {name: asked.get(name, "")[:500] for name in ("kind", "role", "branch", "search")}
    return Choice(**texts, failed=asked.get("failed") == "yes")


def _query(choice: Choice) -> str:
    """The choice as a part of an address."""
    said = {name: getattr(choice, name) for name in ("kind", "role", "branch", "search")}
    return urlencode(
        {name: value for name, value in said.items() if value} | ({"failed": "yes"} if choice.failed else {})
    )


def _going_on(request: PageRequest) -> bool:
    try:
        return not request.site.delegate.run(request.http.path_params["run_id"]).done
    except UnknownRun:
        return False


async def _step(request: PageRequest) -> Response:
    run_id, number = request.http.path_params["run_id"], request.http.path_params["number"]
    trace = await request.site.delegate.trace(run_id)
    step = next((one for one in trace["steps"] if one["number"] == number), None)
    if step is None:
        raise UnknownRun(f"Run {run_id} has no step {number}", hint="Load the run again")
    attempts = [
        (cell, attempt)
        for cell, tries in attempts_in(trace["steps"]).items()
        for attempt in tries
        if attempt.step == number
    ]
    return request.fragment(
        "run_step.html",
        step=step,
        prompt=list(messages_of(step.get("prompt") or ())),
        reply=list(messages_of([step["reply"]] if step.get("reply") else ())),
        arguments=json.dumps(step.get("arguments"), ensure_ascii=False, indent=2)
        if step.get("arguments")
        else "",
        attempts=attempts,
    )


async def _export(request: PageRequest) -> Response:
    run_id = request.http.path_params["run_id"]
    trace = await request.site.delegate.trace(run_id)
    body = json.dumps(trace, ensure_ascii=False, indent=1).encode(errors="replace")
    return Response(body, media_type="application/json", headers=attachment(f"{run_id}.json"))


class _Source:
    """A run as one part, while it goes on."""

    def __init__(self, delegate: Delegate, run_id: str, run: DelegatedRun | None, choice: Choice) -> None:
        self._delegate = delegate
        self._id = run_id
        self._run = run
        self._choice = choice

    async def changes(self, since: int | None) -> AsyncIterator[Change]:
        last = since or 0
        if self._run is None:  # the daemon that it went on in is gone, and it with that
            yield Change(last + 1, frozenset({_PART}))
            return
        while True:
            over = self._run.done
            told = self._run.entries(last)
            # Words that come one by one change nothing here.
            if any(entry["event"] != "heard" for entry in told) or over:
                yield Change(told[-1]["number"] if told else last, frozenset({_PART}))
            if over:
                return
            last = told[-1]["number"] if told else last
            await self._run.changed(last, _WAIT_S)

    async def render(self, part: str, upto: int) -> str | None:
        del part, upto  # there is one, and it is made from the log as it is
        values = _values(await self._delegate.trace(self._id), self._choice)
        going_on = self._run is not None and not self._run.done
        return render("run_content.html", query=_query(self._choice), going_on=going_on, **values)


async def _live(request: PageRequest) -> Response:
    delegate, run_id = request.site.delegate, request.http.path_params["run_id"]
    try:
        run = delegate.run(run_id)
    except UnknownRun:
        await delegate.trace(run_id)  # one that never was is not found
        run = None
    return LiveResponse(request.http, _Source(delegate, run_id, run, _choice(request)))


ROUTES = [
    page("/runs", _runs),
    page("/runs/{run_id}", _run),
    page("/runs/{run_id}/live", _live),
    page("/runs/{run_id}/steps/{number:int}", _step),
    page("/runs/{run_id}/trace.json", _export),
]


# A trace's steps as the page shows them: a line each, chosen by what is asked for, and one in full. Pure.


@dataclass(frozen=True, slots=True)
class Choice:
    """Which steps are wanted; what is empty does not narrow."""

    kind: str = ""
    role: str = ""
    branch: str = ""
    failed: bool = False
    search: str = ""

    @property
    def narrows(self) -> bool:
        return self != Choice()


def chosen(steps: Iterable[Mapping[str, Any]], choice: Choice) -> list[Mapping[str, Any]]:
    """The steps that are wanted, in order."""
    return [step for step in steps if _fits(step, choice)]


def _fits(step: Mapping[str, Any], choice: Choice) -> bool:
    for name in ("kind", "role", "branch"):
        wanted = getattr(choice, name)
        if wanted and (step.get(name) or "") != wanted:
            return False
    if choice.failed and step.get("state") == "ok":
        return False
    return not choice.search or _holds(step, choice.search.casefold())


def _holds(value: Any, wanted: str) -> bool:
    """Whether a text is anywhere in it."""
    if isinstance(value, str):
        return wanted in value.casefold()
    if isinstance(value, Mapping):
        return any(_holds(inner, wanted) for inner in value.values())
    if isinstance(value, Sequence):
        return any(_holds(inner, wanted) for inner in value)
    return wanted == str(value)


def span_of(step: Mapping[str, Any], now: float) -> Span:
    """A step on the line of time; one that goes on lasts until now."""
    seconds = step.get("seconds") or {}
    took = step.get("took")
    about = step.get("tool") or step.get("model") or ""
    return Span(
        key=str(step["number"]),
        label=f"{step['number']} {step['kind']} {about}".strip(),
        began=step["began"],
        took=took if took is not None else max(now - step["began"], 0.0),
        spent=tuple((name, seconds.get(name) or 0.0) for name in ("engine", "kernel", "model")),
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A piece of a prompt or of a reply."""

    role: str
    """``system``, ``user``, ``tool``, ``assistant``, ``thinking``, ``call``."""
    text: str
    name: str = ""
    """Of a tool."""


_ROLES = {
    "system-prompt": "system",
    "user-prompt": "user",
    "tool-return": "tool",
    "retry-prompt": "tool",
    "text": "assistant",
    "thinking": "thinking",
    "tool-call": "call",
}


def messages_of(messages: Iterable[Any]) -> Iterator[Message]:
    """The pieces of messages as pydantic-ai writes them, in order; what is unknown is shown as it is."""
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        if instructions := message.get("instructions"):
            yield Message("system", str(instructions))
        for part in message.get("parts") or ():
            kind = str(part.get("part_kind", ""))
            content = part.get("args") if kind == "tool-call" else part.get("content")
            yield Message(_ROLES.get(kind, kind or "part"), _text(content), str(part.get("tool_name") or ""))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(one, str) for one in content):
        return "\n".join(content)
    return json.dumps(content, ensure_ascii=False, indent=2)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One time that a cell ran, with what was changed since the time before."""

    step: int
    number: int
    code: str
    state: str
    stdout: str
    stderr: str
    seconds: float | None
    changed: tuple[DiffLine, ...] = field(default=())


def attempts_in(steps: Iterable[Mapping[str, Any]]) -> dict[str, list[Attempt]]:
    """Every run of every cell, by the cell; code in no cell is by its session."""
    found: dict[str, list[Attempt]] = {}
    for step in steps:
        for run in step.get("runs") or ():
            key = run.get("cell_id") or f"code in {step.get('session_id') or 'no session'}"
            earlier = found.setdefault(key, [])
            code = str(run.get("code") or "")
            changed = diff_lines(earlier[-1].code, code) if earlier and earlier[-1].code != code else []
            earlier.append(
                Attempt(
                    step["number"],
                    len(earlier) + 1,
                    code,
                    str(run.get("state") or ""),
                    str(run.get("stdout") or ""),
                    str(run.get("stderr") or ""),
                    run.get("seconds"),
                    tuple(changed),
                )
            )
    return found
