"""A form that was sent as a request to the data agent: each thing checked, as forms are written by anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from cellwright.delegation import AgentRequest
from cellwright.errors import AgentError
from cellwright.settings.roots import fenced

__all__ = ["PATTERNS", "agent_request"]

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
) -> AgentRequest:
    """The request that a form makes; its data files lie in one of ``roots``, and are named from ``root``.

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
        data=tuple([await _data_file(name, root, roots) for name in _names(form.get("data", ""))]),
        pattern=_pattern(form.get("pattern", "")),
        models=_models(form.get("model", ""), models),
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


def _models(named: str, offered: Sequence[str]) -> tuple[str, ...]:
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


async def _data_file(name: str, root: Path, roots: Sequence[Path]) -> Path:
    path = await anyio.to_thread.run_sync(lambda: fenced(name, roots or (root,), base=root))
    if not await anyio.Path(path).is_file():
        raise AgentError(f"There is no file {name}", hint=f"Paths begin at {root}")
    return path
