"""A branch of a run: a session with its kernel, what was said about it, and how it stands. Made by ``runner``."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic_ai.messages import ModelMessage

from cellwright.agent.evidence.numbers import Evidence
from cellwright.agent.notebook_tools import NotebookTools
from cellwright.agent.toolbox import Tools
from cellwright.agent.trace.steps import CellRun
from cellwright.engine import Session

__all__ = ["MAIN", "Branch"]

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
    """Cells in a row that failed, and could not be mended by rule."""
    corrections: int = 0
    """Answers that were sent back."""
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

    @property
    def session_id(self) -> str | None:
        return self.session.id if self.session is not None else None

    @property
    def executions(self) -> list[str]:
        return [one.execution_id for one in self.runs]

    def begin(self) -> None:
        """Before it is acted on again."""
        self.answer, self.ok, self.failures, self.corrections, self.report = "", False, 0, 0, None
