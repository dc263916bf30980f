"""What the engine says to people, in the words of the tools: who calls them has no command line. Pure.

The other way round is ``cli.wording``.
"""

from __future__ import annotations

import re

__all__ = ["in_calls"]

_INSTEAD = {
    "hosts": "host_list",
    "start": "host_start",
    "stop": "host_stop",
    "wait": "host_list(wait=60000)",
}
_VERB = re.compile(rf"`cellwright ({'|'.join(_INSTEAD)})(?: --name ([\w-]+))?(?: NAME)?`")


def in_calls(text: str) -> str:
    """The same with tools where it names verbs for hosts."""
    return _VERB.sub(lambda verb: _INSTEAD[verb[1]] + (f"(host='slurm:{verb[2]}')" if verb[2] else ""), text)
