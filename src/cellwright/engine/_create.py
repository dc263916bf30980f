"""What a new session is asked to be, and the record and the file that come of it. Whoever begins it is the ``engine``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio

from cellwright.engine.options import EngineOptions
from cellwright.engine.placement import HostName
from cellwright.engine.records import SessionRecord
from cellwright.notebook import Document, create_notebook_file
from cellwright.sandbox.chosen_folders import ChosenFolder, judge_folder, secrets_in
from cellwright.sandbox.policy import Mode, Narrowing
from cellwright.sandbox.workspace import where_to_work

__all__ = ["SessionRequest", "new_file", "new_record"]


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a new session is asked to be."""

    language: str
    host: HostName
    cwd: Path | None = None
    mode: Mode | None = None
    limits: Narrowing | None = None
    there: tuple[str, str] | None = None
    """Where its notebook lies on a Jupyter server."""
    chosen: Path | None = None
    """The folder that a person works in."""
    network_allowed: bool | None = None
    """What was said of another session from which it is copied."""


async def new_record(
    session_id: str, path: Path, request: SessionRequest, options: EngineOptions
) -> SessionRecord:
    """The record of a new session, in the place that fits its notebook."""
    folder = await anyio.to_thread.run_sync((request.cwd or path.parent).resolve)
    # The copy of a notebook that lies elsewhere stands among what no kernel sees.
    work_mode = request.mode if request.there is None else "private"
    judged = await _judged(request, options)
    chosen = judged.path if judged is not None and judged.is_seen else None
    place = partial(where_to_work, folder, work_mode, configured=options.project, home=options.home)
    mode, project = place(chosen=chosen)
    is_chosen = project is not None and place()[1] is None
    return SessionRecord(
        id=session_id,
        name=path.stem,
        path=str(path),
        language=request.language,
        created_at=time.time(),
        cwd=str(folder) if request.cwd is not None else None,
        mode=mode,
        project=str(project) if project is not None else None,
        chosen=is_chosen,
        secrets=(await anyio.to_thread.run_sync(secrets_in, project))[0] if is_chosen and project else (),
        limits=request.limits or None,
        network_allowed=request.network_allowed,
        host=str(request.host),
        there=request.there,
    )


async def _judged(request: SessionRequest, options: EngineOptions) -> ChosenFolder | None:
    if request.chosen is None:
        return None
    judge = partial(judge_folder, request.chosen, home=options.home, storage=options.storage)
    return await anyio.to_thread.run_sync(judge)


async def new_file(directory: Path, problem: str, document: Document) -> Path:
    """A new file for a document, with a name that says what it is about."""
    now, content = datetime.now().astimezone(), document.to_bytes()
    create = partial(create_notebook_file, directory, problem, now=now, content=content)
    return await anyio.to_thread.run_sync(create)
