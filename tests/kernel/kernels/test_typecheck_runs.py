"""Types of a notebook's cells, as a real Deno checks them in a session's sandbox."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from cellwright.errors import KernelStartError
from cellwright.hosts.protocol import CheckTypes
from cellwright.kernels.deno import INSTALL
from cellwright.kernels.typecheck import CellSource, Diagnostic
from cellwright.sandbox.policy import Mode
from cellwright.sandbox.workspace import Workspace
from tests.conftest import Require
from tests.matrix import first_of
from tests.support.kernels.denohouse import OPTIONS, House, open_house
from tests.waiting import until

pytestmark = pytest.mark.anyio


def cells(*sources: str) -> list[CellSource]:
    return [CellSource(f"c{number}", source) for number, source in enumerate(sources, 1)]


@pytest.fixture
async def house(short_path: Path, tmp_path: Path, require: Require) -> AsyncIterator[House]:
    require("Deno", shutil.which("deno") is not None or find_spec("deno") is not None, INSTALL)
    root = short_path / tmp_path.name
    root.mkdir()
    async with open_house(root) as house:
        yield house


async def check(
    house: House, *sources: CellSource, tsconfig: dict[str, Any] | None = None, place: Workspace | None = None
) -> list[Diagnostic]:
    storage = house.root / "s"
    storage.mkdir(exist_ok=True)
    place = place or Workspace("private", str(storage / "files"), None, str(storage))
    return await house.kernels.check_types(CheckTypes(sources, place.cwd, place, None, tsconfig))


async def test_a_real_check_finds_what_is_wrong_or_cannot_be_read_and_where_and_nothing_else_in_a_notebook(
    house: House,
) -> None:
    as_people_write = cells(
        "import { join } from 'node:path'",
        "const x = 1; function f() { return later }",
        "const x = 'text'; x.toUpperCase()",
        "const later = html`<b>${x}</b>`; await Deno.jupyter.display(later)",
        "function f() { return 2 }\nenum Colour { Red }\n({ x, f, c: Colour.Red })",
        "await cellwright.put('x', x); (await cellwright.get('y')).anything",
        "interface Sale { price: number }",
        "const sales: Sale[] = [{ price: 1 }]",
    )
    named = CellSource("n", "export const one = 1", "one.ts")
    user = CellSource("u", "import { one } from './one.ts'; const two: number = one + 1")
    wrong = CellSource("last", "\nawait display(sales)\nconst total: string = sales[0].price")
    # Names that no file can have keep nothing from being checked.
    names = ["a" * 300 + ".ts", "a\0b.ts", "notebook.ts/x.ts", "one.ts/two.ts"]
    odd = [CellSource(f"n{number}", "export {}", name) for number, name in enumerate(names)]
    found = await check(house, *as_people_write, named, user, *odd, wrong)
    assert [(one.cell_id, one.line, one.column, one.code) for one in found] == [("last", 3, 7, "TS2322")]
    assert found[0].message == "Type 'number' is not assignable to type 'string'."
    assert len(list((house.root / "r").glob("c*"))) == 1, "the server that stays"
    assert not (house.root / "s" / "files").exists() or not list((house.root / "s" / "files").iterdir())
    (found,) = await check(house, *cells("const a = 1", "const b = (1 +"))
    assert (found.cell_id, found.code) == ("c2", "SyntaxError")


LAX = {"compilerOptions": {"strict": False, "target": "es2022", "moduleResolution": "nodenext"}}


@pytest.mark.parametrize(("options", "codes"), first_of([({"strict": True}, ["TS7006"]), (LAX, [])], 1))
async def test_the_options_of_the_notebook_count(
    house: House, options: dict[str, Any], codes: list[str]
) -> None:
    found = await check(house, *cells("function f(a) { return a }"), tsconfig=options)
    assert [one.code for one in found] == codes


@pytest.mark.matrix  # as in an overlay, whose server is the one that stays below
async def test_imports_find_the_files_of_a_working_directory_in_direct_mode(
    house: House, tmp_path: Path
) -> None:
    (tmp_path / "helper.ts").write_text("export const one: number = 1")
    place = Workspace("direct", str(tmp_path), str(tmp_path), str(house.root / "s"))
    found = await check(house, *IMPORTS, place=place)
    assert [(one.cell_id, one.code) for one in found] == [("c2", "TS2322"), ("c3", "TS2307")]


@pytest.mark.parametrize("mode", ["direct", pytest.param("overlay", marks=pytest.mark.matrix)])
async def test_a_check_sees_nothing_of_what_is_hidden_from_its_session(
    mode: Mode, house: House, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    own, others = state / "own", state / "others"
    others.mkdir(parents=True)
    (others / "secret.json").write_text('{"told": 1}')
    place = Workspace(mode, str(tmp_path), str(tmp_path), str(own), hidden=(str(state),))
    (found,) = await check(
        house,
        *cells(f"import held from '{others}/secret.json' with {{ type: 'json' }}\nconst a: string = held"),
        place=place,
    )
    assert (found.code, "told" in found.message) == ("TS2307", False)


def servers() -> list[int]:
    """The language servers below this process, each of which is below its sandbox's own processes."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it may be ending
            if one.cmdline()[1:2] == ["lsp"]:
                found.append(one.pid)
    return found


