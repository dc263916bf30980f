"""Imports and exports of cells, and the finding of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernel.typescript.conftest import Driver, StartDriver

MODULE = "export const a: number = 1;\nexport default 'main';\nexport const type = 'word';\nexport interface Kind { x: 1 }\n"


@pytest.fixture
def here(driver: Driver) -> Path:
    """The driver's working directory, with modules in it."""
    place = Path(f"/proc/{driver.process.pid}/cwd").resolve()
    (place / "things.ts").write_text(MODULE)
    (place / "data.json").write_text('{"n": 4}')
    (place / "noisy.ts").write_text("console.log('loaded');\n(globalThis as any).noisy = 1;\n")
    return place


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("import { a } from './things.ts';\na", "1"),
        ("import { a as b } from './things.ts'\nb", "1"),
        ("import main from './things.ts'; main", '"main"'),
        ("import { default as other } from './things.ts'; other", '"main"'),
        ("import mixed, { a as c } from './things.ts'; mixed + c", '"main1"'),
        ("import * as all from './things.ts'; all.a", "1"),
        ("import both, * as every from './things.ts'; both === every.default", "true"),
        ("import {\n  a as spread, // with a word\n  type Kind,\n} from './things.ts';\nspread", "1"),
        ("import type { Kind } from './things.ts';\nconst kind: Kind = { x: 1 }; kind.x", "1"),
        ("import { type } from './things.ts'; type", '"word"'),
        ("import { type as named } from './things.ts'; named", '"word"'),
        (
            "import { type Kind as Absent, a as present } from './things.ts'; typeof Absent + present",
            '"undefined1"',
        ),
        ("import { a, Kind } from './things.ts'; a as unknown as Kind", "1"),
        ("import data from './data.json' with { type: 'json' };\ndata.n", "4"),
        ("import plain from './data.json'; plain.n", "4"),
        ("import './noisy.ts'; (globalThis as any).noisy", "1"),
        ("import { join } from 'node:path'; join('x', 'y')", '"x/y"'),
        ("import { basename } from 'path'; basename('x/y')", '"y"'),
        ("(await import('./things.ts')).a", "1"),
        ("const { a: viaDynamic } = await import(`./${'things'}.ts`); viaDynamic", "1"),
        ("(await import('./data.json', { with: { type: 'json' } })).default.n", "4"),
        ("const loader = { import: (x: number) => x }; loader.import(3)", "3"),
        ("typeof import.meta.url + import.meta.resolve('./x.ts').endsWith('/x.ts')", '"stringtrue"'),
        ("let typed: import('./things.ts').Kind | undefined; typed === undefined", "true"),
        ("const fs = require('fs'); typeof fs.readFileSync", '"function"'),
        ("import util = require('util'); typeof util.format", '"function"'),
    ],
)
def test_import_binds_what_it_says(driver: Driver, code: str, result: str) -> None:
    assert driver.value(code) == result


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("export const e1 = 1; e1", "1"),
        ("export let e2: number = 2\ne2", "2"),
        ("export function e3() { return 3 }\ne3()", "3"),
        ("export async function e4() { return 4 }\nawait e4()", "4"),
        ("export class E5 { x = 5 }\nnew E5().x", "5"),
        ("export abstract class E6 { static x = 6 }\nE6.x", "6"),
        ("export enum E7 { A = 7 }\nE7.A", "7"),
        ("export namespace E8 { export const x = 8 }\nE8.x", "8"),
        ("const e9 = 9; export { e9, e9 as other };\ne9", "9"),
        ("const e10 = 10; export { e10 }\ne10", "10"),
        ("export default 11", "11"),
        ("export default function e12() { return 12 }\ne12()", "12"),
        ("export default class { x = 13 }\n13", "13"),
        ("export interface E14 { x: number }\nexport type E15 = E14;\n14", "14"),
        ("export type { Buffer } from 'node:buffer';\n15", "15"),
        ("export * from 'node:path';\n16", "16"),
        ("export { join } from 'node:path'\n17", "17"),
        ("export declare const e18: number; 18", "18"),
        ("const object = { export: 19 }; object.export", "19"),
    ],
)
def test_export_is_accepted(driver: Driver, code: str, result: str) -> None:
    assert driver.value(code) == result


