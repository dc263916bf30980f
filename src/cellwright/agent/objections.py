"""What may be wrong with an answer before it is given: it names what is not there, or rests on nothing that ran."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from cellwright.agent.branches import Branch
from cellwright.agent.evidence.numbers import rests_on_output
from cellwright.agent.notebook_names import Correction, check_names, mended
from cellwright.agent.working_files import files_of

if TYPE_CHECKING:
    from cellwright.agent.runner import Run

__all__ = ["Given", "objection", "righted"]


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as a model gives it, and the notebook that it takes for the current one, where it says so."""

    message: str
    notebook: str | None = None


async def objection(run: Run, branch: Branch, answer: Given) -> str | None:
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


async def righted(run: Run, branch: Branch, answer: Given) -> Given:
    """The answer with the notebook's right name, where only its time was lost or wrong."""
    correction = await _misnamed(run, branch, answer.message)
    text = mended(answer.message, correction) if correction is not None else None
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