IMPORTS = cells("import { one } from './helper.ts'", "const two: string = one", "import './missing.ts'")


async def test_one_server_answers_a_notebooks_checks_until_it_dies_files_change_or_nobody_asks(
    house: House, tmp_path: Path
) -> None:
    project = tmp_path / "a project"
    (project / "work").mkdir(parents=True)
    (project / "work" / "helper.ts").write_text("export const one: number = 1")
    place = Workspace("overlay", str(project / "work"), str(project), str(house.root / "s"))
    found = await check(house, *IMPORTS, place=place)
    assert [(one.cell_id, one.code) for one in found] == [("c2", "TS2322"), ("c3", "TS2307")]
    (first,) = servers()
    more = await check(house, *IMPORTS, *cells("const x: number = 'x'"), place=place)
    assert ([one.code for one in more], servers()) == (["TS2322", "TS2307", "TS2322"], [first])
    # What the session wrote comes before what was there; an error in a file of the project is told as that file's.
    layer = Path(place.written, "work")
    layer.mkdir(parents=True)
    (layer / "helper.ts").write_text("export const one: string = '1'")
    (project / "work" / "missing.ts").write_text("export const bad: number = ''")
    (there,) = await check(house, *IMPORTS, place=place)
    assert (there.file, there.cell_id, there.line) == (f"{place.cwd}/missing.ts", None, 1)
    await until(lambda: servers() and first not in servers())
    # One that nobody asks ends by itself; this is of the next.
    (await house.launchers.type_checker(house.options)).idle_s = 0.01
    os.kill(servers()[0], signal.SIGKILL)
    assert len(await check(house, *IMPORTS, place=place)) == 1
    await until(lambda: not servers())


async def test_a_link_in_place_of_the_working_directory_tells_nothing_of_where_it_leads(
    house: House, tmp_path: Path
) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    (outside / "work").mkdir(parents=True)
    (outside / "work" / "secret.json").write_text("{}")
    (project / "deep" / "work").mkdir(parents=True)
    place = Workspace("overlay", str(project / "deep" / "work"), str(project), str(house.root / "s"))
    Path(place.written).mkdir(parents=True)
    Path(place.written, "deep").symlink_to(outside)
    (found,) = await check(house, *cells("import './secret.json'"), place=place)
    assert found.message == "Cannot find module 'file://" + f"{place.cwd}/secret.json'."


async def test_without_namespaces_a_check_leaves_the_working_directory_alone(house: House) -> None:
    house.options = msgspec.structs.replace(OPTIONS, namespaces=False)
    place = Workspace("private", str(house.root / "s" / "files"), None, str(house.root / "s"))
    Path(place.cwd).mkdir(parents=True)
    owner = Path(place.cwd).stat().st_uid
    with pytest.raises(KernelStartError, match="needs a network of its own"):
        await check(house, *cells("1"), place=place)
    assert Path(place.cwd).stat().st_uid == owner


@pytest.mark.matrix  # as the others, without their box
async def test_a_check_works_where_nothing_is_confined(house: House) -> None:
    house.options = msgspec.structs.replace(OPTIONS, policy=None)
    assert [one.code for one in await check(house, *cells("const a: string = 1"))] == ["TS2322"]
