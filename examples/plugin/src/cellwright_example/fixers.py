"""A fixer: what a library renamed, known to those who did it."""

from __future__ import annotations

from cellwright.plans.fixers import Failure, Proposal

CELLWRIGHT_API = 1


def fix_old_name(failure: Failure) -> Proposal | None:
    """`fetch_all` is `fetch` since version 2."""
    if failure.error_type != "AttributeError" or "fetch_all" not in failure.message:
        return None
    source = failure.source.replace(".fetch_all(", ".fetch(")
    return Proposal("fix_old_name", "`fetch_all` is called `fetch` now", source, certain=True)
