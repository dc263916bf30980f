"""What a model reads: one analysis of 12 cells, in ours and in jupyter-mcp-server.

The task has a plot, a print of 100,000 characters, a wide frame and an error among ordinary cells. Each side creates a
notebook and adds and runs the cells with its best single call, with every option as it comes. Counted are characters
of all texts in the results, and of pictures in base64, over four. Clients differ in whether they show their model the
text or the structured content of a result; the text is counted, and the structured content told beside it.

Definitions are name, description and input schema of every tool: what a model reads before its first call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mcp import Client
from mcp.types import CallToolResult

from measuring import Bench, main
from peers import open_ours, open_peer, peer_environment, pictures_of, text_of
from peers_tools import Agent, OurAgent, PeerAgent

CHARACTERS_PER_TOKEN = 4
TASK = {
    "imports": "import numpy as np\nimport pandas as pd\nimport matplotlib.pyplot as plt",
    "data": """\
rng = np.random.default_rng(7)
days = pd.date_range("2024-01-01", periods=1_000, freq="D")
sales = pd.DataFrame({"day": days, "shop": rng.choice(list("ABC"), 1_000), "units": rng.poisson(20, 1_000)})
sales["revenue"] = (sales["units"] * rng.normal(9.5, 1.0, 1_000)).round(2)
len(sales)""",
    "head": "sales.head()",
    "wide frame": """\
wide = pd.DataFrame(rng.normal(size=(500, 40)).round(3), columns=[f"measure_{n:02}" for n in range(40)])
wide""",
    "long print": "for n in range(1_000):\n    print(f'row {n:04} ' + 'abcdefghi ' * 9)",
    "groups": "sales.groupby('shop')['revenue'].agg(['count', 'mean', 'sum']).round(1)",
    "function": "def share(column):\n    return (column / column.sum()).round(3)\n\nshare(sales.groupby('shop')['units'].sum())",
    "plot": """\
monthly = sales.set_index("day")["revenue"].resample("MS").sum()
fig, ax = plt.subplots()
ax.plot(monthly.index, monthly.values, marker="o")
ax.set_title("Revenue by month")
ax.set_ylabel("revenue")
plt.show()""",
    "error": "sales.groupby('store')['revenue'].sum()",
    "corrected": "sales.groupby('shop')['revenue'].sum()",
    "describe": "sales.describe()",
    "conclusion": "best = sales.groupby('shop')['revenue'].sum().idxmax()\nprint(f'Shop {best} earned most')",
}


@dataclass(frozen=True, slots=True)
class Read:
    """Characters of one result, by what they are."""

    text: int
    pictures: int
    structured: int

    @classmethod
    def of(cls, result: CallToolResult) -> Read:
        structured = result.structured_content
        return cls(
            len(text_of(result)),
            sum(len(picture.data) for picture in pictures_of(result)),
            0 if structured is None else len(json.dumps(structured, ensure_ascii=False)),
        )


async def measure(bench: Bench) -> None:
    peer_environment(bench.say)
    read: dict[str, dict[str, Read]] = {}
    definitions: dict[str, tuple[int, int]] = {}
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(open_ours(bench.directory / "ours"))
        agents: dict[str, Agent] = {"ours": OurAgent(await stack.enter_async_context(ours.connect()))}
        for mode, extension in {"stdio": False, "extension": True}.items():
            peer = await stack.enter_async_context(open_peer(bench.directory / mode, extension=extension))
            agents[mode] = PeerAgent(await stack.enter_async_context(peer.connect()), peer)
        for name, agent in agents.items():
            read[name] = await _work(agent)
            definitions[name] = await _definitions(agent.client)
    _say_each(bench, read)
    for mode in ("stdio", "extension"):
        _compare(bench, mode, read["ours"], read[mode])
    for mode in ("stdio", "extension"):
        (ours_tools, ours_size), (their_tools, their_size) = definitions["ours"], definitions[mode]
        bench.inform(
            f"definitions of {ours_tools} and {their_tools} tools, peer's {mode} mode",
            _tokens(ours_size),
            _tokens(their_size),
            f"{ours_size / their_size:.2f}x",
        )


async def _work(agent: Agent) -> dict[str, Read]:
    """Do the task; a failing cell is a result on both sides."""
    read = {"create": Read.of(await agent.create("task"))}
    for name, code in TASK.items():
        result = await agent.add_and_run(code)
        read[name] = Read.of(result)
        _check(name, result)
    return read


def _check(name: str, result: CallToolResult) -> None:
    """That what the cell is there for has come."""
    expected = {"error": "KeyError", "conclusion": "earned most", "long print": "row 0000", "groups": "mean"}
    assert expected.get(name, "") in text_of(result), f"{name}: {text_of(result)[:500]}"
    assert bool(pictures_of(result)) is (name == "plot"), f"{name}: {len(pictures_of(result))} pictures"


async def _definitions(client: Client) -> tuple[int, int]:
    tools = (await client.list_tools()).tools
    said = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in tools
    ]
    return len(tools), len(json.dumps(said, ensure_ascii=False, separators=(",", ":")))


def _say_each(bench: Bench, read: Mapping[str, Mapping[str, Read]]) -> None:
    bench.say(f"tokens as text + picture: {', '.join(read)}")
    for name in read["ours"]:
        each = "  ".join(
            f"{_tokens(taken[name].text):>8} + {_tokens(taken[name].pictures):>6}" for taken in read.values()
        )
        bench.say(f"{name:12} {each}")


def _compare(bench: Bench, mode: str, ours: Mapping[str, Read], theirs: Mapping[str, Read]) -> None:
    def total(read: Mapping[str, Read], *, pictures: bool, without: str = "") -> int:
        return sum(
            each.text + (each.pictures if pictures else 0) for name, each in read.items() if name != without
        )

    for what, pictures, without, at_most in (
        ("with the picture", True, "", 0.33),
        ("text alone", False, "", 0.1),
        ("text without the long print", False, "long print", 0.5),
    ):
        ours_size, their_size = (total(read, pictures=pictures, without=without) for read in (ours, theirs))
        bench.claim(
            f"tokens of the task, {what}, peer's {mode} mode",
            _tokens(ours_size),
            _tokens(their_size),
            f"{ours_size / their_size:.2f}x",
            target=f"<= {at_most:g}x",
            passed=ours_size <= at_most * their_size,
        )
    structured = [sum(each.structured for each in read.values()) for read in (ours, theirs)]
    bench.inform(f"tokens of structured content beside it, peer's {mode} mode", *map(_tokens, structured))


def _tokens(characters: int) -> str:
    return f"{characters / CHARACTERS_PER_TOKEN:,.0f}"


if __name__ == "__main__":
    main(measure, __doc__)
