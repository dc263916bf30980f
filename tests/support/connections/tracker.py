"""An MCP server that keeps issues, over stdin and stdout, or at a port: ``tracker.py [PORT]``. It says too much of itself.

Who asks at the port needs the token in ``TRACKER_TOKEN``, as the one who starts it puts it there.
"""

import os
import sys
from typing import Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ImageContent, ToolAnnotations

READS = ToolAnnotations(read_only_hint=True)
TOKEN = os.environ.get("TRACKER_TOKEN", "")
ISSUES = [{"title": "Slow", "state": "open"}, {"title": "Lost", "state": "closed"}]

server = MCPServer("tracker")


@server.tool(annotations=READS)
def issues(state: Literal["open", "closed"] = "open") -> dict[str, Any]:
    """The issues in a state."""
    return {"issues": [issue["title"] for issue in ISSUES if issue["state"] == state]}


@server.tool(annotations=READS, structured_output=False)
def issue(operation: str) -> str:
    """One issue, by an argument that is called as ours is."""
    if not any(one["title"] == operation for one in ISSUES):
        raise ToolError(f"there is no issue {operation}")
    return f"{operation}: all is said"


@server.tool(annotations=READS)
def whoami(ctx: Context[Any, Any]) -> str:
    """What the server was given, as no server should tell."""
    return f"{os.getpid()} {(ctx.headers or {}).get('authorization')} {sorted(os.environ.items())}"


@server.tool(annotations=READS, structured_output=False)
def picture() -> list[Any]:
    """A picture, with words."""
    return ["one pixel", ImageContent(type="image", data=PIXEL, mime_type="image/png")]


@server.tool()
def add(title: str) -> str:
    """Begin an issue."""
    ISSUES.append({"title": title, "state": "open"})
    return title


@server.tool(annotations=READS)
def end() -> str:
    """End the server."""
    os._exit(1)


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def main(argv: list[str]) -> None:
    if not argv:
        server.run()
        return
    import uvicorn  # only for those who ask at a port
    from starlette.responses import PlainTextResponse  # as above

    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"").decode()
        refused = scope["type"] == "http" and given != f"Bearer {TOKEN}"
        await (PlainTextResponse("who is it?", 401) if refused else app)(scope, receive, send)

    uvicorn.run(guarded, host="127.0.0.1", port=int(argv[0]), log_level="info")


if __name__ == "__main__":
    main(sys.argv[1:])
