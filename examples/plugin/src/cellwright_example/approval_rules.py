"""An approval rule: what is called precious is not deleted, and a person is asked before packages are installed."""

from __future__ import annotations

from cellwright.engine.approval_rules import Verdict
from cellwright.engine.approvals import Matter

CELLWRIGHT_API = 1


def judge(matter: Matter) -> Verdict | None:
    """What this rule says of a matter; None where it is about something else."""
    if matter.action == "delete" and "precious" in matter.what:
        return Verdict("refuse", "what is precious is kept")
    if matter.action == "packages":
        return Verdict("ask", "packages are chosen by people here")
    return None
