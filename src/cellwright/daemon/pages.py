"""The page, put together for a listener; where its libraries are missing, the command that adds them stands there instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from starlette.responses import PlainTextResponse

from cellwright.daemon.faces import Faces
from cellwright.engine import Engine
from cellwright.web.auth.attempts import Attempts, Codes
from cellwright.web.auth.identities import Identities, obtain_key
from cellwright.web.auth.members import Members

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from cellwright.plans import Planner
    from cellwright.verification import Verifier

__all__ = ["Entry", "page_for_people"]

INSTALL = "pip install 'cellwright[web]'"


@dataclass(frozen=True, slots=True)
class Entry:
    """How people come in, at every listener of one daemon."""

    codes: Codes = field(default_factory=Codes)
    attempts: Attempts = field(default_factory=Attempts)


async def page_for_people(token: str, entry: Entry, engine: Engine, faces: Faces) -> ASGIApp:
    """What a browser finds at ``/``."""
    planner, verifier = await faces.plans_and_proofs()
    try:
        return await anyio.to_thread.run_sync(_made, token, entry, engine, faces, planner, verifier)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("cellwright"):
            raise
        return PlainTextResponse(
            f"The page needs {error.name}, which is not installed. Run: {INSTALL}\n", 501
        )


def _made(
    token: str, entry: Entry, engine: Engine, faces: Faces, planner: Planner, verifier: Verifier
) -> ASGIApp:
    from cellwright.web.auth.sign_in import Door  # noqa: PLC0415  # only for who serves
    from cellwright.web.site import Site, application  # noqa: PLC0415  # as above

    storage = engine.settings.storage
    identities = Identities(token, obtain_key(storage / "page.key"), Members(storage))
    door = Door(identities, entry.codes, entry.attempts, engine.audit)
    return application(Site(engine, planner, verifier, faces.delegate, door))
