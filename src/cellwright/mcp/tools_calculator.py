"""One-shot tools: calculator."""

from __future__ import annotations

from typing import Annotated

import anyio
from pydantic import Field

from cellwright.mcp.arguments import Arguments
from cellwright.mcp.calls import READS, Call, Definition, Reply, data_reply

__all__ = ["CALCULATOR_TOOLS"]

_LONGEST = 20_000


class Calculate(Arguments):
    expression: Annotated[str, Field(min_length=1, max_length=_LONGEST)]


async def calculator(call: Call, args: Calculate) -> Reply:
    """Exact arithmetic, complex numbers, statistics, matrices, units, dates: `3 ft + 20 cm to m`, `sum(k^2 for k in
    1..100)`, `solve([[2,1],[1,3]], [3,5])`, `today + 90 days`."""
    from cellwright.tools.calculator import calculate, described  # noqa: PLC0415  # 20 modules that few calls need

    # Bounded, and yet long enough to keep others waiting.
    answer = await anyio.to_thread.run_sync(calculate, args.expression)
    return data_reply(described(answer), call)


CALCULATOR_TOOLS: tuple[Definition, ...] = (Definition(calculator, Calculate, READS),)
