"""Types of a notebook's cells: how they become a program, and how the checker's words become places. Starts no checker:
see ``tests.kernel.kernels.test_typecheck_runs``.
"""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.kernels.typecheck import (
    CellSource,
    Diagnostic,
    Program,
    config_of,
    diagnostics_of,
    imported_files,
    join_cells,
)

AT = "/seen at"
URL = "file:///seen%20at"


def cells(*sources: str) -> list[CellSource]:
    return [CellSource(f"c{number}", source) for number, source in enumerate(sources, 1)]


def found(code: int | str, message: str, line: int, column: int, *, severity: int = 1) -> dict[str, Any]:
    begin = {"line": line - 1, "character": column - 1}
    return {"range": {"start": begin, "end": begin}, "severity": severity, "code": code, "message": message}


def judged(program: Program, *items: dict[str, Any], file: str = f"{URL}/notebook.ts") -> list[Diagnostic]:
    return diagnostics_of({file: items}, program, top=URL)


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


def test_what_the_server_found_becomes_places_in_cells_and_advice_is_left_out() -> None:
    program = join_cells(cells("const a = 1", "\nconst b: string = a"))
    assert judged(
        program,
        found(2322, "Not a string.\n  Because.", 5, 7),
        found(6133, "'b' is never read.", 5, 7, severity=4),
        found("no-local", "Unable to load a local module: file:///w/x.ts\nPlease check the file path.", 2, 1),
        found("no-cache", "Uncached or missing remote URL: https://x.y/z.ts", 2, 9),
    ) == [
        Diagnostic("c1", 1, 1, "TS2307", "Cannot find module 'file:///w/x.ts'."),
        Diagnostic("c1", 1, 9, "TS2307", "Uncached or missing remote URL: https://x.y/z.ts"),
        Diagnostic("c2", 2, 7, "TS2322", "Not a string.\n  Because."),
    ]


def test_what_is_wrong_in_an_imported_file_names_the_file() -> None:
    assert judged(join_cells(cells("1")), found(2322, "No.", 3, 4), file="file:///w%20d/helper.ts") == [
        Diagnostic(None, 3, 4, "TS2322", "No.", "/w d/helper.ts")
    ]


def test_files_beside_the_notebook_are_judged_where_cells_name_them() -> None:
    named = CellSource("n", "export {}", "own.ts")
    uses = cells(
        "import { a } from './b c.ts'; import './own.ts'; import 'npm:x'", "await import('../d/e.ts')"
    )
    program = join_cells([named, *uses, *cells("import x from './x.json'")])
    assert imported_files(program, cwd="/w/d", written={}) == ["file:///w/d/b%20c.ts", "file:///w/d/e.ts"]
    layered = imported_files(program, cwd="/w/d", written={"b c.ts": "/layer/d/b c.ts"})
    assert layered[0] == "file:///layer/d/b%20c.ts"


def test_what_cannot_be_read_is_told_where_it_is() -> None:
    assert judged(join_cells(cells("1", "f(")), found(1109, "Expression expected.", 4, 3)) == [
        Diagnostic("c2", 1, 3, "SyntaxError", "Expression expected.")
    ]


def test_a_name_that_is_declared_again_in_another_cell_is_no_mistake() -> None:
    again = "Cannot redeclare block-scoped variable 'x'."
    program = join_cells(cells("const x = 1", "const x = 'a'; x.at(0)", "const y: string = 1"))
    told = judged(
        program,
        found(2451, again, 2, 7),
        found(2451, again, 4, 7),
        # What follows from the other meaning goes as well; what has nothing to do with it stays.
        found(2339, "No 'at' on number.", 4, 18),
        found(2322, "No.", 6, 7),
    )
    assert [one.cell_id for one in told] == ["c3"]


def test_a_name_that_is_declared_twice_in_one_cell_is_one() -> None:
    program = join_cells(cells("const x = 1\nconst x = 2"))
    told = judged(program, found(2451, "No.", 2, 7), found(2451, "No.", 3, 7))
    assert [one.line for one in told] == [1, 2]


def test_javascript_is_not_judged() -> None:
    program = join_cells([CellSource("c1", "function f(a) {}", None, "javascript")])
    assert judged(program, found(7006, "Any.", 2, 12)) == []


@pytest.mark.parametrize("types", [5, {"a": 1}, "node", None])
def test_options_that_are_no_options_are_left_to_the_checker(types: Any) -> None:
    config = config_of(join_cells([]), {"types": types}, seen_at=AT, cwd="/", written={})
    assert config["compilerOptions"]["types"] == ["./globals.d.ts"]
