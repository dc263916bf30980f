"""A branch of a run: a session with its kernel, what was said about it, and how it stands. Made by ``runner``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from cellwright.agent.evidence.numbers import Evidence
from cellwright.agent.toolbox import NotebookTools, Tools
from cellwright.agent.trace.steps import CellRun
from cellwright.engine import Session

__all__ = [
    "MAIN",
    "Branch",
    "answered",
    "calls_of",
    "objected",
    "sound",
    "sound_reply",
    "user_prompt",
    "with_parts",
    "with_reply",
]

MAIN = "main"


@dataclass(slots=True, eq=False)
class Branch:
    """One way that is being tried."""

    label: str
    """``main``, and ``main.1``, ``main.2`` for those grown from it."""
    history: list[ModelMessage] = field(default_factory=list)
    """What was said, oldest first. Only ever added to."""
    session: Session | None = None
    """None until something needs a notebook."""
    answer: str = ""
    ok: bool = False
    failures: int = 0
    """Cells in a row that failed, and could not be fixed by rule."""
    corrections: int = 0
    """Answers that were sent back."""
    refusals: Counter[str] = field(default_factory=Counter)
    """Calls that were refused before anything ran, each with how often."""
    report: str | None = None
    """Why it stopped, where it did."""
    begun: set[str] = field(default_factory=set)
    """Ids of the executions and runs of plans that are its own: others may work in the same notebook."""
    runs: list[CellRun] = field(default_factory=list)
    """What ran for this question, oldest first."""
    replies: list[tuple[str, str]] = field(default_factory=list)
    """What tools without a notebook answered for this question, each with the tool's name."""
    borne_out: list[Evidence] = field(default_factory=list)
    """What branches that were taken over had put out."""
    notebook_tools: NotebookTools = field(init=False, repr=False)
    """The MCP server's tools in its session. Given to it, as ``tools`` are, before anybody has the branch."""
    tools: Tools = field(init=False, repr=False)
    """All that the model may call."""
    _work: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    @property
    def session_id(self) -> str | None:
        return self.session.id if self.session is not None else None

    @property
    def executions(self) -> list[str]:
        return [one.execution_id for one in self.runs]

    def work_in(self, session: Session) -> None:
        """Make a session the branch's. It counts as at work, also while a model thinks, until ``leave`` or another."""
        self.leave()
        self.session = session
        self._work.enter_context(session.at_work())

    def leave(self) -> None:
        """Count no more as at work on its session."""
        self._work.close()

    def begin(self) -> None:
        """Before it is acted on again."""
        self.answer, self.ok, self.failures, self.corrections, self.report = "", False, 0, 0, None
        self.refusals.clear()


# What was said on a branch, as messages that are only ever added to. Pure.

_CUT_OFF = "The run ended before this call was answered. Look at the notebook's state before repeating it."

_UNANSWERED = "(The run was stopped here, before a reply.)"


def sound(text: str) -> str:
    """The text without halves of characters, which nobody can be sent."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def sound_reply(reply: ModelResponse) -> ModelResponse:
    """The same for a reply."""
    parts = [
        replace(part, content=sound(part.content)) if isinstance(part, TextPart | ThinkingPart) else part
        for part in reply.parts
    ]
    parts = [
        replace(part, args=_sound_value(part.args)) if isinstance(part, ToolCallPart) else part
        for part in parts
    ]
    return replace(reply, parts=parts)


def _sound_value(value: Any) -> Any:
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, dict):
        return {sound(key): _sound_value(one) for key, one in value.items()}
    return [_sound_value(one) for one in value] if isinstance(value, list) else value


def user_prompt(text: str, pictures: Sequence[bytes] = ()) -> UserPromptPart:
    """What is said to the model, with pictures."""
    text = sound(text)
    if not pictures:
        return UserPromptPart(text)
    return UserPromptPart([text, *(BinaryContent(picture, media_type="image/png") for picture in pictures)])


def with_parts(
    history: Sequence[ModelMessage], parts: Sequence[ModelRequestPart], instructions: str
) -> list[ModelMessage]:
    """The history with these parts at its tail; joined to a request that was not sent yet."""
    last = history[-1] if history else None
    if isinstance(last, ModelRequest):
        grown = ModelRequest(parts=[*last.parts, *parts], instructions=instructions)
        return [*history[:-1], grown]
    return [*history, ModelRequest(parts=list(parts), instructions=instructions)]


def with_reply(history: Sequence[ModelMessage], reply: ModelResponse) -> list[ModelMessage]:
    return [*history, reply]


def calls_of(reply: ModelResponse) -> list[ToolCallPart]:
    return [part for part in reply.parts if isinstance(part, ToolCallPart)]


def answered(history: Sequence[ModelMessage], instructions: str) -> list[ModelMessage]:
    """The history of a run that may have been cut off: every call in it has an answer, and every request a reply.

    What was kept is not touched: the next question must not be joined to a request that is written down already.
    """
    last = history[-1] if history else None
    if isinstance(last, ModelRequest):
        return with_reply(history, ModelResponse([TextPart(_UNANSWERED)]))
    if not isinstance(last, ModelResponse) or not calls_of(last):
        return list(history)
    returns = [
        ToolReturnPart(call.tool_name, _CUT_OFF, tool_call_id=call.tool_call_id) for call in calls_of(last)
    ]
    return with_parts(history, returns, instructions)


def objected(reply: ModelResponse, text: str) -> list[ModelRequestPart]:
    """What is said to a reply that does not do: as the result of its calls, where it made some."""
    calls = calls_of(reply)
    if not calls:
        return [user_prompt(text)]
    return [ToolReturnPart(call.tool_name, text, tool_call_id=call.tool_call_id) for call in calls]
