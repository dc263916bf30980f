"""Where and how a session's code runs: interpreter, packages, how it is confined, its limits and its host."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio
from starlette.responses import Response

from cellwright.engine import Inspection, Session, Variable
from cellwright.engine.hosts import called_place
from cellwright.engine.introspection import Module
from cellwright.errors import KernelBusy, KernelError
from cellwright.sandbox.network_rules import NetworkMode
from cellwright.sandbox.packages import installed_in
from cellwright.sandbox.policy import SETTINGS, Policy, limit_text
from cellwright.sandbox.proxy import Opening
from cellwright.web.requests import PageRequest, page

__all__ = ["ROUTES", "environment", "network", "rules_in_words", "variables"]
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


async def environment(request: PageRequest) -> dict[str, Any]:
    """What is known without asking the kernel."""
    session = request.session()
    return {
        "host": called_place(session.record) if session.state == "active" else session.record.host,
        "mode": _MODES[session.mode],
        "limits": limits_of(session.policy, session),
    }


def limits_of(policy: Policy | None, session: Session) -> list[Limit]:
    """Each limit under the name of its setting; none where nothing is limited."""
    asked = session.record.limits
    return [
        Limit(setting, _in_words(name, policy), is_own=getattr(asked, name, None) is not None)
        for name, setting in SETTINGS.items()
        if policy is not None and name != "network"
    ]


def _in_words(name: str, policy: Policy) -> str:
    value = getattr(policy, name)
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    if name == "memory_bytes" and value is None and policy.memory_auto:
        return "auto"
    return "no limit" if value is None else str(limit_text(name, value))


async def _packages(request: PageRequest) -> Response:
    """What the kernel has loaded, and all that it could import."""
    session = request.session()
    places = _import_places(session, request.engine.options.packages.store)
    installed = await anyio.to_thread.run_sync(installed_in, places)
    return request.fragment(
        "environment_packages.html", loaded=await _loaded(session), installed=sorted(installed.items())
    )


def _import_places(session: Session, store: Path) -> list[Path]:
    record = session.record
    return [*map(Path, record.search_path), *(store / layer for layer in record.layers)]


async def _loaded(session: Session) -> tuple[Module, ...] | None:
    if session.state != "active" or session.runs.live:
        return None
    try:
        return (await inspected(session)).modules
    except KernelError:  # it began to run something, or is of a language that cannot tell
        return None


ROUTES = (page("/sessions/{session_id}/packages", _packages),)


# What the kernel holds: variables, functions, classes and imports, as far as it can be asked without running
# anything.

_BUSY = "A cell is running: this is what there was before it."

_BUSY_FIRST = "A cell is running: what the kernel holds is shown when it is done."

_GONE = "There is no kernel, so nothing is held in memory. Running a cell starts one."


async def variables(request: PageRequest) -> dict[str, Any]:
    """The names that there are, or why they are not known."""
    session = request.session()
    if session.state != "active":  # asking would start a kernel, and looking must not
        return {"held": None, "why": _GONE, "extent": extent}
    try:
        held = await inspected(session)
    except KernelBusy:
        before = last_inspected(session)
        return {"held": before, "why": _BUSY if before is not None else _BUSY_FIRST, "extent": extent}
    return {"held": held, "why": None, "extent": extent}


def extent(variable: Variable) -> str:
    """How large something is, in its own measure."""
    if variable.shape:
        return " \N{MULTIPLICATION SIGN} ".join(f"{side:,}" for side in variable.shape)
    return f"{variable.length:,}" if variable.length is not None else ""


# What the session's code asked of the network, with the verdict on each request, and what the rules are.

_MOST_SHOWN = 200


async def network(request: PageRequest) -> dict[str, Any]:
    """The newest requests first."""
    session = request.session()
    use = await request.engine.network_log(session.id)
    newest = list(reversed(use.entries))
    return {
        "rules": _rules_of(session, request.engine.options.opening),
        "requests": newest[:_MOST_SHOWN],
        "more": max(len(newest) - _MOST_SHOWN, 0) + use.dropped,
    }


def _rules_of(session: Session, opening: Opening | None) -> str:
    if session.tier == "remote":
        return "Its kernel is a Jupyter server's: what it reaches is that server's business and is not noted here."
    if session.banner is not None:
        return "Nothing confines this session: its code reaches whatever this machine does, and nothing is noted."
    allow, deny = (opening.allow, opening.deny) if opening is not None else ((), ())
    return rules_in_words(session.network, allow, deny)


def rules_in_words(mode: NetworkMode, allow: tuple[str, ...], deny: tuple[str, ...]) -> str:
    """How far code reaches."""
    if mode == "off":
        return "The network is closed: code reaches nothing."
    reached = f"only {', '.join(allow) or 'nothing'}" if mode == "allow" else "every public host"
    but = f", but never {', '.join(deny)}" if deny else ""
    return f"Code reaches {reached}{but}."


# What a kernel holds, asked once for all who look at the same time: many pages cost it no more than one.


@dataclass(slots=True)
class _Look:
    held: Inspection | None = None
    began: float = 0.0
    turn: anyio.Lock = field(default_factory=anyio.Lock)


_looks: WeakKeyDictionary[Session, _Look] = WeakKeyDictionary()


async def inspected(session: Session) -> Inspection:
    """What it holds now, or what another look found that began no earlier than this was asked.

    Raises:
        KernelBusy: a cell is running.
    """
    asked, look = time.monotonic(), _looks.setdefault(session, _Look())
    async with look.turn:
        if look.held is None or look.began < asked:
            began = time.monotonic()
            look.held, look.began = await session.inspect(), began
        return look.held


def last_inspected(session: Session) -> Inspection | None:
    """What it held when it could last be asked."""
    look = _looks.get(session)
    return look.held if look is not None else None
