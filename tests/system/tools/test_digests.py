"""What a file is told as: every format, by pages, within a budget; with and without the libraries of the extra."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cellwright.errors import FileUnreadable
from cellwright.tools._json_outline import outline, written_out
from cellwright.tools.files._reader_wire import Answer
from cellwright.tools.files.digests import ReadLimits, read_digest

BOOK, SHEET = "workbook", "worksheet"
pytestmark = pytest.mark.anyio


async def digest(  # as many as can be asked for
    path: Path,
    *,
    offset: int = 0,
    limit: int = 20,
    max_characters: int = 8_000,
    sheet: str | None = None,
    limits: ReadLimits | None = None,
) -> Answer:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return await read_digest(
            descriptor,
            path.name,
            offset=offset,
            limit=limit,
            max_characters=max_characters,
            sheet=sheet,
            limits=limits,
        )
    finally:
        os.close(descriptor)


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + b"\x80" * width) * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def workbook(sheets: dict[str, list[list[object]]]) -> bytes:
    """A workbook as small as the format allows."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        numbers = range(1, len(sheets) + 1)
        parts = "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" ContentType="{kinds}.worksheet+xml"/>'
            for n in numbers
        )
        archive.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{package}/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{kinds}.sheet.main+xml"/>{parts}</Types>',
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        named = "".join(
            f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>'
            for n, name in zip(numbers, sheets, strict=True)
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{named}</sheets></{BOOK}>',
        )
        relations = "".join(
            f'<Relationship Id="r{n}" Type="{office}/{SHEET}" Target="worksheets/sheet{n}.xml"/>'
            for n in numbers
        )
        archive.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{package}/relationships">{relations}</Relationships>',
        )
        for n, rows in zip(numbers, sheets.values(), strict=True):
            cells = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
            archive.writestr(
                f"xl/worksheets/sheet{n}.xml",
                f'<worksheet xmlns="{main}"><sheetData>{cells}</sheetData></{SHEET}>',
            )
    return held.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{value}</t></is></c>'
    return f"<c><v>{value}</v></c>" if value is not None else "<c/>"


async def test_a_table_is_told_by_its_columns_and_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    rows = [f"2024-01-{1 + i % 28:02},{'NS'[i % 2]},{i * 1.5 if i % 10 else ''}" for i in range(40)]
    path.write_text("day,region,amount\n" + "\n".join(rows) + "\n")
    found = await digest(path, limit=3)
    assert found.text == (
        "CSV, 40 rows \u00d7 3 columns\n"
        "day: date, 2024-01-01 \u2026 2024-01-28\n"
        "region: varchar, 2 distinct: N, S\n"
        "amount: double, 4 missing, 1.5 \u2026 58.5\n"
        "rows 0\u20262: day | region | amount\n"
        "2024-01-01 | N | -\n2024-01-02 | S | 1.5\n2024-01-03 | N | 3"
    )
    assert (found.form, found.next_offset, found.total) == ("csv", 3, 40)


async def test_pages_follow_each_other_to_the_end_without_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(57)))
    seen: list[str] = []
    offset: int | None = 0
    while offset is not None:
        found = await digest(path, offset=offset, limit=20)
        seen += found.text[found.text.rindex("rows ") :].split("\n")[1:]
        offset = found.next_offset
    assert seen == [str(i) for i in range(57)]
    assert "rows" not in (await digest(path, offset=100)).text


