"""What the session's code asked of the network, with the verdict on each request, and what the rules are."""

from __future__ import annotations

from typing import Any

from cellwright.engine import Session
from cellwright.sandbox.network_rules import NetworkMode
from cellwright.settings import Settings
from cellwright.web.visits import Visit

__all__ = ["network", "rules_in_words"]

_MOST_SHOWN = 200


async def network(visit: Visit) -> dict[str, Any]:
    """The newest requests first."""
    session = visit.session()
    use = await visit.engine.network_log(session.id)
    newest = list(reversed(use.entries))
    return {
        "rules": _rules_of(session, visit.engine.settings),
        "requests": newest[:_MOST_SHOWN],
        "more": max(len(newest) - _MOST_SHOWN, 0) + use.dropped,
    }


def _rules_of(session: Session, settings: Settings) -> str:
    if session.tier == "remote":
        return "Its kernel is a Jupyter server's: what it reaches is that server's business and is not noted here."
    if session.banner is not None:
        return "Nothing confines this session: its code reaches whatever this machine does, and nothing is noted."
    return rules_in_words(session.network, settings.network_allow, settings.network_deny)


def rules_in_words(mode: NetworkMode, allow: tuple[str, ...], deny: tuple[str, ...]) -> str:
    """How far code reaches."""
    if mode == "off":
        return "The network is closed: code reaches nothing."
    reached = f"only {', '.join(allow) or 'nothing'}" if mode == "allow" else "every public host"
    but = f", but never {', '.join(deny)}" if deny else ""
    return f"Code reaches {reached}{but}."
