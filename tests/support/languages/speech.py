"""How each language says what the contract asks of all: a page of phrases, one row a language."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["LANGUAGES", "Speech"]


@dataclass(frozen=True, slots=True)
class Speech:
    """The code in one language for each promise. ``{path}`` in a phrase is a file that code may not read."""

    language: str
    remember: str
    """Keeps 41 under a name."""
    recall: str
    """Shows one more than that."""
    fail_on_second_line: str
    failing_line: str
    """What of the failing line the traceback shows."""
    fail_to_parse: str
    announce_and_loop: str
    """Prints or shows ``going``, then works without end."""
    loop: str
    flood: str
    """Puts out more than any cell may."""
    unicode: str
    """Shows the text of ``UNICODE``."""
    html: str
    """Shows ``<b>bold</b>`` as HTML."""
    prefix: str
    completion: str
    die: str
    """Ends its own process."""
    read_outside: str
    call_out: str
    """Asks for something on the network, with a short time limit of its own."""
    table: str
    """Shows a table of two rows with the columns ``name`` and ``count``."""


PYTHON = Speech(
    language="python",
    remember="kept = 41",
    recall="kept + 1",
    fail_on_second_line="before = 1\nraise ValueError('at fault')",
    failing_line="raise ValueError('at fault')",
    fail_to_parse="x = 1\ny = = 2",
    announce_and_loop="print('going', flush=True)\nwhile True: pass",
    loop="while True: pass",
    flood="for n in range(400_000): print('x' * 100)",
    unicode="print('äöü 漢字 🎉 עברית')",
    html="from IPython.display import HTML\nHTML('<b>bold</b>')",
    prefix="sorte",
    completion="sorted",
    die="import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    read_outside="open({path!r}).read()",
    call_out="import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=2)",
    table="import pandas as pd\npd.DataFrame({'name': ['a', 'b'], 'count': [1, 2]})",
)

TYPESCRIPT = Speech(
    language="typescript",
    remember="const kept: number = 41;",
    recall="kept + 1",
    fail_on_second_line="const before: number = 1;\nthrow new TypeError('at fault');",
    failing_line="throw new TypeError('at fault');",
    fail_to_parse="const x = 1;\nconst y: = 2;",
    announce_and_loop="console.log('going');\nwhile (true) {}",
    loop="while (true) {}",
    flood="for (let n = 0; n < 400_000; n++) console.log('x'.repeat(100));",
    unicode="console.log('äöü 漢字 🎉 עברית')",
    html="Deno.jupyter.html`<b>bold</b>`",
    prefix="Math.flo",
    completion="Math.floor",
    die="Deno.exit(3)",
    read_outside="await Deno.readTextFile({path!r})",
    call_out="await fetch('http://192.0.2.1/', {{ signal: AbortSignal.timeout(2000) }})",
    table="[{ name: 'a', count: 1 }, { name: 'b', count: 2 }]",
)

JAVASCRIPT = replace(
    TYPESCRIPT,
    language="javascript",
    remember="const kept = 41;",
    fail_on_second_line="const before = 1;\nthrow new TypeError('at fault');",
    fail_to_parse="const x = 1;\nconst y = = 2;",
)

_ENDLESS_SQL = (
    "SELECT count(*) FROM range(10_000_000) AS a(i), range(10_000_000) AS b(j) WHERE (a.i * b.j) % 7 = 3"
)
SQL = Speech(
    language="sql",
    remember="CREATE TABLE kept AS SELECT 41 AS n",
    recall="SELECT n + 1 AS next FROM kept",
    fail_on_second_line="SELECT\n  nowhere FROM range(3)",
    failing_line="nowhere FROM range(3)",
    fail_to_parse="SELECT 1;\nSELECT FROM WHERE",
    announce_and_loop=_ENDLESS_SQL,
    loop=_ENDLESS_SQL,
    flood="SELECT repeat('x', 6_000_000) AS long",
    unicode="SELECT 'äöü 漢字 🎉 עברית' AS text",
    html="SELECT 1 AS bold",
    prefix="SELECT * FR",
    completion="FROM",
    die="",
    read_outside="SELECT * FROM read_csv({path!r})",
    call_out="SELECT * FROM read_text('http://192.0.2.1/')",
    table="SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS t(name, count)",
)

R = Speech(
    language="r",
    remember="kept <- 41",
    recall="kept + 1",
    fail_on_second_line="before <- 1\nstop('at fault')",
    failing_line='stop("at fault")',
    fail_to_parse="x <- 1\ny <- <- 2",
    announce_and_loop="cat('going\\n'); flush.console()\nwhile (TRUE) {}",
    loop="while (TRUE) {}",
    flood="for (n in 1:400) cat(strrep('x', 100000), '\\n')",
    unicode="cat('äöü 漢字 🎉 עברית\\n')",
    html="IRdisplay::display_html('<b>bold</b>')",
    prefix="Sys.getp",
    completion="Sys.getpid",
    die="tools::pskill(Sys.getpid(), 9)",
    read_outside="readLines({path!r})",
    call_out="options(timeout = 2)\nreadLines(url('http://192.0.2.1/'))",
    table="data.frame(name = c('a', 'b'), count = 1:2)",
)

LANGUAGES = (PYTHON, TYPESCRIPT, JAVASCRIPT, SQL, R)
UNICODE = "äöü 漢字 🎉 עברית"
R_KERNELSPEC = Path("/usr/share/jupyter/kernels/ir/kernel.json")