async def test_figures_are_of_all_rows_however_many_there_are(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text("n,gap\n" + "".join(f"{i},{i if i != 7 else ''}\n" for i in range(200_000)))
    text = (await digest(path, limit=1)).text
    assert "n: bigint, 0 \u2026 199999" in text
    assert "gap: bigint, 1 missing, 0 \u2026 199999" in text


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.tsv", b"a\tb\n1\t2\n", "1 row \u00d7 2 columns"),
        ("a.csv", b"a;b\n1;2\n", "1 row \u00d7 2 columns"),
        ("a.csv", "name;wert\nJürgen;1\n".encode("latin-1"), "Jürgen"),
        ("a.csv", "\ufeffname,wert\nJürgen,1\n".encode("utf-16"), "Jürgen"),
        ("a.csv", "\ufeffname,wert\nJ,1\n".encode(), "name: varchar"),
        ("a.csv", b'a,b\n"x\ny",2\n', "x y | 2"),
        ("a.csv", b"", "(empty)"),
        ("a.jsonl", b'{"a":1}\n{"a":2,"b":"x"}\n', "b: varchar, 1 missing, x"),
        ("a.ndjson", b'1\n"x"\n[2]\n', "3 rows"),
        ("a.json", b'[{"a":1},{"a":null}]', "a: number, 1 missing, only 1"),
        ("a.json", b'{"k":[1,2,3],"deep":{"x":{"y":null}}}', "  k: array, 3 \u00d7 number"),
        ("a.json", b'{"k":1}\n{"k":2}\n', "k: number, 1 \u2026 2"),
        ("a.json", b"[]", "$: array, 0"),
        ("a.txt", "eins\r\nzwölf".encode(), "     2\tzwölf"),
        ("a.txt", "früh\n".encode("cp1252"), "encoding cp1252"),
        ("a.log", "früh\n".encode("utf-16"), "früh"),
        ("Makefile", b"all:\n", "     1\tall:"),
        ("empty", b"", "0 lines"),
    ],
)
async def test_text_formats_are_told_apart_and_decoded(
    tmp_path: Path, name: str, content: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert told in (await digest(tmp_path / name)).text


async def test_parquet_is_told_with_its_types(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "SELECT i::INTEGER AS i, 'g' || i % 2 AS g, TIMESTAMP '2024-01-01' + to_hours(i) AS t FROM range(5000) r(i)"
    ).write_parquet(str(path))
    found = await digest(path, offset=0, limit=2)
    assert "5,000" in found.text
    assert "i: integer, 0 \u2026 4999" in found.text
    assert "t: timestamp, 2024-01-01 \u2026 2024-07-27T07:00" in found.text
    assert (await digest(path, offset=4_999)).text.endswith("4999 | g1 | 2024-07-27T07:00:00")


async def test_excel_is_told_by_its_sheets(tmp_path: Path) -> None:
    path = tmp_path / "b.xlsx"
    path.write_bytes(workbook({"One": [["n", "name"], [1, "x"], [2.5, None]], "Two": [["z"], [9]]}))
    first = await digest(path)
    assert "n: number, 1 \u2026 2.5" in first.text
    assert "name: text, 1 missing, x" in first.text
    assert "'One', 'Two'" in first.text
    assert "z: number, only 9" in (await digest(path, sheet="Two")).text
    with pytest.raises(FileUnreadable, match="no sheet 'Three'; it has One, Two"):
        await digest(path, sheet="Three")


def _zip() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("inner/secret.txt", "never shown")
    return held.getvalue()


def _tar() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("member.txt"))
    return held.getvalue()


@pytest.mark.parametrize(
    ("name", "make", "told"),
    [
        ("p.png", lambda: png(30, 20), "PNG image, 30 \u00d7 20 pixels"),
        ("p.gif", lambda: b"GIF89a" + struct.pack("<HH", 7, 9) + bytes(20), "GIF image, 7 \u00d7 9 pixels"),
        (
            "p.jpg",
            lambda: b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08\x00\x05\x00\x06" + bytes(9),
            "JPEG image, 6 \u00d7 5",
        ),
        ("z.zip", _zip, "inner/secret.txt"),
        ("t.tar", _tar, "member.txt"),
        (
            "a.npy",
            lambda: (
                b"\x93NUMPY\x01\x00\x40\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }   \n"
            ),
            "shape (3, 4), dtype <f8",
        ),
        ("d.pdf", lambda: b"%PDF-1.7\n\xff\xfe\x00", "PDF document"),
        ("m.pkl", lambda: b"\x80\x04\x95\x00\x00\x01\x02\x03", "never loaded"),
        ("x.bin", lambda: bytes(range(256)) * 4, "binary file"),
        ("fake.csv", lambda: b"\x7fELF" + bytes(100), "despite its name it is: ELF program"),
        ("fake.png", lambda: b"just words\n", "despite its name it is: text"),
        ("fake.txt", lambda: png(1, 1), "despite its name it is: PNG image"),
    ],
)
async def test_a_binary_file_is_described_and_never_dumped(
    tmp_path: Path, name: str, make: Callable[[], bytes], told: str
) -> None:
    (tmp_path / name).write_bytes(make())
    found = await digest(tmp_path / name)
    assert told in found.text
    assert "never shown" not in found.text
    assert len(found.text) < 500


