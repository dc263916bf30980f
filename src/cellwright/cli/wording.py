"""What the daemon's tools say to whoever they refuse, in the words of the command line. Pure; asks nothing."""

from __future__ import annotations

import re

__all__ = ["in_verbs", "printable"]

_INSTEAD = {
    "execution_list": "`cellwright logs`",
    "execution_wait": "`cellwright wait`",
    "host_list": "`cellwright hosts`",
    "host_start": "`cellwright start`",
    "host_stop": "`cellwright stop`",
    "kernel_interrupt": "Ctrl-C",
    "notebook_create": "`cellwright new`",
    "notebook_list": "`cellwright list`",
    "notebook_read": "`cellwright show`",
    "notebook_replay": "`cellwright replay`",
    "plan_run": "`cellwright continue`",
    "plan_status": "`cellwright status`",
}
_CALL = re.compile(rf"`?\b({'|'.join(_INSTEAD)})\b(\([^)]*\))?`?")


_NAMED = re.compile(r"`?\bhost_start\(host='slurm:([\w-]+)'\)`?")
_WAITING = re.compile(r"`?\bhost_list\(wait=\d+\)`?")


def in_verbs(text: str) -> str:
    """The same with verbs where it names tools."""
    text = _NAMED.sub(lambda call: f"`cellwright start --name {call[1]}`", text)
    text = _WAITING.sub("`cellwright wait`", text)
    return _CALL.sub(lambda call: _INSTEAD[call[1]], text).replace("Next call: ", "Next: ")


def printable(text: str) -> str:
    """Text of models and notebooks without what a terminal would obey."""
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in text)
