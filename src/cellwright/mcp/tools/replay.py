"""The tool that brings a session's state back by running again what made it."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import anyio
from mcp.types import ToolAnnotations
from pydantic import Field

from cellwright.engine import Redone, Replay, Session
from cellwright.errors import UnknownExecution
from cellwright.mcp._arguments import (
    AS_IN_CREATE,
    Arguments,
    MaxTokens,
    ResponseFormat,
    SessionId,
    TimeoutS,
    WaitS,
)
from cellwright.mcp._replies import DEFAULT_TOKENS
from cellwright.mcp._waits import wait_for_replay
from cellwright.mcp.calls import Call, Definition, Reply, data_reply
from cellwright.mcp.outputs import clean
from cellwright.notebook import Difference
from cellwright.text_budget import CHARACTERS_PER_TOKEN, cut_middle, share

__all__ = ["REPLAY_TOOLS", "replay_json", "replay_text"]

_MAX_ID = 300
_MOST_STEPS = 100
_MOST_DIFFERENCES = 50
_ShownDifferences: TypeAlias = list[tuple[Redone, Difference, str]]


class ReplayNotebook(Arguments):
    session_id: SessionId = None
    upto: str | None = Field(
        default=None, max_length=_MAX_ID, description="End with this cell or execution id"
    )
    timeout_s: Annotated[TimeoutS, Field(description="For each step; default: as it had")] = None
    replay_id: str | None = Field(
        default=None, max_length=_MAX_ID, description="Wait for this one, start none"
    )
    host: Annotated[str | None, AS_IN_CREATE] = None
    wait_s: WaitS = None
    response_format: ResponseFormat = "text"
    max_tokens: MaxTokens = None


async def notebook_replay(call: Call, args: ReplayNotebook) -> Reply:
    """Get lost variables back after a kernel died: run again, in a new kernel and in order, all that had run, and compare the
    outputs. Past 55 s it returns the replay id."""
    session = call.session(args.session_id)
    if args.replay_id is not None:
        replay = _found(session, args.replay_id)
    else:
        # Shielded: a call that is cancelled while the kernel starts must know what to stop.
        with anyio.CancelScope(shield=True):
            replay = await session.start_replay(upto=args.upto, timeout_s=args.timeout_s, host=args.host)
    await wait_for_replay(call, replay, wait_s=args.wait_s)
    if replay.done:
        # The reply says what is there again: no later one need say that the kernel was replaced.
        call.client.generations[session.id] = session.generation
    if args.response_format == "json":
        return data_reply(replay_json(replay, max_tokens=args.max_tokens), call)
    return Reply(replay_text(replay, max_tokens=args.max_tokens))


def _found(session: Session, replay_id: str) -> Replay:
    if session.last_replay is not None and session.last_replay.id == replay_id:
        return session.last_replay
    raise UnknownExecution(
        f"Session {session.id} has no replay {replay_id!r}; one that an earlier engine began ended with it",
        hint="Leave replay_id out to begin one",
    )


# How it is told ------------------------------------------------------------------------------------------------------


def replay_json(replay: Replay, *, max_tokens: int | None = None) -> dict[str, Any]:
    """A replay as one object: every step, or where there are very many those that differ, within a budget."""
    shown = _shown_differences(replay, max_tokens)
    redone = replay.redone
    if len(redone) > _MOST_STEPS:
        redone = [each for each in redone if not each.same][:_MOST_STEPS]
    found: dict[str, Any] = {
        "status": replay.state,
        "session_id": replay.session_id,
        "replay_id": replay.id,
        "generation": replay.generation,
        "done": len(replay.redone),
        "total": len(replay.steps),
        "same": replay.same,
        "steps": [_step_json(each, shown) for each in redone],
        "edited": list(replay.edited[:_MOST_STEPS]),
        "not_run": [step.cell_id for step in replay.not_run[:_MOST_STEPS]],
    }
    if replay.reason is not None:
        found["reason"] = clean(replay.reason)
    if len(redone) < len(replay.redone):
        found["more_steps"] = len(replay.redone) - len(redone)
    if left_out := len(replay.differences) - len(shown):
        found["more_differences"] = left_out
    return found


def _step_json(redone: Redone, differences: _ShownDifferences) -> dict[str, Any]:
    about: dict[str, Any] = {
        "cell_id": redone.step.cell_id,
        "execution_id": redone.now.id,
        "replays": redone.step.execution_id,
        "status": redone.now.state,
        "same": redone.same,
    }
    shown = [
        {"output": each.output, "why": clean(each.why), "shown": text}
        for one, each, text in differences
        if one is redone
    ]
    if shown:
        about["differences"] = shown
    return about


def replay_text(replay: Replay, *, max_tokens: int | None = None) -> str:
    """A replay in lines: what it is, what was the same, what was not and how, and what to do next."""
    shown = _shown_differences(replay, max_tokens)
    different = [redone for redone in replay.redone if not redone.same]
    facts = [
        f"session {replay.session_id}",
        f"replay {replay.id}",
        replay.state,
        f"generation {replay.generation}",
        f"{len(replay.redone)} of {len(replay.steps)} steps",
        f"{len(different)} different" if different else "all the same",
    ]
    lines = [" | ".join(facts)]
    if replay.reason is not None:
        lines.append(clean(replay.reason))
    lines += _named("same", [_name(redone) for redone in replay.redone if redone.same])
    for redone in different[:_MOST_DIFFERENCES]:
        lines.append(
            f"different: {_name(redone)}, execution {redone.now.id} (was {redone.step.execution_id})"
        )
        lines += [
            f"  {each.output}: {clean(each.why)}\n{text}".rstrip()
            for one, each, text in shown
            if one is redone
        ]
    lines += _named("edited or deleted since; what had run ran", list(replay.edited))
    lines += _named("not run", [step.cell_id or "scratch" for step in replay.not_run] if replay.done else [])
    if left_out := len(replay.differences) - len(shown):
        lines.append(f"… {left_out} more differences; larger max_tokens shows more")
    if not replay.steps:
        lines.append("Nothing had run in this session: cell_execute runs cells")
    elif not replay.done:
        call = f"notebook_replay(session_id='{replay.session_id}', replay_id='{replay.id}')"
        lines.append(f"Still running: {call} to go on waiting, kernel_interrupt to stop")
    elif replay.not_run:
        lines.append("What ran so far is in the kernel; notebook_replay begins again")
    return "\n".join(lines)


def _shown_differences(replay: Replay, max_tokens: int | None) -> _ShownDifferences:
    """The first differences with what is shown of them; they share the budget."""
    found = replay.differences[:_MOST_DIFFERENCES]
    texts = [clean(_shown(each)) for _, each in found]
    limits = share([len(text) for text in texts], (max_tokens or DEFAULT_TOKENS) * CHARACTERS_PER_TOKEN)
    return [
        (redone, each, cut_middle(text, limit))
        for (redone, each), text, limit in zip(found, texts, limits, strict=True)
        if limit or not text  # what would be cut to nothing is only counted
    ]


def _shown(difference: Difference) -> str:
    if difference.diff:
        return difference.diff
    if difference.output == "state":  # its reason says both
        return ""
    return f"-{difference.expected}\n+{difference.got}"


def _name(redone: Redone) -> str:
    return redone.step.cell_id if redone.step.cell_id is not None else "scratch"


def _named(what: str, names: list[str]) -> list[str]:
    if not names:
        return []
    more = f", … {len(names) - _MOST_STEPS} more" if len(names) > _MOST_STEPS else ""
    return [f"{what}: {', '.join(names[:_MOST_STEPS])}{more}"]


# It takes the kernel away, and what code does to files it does once more.
_RUNS_AGAIN = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)

REPLAY_TOOLS = (Definition(notebook_replay, ReplayNotebook, _RUNS_AGAIN, asks_for=("session_id",)),)
