"""What an agent reads of a frame, and what it costs to write: digests against pandas' own HTML and text.

Tokens are characters over four, as for the tools' definitions. The HTML is what a notebook shows (ten rows of
more than 60, 20 columns), which is the least that pandas makes of a frame; the text is that of the first ten rows. Times are of the digest of a live frame beside pandas' own text and HTML for it,
which the kernel makes anyway. The paged table for people is measured beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from cellwright_kernel._value_digests import digest_of
from cellwright_kernel.frames import frame_of, table_of
from cellwright_kernel.htmltables import html_table
from measuring import Bench, Contender, alternate, main, milliseconds

CHARACTERS_PER_TOKEN = 4
PART_OF_HTML = 3
MOST_S = 0.005


def sales(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "day": pd.date_range("2024-01-01", periods=rows, freq="min"),
            "shop": rng.choice(["north", "south", "harbour"], rows),
            "units": rng.poisson(20, rows),
            "revenue": rng.normal(200, 40, rows).round(2),
        }
    )
    frame.loc[::7, "revenue"] = np.nan
    return frame


def frames(large: int) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(7)
    names = [f"measure_{number:02}" for number in range(40)]
    return {
        "sales, 1,000 rows": sales(1_000),
        f"sales, {large:,} rows": sales(large),
        "wide, 40 columns": pd.DataFrame(rng.normal(size=(500, 40)).round(3), columns=names),
        "a single column": pd.DataFrame({"x": range(1_000)}),
        "texts": pd.DataFrame(
            {"name": [f"person {number}" for number in range(500)], "ok": [True, False] * 250}
        ),
        "grouped by two": sales(1_000).groupby(["shop", "units"])["revenue"].agg(["count", "mean", "sum"]),
        "objects": pd.DataFrame({"o": [[1], {"a": 2}, None, "x"] * 50}),
    }


async def measure(bench: Bench) -> None:
    large = bench.size(1_000_000, 100_000)
    for name, frame in frames(large).items():
        _tokens(bench, name, frame)
    await _times(bench, sales(large))
    _table(bench, sales(large))


def _tokens(bench: Bench, name: str, frame: pd.DataFrame) -> None:
    digest = digest_of(frame) or ""
    for what, baseline, part in (
        ("its HTML", frame._repr_html_(), PART_OF_HTML),
        ("ten rows as text", frame.head(10).to_string(), 1),
    ):
        ratio = len(baseline) / len(digest)
        bench.claim(
            f"tokens of {name} beside {what}",
            f"{len(digest) // CHARACTERS_PER_TOKEN:,}",
            f"{len(baseline) // CHARACTERS_PER_TOKEN:,}",
            f"{ratio:.1f}x",
            target=f">= {part}x",
            passed=ratio >= part,
        )


async def _times(bench: Bench, frame: pd.DataFrame) -> None:
    """Of one frame in three libraries, beside what pandas takes to show it."""
    contenders = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "Arrow": pa.Table.from_pandas(frame),
    }
    timed: dict[str, Contender] = {
        name: _timed(lambda held=held: digest_of(held)) for name, held in contenders.items()
    }
    timed["shown"] = _timed(lambda: (repr(frame), frame._repr_html_()))
    times = await alternate(bench.size(30, 3), timed)
    for name in contenders:
        least, shown = min(times[name]), min(times["shown"])
        bench.claim(
            f"digest of {len(frame):,} rows, {name}",
            milliseconds(least),
            milliseconds(shown),
            f"{shown / least:.1f}x",
            target=f"<= {milliseconds(MOST_S)}",
            passed=least <= MOST_S,
        )


def _timed(work: Callable[[], object]) -> Contender:
    async def run() -> float:
        # Processor time: the claim is about the work, and neighbours must not count.
        start = time.thread_time()
        work()
        return time.thread_time() - start

    return run


def _table(bench: Bench, frame: pd.DataFrame) -> None:
    start = time.perf_counter()
    table = table_of(frame_of(frame), max_rows=500)
    page = html_table(table) if table is not None else ""
    bench.inform(
        f"paged table of {len(frame):,} rows",
        milliseconds(time.perf_counter() - start),
        "",
        f"{len(page):,} B",
    )


if __name__ == "__main__":
    main(measure, __doc__)
