"""The process that reads one body from the web: an order on standard input, an answer on standard output.

Charsets, HTML and JSON of strangers are read here, with a bound on memory and processor time, no network and no files:
whatever a page does to its reader ends with this process (see ``fetch``).
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Literal, TypeAlias

import msgspec

from cellwright.errors import FileUnreadable
from cellwright_kernel.confinement import confine

__all__ = ["Kind", "Order", "Reading", "main"]

Kind: TypeAlias = Literal["html", "json", "text"]


class Order(msgspec.Struct, frozen=True):
    """A body and what to read it as."""

    body: bytes
    content_type: str
    url: str
    kind: Kind
    memory_bytes: int
    cpu_s: int


class Reading(msgspec.Struct, frozen=True):
    """What was read: text as it is shown, and ``outline`` for JSON; or why it could not be."""

    text: str = ""
    charset: str = ""
    title: str = ""
    outline: str = ""
    hidden: int = 0
    cut: bool = False
    error: str | None = None


def main() -> None:
    """Read what is ordered."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Whatever a library prints must not get into the answer.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Order)
    used_s = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
    resource.setrlimit(resource.RLIMIT_CPU, (used_s + order.cpu_s, used_s + order.cpu_s))
    confine(order.memory_bytes)
    with answers:
        answers.write(msgspec.msgpack.encode(_safely(order)))


def _safely(order: Order) -> Reading:
    try:
        return read(order)
    except FileUnreadable as error:
        return Reading(error=error.message)
    except ValueError as error:
        return Reading(error=str(error)[:500])
    except MemoryError:
        return Reading(error="reading it takes too much memory")
    except RecursionError:
        return Reading(error="it is nested too deep")


def read(order: Order) -> Reading:
    """The body as what it was ordered as.

    Raises:
        FileUnreadable: it is no JSON.
        ValueError: it is not what else it was ordered as.
    """
    # Each kind loads what it needs: imports are most of what a small body costs.
    from cellwright.tools.web._charsets import as_text  # see above

    text, charset = as_text(order.body, order.content_type, markup=order.kind == "html")
    if order.kind == "text":
        from cellwright.tools.web._pages import visible_text  # see above

        return Reading(visible_text(text), charset)
    if order.kind == "json":
        from cellwright.tools._json_outline import outline, parsed_json, written_out  # see above

        value = parsed_json(text)
        return Reading(written_out(value), charset, outline=outline(value))
    from cellwright.tools.web._pages import read_page  # see above

    page = read_page(text, order.url)
    return Reading(page.markdown, charset, page.title, hidden=page.hidden, cut=page.cut)


if __name__ == "__main__":
    main()
