"""Fixers: functions from a failure to what could be done about it. They see no kernel and no file, and change nothing.

Above is whoever runs a plan, who applies what is certain and shows it; below are only data. A fixer is any callable
from a ``Failure`` to a ``Proposal`` or None: ours (``_own_fixers``) and those of plugins go by rule; one that asks a
model, or an agent, is put into the sequence that ``propose`` is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import NoneType
from typing import TypeAlias

from cellwright.plans.failures import Failure, Proposal
from cellwright.plugins.registry import registry

__all__ = [
    "MAX_CANDIDATES",
    "Failure",
    "Fixer",
    "Proposal",
    "candidates",
    "considered",
    "every_fixer",
    "propose",
]

MAX_CANDIDATES = 4
"""How many sources are tried for one failure: each of them runs the cell."""

_ASKED_S = 5.0
"""How long a plugin's fixer may think about one failure."""

_log = logging.getLogger(__name__)

Fixer: TypeAlias = Callable[[Failure], Proposal | None]
"""None: it has nothing to say about this failure."""


def every_fixer() -> tuple[Fixer, ...]:
    """All that go by rule: ours, the surer ones first, then those of plugins."""
    there = registry()
    return tuple(
        there.guarded(plugin, fixer, Proposal, NoneType, limit_s=_ASKED_S)
        for plugin, made in there.every("fixers")
        for fixer in (made if isinstance(made, tuple | list) else (made,))
    )


def propose(failure: Failure, fixers: Sequence[Fixer] | None = None) -> Proposal | None:
    """The first proposal that can be applied; else the first that only suggests; None where nobody knows anything."""
    return considered(failure, fixers)[0]


def candidates(failure: Failure, fixers: Sequence[Fixer] | None = None) -> list[Proposal]:
    """Every source that is only suggested, each as a proposal of its own, the likelier first."""
    return considered(failure, fixers)[1]


def considered(
    failure: Failure, fixers: Sequence[Fixer] | None = None
) -> tuple[Proposal | None, list[Proposal]]:
    """What ``propose`` and ``candidates`` find, with each fixer asked once; no candidates where one can be applied."""
    suggestion: Proposal | None = None
    found: dict[str, Proposal] = {}
    for fixer in every_fixer() if fixers is None else fixers:
        proposal = _asked(fixer, failure)
        if proposal is None:
            continue
        if proposal.applies:
            return proposal, []
        suggestion = suggestion or proposal
        if proposal.source is not None and not proposal.packages:
            for source in (proposal.source, *proposal.alternatives):
                found.setdefault(source, replace(proposal, source=source, alternatives=()))
    return suggestion, list(found.values())[:MAX_CANDIDATES]


def _asked(fixer: Fixer, failure: Failure) -> Proposal | None:
    try:
        proposal = fixer(failure)
    except Exception:  # noqa: BLE001  # boundary: one bad fixer must not take the others' word
        _log.exception("fixer_failed fixer=%s", getattr(fixer, "__name__", fixer))
        return None
    # What changes nothing would only fail again.
    idle = proposal is not None and proposal.source == failure.source and not proposal.packages
    return None if idle else proposal
