"""Files that are made to hurt whoever reads them: each is told or refused within bounds, and hurts the careless."""

from __future__ import annotations

import functools
import io
import json
import os
import pickle
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.errors import FileUnreadable
from cellwright.tools.files.digests import ReadLimits
from tests.matrix import one_of_each
from tests.system.tools.test_digests import SHEET, digest, png, workbook
from tests.waiting import scaled

pytestmark = pytest.mark.anyio

MEMORY = 350 << 20
LIMITS = ReadLimits(cpu_s=120, timeout_s=scaled(60), memory_bytes=MEMORY)

BLOWN = "xl/worksheets/sheet1.xml"


@dataclass(frozen=True)
class Case:
    name: str
    make: Callable[[Path], object]
    told: str
    """What is said: in the digest, or as the reason of a refusal."""
    careless: str
    """A program that reads ``path`` as one does; it does not end well."""


def bomb(path: Path) -> None:
    """A workbook of a few megabytes whose one sheet has twelve million cells."""
    path.write_bytes(_blown())


def lying_bomb(path: Path) -> None:
    """The same, which says of itself that it is small."""
    with zipfile.ZipFile(io.BytesIO(_blown())) as archive:
        size = archive.getinfo(BLOWN).file_size
    path.write_bytes(_blown().replace(size.to_bytes(4, "little"), (1_000).to_bytes(4, "little")))


@functools.cache
def _blown() -> bytes:
    held, made = io.BytesIO(workbook({"One": [["n"], [1]]})), io.BytesIO()
    with (
        zipfile.ZipFile(held) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new,
    ):
        for part in old.infolist():
            if part.filename != BLOWN:
                new.writestr(part.filename, old.read(part))
        with new.open(BLOWN, "w", force_zip64=True) as sheet:
            sheet.write(
                b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
            )
            for _ in range(12):
                sheet.write(b"<row>" + b"<c t='inlineStr'><is><t>x</t></is></c>" * 1_000_000 + b"</row>")
            sheet.write(f"</sheetData></{SHEET}>".encode())
    return made.getvalue()


def laughs(path: Path) -> None:
    """Entities within entities, a billion in the end."""
    entities = '<!ENTITY a0 "ha">' + "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    held = io.BytesIO(workbook({"One": [["n"], ["LAUGH"]]}))
    with zipfile.ZipFile(held) as old, zipfile.ZipFile(path, "w") as new:
        for part in old.infolist():
            content = old.read(part).decode()
            if "sheet1" in part.filename:
                content = f"<!DOCTYPE x [{entities}]>" + content.replace("LAUGH", "&a9;")
            new.writestr(part.filename, content)


