"""``answer``: the question's one cell and the sentence around what it prints, in a single call.

So that a task of one cell takes one request: nobody has to read the output before it is told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import BaseModel, Field

from cellwright.agent.belt.rows import Desk, OwnTool
from cellwright.agent.toolbox import ToolReply

__all__ = ["ANSWER", "filled"]

_place = re.compile(r"\{(output|[0-9]{1,6})\}")
_LONGEST = 100_000


class Answer(BaseModel):
    """Answer at once, where one cell is enough: adds and runs the code, and puts what it prints into the sentence. In
    the sentence {output} is all that is printed, {1} the first line, {2} the second. If the cell fails, nothing is
    answered."""

    code: str = Field(description="Python that prints what the answer needs")
    sentence: str = Field(description="The answer, such as 'The total is {1} USD.'")


async def _answer(desk: Desk, arguments: Answer) -> ToolReply:
    reply = await desk.face("cell_add_and_run", content=arguments.code, on_error="rollback")
    if reply.failed:
        return reply
    printed = (await desk.printed()).strip()
    sentence = filled(arguments.sentence, printed)
    if sentence is None:
        text = f"{reply.text}\nThe sentence asks for lines that were not printed, or for far too many. Answer in words."
        return ToolReply(text, reply.pictures)
    return ToolReply(f"{reply.text}\nAnswered: {sentence}", reply.pictures, answer=sentence)


def filled(sentence: str, printed: str) -> str | None:
    """The sentence with what was printed in its places; None where a line is missing, or it would become a book."""
    lines: Sequence[str] = printed.splitlines()
    places = _place.findall(sentence)
    wanted = [int(place) for place in places if place != "output"]
    if (wanted and not 1 <= min(wanted) <= max(wanted) <= len(lines)) or not printed:
        return None

    def value(place: str) -> str:
        return printed if place == "output" else lines[int(place) - 1].strip()

    if len(sentence) + sum(len(value(place)) for place in places) > _LONGEST:
        return None
    return _place.sub(lambda found: value(found[1]), sentence)


ANSWER = OwnTool("answer", Answer, _answer)
