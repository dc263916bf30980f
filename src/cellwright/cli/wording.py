"""What the daemon's tools say to whoever they refuse, in the words of the command line. Pure; asks nothing."""

from __future__ import annotations

import re

__all__ = ["in_verbs"]

_INSTEAD = {
    "execution_list": "`cellwright logs`",
    "execution_wait": "`cellwright wait`",
    "kernel_interrupt": "Ctrl-C",
    "notebook_create": "`cellwright new`",
    "notebook_list": "`cellwright list`",
    "notebook_read": "`cellwright show`",
    "notebook_replay": "`cellwright replay`",
    "plan_run": "`cellwright continue`",
    "plan_status": "`cellwright status`",
}
_CALL = re.compile(rf"`?\b({'|'.join(_INSTEAD)})\b(\([^)]*\))?`?")


def in_verbs(text: str) -> str:
    """The same with verbs where it names tools."""
    return _CALL.sub(lambda call: _INSTEAD[call[1]], text).replace("Next call: ", "Next: ")
