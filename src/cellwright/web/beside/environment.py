"""Where and how a session's code runs: interpreter, packages, how it is confined, its limits and its host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from starlette.responses import Response

from cellwright.engine import Session
from cellwright.engine.environment import package_store
from cellwright.engine.hosts import called_place
from cellwright.engine.introspection import Module
from cellwright.engine.limits import whole_policy
from cellwright.errors import KernelError
from cellwright.sandbox.packages import installed_in
from cellwright.sandbox.policy import SETTINGS, Policy, told_value
from cellwright.settings import Settings
from cellwright.web.beside.looking import inspected
from cellwright.web.visits import Visit, page

__all__ = ["ROUTES", "Limit", "environment", "limits_of"]

_MODES = {
    "direct": "in the notebook's own folder",
    "private": "in a folder of its own",
    "overlay": "on a view of the project: what it writes lies beside it until it is applied",
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What a session may use of something."""

    setting: str
    value: str
    is_own: bool
    """Whether the session itself asked for less than the operator allows."""


async def environment(visit: Visit) -> dict[str, Any]:
    """What is known without asking the kernel."""
    session, settings = visit.session(), visit.engine.settings
    return {
        "host": called_place(session.record) if session.state == "active" else session.record.host,
        "mode": _MODES[session.mode],
        "limits": limits_of(whole_policy(settings, session.record.limits), session),
    }


def limits_of(policy: Policy | None, session: Session) -> list[Limit]:
    """Each limit under the name of its setting; none where nothing is limited."""
    asked = session.record.limits
    return [
        Limit(setting, _in_words(name, getattr(policy, name)), is_own=getattr(asked, name, None) is not None)
        for name, setting in SETTINGS.items()
        if policy is not None and name != "network"
    ]


def _in_words(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return "no limit" if value is None else str(told_value(name, value))


async def _packages(visit: Visit) -> Response:
    """What the kernel has loaded, and all that it could import."""
    session = visit.session()
    places = _import_places(session, visit.engine.settings)
    installed = await anyio.to_thread.run_sync(installed_in, places)
    return visit.fragment(
        "environment_packages.html", loaded=await _loaded(session), installed=sorted(installed.items())
    )


def _import_places(session: Session, settings: Settings) -> list[Path]:
    record, store = session.record, package_store(settings)
    return [*map(Path, record.search_path), *(store / layer for layer in record.layers)]


async def _loaded(session: Session) -> tuple[Module, ...] | None:
    if session.state != "active" or session.runs.live:
        return None
    try:
        return (await inspected(session)).modules
    except KernelError:  # it began to run something, or is of a language that cannot tell
        return None


ROUTES = (page("/sessions/{session_id}/packages", _packages),)
