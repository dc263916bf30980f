"""The process that makes a page of one notebook: an order on standard input, an answer on standard output."""

from __future__ import annotations

import os
import resource
import sys

import msgspec

from cellwright.errors import CellwrightError
from cellwright.formats.orders import Answer, Order, refusal
from cellwright.notebook import Document

__all__ = ["main"]


def main() -> None:
    """Make the page that is ordered."""
    # Whatever a library prints must not get into the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    order = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Order)
    # Not the address space, of which a JavaScript engine reserves more than it ever uses.
    resource.setrlimit(resource.RLIMIT_DATA, (order.memory_bytes, order.memory_bytes))
    seconds = int(order.limit_s) + 1
    # All threads count: typst has as many as there are processors.
    seconds *= os.cpu_count() or 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with answers:
        answers.write(msgspec.msgpack.encode(_made(order)))


def _made(order: Order) -> Answer:
    try:
        document = Document.from_bytes(order.notebook, name=order.name)
        # One of the two is enough: imports are most of what a small page costs.
        if order.format == "html":
            from cellwright.formats.html import to_html  # noqa: PLC0415  # see above

            page = to_html(document, name=order.name, include_outputs=order.include_outputs)
            return Answer(page.text.encode(), page.notices)
        from cellwright.formats.pdf import to_pdf  # noqa: PLC0415  # see above

        printed = to_pdf(document, name=order.name, include_outputs=order.include_outputs)
        return Answer(printed.content, printed.notices)
    except CellwrightError as error:
        return refusal(error)
    except ImportError as error:
        return Answer(
            error=f"{error.name or 'A library'} is not installed", hint="pip install 'cellwright[export]'"
        )
    except MemoryError:
        return Answer(
            error=f"The notebook is too large to be made into {order.format}",
            hint="Export it without outputs",
        )


if __name__ == "__main__":
    main()
