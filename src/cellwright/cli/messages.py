"""Texts for a terminal: messages of the daemon's tools with commands in place of calls, numbers of tokens and money. Pure."""

from __future__ import annotations

import re

__all__ = ["counted", "in_commands", "printable", "spent", "tokens"]

_THOUSAND = 1_000

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


def in_commands(text: str) -> str:
    """The same with verbs where it names tools."""
    text = _NAMED.sub(lambda call: f"`cellwright start --name {call[1]}`", text)
    text = _WAITING.sub("`cellwright wait`", text)
    return _CALL.sub(lambda call: _INSTEAD[call[1]], text).replace("Next call: ", "Next: ")


def printable(text: str) -> str:
    """Text of models and notebooks without what a terminal would obey."""
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in text)


def counted(number: int, one: str) -> str:
    """A number of things, in words."""
    return f"{number} {one}{'s' * (number != 1)}"


def spent(tokens_in: int, tokens_out: int, cached: int, usd: float) -> str:
    """What was taken so far, in a few words."""
    return f"{tokens(tokens_in, tokens_out, cached)}, ${usd:.4f}"


def tokens(tokens_in: int, tokens_out: int, cached: int) -> str:
    """So many went in and came out."""
    of_those = f" ({_short(cached)} cached)" if cached else ""
    return f"{_short(tokens_in)}{of_those} + {_short(tokens_out)} tokens"


def _short(number: int) -> str:
    return f"{number / _THOUSAND:.1f}k" if number >= _THOUSAND else str(number)
