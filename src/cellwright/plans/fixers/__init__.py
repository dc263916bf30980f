"""Fixers: functions from a failure to what could be done about it. They see no kernel and no file, and change nothing.

Above is whoever runs a plan, who applies what is certain and shows it; below are only data. A fixer is any callable
from a ``Failure`` to a ``Proposal`` or None: those here go by rule; one that asks a model, or an agent, is put into the
sequence that ``propose`` is given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from cellwright.plans._failures import Failure, Proposal
from cellwright.plans.fixers._attributes import (
    fix_appended_frame,
    fix_fill_method,
    fix_misspelt_attribute,
    fix_retired_attribute,
)
from cellwright.plans.fixers._bounds import fix_index
from cellwright.plans.fixers._callables import (
    fix_assigned_none,
    fix_call_of_module,
    fix_call_of_value,
    fix_missing_call,
    suggest_types,
)
from cellwright.plans.fixers._columns import fix_column, fix_key, fix_query
from cellwright.plans.fixers._drift import (
    fix_colormap,
    fix_frequency,
    fix_keyword,
    fix_library_import,
    fix_library_name,
    fix_parameter_value,
    fix_positions,
    fix_style,
)
from cellwright.plans.fixers._imports import fix_missing_package, fix_misspelt_import, fix_moved_import
from cellwright.plans.fixers._limits import suggest_check, suggest_less, suggest_zero
from cellwright.plans.fixers._names import (
    fix_foreign_name,
    fix_missing_import,
    fix_misspelt_name,
    point_to_other_step,
)
from cellwright.plans.fixers._paths import fix_missing_directory, fix_missing_file
from cellwright.plans.fixers._syntax import fix_syntax
from cellwright.plans.fixers._tabular import fix_encoding, fix_header, fix_one_column, fix_separator
from cellwright.plans.fixers._values import fix_date_format, fix_number, fix_truth, fix_unpacking

__all__ = ["FIXERS", "MAX_CANDIDATES", "Fixer", "candidates", "considered", "propose"]

MAX_CANDIDATES = 4
"""How many sources are tried for one failure: each of them runs the cell."""

_log = logging.getLogger(__name__)

Fixer: TypeAlias = Callable[[Failure], Proposal | None]
"""None: it has nothing to say about this failure."""

FIXERS: tuple[Fixer, ...] = (
    fix_syntax,
    fix_foreign_name,
    fix_missing_import,
    point_to_other_step,
    fix_misspelt_name,
    fix_library_import,
    fix_moved_import,
    fix_misspelt_import,
    fix_missing_package,
    fix_style,
    fix_missing_directory,
    fix_missing_file,
    fix_encoding,
    fix_separator,
    fix_one_column,
    fix_column,
    fix_key,
    fix_query,
    fix_header,
    fix_assigned_none,
    fix_library_name,
    fix_retired_attribute,
    fix_appended_frame,
    fix_misspelt_attribute,
    fix_colormap,
    fix_frequency,
    fix_parameter_value,
    fix_fill_method,
    fix_keyword,
    fix_positions,
    fix_call_of_module,
    fix_call_of_value,
    fix_missing_call,
    suggest_types,
    fix_index,
    fix_number,
    fix_date_format,
    fix_truth,
    fix_unpacking,
    suggest_zero,
    suggest_less,
    suggest_check,
)
"""Those that go by rule, the surer ones first."""


def propose(failure: Failure, fixers: Sequence[Fixer] = FIXERS) -> Proposal | None:
    """The first proposal that can be applied; else the first that only suggests; None where nobody knows anything."""
    return considered(failure, fixers)[0]


def candidates(failure: Failure, fixers: Sequence[Fixer] = FIXERS) -> list[Proposal]:
    """Every source that is only suggested, each as a proposal of its own, the likelier first."""
    return considered(failure, fixers)[1]


def considered(failure: Failure, fixers: Sequence[Fixer] = FIXERS) -> tuple[Proposal | None, list[Proposal]]:
    """What ``propose`` and ``candidates`` find, with each fixer asked once; no candidates where one can be applied."""
    suggestion: Proposal | None = None
    found: dict[str, Proposal] = {}
    for fixer in fixers:
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
