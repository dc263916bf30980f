"""What a new session is asked to be, and the record and the file that come of it. Whoever begins it is the ``engine``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import anyio

from cellwright.engine.placement import HostName
from cellwright.engine.records import SessionRecord
from cellwright.notebook import Document, create_notebook_file
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


async def new_record(
    session_id: str, path: Path, request: SessionRequest, *, configured: Path | None, home: Path
) -> SessionRecord:
    """The record of a new session, in the place that fits its notebook."""
    folder = await anyio.to_thread.run_sync((request.cwd or path.parent).resolve)
    # The copy of a notebook that lies elsewhere stands among what no kernel sees.
    asked = request.mode if request.there is None else "private"
    mode, project = where_to_work(folder, asked, configured=configured, home=home)
    return SessionRecord(
        id=session_id,
        name=path.stem,
        path=str(path),
        language=request.language,
        created_at=time.time(),
        cwd=str(folder) if request.cwd is not None else None,
        mode=mode,
        project=str(project) if project is not None else None,
        limits=request.limits or None,
        host=str(request.host),
        there=request.there,
    )


async def new_file(directory: Path, problem: str, document: Document) -> Path:
    """A new file for a document, with a name that says what it is about."""
    now, content = datetime.now().astimezone(), document.to_bytes()
    create = partial(create_notebook_file, directory, problem, now=now, content=content)
    return await anyio.to_thread.run_sync(create)
