"""The page, put together for a listener; where its libraries are missing, the command that adds them stands there instead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from starlette.responses import PlainTextResponse

from cellwright.daemon.faces import Faces
from cellwright.daemon.paths import DaemonPaths
from cellwright.engine import Engine

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from cellwright.plans import Planner
    from cellwright.verification import Verifier

__all__ = ["page_for_people"]

INSTALL = "pip install 'cellwright[web]'"


async def page_for_people(token: str, paths: DaemonPaths, engine: Engine, faces: Faces) -> ASGIApp:
    """What a browser finds at ``/``."""
    planner, verifier = await faces.plans_and_proofs()
    try:
        return await anyio.to_thread.run_sync(_made, token, paths, engine, faces, planner, verifier)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cellwright"):
            raise
        return PlainTextResponse(
            f"The page needs {error.name}, which is not installed. Run: {INSTALL}\n", 501
        )


def _made(
    token: str, paths: DaemonPaths, engine: Engine, faces: Faces, planner: Planner, verifier: Verifier
) -> ASGIApp:
    from cellwright.web import Site, application  # noqa: PLC0415  # only for who serves
    from cellwright.web.doors.cookies import obtain_key  # noqa: PLC0415  # as above
    from cellwright.web.doors.door import Door  # noqa: PLC0415  # as above

    door = Door(token, obtain_key(Path(paths.storage) / "page.key"))
    return application(Site(engine, planner, verifier, faces.delegate, door))