@pytest.mark.parametrize(
    "code",
    [
        "const s = 'import x from \"./nowhere.ts\"'; s.startsWith('import x from')",
        "const s = `\nimport x from './nowhere.ts'\nexport {}`; s.includes('import x from') && s.includes('export')",
        "const s = `${`\nimport x from './nowhere.ts'`}`; s.includes('import x from')",
        "const s = `it's ${'a'}`; import { join as afterTemplate } from 'node:path'; typeof afterTemplate === 'function'",
        "const r = /'/; import { join as afterRegex } from 'node:path'; typeof afterRegex === 'function'",
        "const r = /[/']/; import { join as afterClass } from 'node:path'; typeof afterClass === 'function'",
        "if (1) /'/; import { join as afterIf } from 'node:path'; typeof afterIf === 'function'",
        "const q = 4 / 2 // it's\nimport { join as afterDivision } from 'node:path'; typeof afterDivision === 'function'",
        "const q = (4) / 2; const w = '/'; import { join as afterParen } from 'node:path'; typeof afterParen === 'function'",
        "/* import x from './nowhere.ts' */ true",
        "const r = /import x from '.\\/nowhere.ts'/; r instanceof RegExp",
        "const r = [1].map(() => /['\"`]/)[0]; r.test('`')",
        "const half = 4 / 2; const quarter = half / 2; const x = '/'; quarter === 1",
        'if (1) /[\'"]/.test("\'"); true',
        "{ let b = 1 }\n/'1/.test(\"'1\")",
        "let i = 4; i++ / 2; true",
        "const n = a => { return /`/ }; n(1) instanceof RegExp",
        '\'\\\\\' + "\\"" + `\\`` && true',
        "class Hash { #private = 1; get() { return this.#private / 1 } }\nnew Hash().get() === 1",
    ],
)
def test_text_that_looks_like_code_is_left_alone(driver: Driver, code: str) -> None:
    assert driver.value(code) == "true"


def test_imported_names_live_on_in_later_cells(driver: Driver, here: Path) -> None:
    (here / "used_later.ts").write_text("export enum Later { Yes = 'yes' }\n")
    driver.value("import { Later } from './used_later.ts';\nenum Forces { Transform }")
    assert driver.value("Later.Yes") == '"yes"'


def test_error_after_a_long_import_tells_the_right_line(driver: Driver, here: Path) -> None:
    assert (here / "things.ts").exists()
    ran = driver.run("import {\n  a as lined,\n} from './things.ts';\n\nnull!.x")
    assert ran.metadata["place"]["line"] == 5


def test_changed_module_is_loaded_anew(driver: Driver, here: Path) -> None:
    changing = here / "changing.ts"
    changing.write_text("export const version = 1;")
    assert driver.value("import { version } from './changing.ts'; version") == "1"
    changing.write_text("export const version = 2;")
    os.utime(changing, (2_000_000_000, 2_000_000_000))
    assert driver.value("import { version } from './changing.ts'; version") == "2"


def test_error_in_an_imported_file_names_the_file_and_its_line(driver: Driver, here: Path) -> None:
    (here / "failing.ts").write_text(
        "enum A { B }\n\nexport function fail(x: string) {\n  throw new RangeError(x);\n}\n"
    )
    ran = driver.run("import { fail } from './failing.ts';\nfail('deep')")
    assert "failing.ts:4:9" in ran.traceback
    assert ran.metadata["place"] == {"cell": f"cell {ran.reply['execution_count']}", "line": 2, "column": 1}


def test_module_that_is_missing_is_named(driver: Driver) -> None:
    ran = driver.run("import { x } from './nowhere.ts'")
    assert ran.reply["status"] == "error"
    assert "nowhere.ts" in ran.reply["evalue"]


def test_syntax_error_in_an_imported_file_is_told(driver: Driver, here: Path) -> None:
    (here / "broken.ts").write_text("export const x = ;\n")
    ran = driver.run("import { x } from './broken.ts'")
    assert "broken.ts" in ran.traceback


def test_package_below_the_working_directory_is_found(driver: Driver, here: Path) -> None:
    package = here / "node_modules" / "tiny"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "tiny", "version": "1.0.0", "main": "index.js"}')
    (package / "index.js").write_text("module.exports = { size: 'tiny' };")
    assert driver.value("import tiny from 'tiny'; tiny.size") == '"tiny"'


def test_named_cells_are_written_for_others_to_import(driver: Driver) -> None:
    files = {"lib/shared.ts": "export const shared = 'yes';", "../outside.ts": "export {}"}
    assert driver.value("import { shared } from './lib/shared.ts'; shared", files=files) == '"yes"'
    assert not (Path(f"/proc/{driver.process.pid}/cwd").resolve().parent / "outside.ts").exists()


def test_a_package_that_is_not_installed_is_told_with_the_way_to_install_it(
    start_driver: StartDriver,
) -> None:
    driver = start_driver(flags=("--allow-all", "--cached-only"))
    for name in ("npm:lodash-es@4", "lodash-es"):
        ran = driver.run(f"import {{ chunk }} from '{name}'")
        assert ran.reply["evalue"] == (
            'The npm package "lodash-es" is not installed here. '
            'package_install(["npm:lodash-es"]) installs it, if it is approved'
        )
        assert "packages.invalid" not in ran.traceback
