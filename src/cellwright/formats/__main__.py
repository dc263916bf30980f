"""The process that makes a page of one notebook: an order on standard input, an answer on standard output.

Its argument is for how many seconds it may stand by for the order; with 0 it is on its way already.
"""

from __future__ import annotations

import atexit
import gc
import os
import resource
import select
import sys

import msgspec

from cellwright.errors import CellwrightError, MissingExtra
from cellwright.formats._renderer_wire import Answer, Order, refusal
from cellwright.formats.grammars import leave_out_address_grammars
from cellwright.notebook import CellAdded, Document

__all__ = ["main"]

_TEXT = CellAdded("text", "markdown", "# Title\n\n- one: $\\frac{1}{2}$\n\n| a |\n|---|\n| b |\n", 0)
_CODE = CellAdded("code", "code", "def one() -> int:\n    return 1  # one\n", 1)


def main() -> None:
    """Make the page that is ordered."""
    # Whatever a library prints must not get into the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    leave_out_address_grammars()
    # All there is goes with the process: looking for garbage first would take a fifth of a small page.
    atexit.register(gc.freeze)
    standby_s = int(sys.argv[1])
    if standby_s:
        _warm_up()
        if not select.select([sys.stdin], [], [], standby_s)[0]:
            return
    ordered = sys.stdin.buffer.read()
    if not ordered:
        return
    order = msgspec.msgpack.decode(ordered, type=Order)
    # Not the address space, of which a JavaScript engine reserves more than it ever uses.
    resource.setrlimit(resource.RLIMIT_DATA, (order.memory_bytes, order.memory_bytes))
    # All threads count: typst has as many as there are processors.
    seconds = (int(resource.getrusage(resource.RUSAGE_SELF).ru_utime + order.limit_s) + 1) * (
        os.cpu_count() or 1
    )
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with answers:
        answers.write(msgspec.msgpack.encode(_made(order)))


def _warm_up() -> None:
    """Load what both kinds of page need, by making a small one of each."""
    sample = Document.new()
    sample.apply(_TEXT)
    sample.apply(_CODE)
    notebook = sample.to_bytes()
    for form in ("html", "pdf"):
        _made(Order(notebook, "sample", form, include_outputs=True, limit_s=1, memory_bytes=1))


def _made(order: Order) -> Answer:
    # One of the two is enough: imports are most of what a small page costs.
    try:
        document = Document.from_bytes(order.notebook, name=order.name)
        if order.format == "html":
            from cellwright.formats._html import to_html  # see above

            page = to_html(document, name=order.name, include_outputs=order.include_outputs)
            return Answer(page.text.encode(), page.notices)
        from cellwright.formats._pdf import to_pdf  # see above

        printed = to_pdf(document, name=order.name, include_outputs=order.include_outputs)
        return Answer(printed.content, printed.notices)
    except CellwrightError as error:
        return refusal(error)
    except ImportError as error:
        return refusal(MissingExtra(order.format, error))
    except MemoryError:
        return Answer(
            error=f"The notebook is too large to be made into {order.format}",
            hint="Export it without outputs",
        )


if __name__ == "__main__":
    main()
