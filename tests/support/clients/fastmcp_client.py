"""``fastmcp``'s client, which signs in by itself: makes a notebook at an address. Runs in an environment that has it."""

import sys

import anyio
from fastmcp import Client


async def main(address: str) -> None:
    async with Client(address, auth="oauth") as client:
        made = await client.call_tool("notebook_create", {"name": "by fastmcp"})
        sys.stdout.write(made.content[0].text)


anyio.run(main, sys.argv[1])
