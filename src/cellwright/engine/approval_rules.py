"""What is to be approved, and plugins' rules about it: they may have a person asked, or refuse, where the settings let it be.

The settings' own rule is in ``approvals``, and no plugin weakens it. Where a rule that was installed cannot say its
word, a person is asked in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Literal, TypeAlias, get_args

import anyio
import msgspec

from cellwright.engine.records import SessionRecord
from cellwright.plugins.registry import Registry, registry
from cellwright.settings.model import Action

__all__ = ["ApprovalRule", "Matter", "Scope", "Verdict", "verdict_on"]

_GROUP = "approval_rules"
_RULE_LIMIT_S = 2.0
"""How long a rule may think about one matter."""


Scope: TypeAlias = Literal["once", "session", "project", "always"]


class Matter(msgspec.Struct, frozen=True):
    """Something that is to be done, as people are asked about it."""

    action: Action
    what: str
    """What is done to what, such as ``install pandas for sales``."""
    session_id: str | None = None
    project: str | None = None
    once: bool = False
    """Whether there is no session to remember it for: it is made for this, or goes with it."""
    exactly: str = ""
    """A digest of what the words leave out: where that changes, it is another matter."""

    @classmethod
    def of(cls, action: Action, what: str, record: SessionRecord) -> Matter:
        """A matter of one session; one that goes with what it is made for is as good as none."""
        return cls(
            action, what, None if record.is_unseen else record.id, record.project, once=record.is_unseen
        )

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """For how long a yes may hold."""
        there = {
            "session": self.session_id is not None and not self.once,
            "project": self.project is not None,
        }
        return tuple(scope for scope in get_args(Scope) if there.get(scope, True))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says of a matter that it is about."""

    rule: Literal["ask", "refuse"]
    why: str
    """For the person who is asked, or whoever is refused."""


ApprovalRule: TypeAlias = Callable[[Matter], Verdict | None]
"""None: it has nothing to say about this matter. A plugin of the kind ``approval_rules``."""


async def verdict_on(matter: Matter) -> Verdict | None:
    """What the rules of plugins come to: a refusal before a question; None where none says anything."""
    there = registry()
    if not there.names(_GROUP) and not there.missed(_GROUP):
        return None
    verdicts = await anyio.to_thread.run_sync(_verdicts, there, matter)
    return next((one for one in verdicts if one.rule == "refuse"), next(iter(verdicts), None))


def _verdicts(there: Registry, matter: Matter) -> list[Verdict]:
    verdicts = []
    for plugin, rule in there.every(_GROUP):
        try:
            verdict = there.guarded(plugin, rule, Verdict, NoneType, limit_s=_RULE_LIMIT_S)(matter)
        except Exception:  # noqa: BLE001  # boundary: told by the registry, and below
            verdict = Verdict("ask", f"the approval rule {plugin.entry.name} failed")
        if verdict is not None:
            verdicts.append(verdict)
    out = [Verdict("ask", f"the approval rule {plugin.entry.name} is out") for plugin in there.missed(_GROUP)]
    return verdicts + out
