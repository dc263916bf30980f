"""Approval rules of plugins: functions that may have a person asked, or refuse, where the settings alone would let it be.

The settings' own rule is in ``approvals``, and no plugin weakens it. Where a rule that was installed cannot say its
word, a person is asked in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio

from cellwright.plugins.registry import registry

if TYPE_CHECKING:
    from cellwright.engine.approvals import Matter
    from cellwright.plugins.registry import Registry

__all__ = ["ApprovalRule", "Verdict", "verdict_on"]

_GROUP = "approval_rules"
_ASKED_S = 2.0
"""How long a rule may think about one matter."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a matter that it is about."""

    rule: Literal["ask", "refuse"]
    why: str
    """For the person who is asked, or whoever is refused."""


ApprovalRule: TypeAlias = "Callable[[Matter], Verdict | None]"
"""None: it has nothing to say about this matter. A plugin of the kind ``approval_rules``."""


async def verdict_on(matter: Matter) -> Verdict | None:
    """What the rules of plugins come to: a refusal before a question; None where none says anything."""
    there = registry()
    if not there.names(_GROUP) and not there.missed(_GROUP):
        return None
    said = await anyio.to_thread.run_sync(_said, there, matter)
    return next((one for one in said if one.rule == "refuse"), next(iter(said), None))


def _said(there: Registry, matter: Matter) -> list[Verdict]:
    said = []
    for plugin, rule in there.every(_GROUP):
        try:
            verdict = there.guarded(plugin, rule, Verdict, NoneType, limit_s=_ASKED_S)(matter)
        except Exception:  # noqa: BLE001  # boundary: told by the registry, and below
            verdict = Verdict("ask", f"the approval rule {plugin.entry.name} failed")
        if verdict is not None:
            said.append(verdict)
    out = [Verdict("ask", f"the approval rule {plugin.entry.name} is out") for plugin in there.missed(_GROUP)]
    return said + out
