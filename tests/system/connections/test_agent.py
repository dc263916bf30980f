"""An agent's notebook over a database and a store, through ``cellwright mcp`` and a daemon: what it reads, and that the
credentials are nowhere but where the operator put them."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import psutil
import pytest

from tests.kernel.connections.test_brokers import make_bucket, opened
from tests.kernel.engine.conftest import host_process
from tests.support.connections.servers import SECRET, Served
from tests.system.daemon.conftest import Place, Pump, place_in

# No longer text than its letters, each in a class of its own: what looks for the credential does not hold it.
SEARCH = """
import os, re
needle = re.compile(b"".join(b"[%c]" % letter for letter in {letters}))
found = []
for line in open("/proc/self/maps"):
    span, rights = line.split()[:2]
    if "r" not in rights or "[v" in line:
        continue
    start, end = (int(one, 16) for one in span.split("-"))
    with open("/proc/self/mem", "rb", 0) as memory:
        memory.seek(start)
        try:
            found += needle.findall(memory.read(end - start))
        except OSError:
            pass
print(len(found), sum(bool(needle.search(open(f"/proc/{{pid}}/environ", "rb").read())) for pid in os.listdir("/proc") if pid.isdigit()))
"""
CELLS = [
    ("sql", "-- connection: sales\n-- result: orders\nSELECT * FROM orders"),
    ("python", "orders.dtypes"),
    ("python", "from cellwright_kernel import connect\nlake = connect('lake')\nlake.list()"),
    ("python", "lake.read('customers.csv')[:13]"),
    ("python", "import pandas as pd\ncustomers = pd.read_csv(lake.fetch('customers.csv'))\ncustomers"),
    ("python", "since = '2026-01-20'"),
    ("sql", "-- connection: sales\n-- result: late\nSELECT count(*) AS n FROM orders WHERE day >= $since::date"),
    ("python", "joined = orders.merge(customers)\njoined['total'] = joined.total.astype(float)\nlen(joined)"),
    ("sql", "-- result: by_city\nSELECT city, sum(total) AS total FROM joined GROUP BY city ORDER BY city"),
    ("python", "assert by_city.total.sum() == joined.total.sum()"),
    ("sql", "-- connection: sales\nSELECT current_user, current_setting('transaction_read_only') AS read_only"),
    ("python", SEARCH.format(letters=list(SECRET.encode()))),
]  # fmt: skip
SETTINGS = """
[connections.sales]
url = "postgresql://{user}@{sales}"
password_env = "SALES_PASSWORD"

[connections.lake]
url = "s3://lake/raw?endpoint={lake}"
username = "AKIATEST"
password_file = "~/lake-key"
"""
BY_OPERATOR = {"lake-key"}
"""The files that hold the credential because the operator put it there."""
SPELLINGS = (
    SECRET.encode(),
    quote(SECRET, safe="").encode(),
    base64.b64encode(SECRET.encode()),
    json.dumps(SECRET)[1:-1].encode(),
)


async def fill(store: Served) -> None:
    """Put what the agent will find into the store, as somebody who may write."""
    make_bucket(store)
    at = f"s3://AKIATEST:{quote(SECRET, safe='')}@lake/raw?endpoint={quote(store.address)}"
    async with opened(url=at, read_only=False) as broker:
        rows = b"customer,city\nc0,Oslo\nc1,Bonn\nc2,Rome\n"
        await broker.ask({"do": "write", "path": "customers.csv", "data": rows})


@pytest.fixture
def place(tmp_path: Path, postgresql: Served, object_store: Served) -> Iterator[Place]:
    anyio.run(fill, object_store)
    with place_in(tmp_path) as place:
        home = tmp_path / "home"
        (home / "lake-key").write_text(f"{SECRET}\n")
        (home / ".config" / "cellwright").mkdir(parents=True)
        held = SETTINGS.format(
            user=postgresql.user, sales=postgresql.address, lake=quote(object_store.address)
        )
        (home / ".config" / "cellwright" / "cellwright.toml").write_text(held)
        place.environment["SALES_PASSWORD"] = SECRET
        yield place


def test_an_agent_works_on_a_database_and_a_store_and_no_credential_is_found(
    place: Place, record_property: Any
) -> None:
    client = Pump(place.start("mcp", "--toolset", "core"))
    client.initialize()
    replies: list[str] = []

    def call(tool: str, /, **arguments: Any) -> str:
        answer = client.answer(client.ask("tools/call", name=tool, arguments=arguments))
        assert not holds(json.dumps(answer).encode())
        replies.append("\n".join(block["text"] for block in answer["result"]["content"] if "text" in block))
        return replies[-1]

    def other(tool: str, /, **arguments: Any) -> str:
        return call("toolset_enable", tool=tool, arguments=arguments)

    listed = other("connection_list", max_tokens=400)
    assert (
        "public.orders(id integer, customer character varying(20), total numeric(10,2), day date)" in listed
    )
    assert "customers.csv" in listed
    assert "c0 | 66" in other(
        "connection_call",
        connection="sales",
        operation="query",
        arguments={"sql": "SELECT customer, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1"},
    )
    session = json.loads(call("notebook_create", name="sales by city"))["session_id"]
    ran = [call("cell_add_and_run", code=code, language=language) for language, code in CELLS]
    assert all(reply.startswith("ok") for reply in ran), ran
    assert "Bonn" in ran[4]
    assert "ann" in ran[10]
    assert "on" in ran[10]
    assert "0 0" in ran[11]
    # o200k has 2.7 characters of these for a token: 709 in all.
    characters = sum(len(reply) for reply in replies)
    record_property("characters", characters)
    assert characters < 2_700, f"{characters} characters of replies"

    told = [
        place.run(*line)
        for line in (
            ("export", session, "--to", "html"),
            ("audit", "--kind", "connection"),
            ("tool", "connection_list"),
        )
    ]
    assert "query" in told[1].stdout
    assert not [done.args for done in told if holds((done.stdout + done.stderr).encode())]
    assert client.finish() == 0
    assert not list(files_that_hold(place.root))
    assert not list(processes_that_hold(place))
    assert place.run("daemon", "stop", "--kernels").returncode == 0
    assert not list(files_that_hold(place.root))


def holds(text: bytes) -> bool:
    """Whether the credential is in it, in any spelling."""
    return any(one in text for one in SPELLINGS)


def files_that_hold(root: Path) -> Iterator[str]:
    """Files of the home, the storage and the notebooks, journals and logs among them; and rows of the journal."""
    for path in root.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and path.name not in BY_OPERATOR and holds(path.read_bytes()):
                yield str(path)
    with sqlite3.connect(f"file:{root}/state/journal.db?mode=ro", uri=True) as journal:
        if holds("".join(journal.iterdump()).encode()):
            yield "journal.db, row by row"
    journal.close()


def processes_that_hold(place: Place) -> Iterator[str]:
    """Processes of this place that have it as an argument or a variable, but for the daemon, which the operator gave it."""
    daemon, host = place.daemon(), host_process(place.storage)
    assert host is not None
    for process in (daemon, host, *daemon.children(recursive=True), *host.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, FileNotFoundError):
            about = Path(f"/proc/{process.pid}")
            given = b"" if process == daemon else (about / "environ").read_bytes()
            if holds((about / "cmdline").read_bytes() + given):
                yield f"{process.pid}: {process.cmdline()}"
