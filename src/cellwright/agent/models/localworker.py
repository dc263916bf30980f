"""The process that a local model runs in: orders on its standard input, a line each; what it writes on its output.

Its weights may be anybody's: it has no network, reads no files but libraries and the weights, and writes none. It has
one thread for its sums and the lowest priority. The library opens a listener whatever it is asked: that is a socket in
a private directory, and wants a token that nobody is told. Ends with its input. ``local`` starts it, as
``python -m cellwright.agent.models.localworker WEIGHTS CONTEXT_TOKENS PRIVATE_DIRECTORY``.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import secrets
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from cellwright_kernel.confinement import confine

__all__ = ["main"]

_LOWEST = 19
# Beside the weights, which are a file in memory: the context, and what a library takes to be loaded.
_MEMORY_BYTES = 4 * 1024**3


def main() -> None:
    """Answer orders until there are no more."""
    weights, context_tokens, private = sys.argv[1:]
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no reply
    os.nice(_LOWEST)
    try:
        model = _loaded(weights, int(context_tokens), private)
    except Exception as error:  # noqa: BLE001  # boundary: the library raises what it likes
        _reply(replies, {"error": f"cannot be loaded: {error}", "loading": True})
        return
    for order in _orders():
        _answer(model, order, replies)
    # The library waits for its threads on a usual exit.
    os._exit(0)


def _loaded(weights: str, context_tokens: int, private: str) -> Any:
    # An extra, and without types; nothing else here needs it.
    xllamacpp: Any = importlib.import_module("xllamacpp")
    confine(_MEMORY_BYTES + Path(weights).stat().st_size, files=[weights], sockets=[private])
    wanted = xllamacpp.CommonParams()
    wanted.model.path = weights
    wanted.n_ctx = context_tokens
    wanted.n_parallel = 1
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = wanted.n_threads_http = 1
    wanted.hostnames = [f"{private}/model.sock"]
    wanted.api_keys = [secrets.token_hex(32)]
    wanted.verbosity = -1
    wanted.offline, wanted.ui, wanted.warmup = True, False, False
    wanted.cache_ram_mib = 0
    return xllamacpp.Server(wanted)


def _orders() -> Iterator[dict[str, Any]]:
    """Orders as they come. A thread of its own waits for them: whoever asked may be gone in the middle of an answer."""
    waiting: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin.buffer:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield json.loads(waiting.get())


def _answer(model: Any, order: dict[str, Any], replies: BinaryIO) -> None:
    """Send what the model writes, piece by piece, and how it ended."""
    pieces: list[dict[str, Any]] = []

    def heard(chunk: dict[str, Any]) -> bool:
        if "error" in chunk:
            pieces.append(chunk)
            return True
        for choice in chunk.get("choices", ()):
            if text := choice.get("delta", {}).get("content"):
                _reply(replies, {"text": text})
            if choice.get("finish_reason"):
                pieces.append({"finish": choice["finish_reason"]})
        if chunk.get("usage"):
            pieces.append({"usage": chunk["usage"]})
        return False

    try:
        model.handle_chat_completions(
            {**order, "stream": True, "stream_options": {"include_usage": True}}, heard
        )
    except Exception as error:  # noqa: BLE001  # boundary: the library raises what it likes
        pieces.append({"error": {"message": str(error)}})
    end: dict[str, Any] = {"end": True}
    for piece in pieces:
        end.update(piece)
    _reply(replies, end)


def _reply(replies: BinaryIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message).encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
    main()
