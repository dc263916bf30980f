"""A model whose replies are written down: what ``cellwright demo --agent`` asks where there is no key.

A server on loopback that speaks Chat Completions, as far as the data agent uses them. It keeps nothing: the number of
replies that a conversation has says which is next.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["serve_script"]

_LOAD = """\
import csv

with open({data!r}, encoding="utf-8") as file:
    orders = list(csv.DictReader(file))
print(len(orders), "orders with", ", ".join(orders[0]))"""
# The file's header has blanks around `units sold`, which nobody sees who looks at it: Cellwright repairs this by rule.
_WRONG = """\
units = {}
for order in orders:
    units[order["Region"]] = units.get(order["Region"], 0) + int(order["Units Sold"] or 0)
print(max(units, key=units.get), max(units.values()))"""
_RESULT = re.compile(r"\b([A-Z]\w+) (\d+)\b(?!.*\b[A-Z]\w+ \d+\b)", re.DOTALL)


@contextmanager
def serve_script(data: str) -> Iterator[str]:
    """Serve the model that is asked about a file of sales, for as long as this lasts; its address."""

    class Handler(_Handler):
        path_of_data = data

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="scripted_model", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    path_of_data = ""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        asked = json.loads(self.rfile.read(length))
        text, calls = _reply(asked["messages"], self.path_of_data)
        streamed = bool(asked.get("stream"))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streamed else "application/json")
        self.end_headers()
        self.wfile.write(_events(asked, text, calls) if streamed else _whole(asked, text, calls))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of requests: the terminal shows the answer on its way."""


def _reply(messages: list[dict[str, Any]], data: str) -> tuple[str, list[dict[str, Any]]]:
    """What the model says next, and the tools that it calls."""
    replies = sum(message["role"] == "assistant" for message in messages)
    told = "\n".join(_text(message.get("content")) for message in messages if message["role"] == "tool")
    if replies == 0:
        return "First I look at the file.", [_call("cell_add_and_run", code=_LOAD.format(data=data))]
    if replies == 1:
        return "Now I add up the units by region.", [_call("cell_add_and_run", code=_WRONG)]
    found = _RESULT.search(told)
    said = (
        f"{found[1]} sold the most units: {found[2]}." if found else "The cells did not run as they should."
    )
    return said, []


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _call(tool: str, **arguments: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}


def _numbered(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**call, "index": number, "id": f"call_{number}"} for number, call in enumerate(calls)]


def _frame(asked: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "scripted", "object": kind, "created": 0, "model": asked["model"]}


def _usage(asked: dict[str, Any], text: str) -> dict[str, int]:
    """About as many tokens as a model would count."""
    told, said = len(json.dumps(asked["messages"])) // 4, len(text) // 4 + 1
    return {"prompt_tokens": told, "completion_tokens": said, "total_tokens": told + said}


def _whole(asked: dict[str, Any], text: str, calls: list[dict[str, Any]]) -> bytes:
    message = {"role": "assistant", "content": text, "tool_calls": _numbered(calls) or None}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    frame = _frame(asked, "chat.completion")
    return json.dumps({**frame, "choices": [choice], "usage": _usage(asked, text)}).encode()


def _events(asked: dict[str, Any], text: str, calls: list[dict[str, Any]]) -> bytes:
    frame = _frame(asked, "chat.completion.chunk")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": text}]
    deltas += [{"tool_calls": [call]} for call in _numbered(calls)]
    chunks = [{**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    chunks += [{**frame, "choices": [end]}, {**frame, "choices": [], "usage": _usage(asked, text)}]
    return b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"
