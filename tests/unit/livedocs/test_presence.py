"""Who the agent is to people."""

from __future__ import annotations

import re

from cellwright.jupyter._contents import identity


def test_a_name_gives_initials_and_a_colour_that_stays() -> None:
    user = identity("Ada's agent")["user"]
    assert (user["name"], user["initials"]) == ("Ada's agent", "AA")
    assert re.fullmatch("#[0-9a-f]{6}", user["color"])
    assert identity("Ada's agent") == identity("Ada's agent") != identity("Somebody else")