async def test_a_database_is_told_by_its_tables(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "d.sqlite") as database:
        database.execute("CREATE TABLE people (name TEXT)")
    database.close()
    assert "table people: CREATE TABLE people (name TEXT)" in (await digest(tmp_path / "d.sqlite")).text


@pytest.mark.parametrize(
    "name", ["a.csv", "a.json", "a.jsonl", "a.txt", "wide.csv", "name.csv", "object.json"]
)
async def test_no_answer_is_much_longer_than_asked_for(tmp_path: Path, name: str) -> None:
    rows = [{f"column {number}": "word " * 30 for number in range(60)} for _ in range(200)]
    held = {
        "a.csv": "a,b\n" + "".join(f"{i},{'x' * 200}\n" for i in range(5_000)),
        "a.json": json.dumps(rows),
        "a.jsonl": "\n".join(map(json.dumps, rows)),
        "a.txt": "y" * 1_000_000,
        "wide.csv": ",".join(f"c{i}" for i in range(1_000)) + "\n" + ",".join("1" * 1_000) + "\n",
        "name.csv": "n" * 100_000 + ",b\n1,2\n",
        "object.json": json.dumps({str(i): ["z" * 1_000] for i in range(1_000)}),
    }[name]
    (tmp_path / name).write_text(held)
    found = await digest(tmp_path / name, limit=1_000, max_characters=2_000)
    assert len(found.text) < 5_000
    assert found.total


async def test_a_long_line_of_json_is_cut_and_the_next_page_goes_on_behind_it(tmp_path: Path) -> None:
    (tmp_path / "long.json").write_text(json.dumps({"a": "x" * 3_000_000, "b": 1}))
    found = await digest(tmp_path / "long.json", offset=1, max_characters=2_000)
    assert len(found.text) < 5_000
    assert "2,998,009 more characters" in found.text
    assert found.next_offset == 2
    assert '"b": 1' in (await digest(tmp_path / "long.json", offset=2)).text


@pytest.mark.parametrize("missing", ["duckdb", "python_calamine"])
async def test_without_the_extra_plain_formats_are_read_and_others_name_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / f"{missing}.py").write_text(f"raise ImportError('no {missing}', name={missing!r})\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(shadow), *filter(None, sys.path)]))
    (tmp_path / "a.csv").write_text("a,b\n1,x\n2,y\n")
    (tmp_path / "a.jsonl").write_text('{"a":1}\n')
    (tmp_path / "a.json").write_text('[{"a":1},{"a":2}]')
    assert "1 \u2026 2" in (await digest(tmp_path / "a.csv")).text
    assert "1 row" in (await digest(tmp_path / "a.jsonl")).text
    assert "2 rows" in (await digest(tmp_path / "a.json")).text
    if missing == "duckdb":
        (tmp_path / "t.parquet").write_bytes(b"PAR1" + bytes(100))
    else:
        (tmp_path / "t.xlsx").write_bytes(workbook({"One": [["n"], [1]]}))
    name = "t.parquet" if missing == "duckdb" else "t.xlsx"
    with pytest.raises(FileUnreadable) as refusal:
        await digest(tmp_path / name)
    assert refusal.value.hint == "pip install 'cellwright[files]'"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_json_that_is_written_out_is_still_the_same_value(value: object) -> None:
    assert json.loads(written_out(value)) == value


def test_json_is_written_out_with_a_line_for_each_record() -> None:
    value = {"next": None, "rows": [{"n": 1, "tags": ["a"]}, {"n": 2}]}
    assert written_out(value).splitlines() == [
        "{",
        ' "next": null,',
        ' "rows": [',
        '  {"n": 1, "tags": ["a"]},',
        '  {"n": 2}',
        " ]",
        "}",
    ]


def test_outline_of_a_list_has_every_key_of_its_records() -> None:
    value = [{"n": None, "name": "a"}, {"n": 2}, {"n": 3, "tags": ["x"]}]
    assert outline(value).splitlines() == [
        "$: array, 3 \u00d7 object",
        "  []: object, 3 keys",
        "    n: number 2",
        '    name: text "a"',
        "    tags: array, 1 \u00d7 text",
    ]
