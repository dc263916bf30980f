"""Types of a notebook's cells: how they become a program, and how the checker's words become places. Starts no checker:
see ``test_typecheck_runs``.
"""

from __future__ import annotations

from typing import Any

import pytest

from cellwright.kernels.typecheck import CellSource, Diagnostic, config_of, diagnostics_of, join_cells

AT = "/seen at"
URL = "file:///seen%20at"


def cells(*sources: str) -> list[CellSource]:
    return [CellSource(f"c{number}", source) for number, source in enumerate(sources, 1)]


def block(code: str, message: str, source: str, line: int, name: str, file: str = "notebook.ts") -> str:
    column = source.index(name)
    return (
        f"{code} [ERROR]: {message}\n{source}\n{' ' * column}~~~\n    at {URL}/{file}:{line}:{column + 1}\n\n"
    )


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


@pytest.mark.parametrize("types", [5, {"a": 1}, "node", None])
def test_options_that_are_no_options_are_left_to_the_checker(types: Any) -> None:
    config = config_of(join_cells([]), {"types": types}, seen_at=AT, cwd="/", written={})
    assert config["compilerOptions"]["types"] == ["./globals.d.ts"]
