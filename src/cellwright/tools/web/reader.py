"""Bodies from the web read in a process of their own, since they are strangers'. The child is ``reading``."""

from __future__ import annotations

import msgspec

from cellwright.errors import FetchFailed
from cellwright.tools.apart import ask_apart
from cellwright.tools.web.reading import Kind, Order, Reading

__all__ = ["read_body"]

CPU_S = 20
# A busy machine gives processor time late; a process that gets none at all is not waited for.
TIMEOUT_S = 120.0
MEMORY_BYTES = 1536 * 1024**2
_MOST_ANSWERED = 200 * 1024**2
_AS_FILE = "Fetch it with type='file' and look at it there"


async def read_body(
    body: bytes,
    *,
    kind: Kind,
    content_type: str,
    url: str,
    limit_s: float = TIMEOUT_S,
    memory_bytes: int = MEMORY_BYTES,
    cpu_s: int = CPU_S,
) -> Reading:
    """What a body says, read as HTML, JSON or text.

    Raises:
        FetchFailed: it is not that, or not to be read within the bounds.
    """
    order = Order(body, content_type, url, kind, memory_bytes, cpu_s)
    try:
        said, code = await ask_apart(
            "cellwright.tools.web.reading",
            given=msgspec.msgpack.encode(order),
            limit_s=limit_s,
            most_answered=_MOST_ANSWERED,
        )
    except TimeoutError:
        raise FetchFailed(f"{url} was not read as {kind} within {limit_s:g} s", hint=_AS_FILE) from None
    try:
        reading = msgspec.msgpack.decode(said, type=Reading)
    except msgspec.MsgspecError:
        told = f"the process that reads it ended with {code}"
        raise FetchFailed(f"{url} cannot be read as {kind}: {told}", hint=_AS_FILE) from None
    if reading.error is not None:
        raise FetchFailed(f"{url} cannot be read as {kind}: {reading.error}", hint=_AS_FILE)
    return reading
