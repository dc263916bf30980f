"""Whether work on a large notebook costs what the change costs, not what the notebook does.

Measures processor time in this process, without kernels: folding a message into outputs that already hold many,
and writing a document of 1,000 cells after one of them changed. The baseline is the same code on less, or on all.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from cellwright.notebook import CellAdded, Document, OutputCollector, OutputsSet, SourceChanged
from measuring import Bench, alternate, main, milliseconds

CELLS = 1_000
FEW, MANY = 3_000, 30_000
MESSAGES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "a stream message": ("stream", {"name": "stdout", "text": "x" * 50}),
    "a display": ("display_data", {"data": {"text/plain": "y"}, "transient": {"display_id": "d"}}),
}
# A message that looked at all before it would cost ten times as much among ten times as many.
MAX_GROWTH = 2.0
MIN_SAVING = 5.0


async def measure(bench: Bench) -> None:
    rounds = bench.size(15, 3)
    for what, message in MESSAGES.items():
        times = await alternate(
            rounds, {"few": partial(_collect, message, FEW), "many": partial(_collect, message, MANY)}
        )
        few, many = (min(times[name]) for name in ("few", "many"))
        bench.claim(
            f"{what} among {MANY:,}, against among {FEW:,}",
            f"{1e6 * many:.2f} us",
            f"{1e6 * few:.2f} us",
            f"{many / few:.2f}x",
            target=f"<= {MAX_GROWTH:g}x",
            passed=many / few <= MAX_GROWTH,
        )
    whole, edited = zip(*(_encode() for _ in range(rounds)), strict=True)
    bench.claim(
        f"writing {CELLS:,} cells after one edit, against all of them new",
        milliseconds(min(edited)),
        milliseconds(min(whole)),
        f"{min(whole) / min(edited):.1f}x",
        target=f">= {MIN_SAVING:g}x",
        passed=min(whole) / min(edited) >= MIN_SAVING,
    )


async def _collect(message: tuple[str, dict[str, Any]], count: int) -> float:
    """Processor time per message."""
    started = time.process_time()
    collector = OutputCollector()
    for _ in range(count):
        collector.add(*message)
    assert collector.outputs
    return (time.process_time() - started) / count


def _encode() -> tuple[float, float]:
    """Processor time of writing a document whole, and again after one edit."""
    document = Document.new()
    output = {"output_type": "stream", "name": "stdout", "text": "0123456789\n" * 900}
    for index in range(CELLS):
        document.apply(CellAdded(f"c{index}", "code", f"x = {index}", index))
        document.apply(OutputsSet(f"c{index}", [output], index))
    started = time.process_time()
    document.to_bytes()
    whole = time.process_time()
    document.apply(SourceChanged("c500", "y"))
    before = time.process_time()
    document.to_bytes()
    return whole - started, time.process_time() - before


if __name__ == "__main__":
    main(measure, __doc__)
