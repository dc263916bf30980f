"""What one script saves that calls tools by itself: the analysis of 12 cells as calls, and as one ``python_execute``.

Counted are characters over four of what a model writes (a call's name and arguments) and reads (the texts of results),
and what it has in its context over all its turns, each of which reads again what was there before. As a script the
same cells come to lie in the same notebook; the model reads of each how it ended, and the output of the last.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from mcp import Client

from bench_mcp_tokens import CHARACTERS_PER_TOKEN, TASK
from measuring import Bench, main
from peers import call, open_ours, text_of

# Of cells that do not stop the script the model learns as much as it would look for: how it went, and the first line.
_SCRIPT = """\
import cellwright_api as cw

cw.notebook_create("task")
for name, code in {cells}.items():
    ran = cw.cell_add_and_run(code)
    said = ran["error"]["evalue"] if ran["error"] else (ran["result"] or ran["stdout"]).split("\\n")[0]
    print(name, ran["status"], said[:80])
"""


@dataclass
class Conversation:
    """What a model wrote and read, and how much it had before it at each turn."""

    client: Client
    length: int = 0
    over_all_turns: int = 0
    turns: int = 0
    texts: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: object) -> str:
        result = await call(self.client, tool, **arguments)
        self.texts.append(text_of(result))
        self.over_all_turns += self.length
        self.length += len(tool) + len(json.dumps(arguments, ensure_ascii=False)) + len(self.texts[-1])
        self.turns += 1
        return self.texts[-1]


async def measure(bench: Bench) -> None:
    async with open_ours(bench.directory / "ours") as ours, ours.connect() as client:
        calls = Conversation(client)
        await calls.call("notebook_create", name="task")
        for code in TASK.values():
            await calls.call("cell_add_and_run", code=code)
        script = Conversation(client)
        said = await script.call("python_execute", code=_SCRIPT.format(cells=_as_written(TASK)))
    assert "conclusion ok Shop" in said, said
    assert "error error" in said, said
    bench.inform("turns", str(script.turns), str(calls.turns))
    for what, ours_size, their_size, most in (
        ("tokens written and read", script.length, calls.length, 0.6),
        (
            "tokens in context over all turns",
            script.over_all_turns + script.length,
            calls.over_all_turns + calls.length,
            0.1,
        ),
    ):
        bench.claim(
            f"{what}, one script against calls",
            _tokens(ours_size),
            _tokens(their_size),
            f"{ours_size / their_size:.2f}x",
            target=f"<= {most:g}x",
            passed=ours_size <= most * their_size,
        )


def _as_written(cells: dict[str, str]) -> str:
    """The cells as a model writes them into a script: strings over several lines, which need no escapes."""
    return "{\n" + "".join(f'"{name}": r"""{code}""",\n' for name, code in cells.items()) + "}"


def _tokens(characters: int) -> str:
    return f"{characters / CHARACTERS_PER_TOKEN:,.0f}"


if __name__ == "__main__":
    main(measure, __doc__)