def many_rows(path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql("SELECT 7 AS n, 'same' AS s FROM range(40_000_000)").write_parquet(
        str(path), compression="zstd"
    )


def broken_parquet(cut: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        duckdb = pytest.importorskip("duckdb")
        duckdb.sql("SELECT i, i * 2 AS j FROM range(10_000) r(i)").write_parquet(str(path))
        path.write_bytes(cut(path.read_bytes()))

    return make


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("pwned",)


def huge_hole(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        file.truncate(50 << 30)


READ_ALL = "open(path, 'rb').read()"
CALAMINE = "import python_calamine as c; c.load_workbook(path).get_sheet_by_index(0).to_python()"
FETCH = "import duckdb; duckdb.read_parquet(path).fetchall()"
CASES = {
    "zip bomb": Case("b.xlsx", bomb, "looks like a bomb", CALAMINE),
    "zip bomb that lies": Case("b.xlsx", lying_bomb, "needs more memory than there is", CALAMINE),
    "deep JSON": Case(
        "d.json",
        lambda path: path.write_bytes(b"[" * 200_000),
        "nested",
        "import json; json.load(open(path))",
    ),
    "deep JSON that is whole": Case(
        "d.json",
        lambda path: path.write_bytes(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "nested",
        "import json; json.load(open(path))",
    ),
    "deep JSON Lines": Case(
        "d.jsonl",
        lambda path: path.write_bytes(b"[" * 200_000 + b"]" * 200_000 + b"\n"),
        "nested too deeply",
        "import json; [json.loads(line) for line in open(path)]",
    ),
    "number without end": Case(
        "n.json",
        lambda path: path.write_bytes(b'{"n": ' + b"9" * 5_000_000 + b"}"),
        "n: text",
        "import json; json.load(open(path))",
    ),
    "rows without end": Case("r.parquet", many_rows, "40,000,000", FETCH),
    "Parquet cut in half": Case(
        "h.parquet", broken_parquet(lambda held: held[: len(held) // 2]), "no Parquet", FETCH
    ),
    "Parquet with a footer that lies": Case(
        "f.parquet",
        broken_parquet(lambda held: held[:-8] + b"\xff\xff\xff\x7fPAR1"),
        "no Parquet",
        FETCH,
    ),
    "Parquet of noise": Case(
        "n.parquet",
        broken_parquet(lambda held: b"PAR1" + bytes(byte ^ 0x5A for byte in held[4:-8]) + held[-8:]),
        "no Parquet",
        FETCH,
    ),
    "Parquet in name alone": Case(
        "x.parquet", lambda path: path.write_bytes(b"a,b\n1,2\n"), "despite its name it is: text", FETCH
    ),
    "workbook in name alone": Case(
        "x.xlsx", lambda path: path.write_bytes(b"PK\x03\x04" + b"no" * 50), "no Excel", CALAMINE
    ),
    "fifty gigabytes of nothing": Case(
        "hole.csv", huge_hole, "despite its name it is: binary file", READ_ALL
    ),
    "one line of half a gigabyte": Case(
        "line.txt",
        lambda path: path.write_bytes(b"y" * (1 << 29)),
        "more characters",
        "[line for line in open(path)]",
    ),
    "pickle": Case(
        "p.pkl",
        lambda path: path.write_bytes(pickle.dumps(Evil())),
        "never loaded",
        "import pickle, sys; pickle.load(open(path, 'rb')); sys.exit(9)",
    ),
    "picture of a billion pixels": Case(
        "big.png",
        lambda path: path.write_bytes(
            png(8, 8).replace((8).to_bytes(4, "big") * 2, (40_000).to_bytes(4, "big") * 2, 1)
        ),
        "40,000 \u00d7 40,000 pixels",
        "import warnings; warnings.simplefilter('error'); from PIL import Image; Image.open(path).load()",
    ),
    "database that is broken": Case(
        "d.sqlite",
        lambda path: path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5_000),
        "it is broken",
        "import sqlite3; sqlite3.connect(path).execute('select * from sqlite_master').fetchall()",
    ),
    "archive that is broken": Case(
        "z.zip",
        lambda path: path.write_bytes(b"PK\x03\x04" + b"\0" * 500),
        "it is broken",
        "import zipfile; zipfile.ZipFile(path).namelist()",
    ),
    "NumPy header that is code": Case(
        "c.npy",
        lambda path: path.write_bytes(
            b"\x93NUMPY\x01\x00\x40\x00" + b"__import__('os').mkdir('pwned')".ljust(64)
        ),
        "it is broken",
        "eval(open(path, 'rb').read()[10:]); import sys; sys.exit(9)",
    ),
    "JSON that ends in the middle": Case(
        "e.json",
        lambda path: path.write_text('{"a": [1, 2'),
        "line 1, column 12",
        "import json; json.load(open(path))",
    ),
    "JSON of keys without end": Case(
        "k.json",
        lambda path: path.write_text(json.dumps({f"key {n}": {"x": n} for n in range(300_000)})),
        "300,000 keys",
        "assert len(open(path).read()) < 5_000",
    ),
    "table of columns without end": Case(
        "w.csv",
        lambda path: path.write_text(
            ",".join(f"c{n}" for n in range(20_000)) + "\n" + ",".join("1" * 20_000)
        ),
        "no table",
        "assert len(open(path).read()) < 5_000",
    ),
}


# One of each kind of file by default.
@pytest.mark.parametrize("name", one_of_each(CASES, lambda name: Path(CASES[name].name).suffix, str))
async def test_a_hostile_file_costs_little(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    path = tmp_path / case.name
    case.make(path)
    try:
        said = (await digest(path, limits=LIMITS)).text
    except FileUnreadable as refusal:
        said = str(refusal)
    assert case.told in said
    assert 0 < len(said) < 9_000
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("name", one_of_each(CASES, lambda _: "hostile", str))
def test_a_hostile_file_hurts_the_careless(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    path = tmp_path / case.name
    case.make(path)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    program = f"path = {str(path)!r}\n{case.careless}"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        preexec_fn=limited,
    )
    assert done.returncode != 0
    assert done.returncode != 9 or (tmp_path / "pwned").exists()  # what ran was not ours


async def test_entities_within_entities_are_not_unfolded(tmp_path: Path) -> None:
    laughs(tmp_path / "l.xlsx")
    try:
        said = (await digest(tmp_path / "l.xlsx", limits=LIMITS)).text
    except FileUnreadable as refusal:
        said = str(refusal)
    assert len(said) < 1_000
    assert "haha" not in said


async def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    with pytest.raises(FileUnreadable, match=r"within 0\.001 s"):
        await digest(tmp_path / "a.txt", limits=ReadLimits(timeout_s=0.001))


async def test_a_file_that_takes_too_much_of_the_processor_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"[" + b"[1]," * 15_000_000 + b"1]")
    with pytest.raises(FileUnreadable, match="more than 1 s of processor time"):
        await digest(tmp_path / "a.json", limits=ReadLimits(cpu_s=1, memory_bytes=4 << 30))


async def test_the_process_that_reads_opens_no_other_file_and_no_socket(tmp_path: Path) -> None:
    """What it could do if a library were taken over, tried from inside."""
    (tmp_path / "secret").write_text("secret")
    program = (
        "import socket, sys\nfrom cellwright_kernel.confinement import confine\n"
        "if not confine(1 << 30, files=['/proc/self/fd/0']):\n    sys.exit(3)\n"
        "assert open('/proc/self/fd/0').read() == 'given'\n"
        f"for act in (lambda: open({str(tmp_path / 'secret')!r}), lambda: open('/etc/passwd'),\n"
        "            lambda: socket.socket(socket.AF_INET), lambda: open('/tmp/new', 'w')):\n"
        "    try:\n        act()\n    except OSError:\n        continue\n    sys.exit('it did')\n"
    )
    (tmp_path / "given").write_text("given")
    with (tmp_path / "given").open() as given:
        done = subprocess.run([sys.executable, "-c", program], stdin=given, check=False, capture_output=True)
    if done.returncode == 3:
        pytest.skip("this kernel has no Landlock")
    assert done.returncode == 0, done.stderr
