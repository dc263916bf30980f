"""Types of a notebook's cells: how they become a program, how the checker's words become places, and a real check."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import Require
from tests.kernels.denohouse import OPTIONS, House, open_house

from cellwright.errors import KernelStartError
from cellwright.hosts.protocol import CheckTypes
from cellwright.kernels.deno import INSTALL
from cellwright.kernels.typecheck import CellSource, Diagnostic, config_of, diagnostics_of, join_cells
from cellwright.sandbox.places import Place
from cellwright.sandbox.policy import Mode

AT = "/seen at"
URL = "file:///seen%20at"


def cells(*sources: str) -> list[CellSource]:
    return [CellSource(f"c{number}", source) for number, source in enumerate(sources, 1)]


def block(code: str, message: str, source: str, line: int, name: str, file: str = "notebook.ts") -> str:
    column = source.index(name)
    return (
        f"{code} [ERROR]: {message}\n{source}\n{' ' * column}~~~\n    at {URL}/{file}:{line}:{column + 1}\n\n"
    )


# Pure ------------------------------------------------------------------------------------------------------------


def test_cells_become_one_module_in_which_none_goes_on_in_the_next() -> None:
    program = join_cells(cells("const a = 1", "(a)\r\n[0]"))
    assert program.files == {"notebook.ts": "export {};\nconst a = 1\n;\n(a)\n[0]\n;\n"}


@pytest.mark.parametrize(
    ("line", "cell", "number"), [(1, None, 0), (2, "c1", 1), (3, "c1", 2), (5, "c2", 1), (6, "c2", 2)]
)
def test_a_line_leads_back_to_its_cell(line: int, cell: str | None, number: int) -> None:
    found = join_cells(cells("a\nb", "c\nd")).cell_at(line)
    assert (
        (found[0].cell_id, found[1]) == (cell, number)
        if cell is not None and found is not None
        else found is None
    )


def test_a_named_cell_is_a_module_of_its_own_too() -> None:
    program = join_cells([CellSource("c1", "export const a = 1", "src/a.ts"), *cells("a")])
    assert program.files["src/a.ts"] == "export const a = 1"
    assert "export const a = 1" in program.files["notebook.ts"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "./etc/passwd"])
def test_a_name_that_climbs_stays_inside(name: str) -> None:
    assert set(join_cells([CellSource("c", "1", name)]).files) == {"notebook.ts", "etc/passwd"}


@pytest.mark.parametrize("name", ["notebook.ts", "deno.json", "./globals.d.ts"])
def test_a_name_that_is_ours_is_not_taken(name: str) -> None:
    assert set(join_cells([CellSource("c", "1", name)]).files) == {"notebook.ts"}


def test_imports_lead_to_the_working_directory_but_for_the_cells_themselves() -> None:
    program = join_cells([CellSource("c1", "", "a.ts")])
    config = config_of(program, {"strict": False}, seen_at=AT, cwd="/w d", written={"b.ts": "/layer/b.ts"})
    assert config["compilerOptions"] == {"strict": False, "types": ["./globals.d.ts"]}
    assert config["imports"][f"{URL}/"] == "file:///w%20d/"
    assert config["imports"][f"{URL}/a.ts"] == f"{URL}/a.ts"
    assert config["imports"][f"{URL}/b.ts"] == "file:///layer/b.ts"


def test_options_may_be_told_as_a_file_holds_them() -> None:
    told = {"compilerOptions": {"strict": True, "types": ["x"]}, "include": ["src"]}
    config = config_of(join_cells([]), told, seen_at=AT, cwd="/", written={})
    assert config["compilerOptions"] == {"strict": True, "types": ["x", "./globals.d.ts"]}


def test_words_of_the_checker_become_places_in_cells() -> None:
    program = join_cells(cells("const a = 1", "\nconst b: string = a"))
    output = "Check file:///x\n" + block("TS2322", "Not a string.\n  Because.", "const b: string = a", 5, "b")
    output += "    The expected type comes from here\n    x\n    ~\n        at file:///lib.d.ts:1:1\n\nFound 1 error.\n"
    assert diagnostics_of(output, program, seen_at=AT) == [
        Diagnostic("c2", 2, 7, "TS2322", "Not a string.\n  Because.")
    ]


def test_what_is_wrong_in_an_imported_file_names_the_file() -> None:
    output = "TS2322 [ERROR]: No.\n    at file:///w%20d/helper.ts:3:4\n"
    assert diagnostics_of(output, join_cells(cells("1")), seen_at=AT) == [
        Diagnostic(None, 3, 4, "TS2322", "No.", "/w d/helper.ts")
    ]


def test_a_syntax_error_is_told_once_and_where_it_is() -> None:
    output = f"error: SyntaxError: Expected ')'\n   |\n 4 | f(\n   |   ~\n    at {URL}/notebook.ts:4:3\n"
    assert diagnostics_of(output, join_cells(cells("1", "f(")), seen_at=AT) == [
        Diagnostic("c2", 1, 3, "SyntaxError", "Expected ')'")
    ]


def test_a_name_that_is_declared_again_in_another_cell_is_no_mistake() -> None:
    again = "Cannot redeclare block-scoped variable 'x'."
    program = join_cells(cells("const x = 1", "const x = 'a'; x.at(0)", "const y: string = 1"))
    output = block("TS2451", again, "const x = 1", 2, "x") + block(
        "TS2451", again, "const x = 'a'; x.at(0)", 4, "x"
    )
    # What follows from the other meaning goes as well; what has nothing to do with it stays.
    output += block("TS2339", "No 'at' on number.", "const x = 'a'; x.at(0)", 4, "at")
    output += block("TS2322", "No.", "const y: string = 1", 6, "y")
    assert [one.cell_id for one in diagnostics_of(output, program, seen_at=AT)] == ["c3"]


def test_a_name_that_is_declared_twice_in_one_cell_is_one() -> None:
    program = join_cells(cells("const x = 1\nconst x = 2"))
    output = block("TS2451", "No.", "const x = 1", 2, "x") + block("TS2451", "No.", "const x = 2", 3, "x")
    assert [one.line for one in diagnostics_of(output, program, seen_at=AT)] == [1, 2]


def test_javascript_is_not_judged() -> None:
    program = join_cells([CellSource("c1", "function f(a) {}", None, "javascript")])
    assert diagnostics_of(block("TS7006", "Any.", "function f(a) {}", 2, "a"), program, seen_at=AT) == []


# Real ------------------------------------------------------------------------------------------------------------

real = pytest.mark.anyio


@pytest.fixture
async def house(short_path: Path, tmp_path: Path, require: Require) -> AsyncIterator[House]:
    require("Deno", shutil.which("deno") is not None or find_spec("deno") is not None, INSTALL)
    root = short_path / tmp_path.name
    root.mkdir()
    async with open_house(root) as house:
        yield house


async def check(
    house: House, *sources: CellSource, tsconfig: dict[str, Any] | None = None, place: Place | None = None
) -> list[Diagnostic]:
    storage = house.root / "s"
    storage.mkdir(exist_ok=True)
    place = place or Place("private", str(storage / "files"), None, str(storage))
    return await house.kernels.check_types(CheckTypes(sources, place.cwd, place, None, tsconfig))


@real
async def test_a_real_check_finds_what_is_wrong_and_where(house: House) -> None:
    found = await check(
        house,
        *cells("interface Sale { price: number }", "const sales: Sale[] = [{ price: 1 }]"),
        *[CellSource("last", "\nawait display(sales)\nconst total: string = sales[0].price")],
    )
    assert [(one.cell_id, one.line, one.column, one.code) for one in found] == [("last", 3, 7, "TS2322")]
    assert found[0].message == "Type 'number' is not assignable to type 'string'."


@real
async def test_nothing_is_wrong_with_a_notebook_as_people_write_it(house: House) -> None:
    sources = cells(
        "import { join } from 'node:path'",
        "const x = 1; function f() { return later }",
        "const x = 'text'; x.toUpperCase()",
        "const later = html`<b>${x}</b>`; await Deno.jupyter.display(later)",
        "function f() { return 2 }\nenum Colour { Red }\n({ x, f, c: Colour.Red })",
        "await cellwright.put('x', x); (await cellwright.get('y')).anything",
    )
    named = CellSource("n", "export const one = 1", "one.ts")
    user = CellSource("u", "import { one } from './one.ts'; const two: number = one + 1")
    assert await check(house, *sources, named, user) == []


@real
async def test_the_options_of_the_notebook_count(house: House) -> None:
    sources = cells("function f(a) { return a }")
    assert [one.code for one in await check(house, *sources, tsconfig={"strict": True})] == ["TS7006"]
    options = {"compilerOptions": {"strict": False, "target": "es2022", "moduleResolution": "nodenext"}}
    assert await check(house, *sources, tsconfig=options) == []


@real
async def test_a_cell_that_cannot_be_read_is_told_as_that(house: House) -> None:
    (found,) = await check(house, *cells("const a = 1", "const b = (1 +"))
    assert (found.cell_id, found.code) == ("c2", "SyntaxError")


@real
@pytest.mark.parametrize("mode", ["direct", "overlay"])
async def test_imports_find_the_files_of_the_working_directory(
    mode: Mode, house: House, tmp_path: Path
) -> None:
    project = tmp_path / "a project"
    (project / "work").mkdir(parents=True)
    (project / "work" / "helper.ts").write_text("export const one: number = 1")
    place = Place(mode, str(project / "work"), str(project), str(house.root / "s"))
    sources = cells("import { one } from './helper.ts'", "const two: string = one", "import './missing.ts'")
    found = await check(house, *sources, place=place)
    assert [(one.cell_id, one.code) for one in found] == [("c3", "TS2307"), ("c2", "TS2322")]
    if mode == "overlay":
        # What the session wrote comes before what was there.
        layer = Path(place.written, "work")
        layer.mkdir(parents=True)
        (layer / "helper.ts").write_text("export const one: string = '1'")
        assert await check(house, *sources[:2], place=place) == []


@real
@pytest.mark.parametrize("mode", ["direct", "overlay"])
async def test_a_check_sees_nothing_of_what_is_hidden_from_its_session(
    mode: Mode, house: House, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    own, others = state / "own", state / "others"
    others.mkdir(parents=True)
    (others / "secret.json").write_text('{"told": 1}')
    place = Place(mode, str(tmp_path), str(tmp_path), str(own), hidden=(str(state),))
    (found,) = await check(
        house,
        *cells(f"import held from '{others}/secret.json' with {{ type: 'json' }}\nconst a: string = held"),
        place=place,
    )
    assert (found.code, "told" in found.message) == ("TS2307", False)


@real
async def test_a_link_in_place_of_the_working_directory_tells_nothing_of_where_it_leads(
    house: House, tmp_path: Path
) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    (outside / "work").mkdir(parents=True)
    (outside / "work" / "secret.json").write_text("{}")
    (project / "deep" / "work").mkdir(parents=True)
    place = Place("overlay", str(project / "deep" / "work"), str(project), str(house.root / "s"))
    Path(place.written).mkdir(parents=True)
    Path(place.written, "deep").symlink_to(outside)
    (found,) = await check(house, *cells("import './secret.json'"), place=place)
    assert found.message == "Cannot find module 'file://" + f"{place.cwd}/secret.json'."


@real
async def test_without_namespaces_a_check_leaves_the_working_directory_alone(house: House) -> None:
    house.options = msgspec.structs.replace(OPTIONS, namespaces=False)
    place = Place("private", str(house.root / "s" / "files"), None, str(house.root / "s"))
    Path(place.cwd).mkdir(parents=True)
    owner = Path(place.cwd).stat().st_uid
    with pytest.raises(KernelStartError, match="needs a network of its own"):
        await check(house, *cells("1"), place=place)
    assert Path(place.cwd).stat().st_uid == owner


@real
async def test_names_that_no_file_can_have_keep_nothing_from_being_checked(house: House) -> None:
    names = ["a" * 300 + ".ts", "a\0b.ts", "notebook.ts/x.ts", "one.ts", "one.ts/two.ts"]
    named = [CellSource(f"n{number}", "export {}", name) for number, name in enumerate(names)]
    found = await check(house, *named, *cells("const a: string = 1"))
    assert [(one.cell_id, one.code) for one in found] == [("c1", "TS2322")]


@pytest.mark.parametrize("types", [5, {"a": 1}, "node", None])
def test_options_that_are_no_options_are_left_to_the_checker(types: Any) -> None:
    config = config_of(join_cells([]), {"types": types}, seen_at=AT, cwd="/", written={})
    assert config["compilerOptions"]["types"] == ["./globals.d.ts"]


@real
async def test_a_check_leaves_nothing_behind(house: House) -> None:
    await check(house, *cells("1"))
    assert not list((house.root / "r").glob("c*"))
    assert not (house.root / "s" / "files").exists() or not list((house.root / "s" / "files").iterdir())


@real
async def test_a_check_works_where_nothing_is_confined(house: House) -> None:
    house.options = msgspec.structs.replace(OPTIONS, policy=None)
    assert [one.code for one in await check(house, *cells("const a: string = 1"))] == ["TS2322"]
